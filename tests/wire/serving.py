"""Servers on an event loop of a thread of their own, so that a test can be a plain client with a plain socket."""

import asyncio
import concurrent.futures
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
import uvloop

T = TypeVar("T")

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

# Both kinds of loop that the server runs on.
LOOPS = [pytest.param(asyncio.new_event_loop, id="asyncio"), pytest.param(uvloop.new_event_loop, id="uvloop")]

# How long a client may wait before the test gives up, in seconds.
PATIENCE_S = 20


class LoopOfItsOwn:
    """A thread that runs an event loop, and the problems that the loop reported."""

    def __init__(self, factory: LoopFactory) -> None:
        self._factory = factory
        self._ready: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self.problems: list[dict[str, Any]] = []

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=self._factory) as runner:
            loop = runner.get_loop()
            loop.set_exception_handler(lambda _loop, context: self.problems.append(context))
            loop.call_soon(self._ready.set_result, loop)
            loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns or raises, run on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._ready.result()).result(PATIENCE_S)

    def call(self, function: Callable[[], T]) -> T:
        """What the function returns or raises, called on the loop."""

        async def work() -> T:
            return function()

        return self.run(work())

    def until(self, condition: Callable[[], bool]) -> None:
        """Return once the condition, looked at on the loop, holds; if it never does, the test runs out of time."""
        while not self.call(condition):
            time.sleep(0.001)

    def __enter__(self) -> "LoopOfItsOwn":
        self._thread.start()
        return self

    def __exit__(self, *_problem: object) -> None:
        loop = self._ready.result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """A connection on which a test sends and receives bytes."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._file = sock.makefile("rb")

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def request(self, verb: str, target: str, body: bytes = b"", *headers: str) -> None:
        """Send a whole request."""
        head = [f"{verb} {target} HTTP/1.1", "Host: here", f"Content-Length: {len(body)}", *headers]
        self.send("\r\n".join([*head, "", ""]).encode() + body)

    def reply(self, *, head_only: bool = False) -> Reply:
        """Read one answer. Raises AssertionError if there is none."""
        status_line = self._file.readline()
        assert status_line, "the server closed the connection without an answer"
        headers = {}
        while (line := self._file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = b"" if head_only else self._file.read(int(headers.get("content-length", "0")))
        return Reply(int(status_line.split()[1]), headers, body)

    def read(self, count: int) -> bytes:
        """So many bytes, fewer only if the server closes."""
        return self._file.read(count)

    def is_closed(self) -> bool:
        """Wait for the server to close; False if it sends something instead."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def stop_sending(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._file.close()
        self.sock.close()


@contextmanager
def connected(port: int, host: str = "127.0.0.1") -> Iterator[Client]:
    """A client of the server on this port."""
    client = Client(socket.create_connection((host, port), PATIENCE_S))
    try:
        yield client
    finally:
        client.close()
