"""A gRPC client's connection on a bare non-blocking socket, lean enough to be faster than what it measures."""

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from bench import frames

PATIENCE_S: Final = 60.0

_READ_BYTES: Final = 1 << 18
_REFILL_BYTES: Final = 1 << 29


class BenchError(Exception):
    """A load did not go as planned; says what went wrong."""


class Connection:
    """One HTTP/2 connection. Receiving is never limited; sending keeps to the server's windows.

    `on_data` gets each piece of a reply, `on_end` whether the stream that has ended brought any, `on_block` every
    header block. All of them are called from `receive`.
    """

    def __init__(self, host: str, port: int) -> None:
        """Raises OSError when nobody listens there."""
        self.on_data: Callable[[int, bytes], None] = _ignore_data
        self.on_end: Callable[[int, bool], None] = _ignore_end
        self.on_block: Callable[[int, bytes], None] | None = None
        self._replied: set[int] = set()
        self._rest = b""
        self._out = bytearray()
        self._next_stream = 1
        self._window = frames.WINDOW_DEFAULT
        self._initial_window = frames.WINDOW_DEFAULT
        self._windows: dict[int, int] = {}
        self._waiting: deque[tuple[int, memoryview, bool]] = deque()
        self._received = 0
        self._socket = socket.create_connection((host, port), PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._out += frames.PREFACE + frames.settings([(frames.INITIAL_WINDOW_SIZE, frames.WINDOW_MAX)])
        self._out += frames.window_update(0, frames.WINDOW_MAX - frames.WINDOW_DEFAULT)
        self.flush()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def unsent(self) -> bool:
        """Whether bytes wait for the socket."""
        return bool(self._out)

    # Sending

    def open(self, block: bytes, body: bytes, *, end: bool = True) -> int:
        """Begin a call with one message; returns its stream. Nothing leaves before `flush`."""
        stream = self._next_stream
        self._next_stream += 2
        self._out += frames.frame(frames.HEADERS, frames.END_HEADERS, stream, block)
        self._windows[stream] = self._initial_window
        self._waiting.append((stream, memoryview(frames.message(body)), end))
        self._send_waiting()
        return stream

    def send_prepared(self, calls: frames.Calls, first: int, count: int) -> int:
        """Begin prepared calls, as many of `count` as the connection's window allows; returns how many those were."""
        count = min(count, len(calls) - first, self._window // calls.body_bytes)
        if count > 0:
            self._window -= count * calls.body_bytes
            start = calls.ends[first - 1] if first else 0
            self._out += calls.data[start : calls.ends[first + count - 1]]
        return max(count, 0)

    def _send_waiting(self) -> None:
        while self._waiting and self._window > 0:
            stream, data, end = self._waiting[0]
            size = min(len(data), self._window, self._windows[stream], frames.FRAME_MAX_BYTES)
            if size <= 0:
                return
            last = size == len(data)
            self._out += frames.HEAD.pack(size << 8 | frames.DATA, frames.END_STREAM if last and end else 0, stream)
            self._out += data[:size]
            self._window -= size
            self._windows[stream] -= size
            if last:
                self._waiting.popleft()
            else:
                self._waiting[0] = (stream, data[size:], end)

    def flush(self) -> None:
        """Write as much as the socket takes."""
        if self._out:
            try:
                sent = self._socket.send(self._out)
            except BlockingIOError:
                return
            del self._out[:sent]

    # Receiving

    def receive(self) -> None:
        """Read what is there, and write what that leads to. Raises BenchError for a server that hangs up."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise BenchError("the server hung up")
        self._feed(self._rest + data if self._rest else data)
        self.flush()

    def _feed(self, data: bytes) -> None:
        at, size, unpack = 0, len(data), frames.HEAD.unpack_from
        while size - at >= frames.HEAD_BYTES:
            word, flags, stream = unpack(data, at)
            start = at + frames.HEAD_BYTES
            after = start + (word >> 8)
            if after > size:
                break
            at = after
            kind = word & 0xFF
            if kind == frames.DATA:
                self._received += after - start
                self._replied.add(stream)
                self.on_data(stream, data[start:after])
            elif kind != frames.HEADERS:
                self._control(kind, flags, stream, data[start:after])
                continue
            elif self.on_block is not None:
                self.on_block(stream, data[start:after])
            if flags & frames.END_STREAM:
                self._ended(stream)
        self._rest = data[at:]
        self._refill()

    def _ended(self, stream: int) -> None:
        replied = stream in self._replied
        self._replied.discard(stream)
        self._windows.pop(stream, None)
        self.on_end(stream, replied)

    def _refill(self) -> None:
        if self._received >= _REFILL_BYTES:
            self._out += frames.window_update(0, self._received)
            self._received = 0

    def _control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == frames.WINDOW_UPDATE:
            increment = frames.increment_in(payload)
            if stream == 0:
                self._window += increment
            elif stream in self._windows:
                self._windows[stream] += increment
            self._send_waiting()
        elif kind == frames.SETTINGS and not flags & frames.ACK:
            self._settle(payload)
        elif kind == frames.PING and not flags & frames.ACK:
            self._out += frames.frame(frames.PING, frames.ACK, 0, payload)
        elif kind in (frames.RST_STREAM, frames.GOAWAY):
            raise BenchError(f"the server ended stream {stream} with a frame of type {kind}: {payload!r}")

    def _settle(self, payload: bytes) -> None:
        for key, value in frames.settings_in(payload):
            if key == frames.INITIAL_WINDOW_SIZE:
                for stream in self._windows:
                    self._windows[stream] += value - self._initial_window
                self._initial_window = value
        self._out += frames.frame(frames.SETTINGS, frames.ACK, 0, b"")
        self._send_waiting()

    def close(self) -> None:
        self._socket.close()

    def __repr__(self) -> str:
        return f"<Connection streams={self._next_stream // 2} unsent={len(self._out)}>"


def _ignore_data(_stream: int, _chunk: bytes) -> None: ...


def _ignore_end(_stream: int, _replied: bool) -> None: ...


def turn(connections: Sequence[Connection], timeout_s: float) -> None:
    """Wait until one of them has something, and handle it."""
    blocked = [connection for connection in connections if connection.unsent]
    readable, writable, _ = select.select(connections, blocked, (), max(timeout_s, 0.0))
    for connection in writable:
        connection.flush()
    for connection in readable:
        connection.receive()


def run(connections: Sequence[Connection], done: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Let them work until `done`. Raises BenchError when that takes too long."""
    until = time.monotonic() + patience_s
    while not done():
        if time.monotonic() > until:
            raise BenchError(f"{what} took longer than {patience_s:.0f} s")
        turn(connections, 0.5)


class Messages:
    """Puts the messages of one stream together again."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def take(self, chunk: bytes) -> list[bytes]:
        """The messages that this piece completes."""
        data = self._rest + chunk if self._rest else chunk
        found, at = [], 0
        while len(data) - at >= frames.PREFIX_BYTES:
            start = at + frames.PREFIX_BYTES
            after = start + int.from_bytes(data[at + 1 : start], "big")
            if after > len(data):
                break
            found.append(data[start:after])
            at = after
        self._rest = data[at:]
        return found

    def __repr__(self) -> str:
        return f"<Messages rest={len(self._rest)}>"
