"""Does the loads, ours and the official one's in turn, round after round, and gathers what they saw."""

import time
from collections.abc import Callable, Sequence

from bench.context import Bench
from bench.report import Result
from bench.rows import Load, Row, loads_of
from bench.servers import OFFICIAL, OURS
from bench.wire import BenchError
from compat_tests.targets import Absent

Say = Callable[[str], None]


def measure(bench: Bench, rows: Sequence[Row], *, rounds: int, official: bool, say: Say) -> Sequence[Result]:
    """The results, in the rows' order. A load that fails spoils its own rows and no other. 1 round is 1 for all."""
    results = {row.name: Result(row, {}) for row in rows}
    absent: set[str] = set() if official else {OFFICIAL}
    # Round by round, so that what disturbs the machine for a while disturbs one sample of each row at most.
    for turn in range(max(_rounds(load, rounds) for load in loads_of(rows))):
        for load in loads_of(rows):
            if turn < _rounds(load, rounds):
                begun = time.monotonic()
                for name in _servers(load, turn):
                    if name not in absent:
                        _measure_one(bench, load, name, results, absent, say)
                say(f"round {turn + 1}, {load.name}: {time.monotonic() - begun:.1f} s")
    return list(results.values())


def _rounds(load: Load, rounds: int) -> int:
    return rounds if load.rounds is None or rounds == 1 else load.rounds


def _servers(load: Load, turn: int) -> Sequence[str]:
    """Who does it, in an order that changes: what comes second finds the machine as the first has left it."""
    both = (OURS, OFFICIAL) if load.official else (OURS,)
    return both[:: -1 if turn % 2 else 1]


def _measure_one(bench: Bench, load: Load, name: str, results: dict[str, Result], absent: set[str], say: Say) -> None:
    try:
        samples = load.run(bench, name)
    except Absent as problem:
        absent.add(name)
        say(f"{name}: {problem}")
        return
    except Exception as problem:  # whatever it is, minutes of other rows' samples must not go with it
        told = f"{name}: {problem}" if isinstance(problem, BenchError) else f"{name}: {problem!r}"
        say(f"{load.name}, {told}")
        for result in results.values():
            if result.row.load is load:
                result.problem = told
        return
    for row, sample in samples.items():
        if row in results:
            results[row].samples.setdefault(name, []).append(sample)
