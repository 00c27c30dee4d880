"""The bytes of a gRPC client's HTTP/2: frames and header blocks that are made before the clock starts."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hpack import Encoder, NeverIndexedHeaderTuple

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7, 0x8

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8

INITIAL_WINDOW_SIZE: Final = 0x4
WINDOW_MAX: Final = 2**31 - 1
WINDOW_DEFAULT: Final = 65_535
FRAME_MAX_BYTES: Final = 16_384

HEAD_BYTES: Final = 9
PREFIX_BYTES: Final = 5

# Length and type together, flags, stream.
HEAD: Final = struct.Struct(">IBI")
_SETTING: Final = struct.Struct(">HI")
_WORD: Final = struct.Struct(">I")

# The same for every server, so that what was prepared for one serves for the other.
_AUTHORITY: Final = "localhost"


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def settings(values: Iterable[tuple[int, int]]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in values))


def settings_in(payload: bytes) -> Iterable[tuple[int, int]]:
    return _SETTING.iter_unpack(payload)


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _WORD.pack(increment))


def increment_in(payload: bytes) -> int:
    value: int = _WORD.unpack(payload)[0]
    return value


def message(body: bytes) -> bytes:
    """A gRPC message, uncompressed."""
    return b"\x00" + _WORD.pack(len(body)) + body


def static_block(path: str) -> bytes:
    """A call's header block that leaves the server's dynamic table alone, and so holds at any time."""
    fields = [NeverIndexedHeaderTuple(*pair) for pair in _fields(path)]
    return bytes(Encoder().encode(fields, huffman=False))


def _fields(path: str) -> Sequence[tuple[str, str]]:
    return (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", _AUTHORITY),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", "grpc-bench/1"),
    )


@dataclass(frozen=True, slots=True)
class Calls:
    """Whole unary calls for a connection's streams 1, 3, 5, …: their bytes, and where each ends."""

    data: bytes
    ends: Sequence[int]
    body_bytes: int

    def __len__(self) -> int:
        return len(self.ends)


def prepare_calls(path: str, body: bytes, count: int, *, fresh_timeouts: bool) -> Calls:
    """`count` equal calls of at most one frame each.

    Their headers are indexed as clients do it: written out once, one byte each from then on. With `fresh_timeouts` each
    call also brings a grpc-timeout of its own, incrementally indexed, which moves every other entry of the table.
    """
    encoder = Encoder()
    payload = message(body)
    assert len(payload) <= FRAME_MAX_BYTES, "a prepared call is one frame"
    data, ends = bytearray(), []
    for index in range(count):
        stream = 2 * index + 1
        fields = list(_fields(path))
        if fresh_timeouts:
            fields.append(("grpc-timeout", f"{99_999_999 - index}u"))
        data += frame(HEADERS, END_HEADERS, stream, bytes(encoder.encode(fields)))
        data += frame(DATA, END_STREAM, stream, payload)
        ends.append(len(data))
    return Calls(bytes(data), ends, len(payload))
