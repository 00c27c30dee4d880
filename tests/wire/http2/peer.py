"""The other end of an HTTP/2 connection, written apart from the server's own code, and a handler that echoes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from emulator.wire.http2.connection import Connection, Handler
from emulator.wire.http2.frames import Http2Error
from emulator.wire.http2.heads import RequestHead
from emulator.wire.http2.settings import Settings
from emulator.wire.http2.stream import Stream

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20

NO_ERROR = 0
PROTOCOL_ERROR = 1
FLOW_CONTROL_ERROR = 3
STREAM_CLOSED = 5
FRAME_SIZE_ERROR = 6
REFUSED_STREAM = 7
CANCEL = 8
COMPRESSION_ERROR = 9
ENHANCE_YOUR_CALM = 11

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = (
    1, 2, 3, 4, 5, 6
)  # fmt: skip

Field = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as read from the wire."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def number(self) -> int:
        """An error code or an increment."""
        return u31(self.payload)


def u31(data: bytes) -> int:
    return int.from_bytes(data[:4], "big") & 0x7FFF_FFFF


def u32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def parse(data: bytes) -> list[Frame]:
    """Whole frames; fails if bytes are left over."""
    out = []
    while data:
        size = int.from_bytes(data[:3], "big")
        assert len(data) >= 9 + size, "a frame is cut short"
        out.append(Frame(data[3], data[4], u31(data[5:9]), data[9 : 9 + size]))
        data = data[9 + size :]
    return out


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + u32(stream) + payload


def literal(name: bytes, value: bytes) -> bytes:
    """A field that touches no table: literal without indexing, new name, no Huffman code (RFC 7541 §6.2.2)."""
    return b"\0" + _string(name) + _string(value)


def _string(text: bytes) -> bytes:
    return integer(len(text), 7) + text


def integer(number: int, bits: int, first: int = 0) -> bytes:
    """RFC 7541 §5.1; `first` holds the bits above the prefix."""
    most = 2**bits - 1
    if number < most:
        return bytes([first | number])
    out = bytearray([first | most])
    number -= most
    while number >= 128:
        out.append(number % 128 + 128)
        number //= 128
    out.append(number)
    return bytes(out)


def block(fields: Iterable[Field]) -> bytes:
    return b"".join(literal(name, value) for name, value in fields)


def request_fields(path: bytes = b"/", *more: Field) -> list[Field]:
    return [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"here"), *more]


POST = block(request_fields())
# The handler answers only when told to.
HANG = block(request_fields(b"/hang"))
# The handler answers without waiting for the request's end.
EARLY = block(request_fields(b"/early"))


def headers(stream: int, fragment: bytes = POST, flags: int = END_HEADERS | END_STREAM) -> bytes:
    return frame(HEADERS, flags, stream, fragment)


def open_headers(stream: int, fragment: bytes = POST) -> bytes:
    """Headers of a request whose data follows."""
    return headers(stream, fragment, END_HEADERS)


def continuation(stream: int, fragment: bytes, flags: int = END_HEADERS) -> bytes:
    return frame(CONTINUATION, flags, stream, fragment)


def data(stream: int, payload: bytes = b"", flags: int = END_STREAM) -> bytes:
    return frame(DATA, flags, stream, payload)


def priority(stream: int, on: int = 0, weight: int = 15) -> bytes:
    return frame(PRIORITY, 0, stream, u32(on) + bytes([weight]))


def rst(stream: int, code: int = CANCEL) -> bytes:
    return frame(RST_STREAM, 0, stream, u32(code))


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(key.to_bytes(2, "big") + u32(value) for key, value in pairs))


def ping(opaque: bytes = b"12345678", flags: int = 0) -> bytes:
    return frame(PING, flags, 0, opaque)


def goaway(last: int = 0, code: int = NO_ERROR, debug: bytes = b"") -> bytes:
    return frame(GOAWAY, 0, 0, u32(last) + u32(code) + debug)


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, u32(increment))


REPLY_HEADERS = b"\x88"
REPLY_TRAILERS = literal(b"x-end", b"1")


class EchoCall:
    """Keeps what it hears; sends the request back when it has ended, unless the path is /hang."""

    def __init__(self, stream: Stream, head: RequestHead) -> None:
        self.stream = stream
        self.head = head
        self.received = bytearray()
        self.chunks = 0
        self.ends = 0
        self.sent_count = 0
        self.gone_count = 0
        self.writable_count = 0

    def data(self, chunk: bytes, end: bool) -> None:
        assert not self.ends, "data after the end"
        assert not self.gone_count, "data after gone"
        self.received += chunk
        self.chunks += bool(chunk)
        self.ends += end
        if end and self.head.path != "/hang":
            self.reply()

    def reply(self) -> None:
        self.stream.reply(REPLY_HEADERS, bytes(self.received), REPLY_TRAILERS)

    def sent(self) -> None:
        assert not self.gone_count, "sent after gone"
        self.sent_count += 1

    def gone(self) -> None:
        assert not self.sent_count, "gone after sent"
        self.gone_count += 1

    def writable(self) -> None:
        self.writable_count += 1


class Echo:
    """A handler that puts an EchoCall on every stream."""

    def __init__(self) -> None:
        self.calls: dict[int, EchoCall] = {}

    def request(self, stream: Stream, head: RequestHead) -> None:
        call = EchoCall(stream, head)
        stream.call = self.calls[stream.id] = call
        if head.path == "/early":
            call.reply()


class Peer:
    """A client at a connection in memory, which an Echo serves unless told otherwise.

    `died` is the code of the error that ended the connection.
    """

    def __init__(
        self,
        announced: Settings | None = None,
        *,
        hello: bytes = PREFACE + settings(),
        handler: Handler | None = None,
    ) -> None:
        self.echo = Echo()
        self.connection = Connection(handler or self.echo, announced)
        self.connection.start()
        self.died: int | None = None
        self.first = self.send(hello)

    @property
    def calls(self) -> dict[int, EchoCall]:
        return self.echo.calls

    def feed(self, *parts: bytes) -> None:
        """Send; what the server writes stays with it."""
        self.connection.feed(b"".join(parts))
        try:
            while self.connection.process(64):
                pass
        except Http2Error as problem:
            self.died = problem.code

    def send(self, *parts: bytes) -> list[Frame]:
        """Send, and read everything that the server writes."""
        self.feed(*parts)
        return self.read()

    def read(self) -> list[Frame]:
        return parse(self.connection.sender.take())

    def still_works(self, stream: int = 0x7FFF_FFFD) -> bool:
        """Whether a PING and a request are answered."""
        out = self.send(ping(b"are you?"), open_headers(stream), data(stream, b"hi"))
        return (
            self.died is None
            and Frame(PING, ACK, 0, b"are you?") in out
            and [(f.kind, f.payload) for f in out if f.stream == stream][1:]
            == [(DATA, b"hi"), (HEADERS, REPLY_TRAILERS)]
        )


def reply(stream: int, body: bytes) -> list[Frame]:
    """The frames of an echo."""
    return [
        Frame(HEADERS, END_HEADERS, stream, REPLY_HEADERS),
        Frame(DATA, 0, stream, body),
        Frame(HEADERS, END_HEADERS | END_STREAM, stream, REPLY_TRAILERS),
    ]


def of_kind(frames: Sequence[Frame], kind: int) -> list[Frame]:
    return [f for f in frames if f.kind == kind]


def body_of(frames: Sequence[Frame], stream: int) -> bytes:
    return b"".join(f.payload for f in frames if f.kind == DATA and f.stream == stream)
