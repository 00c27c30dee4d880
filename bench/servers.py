"""The servers under measurement, each in a process of its own: starting, finding out when it answers, stopping."""

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.client import Place, client_of
from bench.wire import BenchError
from compat_tests.targets import official_command

OURS: Final = "ours"
OFFICIAL: Final = "official"

HOST: Final = "127.0.0.1"

# Where `python -m` finds every module of ours.
ROOT: Final = Path(__file__).parents[1]

_START_S: Final = 60.0
_STOP_S: Final = 20.0
_POLL_S: Final = 0.002
_KIB: Final = 1_024


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. `start_s` is the time from exec to the end of the first call that was answered with OK."""

    name: str
    host: str
    port: int
    process: subprocess.Popen[bytes]
    start_s: float

    def resident_bytes(self) -> int:
        """How much memory its process holds."""
        return resident_bytes(self.process.pid)


@dataclass(frozen=True, slots=True)
class Launcher:
    """How servers are started.

    `slow_down` is what `bench.slowed` does to ours (""; nothing); `profiles` a directory that takes the profile of each
    of our processes (None: they are not profiled). `directory` takes logs.
    """

    directory: Path
    slow_down: str = ""
    profiles: Path | None = None

    def python(self, module: str, *arguments: str) -> list[str]:
        """The command that runs a module of ours."""
        return [sys.executable, *self._profiled(), "-m", module, *arguments]

    def _profiled(self) -> Sequence[str]:
        if self.profiles is None:
            return ()
        return ("-m", "cProfile", "-o", str(self.profiles / f"{time.monotonic_ns()}.prof"))

    def _command(self, name: str, port: int) -> list[str]:
        if name == OFFICIAL:
            return [official_command(), f"--host={HOST}", f"--port={port}"]
        address = ("--host-port", f"{HOST}:{port}")
        if self.slow_down:
            return self.python("bench.slowed", self.slow_down, *address)
        return self.python("emulator", *address)

    @contextmanager
    def serve(self, name: str) -> Iterator[Server]:
        """Run a server until the block ends. Raises Absent, and BenchError if it does not come to answer."""
        port = free_port()
        command = self._command(name, port)
        log = self.directory / f"{name}-{port}.log"
        with log.open("wb") as output:
            begun = time.perf_counter()
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            _wait_for_first_answer(process, port, log)
            yield Server(name, HOST, port, process, time.perf_counter() - begun)
        finally:
            _stop(process)


def _wait_for_first_answer(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and process.poll() is None:
        # Some listen before they serve, and cut off who comes too early.
        with suppress(OSError, BenchError), client_of(Place(HOST, port)) as client:
            client.list_topics()
            return
        time.sleep(_POLL_S)
    raise BenchError(f"a server did not start and wrote:\n{log.read_text(encoding='utf-8', errors='replace')}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        if hasattr(signal, "SIGCONT"):
            process.send_signal(signal.SIGCONT)
        process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def wait_for_port(port: int) -> None:
    """Return once somebody accepts connections there. Raises BenchError when nobody does."""
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection((HOST, port), 1):
            return
        time.sleep(_POLL_S)
    raise BenchError(f"nobody listens on port {port}")


def resident_bytes(pid: int) -> int:
    """The resident memory of a process."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        found = re.search(r"^VmRSS:\s+(\d+) kB", status.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
        assert found, "a process without resident memory"
        return int(found[1]) * _KIB
    listed = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(listed.stdout) * _KIB


def official_version() -> str:
    """The version in the name of the official emulator's archive. Raises Absent."""
    command = Path(official_command())
    archives = sorted(command.parents[1].glob("lib/cloud-pubsub-emulator-*-all.jar"))
    return archives[-1].name.removeprefix("cloud-pubsub-emulator-").removesuffix("-all.jar") if archives else "unknown"


@contextmanager
def helper(command: Sequence[str], port: int) -> Iterator[None]:
    """Run a server to compare with, until the block ends."""
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, stdin=nowhere, stdout=nowhere, stderr=nowhere)
    try:
        wait_for_port(port)
        yield
    finally:
        process.terminate()
        process.wait()
