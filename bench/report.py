"""From samples to a table: medians, ratios, verdicts; as text, as JSON, and for the documentation."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from bench.context import Sample
from bench.rows import Better, Floor, Kind, Row
from bench.servers import OFFICIAL, OURS

ABSENT: Final = "-"

BEGIN: Final = "<!-- made by make bench: begin -->"
END: Final = "<!-- made by make bench: end -->"


class Verdict(Enum):
    """What a row says about its floor."""

    OK = "ok"
    MISSED = "MISSED"
    FAILED = "FAILED"  # it could not be measured
    NONE = ABSENT  # no floor, or nothing to compare with


@dataclass(slots=True)
class Result:
    """What was seen of one row: samples by server, and what went wrong."""

    row: Row
    samples: dict[str, list[Sample]]
    problem: str = ""

    def median(self, server: str) -> float | None:
        """The median of what was measured there."""
        values = [sample.value for sample in self.samples.get(server, ())]
        return statistics.median(values) if values else None

    @property
    def times_better(self) -> float | None:
        """How many times better ours is than the official one, by the medians."""
        return times_better(self.row.better, self.median(OURS), self.median(OFFICIAL))

    @property
    def verdict(self) -> Verdict:
        ours = self.median(OURS)
        if ours is None or self.problem:
            return Verdict.FAILED
        return judge(self.row.floor, ours, self.times_better)

    @property
    def note(self) -> str:
        """The problem, or what our samples say, of which the last speaks for all."""
        notes = [sample.note for sample in self.samples.get(OURS, ()) if sample.note]
        return self.problem or (notes[-1] if notes else "")


def times_better(better: Better, ours: float | None, official: float | None) -> float | None:
    """A ratio above 1 when ours is better; None when one of them is missing or makes no ratio."""
    if ours is None or official is None or ours <= 0 or official <= 0:
        return None
    return ours / official if better is Better.HIGHER else official / ours


def judge(floor: Floor | None, ours: float, times: float | None) -> Verdict:
    if floor is None or (floor.kind is Kind.TIMES and times is None):
        return Verdict.NONE
    match floor.kind:
        case Kind.TIMES:
            reached = times is not None and times >= floor.value
        case Kind.AT_LEAST:
            reached = ours >= floor.value
        case Kind.AT_MOST:
            reached = ours <= floor.value
    return Verdict.OK if reached else Verdict.MISSED


# Words for numbers


def number(value: float | None) -> str:
    """With three digits that count, and no more zeros than that takes."""
    if value is None:
        return ABSENT
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def floor_text(floor: Floor | None) -> str:
    if floor is None:
        return ABSENT
    match floor.kind:
        case Kind.TIMES:
            return f"{floor.value:g}x"
        case Kind.AT_MOST:
            return f"≤ {floor.value:,g}"
        case Kind.AT_LEAST:
            return f"≥ {floor.value:g}"


_TITLES: Final = ("row", "unit", "ours", "official", "better", "floor", "verdict")


def _cells(result: Result) -> Sequence[str]:
    times = result.times_better
    return (
        result.row.name,
        result.row.unit,
        number(result.median(OURS)),
        number(result.median(OFFICIAL)),
        ABSENT if times is None else f"{number(times)}x",
        floor_text(result.row.floor),
        result.verdict.value,
    )


def text(results: Sequence[Result]) -> str:
    """The table for a terminal."""
    lines = [_TITLES, *map(_cells, results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_TITLES))]
    written = []
    for line, note in zip(lines, ("note", *(result.note for result in results)), strict=True):
        cells = [
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        written.append(f"{'  '.join(cells)}  {first_line(note)}".rstrip())
    return "\n".join(written)


def first_line(note: str) -> str:
    return note.partition("\n")[0]


def markdown(results: Sequence[Result], about: Mapping[str, str]) -> str:
    """The table for the documentation, under what it was measured with."""
    lines = [f"- {key}: {value}" for key, value in about.items()]
    lines += ["", "| What | Unit | Ours | Official | Better | Floor | Verdict |", "|---|---|--:|--:|--:|--:|---|"]
    for result in results:
        cells = (f"{result.row.what} (`{result.row.name}`)", *_cells(result)[1:])
        lines.append(f"| {' | '.join(cells)} |")
    notes = [f"- `{result.row.name}`: {first_line(result.note)}" for result in results if result.note]
    return "\n".join([*lines, *(["", "Notes:", "", *notes] if notes else [])])


def document(results: Sequence[Result], about: Mapping[str, str]) -> str:
    """All of it as JSON."""
    rows = [
        {
            "row": result.row.name,
            "what": result.row.what,
            "unit": result.row.unit,
            "floor": floor_text(result.row.floor),
            "verdict": result.verdict.value,
            "times_better": result.times_better,
            "note": result.note,
            **{
                server: {"median": result.median(server), "samples": values(result, server)}
                for server in (OURS, OFFICIAL)
            },
        }
        for result in results
    ]
    return json.dumps({"about": dict(about), "rows": rows}, indent=2, ensure_ascii=False) + "\n"


def values(result: Result, server: str) -> Sequence[float]:
    return [sample.value for sample in result.samples.get(server, ())]


def write_docs(path: Path, table: str) -> None:
    """Put the table between a document's marks; without a document, begin one. Raises ValueError for missing marks."""
    made = f"{BEGIN}\n{table}\n{END}"
    if not path.exists():
        path.write_text(f"# Performance\n\n{made}\n", encoding="utf-8")
        return
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path.name} has no marks {BEGIN} and {END}")
    path.write_text(f"{before}{made}{after}", encoding="utf-8")
