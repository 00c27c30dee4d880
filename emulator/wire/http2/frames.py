"""Frames on the wire: numbers of RFC 9113 §6 and §7, and the bytes of the frames that a server sends."""

import struct
from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
WITH_PRIORITY: Final = 0x20

HEADER_BYTES: Final = 9
DEFAULT_WINDOW: Final = 65_535
MAX_WINDOW: Final = 2**31 - 1
MAX_STREAM_ID: Final = 2**31 - 1
MIN_MAX_FRAME_SIZE: Final = 16_384
MAX_MAX_FRAME_SIZE: Final = 2**24 - 1


class ErrorCode(IntEnum):
    """RFC 9113 §7."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class Setting(IntEnum):
    """RFC 9113 §6.5.2."""

    HEADER_TABLE_SIZE = 0x1
    ENABLE_PUSH = 0x2
    MAX_CONCURRENT_STREAMS = 0x3
    INITIAL_WINDOW_SIZE = 0x4
    MAX_FRAME_SIZE = 0x5
    MAX_HEADER_LIST_SIZE = 0x6


class Http2Error(Exception):
    """The peer broke the protocol in a way that ends the connection."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __repr__(self) -> str:
        return f"<Http2Error {self.code.name} {self}>"


class StreamError(Exception):
    """The peer broke the protocol in a way that ends one stream."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __repr__(self) -> str:
        return f"<StreamError {self.code.name} {self}>"


# Length (16 high and 8 low bits), type, flags, stream id.
_HEAD = struct.Struct(">HBBBL")
_U32 = struct.Struct(">L")
_SETTING = struct.Struct(">HL")

_HEADERS_BEGIN: Final = bytes((HEADERS, END_HEADERS))
_HEADERS_END: Final = bytes((HEADERS, END_HEADERS | END_STREAM))
_DATA_GOES_ON: Final = bytes((DATA, 0))

unpack_head = _HEAD.unpack_from
unpack_u32 = _U32.unpack_from
iter_settings = _SETTING.iter_unpack


def frame(kind: int, flags: int, stream_id: int, payload: bytes | memoryview = b"") -> bytes:
    length = len(payload)
    return _HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream_id) + payload


def settings(values: dict[Setting, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(key, value) for key, value in values.items()))


SETTINGS_ACK: Final = frame(SETTINGS, ACK, 0)


def window_update(stream_id: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, _U32.pack(increment))


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    return frame(RST_STREAM, 0, stream_id, _U32.pack(code))


def ping(opaque: bytes, *, ack: bool) -> bytes:
    return frame(PING, ACK if ack else 0, 0, opaque)


def goaway(last_stream_id: int, code: ErrorCode) -> bytes:
    return frame(GOAWAY, 0, 0, _U32.pack(last_stream_id) + _U32.pack(code))


def headers(stream_id: int, block: bytes, max_frame_size: int, *, end_stream: bool) -> bytes:
    """HEADERS, and CONTINUATION where one frame doesn't hold the block."""
    flags = END_STREAM if end_stream else 0
    if len(block) <= max_frame_size:
        return frame(HEADERS, flags | END_HEADERS, stream_id, block)
    parts = [block[start : start + max_frame_size] for start in range(0, len(block), max_frame_size)]
    out = [frame(HEADERS, flags, stream_id, parts[0])]
    out += [frame(CONTINUATION, 0, stream_id, part) for part in parts[1:-1]]
    out.append(frame(CONTINUATION, END_HEADERS, stream_id, parts[-1]))
    return b"".join(out)


def reply(stream_id: int, headers: bytes, data: bytes, trailers: bytes) -> bytes:
    """HEADERS, DATA and the HEADERS that end the stream, each in one frame."""
    stream = stream_id.to_bytes(4, "big")
    return b"".join(
        (
            len(headers).to_bytes(3, "big"),
            _HEADERS_BEGIN,
            stream,
            headers,
            len(data).to_bytes(3, "big"),
            _DATA_GOES_ON,
            stream,
            data,
            len(trailers).to_bytes(3, "big"),
            _HEADERS_END,
            stream,
            trailers,
        )
    )


def strip_padding(payload: bytes) -> bytes:
    """A padded DATA or HEADERS payload without its padding; raises Http2Error."""
    if not payload:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a padded frame without its padding's length")
    if payload[0] >= len(payload):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "padding longer than the frame")
    return payload[1 : len(payload) - payload[0]]


def strip_priority(payload: bytes, flags: int) -> tuple[int, bytes]:
    """The stream that a HEADERS payload says it depends on (-1: it doesn't say), and its fragment of the block.

    `flags` are those of the frame. Raises Http2Error.
    """
    if len(payload) < bool(flags & PADDED) + (5 if flags & WITH_PRIORITY else 0):
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "HEADERS too short for its flags")
    if flags & PADDED:
        payload = strip_padding(payload)
    if not flags & WITH_PRIORITY:
        return -1, payload
    if len(payload) < 5:
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "padding longer than the fragment")
    return depends_on(payload), payload[5:]


def depends_on(priority: bytes) -> int:
    """The stream that a priority depends on, without its exclusive bit."""
    return int(unpack_u32(priority)[0]) & MAX_STREAM_ID
