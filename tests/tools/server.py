"""A server started the way a user starts one: the command in a process of its own, on a port that the system picks."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue

READY = re.compile(r"Server started, listening on (\d+)")

# How long a start or a stop may hang before the test gives up, in seconds.
PATIENCE_S = 20


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    port: int
    process: subprocess.Popen[str]

    @property
    def host_port(self) -> str:
        return f"localhost:{self.port}"


@contextmanager
def serve(*flags: str, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run `python -m emulator` with these flags until the block ends, which begins once the ready line is out.

    Raises RuntimeError with all that the server wrote if it doesn't start, or doesn't stop with exit code 0.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "emulator", "--host-port", "localhost:0", *flags],
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    ports: SimpleQueue[int | None] = SimpleQueue()
    written: list[str] = []
    reader = threading.Thread(target=_read, args=(process, written, ports), daemon=True)
    reader.start()
    try:
        yield Server(_wait_for_port(process, written, ports), process)
    finally:
        process.terminate()
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        reader.join()
        assert process.stderr is not None
        process.stderr.close()
    if code != 0:
        raise RuntimeError(f"the server ended with {code} and wrote:\n{''.join(written)}")


def _read(process: subprocess.Popen[str], written: list[str], ports: SimpleQueue[int | None]) -> None:
    """Take the server's stderr to its end, so that it never blocks on a full pipe."""
    assert process.stderr is not None
    for line in process.stderr:
        written.append(line)
        if ready := READY.search(line):
            ports.put(int(ready[1]))
    ports.put(None)


def _wait_for_port(process: subprocess.Popen[str], written: list[str], ports: SimpleQueue[int | None]) -> int:
    try:
        port = ports.get(timeout=PATIENCE_S)
    except Empty:
        port = None
    if port is None:
        raise RuntimeError(f"the server did not start and wrote:\n{''.join(written)}")
    return port
