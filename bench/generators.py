"""Runs the load generators written in C and reads their rates."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.client import Address, Place
from bench.servers import HOST, free_port, helper
from bench.wire import BenchError

_WARM_UP_MS: Final = 200
_PATIENCE_S: Final = 60.0

_H2_RATE = re.compile(r"^finished in [\d.]+\w+, ([\d.]+) req/s", re.MULTILINE)
_H2_FAILED = re.compile(r"(\d+) failed, (\d+) errored, (\d+) timeout")
_H2_STATUS = re.compile(r"^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", re.MULTILINE)
_WRK_RATE = re.compile(r"^Requests/sec: +([\d.]+)", re.MULTILINE)
_WRK_COUNT = re.compile(r"^ +(\d+) requests in", re.MULTILINE)
_WRK_TROUBLE = re.compile(r"^ +(?:Non-2xx or 3xx responses|Socket errors): .*$", re.MULTILINE)

_WRK_SCRIPT = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [[{body}]]
"""


def h2load(
    program: str, url: str, body: Path, *, connections: int, in_flight: int, seconds: float = 0, count: int = 0
) -> float:
    """Requests a second of a gRPC call with constant headers. Raises BenchError when any of them fails.

    It goes on for `seconds`, after a short warm-up, or for `count` requests.
    """
    timed = [f"--duration={round(seconds * 1_000)}ms", f"--warm-up-time={_WARM_UP_MS}ms"]
    command = [
        program,
        *(timed if seconds else [f"--requests={count}"]),
        f"--clients={connections}",
        f"--max-concurrent-streams={in_flight}",
        f"--data={body}",
        "--header=te: trailers",
        "--header=content-type: application/grpc",
        url,
    ]
    told = _run(command)
    rate, failed, status = _H2_RATE.search(told), _H2_FAILED.search(told), _H2_STATUS.search(told)
    if not rate or not failed or not status or any(map(int, (*failed.groups(), *status.groups()[1:]))):
        raise BenchError(f"h2load had failures:\n{told}")
    return float(rate[1])


def wrk(program: str, url: str, body: str, directory: Path, *, connections: int, seconds: float) -> tuple[float, int]:
    """Requests a second, and how many there were. Raises BenchError when any of them fails."""
    script = directory / "post.lua"
    script.write_text(_WRK_SCRIPT.format(body=body), encoding="utf-8")
    whole_seconds = max(1, round(seconds))
    told = _run([program, "-t1", f"-c{connections}", f"-d{whole_seconds}s", "-s", str(script), url])
    rate, count = _WRK_RATE.search(told), _WRK_COUNT.search(told)
    if not rate or not count or _WRK_TROUBLE.search(told):
        raise BenchError(f"wrk had failures:\n{told}")
    return float(rate[1]), int(count[1])


@contextmanager
def nghttpd(program: str, directory: Path, path: str, answer: bytes) -> Iterator[Address]:
    """A server in C that answers the calls of one path with the same bytes each time."""
    file = directory / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(answer)
    port = free_port()
    command = [program, "--no-tls", f"--address={HOST}", f"--htdocs={directory}", "--trailer=grpc-status: 0", str(port)]
    with helper(command, port):
        yield Place(HOST, port)


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{command[0]} did not come to an end") from None
    if done.returncode != 0:
        raise BenchError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
