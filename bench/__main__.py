"""`python -m bench`: measure this server beside Google's emulator, and say which floors are reached."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench import install, report, slowed
from bench.context import FULL, QUICK, Bench
from bench.machine import about
from bench.rows import ROWS, chosen
from bench.running import measure
from bench.servers import Launcher

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "bench/results"
DOCUMENT: Final = ROOT / "docs/performance.md"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Measure this server beside Google's emulator.")
    parser.add_argument("--rows", default="*", metavar="NAME,…", help="only these; globs are allowed (default: all)")
    parser.add_argument("--list", action="store_true", help="say which rows there are, and measure nothing")
    parser.add_argument("--rounds", type=int, default=3, help="how often each load is done (default: 3)")
    parser.add_argument(
        "--quick", action="store_true", help="very little of everything: to try the tool, not the server"
    )
    parser.add_argument("--no-official", action="store_true", help="only this server")
    parser.add_argument(
        "--slow-down",
        action="append",
        default=[],
        metavar="WHAT=MS",
        help=f"keep ours busy so long at each of these: a row's name, or {', '.join(slowed.KINDS)}",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to (default: a new file in bench/results)")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/performance.md")
    return parser


def _slow_down(given: Sequence[str]) -> str:
    """The option for `bench.slowed`, with kinds of work for rows' names. Raises ValueError."""
    kinds = {row.name: row.slowed_by for row in ROWS if row.slowed_by}
    parts = [part.partition("=") for words in given for part in words.split(",")]
    text = ",".join(f"{kinds.get(what, what)}={milliseconds}" for what, _, milliseconds in parts)
    slowed.parse(text)
    return text


def _say(text: str) -> None:
    print(text, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, write it down. 1 if a row could not be measured, whatever floors were missed."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        rows, slow_down = chosen(given.rows), _slow_down(given.slow_down)
    except ValueError as problem:
        parser.error(str(problem))
    if given.write_docs and (given.quick or slow_down or list(rows) != list(ROWS)):
        parser.error("only a whole run of all rows goes into the documentation")
    if given.list:
        for row in rows:
            print(f"{row.name:22} {report.floor_text(row.floor):>8}  {row.what}")
        return 0
    begun = time.monotonic()
    tools = install.find() if given.quick else install.ensure()
    rounds = 1 if given.quick else given.rounds
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        bench = Bench(QUICK if given.quick else FULL, tools, Launcher(Path(directory), slow_down))
        try:
            results = measure(bench, rows, rounds=rounds, official=not given.no_official, say=_say)
        finally:
            bench.close()
    told = about(tools, official=not given.no_official, rounds=rounds)
    if slow_down:
        told = {**told, "ours, slowed down by": slow_down}
    print("", *(f"{key}: {value}" for key, value in told.items()), "", report.text(results), sep="\n")
    _write(report.document(results, told), given.json)
    if given.write_docs:
        report.write_docs(DOCUMENT, report.markdown(results, told))
    _say(f"\n{time.monotonic() - begun:.0f} s in all")
    return int(any(result.verdict is report.Verdict.FAILED for result in results))


def _write(document: str, path: Path | None) -> None:
    if path is None:
        path = RESULTS / f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
