"""What a table was measured with: versions, and the machine."""

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import emulator
from bench.install import Tools
from bench.servers import official_version
from compat_tests.targets import Absent

# Which loads have their own number of rounds: see bench/rows.py.
_EXCEPTIONS: Final = "start: 5, memory: 1, stall: 2"


def about(tools: Tools, *, official: bool, rounds: int) -> Mapping[str, str]:
    """Names and values, in the order in which they are told."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "ours": f"pubsub-emulator {emulator.__version__} on {python}",
        "official": _official() if official else "not measured",
        "machine": f"{os.cpu_count()} × {_processor()}, {_memory()}, {platform.system()} {platform.release()}",
        "generators": ", ".join(_generators(tools)),
        "medians of": "one round" if rounds == 1 else f"{rounds} rounds, interleaved; {_EXCEPTIONS}",
    }


def _official() -> str:
    try:
        return f"Google's emulator {official_version()} on {_first_line(['java', '-version'])}"
    except Absent as absent:
        return f"not measured: {absent}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    found = (
        re.search(r"^model name\s*: (.+)$", info.read_text(encoding="utf-8"), re.MULTILINE) if info.exists() else None
    )
    return found[1] if found else platform.machine()


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        return "memory unknown"


def _generators(tools: Tools) -> list[str]:
    h2load = [_first_line([tools.h2load, "--version"])] if tools.h2load else []
    return [*h2load, *(["wrk"] if tools.wrk else []), "raw sockets in Python"]


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).partition("\n")[0].strip()
