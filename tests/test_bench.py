"""The measuring tool: its arithmetic, its rows, and that it measures what it says."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hpack import Decoder

from bench import report, running, slowed
from bench.__main__ import main
from bench.context import QUICK, Bench, Sample
from bench.frames import HEAD, HEAD_BYTES, HEADERS, prepare_calls
from bench.generators import h2load
from bench.install import GENERATOR_LIMITS, Tools
from bench.loads.latency import percentile
from bench.loads.publishing import unary_constant
from bench.profile import main as profile
from bench.report import Result, Verdict
from bench.rows import ROWS, Better, Floor, Kind, Load, Row, chosen, loads_of
from bench.servers import OFFICIAL, OURS, Launcher
from bench.wire import BenchError, Messages
from compat_tests.targets import Absent

ROOT = Path(__file__).parents[1]

FLOORS = {
    "start": (Kind.TIMES, 3),
    "memory-idle": (Kind.AT_MOST, 60),
    "memory-message": (Kind.AT_MOST, 2_048),
    "unary-constant": (Kind.TIMES, 3),
    "unary-constant-share": None,
    "unary-fresh": (Kind.TIMES, 2),
    "unary-fresh-share": None,
    "batch": (Kind.TIMES, 2),
    "drain-1": (Kind.TIMES, 40),
    "drain-10": (Kind.TIMES, 40),
    "pull-ack": (Kind.TIMES, 1.5),
    "latency-100-p50": (Kind.TIMES, 10),
    "latency-100-p99": None,
    "latency-2000-p50": (Kind.TIMES, 10),
    "latency-2000-p99": None,
    "rest-publish": None,
    "rest-publish-share": (Kind.AT_LEAST, 0.55),
    "rest-pull-ack": None,
    "rest-pull-ack-share": None,
    "drain-ordered": (Kind.AT_LEAST, 0.6),
    "drain-exactly-once": (Kind.AT_LEAST, 0.6),
    "filters": (Kind.AT_MOST, 15),
    "seek-1e5": (Kind.AT_MOST, 1_000),
    "seek-1e6": (Kind.AT_MOST, 10_000),
    "memory-retained": (Kind.AT_MOST, 1_024),
    "growth-publish": (Kind.AT_MOST, 1.2),
    "growth-pull": (Kind.AT_MOST, 1.2),
    "growth-ack": (Kind.AT_MOST, 1.2),
    "growth-nack": (Kind.AT_MOST, 1.2),
    "growth-expiry": (Kind.AT_MOST, 1.2),
    "growth-fanout": (Kind.AT_MOST, 1.2),
    "growth-topics-publish": (Kind.AT_MOST, 1.2),
    "growth-topics-create": (Kind.AT_MOST, 1.2),
    "stall": (Kind.AT_MOST, 100),
}


def load_of(run: Any = None, *, name: str = "load", rounds: int | None = None, official: bool = True) -> Load:
    return Load(name, run or (lambda _bench, _server: {}), rounds, official)


def row_of(
    name: str = "row", floor: Floor | None = None, better: Better = Better.HIGHER, load: Load | None = None
) -> Row:
    return Row(name, "what it is", "calls/s", better, floor, load or load_of(), "publish")


def result_of(row: Row, ours: Sequence[float], official: Sequence[float] = ()) -> Result:
    return Result(row, {OURS: [Sample(value) for value in ours], OFFICIAL: [Sample(value) for value in official]})


def bench_of(directory: Path, tools: Tools | None = None) -> Bench:
    return Bench(QUICK, tools or Tools(), Launcher(directory))


def run(directory: Path, *arguments: str) -> Mapping[str, Any]:
    """The rows that a quick run on this server alone writes down."""
    path = directory / "result.json"
    assert main(["--quick", "--no-official", "--json", str(path), *arguments]) == 0
    return {row["row"]: row for row in json.loads(path.read_text(encoding="utf-8"))["rows"]}


class TestArithmetic:
    @pytest.mark.parametrize(
        ("values", "median"), [([], None), ([7], 7), ([9, 1, 2], 2), ([4, 1, 2, 3], 2.5), ([1, 1, 1_000], 1)]
    )
    def test_the_median_of_the_samples_counts(self, values: Sequence[float], median: float | None) -> None:
        assert result_of(row_of(), values).median(OURS) == median

    @pytest.mark.parametrize(
        ("better", "ours", "official", "times"),
        [
            (Better.HIGHER, 300, 100, 3),
            (Better.HIGHER, 50, 100, 0.5),
            (Better.LOWER, 300, 100, 1 / 3),
            (Better.LOWER, 50, 100, 2),
            (Better.HIGHER, 50, None, None),
            (Better.HIGHER, None, 50, None),
            (Better.LOWER, 0, 50, None),
            (Better.LOWER, 50, -1, None),
        ],
    )
    def test_a_ratio_above_one_means_that_ours_is_better(
        self, better: Better, ours: float | None, official: float | None, times: float | None
    ) -> None:
        assert report.times_better(better, ours, official) == times

    @pytest.mark.parametrize(
        ("floor", "ours", "times", "verdict"),
        [
            (None, 5, 9, Verdict.NONE),
            (Floor(Kind.TIMES, 3), 5, 3, Verdict.OK),
            (Floor(Kind.TIMES, 3), 5, 2.99, Verdict.MISSED),
            (Floor(Kind.TIMES, 3), 5, None, Verdict.NONE),
            (Floor(Kind.AT_MOST, 60), 60, None, Verdict.OK),
            (Floor(Kind.AT_MOST, 60), 60.1, 9, Verdict.MISSED),
            (Floor(Kind.AT_LEAST, 0.55), 0.55, None, Verdict.OK),
            (Floor(Kind.AT_LEAST, 0.55), 0.54, 9, Verdict.MISSED),
        ],
    )
    def test_a_floor_is_reached_or_missed(
        self, floor: Floor | None, ours: float, times: float | None, verdict: Verdict
    ) -> None:
        assert report.judge(floor, ours, times) is verdict

    def test_what_could_not_be_measured_has_failed(self) -> None:
        nothing, broken = result_of(row_of(), []), result_of(row_of(), [5])
        broken.problem = "the server hung up"

        assert (nothing.verdict, broken.verdict) == (Verdict.FAILED, Verdict.FAILED)

    @pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1), (0.001, 1)])
    def test_a_percentile_is_a_value_that_was_seen(self, share: float, value: float) -> None:
        assert percentile([float(each) for each in range(100, 0, -1)], share) == value

    @pytest.mark.parametrize(
        ("value", "text"),
        [(None, "-"), (0.0123, "0.01"), (9.87, "9.87"), (12.34, "12.3"), (123.4, "123"), (98_765.4, "98,765")],
    )
    def test_numbers_are_short(self, value: float | None, text: str) -> None:
        assert report.number(value) == text


class TestRows:
    def test_every_row_has_its_floor(self) -> None:
        assert {row.name: row.floor and (row.floor.kind, row.floor.value) for row in ROWS} == FLOORS

    def test_rows_are_chosen_by_name_and_glob_in_their_order(self) -> None:
        assert [row.name for row in chosen("start,latency-*-p50, batch")] == [
            *("start", "batch", "latency-100-p50", "latency-2000-p50"),
        ]

    def test_an_unknown_row_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no row is called 'strat'"):
            chosen("start,strat")

    def test_a_load_of_two_rows_is_done_once(self) -> None:
        assert len(loads_of(chosen("latency-100-*"))) == 1

    def test_every_row_but_memory_can_be_slowed_down(self) -> None:
        assert {row.name for row in ROWS if not row.slowed_by} == {
            *("memory-idle", "memory-message", "memory-retained"),
        }
        assert {row.slowed_by for row in ROWS if row.slowed_by} <= set(slowed.KINDS)


class TestReports:
    def test_the_table_says_value_ratio_floor_verdict_and_note(self) -> None:
        result = result_of(row_of("batch", Floor(Kind.TIMES, 2)), [300, 200, 100], [50])
        result.samples[OURS][-1] = Sample(100, "as told")

        title, line = report.text([result]).splitlines()

        assert title.split() == ["row", "unit", "ours", "official", "better", "floor", "verdict", "note"]
        assert line.split() == ["batch", "calls/s", "200", "50.0", "4.00x", "2x", "ok", "as", "told"]

    def test_json_holds_every_sample(self) -> None:
        result = result_of(row_of("batch"), [3, 1, 2], [5])

        written = json.loads(report.document([result], {"date": "today"}))

        assert written["about"] == {"date": "today"}
        assert written["rows"][0]["ours"] == {"median": 2, "samples": [3, 1, 2]}
        assert written["rows"][0]["official"] == {"median": 5, "samples": [5]}

    def test_a_document_is_begun(self, tmp_path: Path) -> None:
        path = tmp_path / "performance.md"

        report.write_docs(path, "| table |")

        assert path.read_text(encoding="utf-8").splitlines()[2:] == [report.BEGIN, "| table |", report.END]

    def test_in_a_document_only_what_is_between_the_marks_changes(self, tmp_path: Path) -> None:
        path = tmp_path / "performance.md"
        path.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", encoding="utf-8")

        report.write_docs(path, "new")

        assert path.read_text(encoding="utf-8") == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"

    def test_a_document_without_marks_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "performance.md"
        path.write_text("mine\n", encoding="utf-8")

        with pytest.raises(ValueError, match="has no marks"):
            report.write_docs(path, "new")

        assert path.read_text(encoding="utf-8") == "mine\n"

    def test_the_markdown_table_names_what_it_was_measured_with(self) -> None:
        told = report.markdown([result_of(row_of("batch"), [1])], {"machine": "a small one"})

        assert "- machine: a small one" in told
        assert "| what it is (`batch`) | calls/s | 1.00 | - | - | - | - |" in told


class TestRunning:
    def test_rounds_are_interleaved_and_the_order_changes(self, tmp_path: Path) -> None:
        done: list[tuple[str, str]] = []

        def recording(what: str) -> Any:
            def run(_bench: Bench, server: str) -> Mapping[str, Sample]:
                done.append((what, server))
                return {what: Sample(1)}

            return run

        rows = [
            row_of("a", load=load_of(recording("a"), name="a")),
            row_of("b", load=load_of(recording("b"), name="b", official=False)),
            row_of("c", load=load_of(recording("c"), name="c", official=False, rounds=1)),
        ]

        running.measure(bench_of(tmp_path), rows, rounds=2, official=True, say=lambda _text: None)

        assert done == [
            *(("a", OURS), ("a", OFFICIAL), ("b", OURS), ("c", OURS)),
            *(("a", OFFICIAL), ("a", OURS), ("b", OURS)),
        ]

    def test_a_load_that_fails_spoils_no_other(self, tmp_path: Path) -> None:
        def fail(_bench: Bench, _server: str) -> Mapping[str, Sample]:
            raise BenchError("the server hung up")

        rows = [
            row_of("bad", load=load_of(fail, name="bad")),
            row_of("good", load=load_of(lambda _bench, _server: {"good": Sample(1)}, name="good")),
        ]

        bad, good = running.measure(bench_of(tmp_path), rows, rounds=1, official=False, say=lambda _text: None)

        assert (bad.verdict, bad.note) == (Verdict.FAILED, "ours: the server hung up")
        assert good.samples == {OURS: [Sample(1)]}

    def test_without_the_official_emulator_its_column_is_empty(self, tmp_path: Path) -> None:
        tried: list[str] = []

        def run(_bench: Bench, server: str) -> Mapping[str, Sample]:
            tried.append(server)
            if server == OFFICIAL:
                raise Absent("java is not installed")
            return {"row": Sample(1)}

        (result,) = running.measure(
            bench_of(tmp_path), [row_of(load=load_of(run))], rounds=3, official=True, say=lambda _text: None
        )

        assert (result.median(OURS), result.median(OFFICIAL), result.problem) == (1, None, "")
        assert tried.count(OFFICIAL) == 1


class TestGenerators:
    def test_messages_are_put_together_wherever_they_were_cut(self) -> None:
        whole = b"\x00\x00\x00\x00\x02ab" + b"\x00\x00\x00\x00\x00" + b"\x00\x00\x00\x00\x01c"

        for cut in range(len(whole) + 1):
            messages = Messages()
            assert messages.take(whole[:cut]) + messages.take(whole[cut:]) == [b"ab", b"", b"c"]

    def test_fresh_timeouts_enter_the_servers_table(self) -> None:
        calls = prepare_calls("/a/b", b"body", 3, fresh_timeouts=True)
        decoder, at = Decoder(), 0

        while at < len(calls.data):
            word, _, _ = HEAD.unpack_from(calls.data, at)
            start, at = at + HEAD_BYTES, at + HEAD_BYTES + (word >> 8)
            if word & 0xFF == HEADERS:
                decoder.decode(calls.data[start:at])

        newest = [(bytes(name), bytes(value)) for name, value in decoder.header_table.dynamic_entries][:3]
        assert newest == [(b"grpc-timeout", f"{99_999_999 - index}u".encode()) for index in (2, 1, 0)]

    @pytest.mark.parametrize("fresh", [False, True])
    def test_prepared_calls_are_constant_or_fresh(self, fresh: bool) -> None:
        calls = prepare_calls("/a/b", b"body", 4, fresh_timeouts=fresh)
        last, before = (calls.data[calls.ends[index - 1] : calls.ends[index]] for index in (3, 2))

        # The stream's number stands at the end of each of the two frames' heads.
        assert len(calls) == 4
        assert (before.replace(b"\x00\x05", b"\x00\x07") == last) is not fresh

    @pytest.mark.parametrize(
        ("failed", "bad_status"), [(0, 0), (3, 0), (0, 3)], ids=["all is well", "some fail", "some are refused"]
    )
    def test_failures_of_h2load_are_no_rate(self, tmp_path: Path, failed: int, bad_status: int) -> None:
        program = tmp_path / "h2load"
        program.write_text(
            "#!/bin/sh\n"
            "echo 'finished in 1.20s, 1234.50 req/s, 6.26MB/s'\n"
            f"echo 'requests: 9 total, 9 started, 9 done, 9 succeeded, {failed} failed, 0 errored, 0 timeout'\n"
            f"echo 'status codes: 9 2xx, 0 3xx, 0 4xx, {bad_status} 5xx'\n",
            encoding="utf-8",
        )
        program.chmod(0o755)

        def call() -> float:
            return h2load(str(program), "http://localhost/x", program, connections=1, in_flight=1, seconds=1)

        if failed or bad_status:
            with pytest.raises(BenchError, match="h2load had failures"):
                call()
        else:
            assert call() == 1_234.5

    def test_without_h2load_the_row_says_what_limits_it(self, tmp_path: Path) -> None:
        bench = bench_of(tmp_path, Tools())

        try:
            samples = unary_constant(bench, OURS)
        finally:
            bench.close()

        assert samples["unary-constant"].value > 0
        assert samples["unary-constant"].note == GENERATOR_LIMITS


class TestSlowingDown:
    def test_kinds_and_milliseconds_are_read(self) -> None:
        assert slowed.parse("publish=0.5,start=20") == {"publish": 0.5, "start": 20}

    @pytest.mark.parametrize("text", ["sleep=1", "publish", "publish=soon"])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError):
            slowed.parse(text)

    def test_every_kind_still_has_its_method(self) -> None:
        delays = ",".join(f"{kind}=0" for kind in slowed.KINDS)

        done = subprocess.run(
            [sys.executable, "-m", "bench.in_process", "depth", "2000", "100", "--slow-down", delays],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

        assert done.returncode == 0, done.stderr
        assert set(json.loads(done.stdout)) == {"publish", "pull", "ack", "nack", "expiry"}

    def test_a_delay_shows_in_its_row(self, tmp_path: Path) -> None:
        rows = run(tmp_path, "--rows", "start,pull-ack,drain-1", "--slow-down", "start=1500,pull-ack=25,drain-1=1")

        # A hundred pulled messages take at least one delay, each streamed one has its own, and so has the start.
        assert rows["start"]["ours"]["median"] >= 1_500
        assert 0 < rows["pull-ack"]["ours"]["median"] <= 100 / 0.025
        assert 0 < rows["drain-1"]["ours"]["median"] <= 1 / 0.001

    def test_a_delay_of_a_seek_shows_in_its_rows(self, tmp_path: Path) -> None:
        rows = run(tmp_path, "--rows", "seek-*", "--slow-down", "seek-1e5=300")

        assert [row["ours"]["median"] >= 300 for row in rows.values()] == [True, True]

    def test_an_unknown_row_to_slow_down_is_a_usage_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["--slow-down", "nothing=1"])

        assert ended.value.code == 2
        assert "'nothing' is no kind of work" in capsys.readouterr().err


class TestTheWhole:
    @pytest.mark.parametrize("option", ["--quick", "--rows=start", "--slow-down=publish=1"])
    def test_only_a_whole_run_may_be_written_into_the_documentation(
        self, capsys: pytest.CaptureFixture[str], option: str
    ) -> None:
        with pytest.raises(SystemExit):
            main(["--write-docs", option])

        assert "only a whole run" in capsys.readouterr().err

    def test_a_quick_run_fills_its_rows(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        rows = run(tmp_path, "--rows", "memory-*,batch,drain-10,latency-2000-*,rest-pull-ack,seek-*")

        assert list(rows) == [
            *("memory-idle", "memory-message", "batch", "drain-10"),
            *("latency-2000-p50", "latency-2000-p99", "rest-pull-ack", "seek-1e5", "seek-1e6", "memory-retained"),
        ]
        assert all(row["ours"]["median"] > 0 for row in rows.values())
        assert all(row["official"]["samples"] == [] for row in rows.values())
        assert "ours: warmed with 200 unary calls" in capsys.readouterr().out

    def test_a_profile_names_the_servers_functions(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert profile(["--quick", "pull-ack", "--lines", "200"]) == 0

        assert "subscriber.py" in capsys.readouterr().out

    def test_a_profile_is_of_one_load(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            profile(["latency-*"])

        assert "name a single row" in capsys.readouterr().err
