"""What the suite talks to: this project's server, or Google's emulator, each in a process of its own."""

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.tools.server import PATIENCE_S, READY, serve


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server listens."""

    host: str
    port: int

    @property
    def host_port(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return f"http://{self.host_port}"


class Absent(Exception):
    """The target isn't installed on this machine; says what is missing."""


@contextmanager
def ours(directory: Path) -> Iterator[Target]:
    """This project's server, on a port of the system's choice; it has to stop with exit code 0 when the block ends."""
    port_file = directory / "port"
    with serve("--port-file", str(port_file)) as server:
        port = int(port_file.read_text(encoding="utf-8"))
        assert port == server.port, "the port file and the ready line name different ports"
        yield Target("localhost", port)


@contextmanager
def official(_directory: Path) -> Iterator[Target]:
    """Google's emulator, as the Google Cloud SDK holds it. Raises Absent."""
    target = Target("127.0.0.1", _free_port())
    process = subprocess.Popen(
        [official_command(), f"--host={target.host}", f"--port={target.port}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    ready = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if READY.search(line):
                ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        if not ready.wait(PATIENCE_S):
            raise RuntimeError("Google's emulator did not start")
        yield target
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()


def official_command() -> str:
    """The program that starts Google's emulator. Raises Absent."""
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        raise Absent("gcloud is not installed, and Google's emulator comes with it")
    command = Path(gcloud).resolve().parents[1] / "platform/pubsub-emulator/bin/cloud-pubsub-emulator"
    if not command.exists():
        raise Absent("gcloud has no component pubsub-emulator")
    if shutil.which("java") is None:
        raise Absent("java is not installed, and Google's emulator needs it")
    return str(command)


def _free_port() -> int:
    """A port that was free a moment ago: Google's emulator can't pick one and say which."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
