"""`python -m bench.profile ROW`: do a row's load once, on this server alone, and say where its time went."""

import argparse
import pstats
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import install
from bench.context import FULL, QUICK, Bench
from bench.rows import chosen, loads_of
from bench.running import measure
from bench.servers import Launcher


def main(argv: Sequence[str] | None = None) -> int:
    """Print the functions that took longest by themselves, then with all that they called. 1 if the load failed."""
    parser = argparse.ArgumentParser(prog="bench.profile", description=__doc__)
    parser.add_argument("row", help="a row's name; python -m bench --list shows them")
    parser.add_argument("--lines", type=int, default=30, help="how many functions to show (default: 30)")
    parser.add_argument("--quick", action="store_true", help="very little of everything")
    parser.add_argument("--out", type=Path, metavar="PATH", help="keep the profile, for other viewers of cProfile's")
    given = parser.parse_args(argv)
    try:
        rows = chosen(given.row)
    except ValueError as problem:
        parser.error(str(problem))
    if len(loads_of(rows)) != 1:
        parser.error("name a single row: its profile would be lost among others")
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        bench = Bench(
            QUICK if given.quick else FULL, install.find(), Launcher(Path(directory), profiles=Path(directory))
        )
        try:
            (result, *_) = measure(bench, rows, rounds=1, official=False, say=print)
        finally:
            bench.close()
        profiles = sorted(map(str, Path(directory).glob("*.prof")))
        if result.problem or not profiles:
            print(f"{given.row} could not be profiled: {result.problem or 'no profile was written'}", file=sys.stderr)
            return 1
        stats = pstats.Stats(*profiles)
    if given.out is not None:
        stats.dump_stats(given.out)
    print("The profiler slows the server down several times, small functions most of all.\n")
    for order in ("tottime", "cumulative"):
        stats.strip_dirs().sort_stats(order).print_stats(given.lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
