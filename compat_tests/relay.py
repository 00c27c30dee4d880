"""A relay between clients and the server that keeps the HTTP/2 frames of either side, to see what really was sent."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from hyperframe.frame import Frame

from compat_tests.targets import Target
from tests.tools.server import PATIENCE_S

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES = 9

F = TypeVar("F", bound=Frame)


@dataclass(slots=True)
class Heard:
    """The frames that one side sent on one connection, as they came."""

    frames: list[Frame] = field(default_factory=list)
    _rest: bytes = b""

    def feed(self, data: bytes) -> None:
        self._rest = (self._rest + data).removeprefix(PREFACE)
        while len(self._rest) >= HEADER_BYTES and not PREFACE.startswith(self._rest[:HEADER_BYTES]):
            frame, length = Frame.parse_frame_header(memoryview(self._rest[:HEADER_BYTES]))
            if len(self._rest) < HEADER_BYTES + length:
                return
            frame.parse_body(memoryview(self._rest[HEADER_BYTES : HEADER_BYTES + length]))
            self.frames.append(frame)
            self._rest = self._rest[HEADER_BYTES + length :]


class Relay:
    """Listens on `port`, passes everything on both ways."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._heard: dict[str, list[Heard]] = {"client": [], "server": []}
        self._changed = threading.Condition()
        self._sockets: list[socket.socket] = [self._listening]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def host_port(self) -> str:
        return f"127.0.0.1:{self.port}"

    def frames(self, side: str, kind: type[F]) -> list[F]:
        """What the `client` or the `server` sent so far of this kind of frame."""
        with self._changed:
            return [frame for heard in self._heard[side] for frame in heard.frames if isinstance(frame, kind)]

    def wait(self, condition: Callable[[], bool]) -> bool:
        """Until it holds; False if it doesn't come to."""
        with self._changed:
            return self._changed.wait_for(condition, PATIENCE_S)

    def close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):  # the other end was faster
                one.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join()
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection((self._target.host, self._target.port))
            self._sockets += [client, server]
            for side, source, sink in (("client", client, server), ("server", server, client)):
                heard = Heard()
                self._heard[side].append(heard)
                thread = threading.Thread(target=self._pass_on, args=(heard, source, sink), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, heard: Heard, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):  # the sink does not want to hear the rest
            while data := source.recv(262_144):
                with self._changed:
                    heard.feed(data)
                    self._changed.notify_all()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def __repr__(self) -> str:
        return f"<Relay {self.host_port} to {self._target.host_port}>"


@contextmanager
def relay_to(target: Target) -> Iterator[Relay]:
    """A relay until the block ends; close the clients before."""
    relay = Relay(target)
    try:
        yield relay
    finally:
        relay.close()
