"""A client of HTTP/1.1 on bare non-blocking sockets, for what the generators in C can't do."""

import base64
import re
import select
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from bench.client import Address
from bench.wire import PATIENCE_S, BenchError

_READ_BYTES: Final = 1 << 18
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)

OnReply = Callable[["Http1", bytes], None]


def publish_call(topic: str, size: int) -> tuple[str, str]:
    """Target and body of a publish with one message."""
    data = base64.b64encode(b"x" * size).decode()
    return f"/v1/{topic}:publish", f'{{"messages":[{{"data":"{data}"}}]}}'


def request(target: str, body: str) -> bytes:
    """The bytes of a POST."""
    content = body.encode()
    head = (
        f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


class Http1:
    """One connection with at most one request under way. `on_reply` gets the body of each answer with status 200."""

    def __init__(self, server: Address, on_reply: OnReply) -> None:
        self._on_reply = on_reply
        self._read = bytearray()
        self._socket = socket.create_connection((server.host, server.port), PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        # While it sends there is no answer that would wait to be read, so waiting here can't block both sides.
        self._socket.sendall(data)

    def receive(self) -> None:
        """Raises BenchError for a status but 200, and when the server hangs up."""
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise BenchError("the server hung up")
        self._read += data
        body = self._whole_body()
        if body is not None:
            self._read.clear()
            self._on_reply(self, body)

    def _whole_body(self) -> bytes | None:
        head_end = self._read.find(b"\r\n\r\n")
        if head_end < 0:
            return None
        head, rest = bytes(self._read[:head_end]), bytes(self._read[head_end + 4 :])
        if length := _LENGTH.search(head):
            body = rest if len(rest) >= int(length[1]) else None
        elif _CHUNKED.search(head):
            body = _unchunked(rest)
        else:
            raise BenchError(f"an answer without an end: {head!r}")
        if body is not None and b" 200 " not in head[:16]:
            raise BenchError(f"the server answered {head!r} {body!r}")
        return body

    def close(self) -> None:
        self._socket.close()

    def __repr__(self) -> str:
        return f"<Http1 read={len(self._read)}>"


def _unchunked(data: bytes) -> bytes | None:
    """The body that whole chunks make, None while the last is missing."""
    parts: list[bytes] = []
    at = 0
    while (line_end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line_end].partition(b";")[0], 16)
        at = line_end + 2 + size + 2
        if len(data) < at:
            return None
        if size == 0:
            return b"".join(parts)
        parts.append(data[line_end + 2 : at - 2])
    return None


def drive(connections: Sequence[Http1], done: Callable[[], bool]) -> None:
    """Read what comes until `done`. Raises BenchError when nothing does."""
    while not done():
        readable, _, _ = select.select(connections, (), (), PATIENCE_S)
        if not readable:
            raise BenchError("the server answers no more")
        for connection in readable:
            connection.receive()


class _Repeat:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.count = 0

    def again(self, connection: Http1, _body: bytes) -> None:
        self.count += 1
        connection.send(self.data)


def _repeat(server: Address, target: str, body: str, connections: int, enough: Callable[[int], bool]) -> int:
    repeat = _Repeat(request(target, body))
    open_ones = [Http1(server, repeat.again) for _ in range(connections)]
    try:
        for connection in open_ones:
            connection.send(repeat.data)
        drive(open_ones, lambda: enough(repeat.count))
    finally:
        for connection in open_ones:
            connection.close()
    return repeat.count


def repeat(server: Address, target: str, body: str, *, connections: int, count: int) -> int:
    """Make the call at least `count` times; how often it was."""
    return _repeat(server, target, body, connections, lambda made: made >= count)


def rate(server: Address, target: str, body: str, *, connections: int, seconds: float) -> float:
    """Calls a second."""
    begun = time.perf_counter()
    count = _repeat(server, target, body, connections, lambda _made: time.perf_counter() - begun >= seconds)
    return count / (time.perf_counter() - begun)
