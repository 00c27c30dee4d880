"""RFC 9113 §3 to §5: the preface, frames, and what each state of a stream admits."""

import pytest

from emulator.wire.http2.settings import Settings
from tests.wire.http2.peer import (
    ACK,
    COMPRESSION_ERROR,
    CONTINUATION,
    EARLY,
    END_HEADERS,
    END_STREAM,
    FRAME_SIZE_ERROR,
    HANG,
    HEADERS,
    POST,
    PREFACE,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    STREAM_CLOSED,
    block,
    continuation,
    data,
    frame,
    goaway,
    headers,
    open_headers,
    ping,
    priority,
    request_fields,
    rst,
    settings,
    u32,
    window_update,
)
from tests.wire.http2.rows import Dies, Lives, Resets, Row, check, table

BARE = b""
UNKNOWN = 0xBE

OPENING = (
    Row("3.4", "a wrong preface", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", Dies(PROTOCOL_ERROR), hello=BARE),
    Row("3.4", "an HTTP/1.1 request", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", Dies(PROTOCOL_ERROR), hello=BARE),
    Row("3.4", "HEADERS before SETTINGS", headers(1), Dies(PROTOCOL_ERROR), hello=PREFACE),
    Row("3.4", "DATA before SETTINGS", data(1, b"x"), Dies(PROTOCOL_ERROR), hello=PREFACE),
    Row("3.4", "PING before SETTINGS", ping(), Dies(PROTOCOL_ERROR), hello=PREFACE),
    Row("3.4", "WINDOW_UPDATE before SETTINGS", window_update(0, 1), Dies(PROTOCOL_ERROR), hello=PREFACE),
    Row("3.4", "GOAWAY before SETTINGS", goaway(), Dies(PROTOCOL_ERROR), hello=PREFACE),
    Row("3.4", "an unknown type before SETTINGS", frame(UNKNOWN), Dies(PROTOCOL_ERROR), hello=PREFACE),
    Row("3.4", "an ACK before SETTINGS", frame(4, ACK), Dies(PROTOCOL_ERROR), hello=PREFACE),
    Row("3.4", "empty SETTINGS, then at once a request", PREFACE + settings() + headers(1), Lives((1,)), hello=BARE),
    Row("3.4", "SETTINGS of every known id", settings(*((k, 16_384 * (k != 2)) for k in range(1, 7))), Lives()),
)

FRAMES = (
    Row("4.1", "an unknown type on the connection", frame(UNKNOWN, 0xFF, 0, b"anything"), Lives()),
    Row("4.1", "an unknown type on an idle stream", frame(UNKNOWN, 0, 7, b"x"), Lives()),
    Row("4.1", "an unknown type on a server's stream", frame(UNKNOWN, 0, 2, b"x"), Lives()),
    Row(
        "4.1",
        "an unknown type on an open stream",
        open_headers(1) + frame(UNKNOWN, 1, 1, b"x") + data(1, b"x"),
        Lives((1,)),
    ),
    Row("4.1", "the ALTSVC and ORIGIN types", frame(0xA, 0, 0, b"\0\0") + frame(0xC), Lives()),
    Row("4.1", "the reserved bit of HEADERS' stream", frame(HEADERS, 5, 0x8000_0001, POST), Lives((1,))),
    Row("4.1", "the reserved bit of PING's stream", frame(6, 0, 0x8000_0000, b"12345678"), Lives()),
    Row("4.1", "undefined flags of HEADERS", headers(1, flags=0xD2 | END_HEADERS | END_STREAM), Lives((1,))),
    Row("4.1", "undefined flags of DATA", open_headers(1) + data(1, b"x", 0xF6 | END_STREAM), Lives((1,))),
    Row("4.1", "undefined flags of CONTINUATION", headers(1, POST, 1) + continuation(1, b"", 0xFF), Lives((1,))),
    Row("4.1", "undefined flags of PRIORITY", frame(2, 0xFF, 1, u32(0) + b"\x0f"), Lives()),
    Row("4.1", "undefined flags of RST_STREAM", headers(1, HANG) + frame(3, 0xFF, 1, u32(8)), Lives()),
    Row("4.1", "undefined flags of SETTINGS", frame(4, 0xFE), Lives()),
    Row("4.1", "undefined flags of PING", ping(flags=0xFE), Lives()),
    Row("4.1", "undefined flags of GOAWAY", frame(7, 0xFF, 0, bytes(8)), Lives()),
    Row("4.1", "undefined flags of WINDOW_UPDATE", frame(8, 0xFF, 0, u32(1)), Lives()),
    Row("4.2", "DATA of 16,384 bytes", open_headers(1) + data(1, bytes(16_384)), Lives((1,))),
    Row("4.2", "DATA of 16,385 bytes", open_headers(1) + data(1, bytes(16_385)), Dies(FRAME_SIZE_ERROR, 1)),
    Row("4.2", "HEADERS of 16,385 bytes", headers(1, bytes(16_385)), Dies(FRAME_SIZE_ERROR)),
    Row("4.2", "SETTINGS of 16,386 bytes", settings(*[(9, 9)] * 2_731), Dies(FRAME_SIZE_ERROR)),
    Row("4.2", "SETTINGS of 16,380 bytes", settings(*[(9, 9)] * 2_730), Lives()),
    Row("4.2", "an unknown frame of 16,385 bytes", frame(UNKNOWN, payload=bytes(16_385)), Dies(FRAME_SIZE_ERROR)),
    Row("4.2", "a frame that only announces 2^24-1 bytes", b"\xff\xff\xff\0\0\0\0\0\1", Dies(FRAME_SIZE_ERROR)),
    Row(
        "4.2",
        "a larger size that the server announced",
        open_headers(1) + data(1, bytes(20_000)),
        Lives((1,)),
        announced=Settings(max_frame_size=20_000),
    ),
    Row("4.3", "a block that can't be decoded", headers(1, b"\x80"), Dies(COMPRESSION_ERROR, 1)),
    Row("4.3", "undecodable trailers", open_headers(1) + headers(1, b"\x80"), Dies(COMPRESSION_ERROR, 1)),
    Row(
        "4.3",
        "an undecodable block of a stream that had ended",
        headers(1, EARLY) + headers(1, b"\x80"),
        Dies(COMPRESSION_ERROR, 1),
    ),
    Row("4.3", "an undecodable block that took two frames", headers(1, b"", 1) + continuation(1, b"\x80"),
        Dies(COMPRESSION_ERROR, 1)),
    *(
        Row("4.3", f"{name} within a block", headers(1, POST[:9], END_STREAM) + inside, Dies(PROTOCOL_ERROR))
        for name, inside in {
            "HEADERS of the same stream": headers(1, POST[9:]),
            "HEADERS of another stream": headers(3),
            "DATA": data(1, b"x"),
            "PRIORITY": priority(1),
            "RST_STREAM": rst(1),
            "SETTINGS": settings(),
            "a SETTINGS ACK": frame(4, ACK),
            "PING": ping(),
            "GOAWAY": goaway(),
            "WINDOW_UPDATE": window_update(0, 1),
            "CONTINUATION of another stream": continuation(3, POST[9:]),
            "CONTINUATION of stream 0": continuation(0, POST[9:]),
            "an unknown type": frame(UNKNOWN),
        }.items()
    ),
)  # fmt: skip

_OPEN = open_headers(1)
_HALF_CLOSED = headers(1, HANG)
_ENDED = headers(1)
_RESET_BY_PEER = headers(1, HANG) + rst(1)
_RESET_BY_US = headers(1, b"")
_ENDED_BY_US = open_headers(1, EARLY)

STATES = (
    Row("5.1", "idle: DATA", data(1, b"x"), Dies(PROTOCOL_ERROR)),
    Row("5.1", "idle: RST_STREAM", rst(1), Dies(PROTOCOL_ERROR)),
    Row("5.1", "idle: WINDOW_UPDATE", window_update(1, 1), Dies(PROTOCOL_ERROR)),
    Row("5.1", "idle: CONTINUATION", continuation(1, POST), Dies(PROTOCOL_ERROR)),
    Row("5.1", "idle: PRIORITY", priority(1, 3) + headers(1), Lives((1,))),
    Row("5.1", "idle, above an open one: DATA", _OPEN + data(3, b"x"), Dies(PROTOCOL_ERROR, 1)),
    Row("5.1", "open: WINDOW_UPDATE and PRIORITY", _OPEN + window_update(1, 9) + priority(1) + data(1), Lives((1,))),
    Row("5.1", "open: RST_STREAM", _OPEN + rst(1), Lives()),
    Row("5.1", "half-closed: DATA", _HALF_CLOSED + data(1, b"x"), Resets(STREAM_CLOSED)),
    Row("5.1", "half-closed: empty DATA", _HALF_CLOSED + data(1), Resets(STREAM_CLOSED)),
    Row("5.1", "half-closed: HEADERS", _HALF_CLOSED + headers(1), Resets(STREAM_CLOSED)),
    Row("5.1", "half-closed: CONTINUATION", _HALF_CLOSED + continuation(1, POST), Dies(PROTOCOL_ERROR, 1)),
    Row("5.1", "half-closed: WINDOW_UPDATE", _HALF_CLOSED + window_update(1, 1), Lives()),
    Row("5.1", "half-closed: PRIORITY", _HALF_CLOSED + priority(1), Lives()),
    Row("5.1", "half-closed: RST_STREAM", _HALF_CLOSED + rst(1), Lives()),
    Row("5.1", "half-closed: an unknown type", _HALF_CLOSED + frame(UNKNOWN, 0, 1, b"x"), Lives()),
    Row("5.1", "ended by both: DATA", _ENDED + data(1, b"x"), Dies(STREAM_CLOSED, 1)),
    Row("5.1", "ended by both: HEADERS", _ENDED + headers(1), Dies(STREAM_CLOSED, 1)),
    Row("5.1", "ended by both: CONTINUATION", _ENDED + continuation(1, POST), Dies(PROTOCOL_ERROR, 1)),
    Row("5.1", "ended by both: WINDOW_UPDATE", _ENDED + window_update(1, 1), Lives((1,))),
    Row("5.1", "ended by both: WINDOW_UPDATE of 0", _ENDED + window_update(1, 0), Lives((1,))),
    Row("5.1", "ended by both: RST_STREAM", _ENDED + rst(1), Lives((1,))),
    Row("5.1", "ended by both: PRIORITY", _ENDED + priority(1), Lives((1,))),
    Row("5.1", "reset by the peer: DATA", _RESET_BY_PEER + data(1, b"x"), Resets(STREAM_CLOSED)),
    Row("5.1", "reset by the peer: DATA twice", _RESET_BY_PEER + data(1, b"x", 0) * 2, Resets(STREAM_CLOSED)),
    Row("5.1", "reset by the peer: HEADERS", _RESET_BY_PEER + headers(1), Resets(STREAM_CLOSED)),
    Row("5.1", "reset by the peer: CONTINUATION", _RESET_BY_PEER + continuation(1, b""), Dies(PROTOCOL_ERROR, 1)),
    Row("5.1", "reset by the peer: WINDOW_UPDATE", _RESET_BY_PEER + window_update(1, 1), Lives()),
    Row("5.1", "reset by the peer: PRIORITY", _RESET_BY_PEER + priority(1), Lives()),
    Row("5.1", "reset by the peer: RST_STREAM", _RESET_BY_PEER + rst(1), Lives()),
    *(
        Row("5.1", f"reset by the server: {name}", _RESET_BY_US + late, Resets(PROTOCOL_ERROR))
        for name, late in {
            "DATA": data(1, b"x", 0) + data(1, b"x"),
            "HEADERS": headers(1),
            "WINDOW_UPDATE": window_update(1, 1),
            "PRIORITY": priority(1),
            "RST_STREAM": rst(1),
        }.items()
    ),
    *(
        Row("5.1", f"ended by the server: {name}", _ENDED_BY_US + late, Lives((1,)))
        for name, late in {
            "DATA": data(1, b"x", 0) + data(1, b"x"),
            "trailers": headers(1, block([(b"a", b"b")])),
            "WINDOW_UPDATE": window_update(1, 1),
            "PRIORITY": priority(1),
            "RST_STREAM": rst(1),
        }.items()
    ),
)

IDS = (
    Row("5.1.1", "HEADERS on stream 0", headers(0), Dies(PROTOCOL_ERROR)),
    Row("5.1.1", "HEADERS on an even stream", headers(2), Dies(PROTOCOL_ERROR)),
    Row("5.1.1", "HEADERS on an even stream below used ones", headers(5) + headers(2), Dies(PROTOCOL_ERROR, 5)),
    Row("5.1.1", "DATA on an even stream below used ones", headers(5) + data(2, b"x"), Dies(PROTOCOL_ERROR, 5)),
    Row("5.1.1", "WINDOW_UPDATE on an even stream", headers(5) + window_update(2, 1), Dies(PROTOCOL_ERROR, 5)),
    Row("5.1.1", "RST_STREAM on an even stream", headers(5) + rst(2), Dies(PROTOCOL_ERROR, 5)),
    Row("5.1.1", "the first stream is not 1", headers(13) + headers(15), Lives((13, 15))),
    Row("5.1.1", "stream 1 after 3", headers(3) + headers(1), Dies(PROTOCOL_ERROR, 3)),
    Row("5.1.1", "stream 3 after 1 and 5", headers(1) + headers(5) + headers(3), Dies(PROTOCOL_ERROR, 5)),
    Row("5.1.1", "DATA on a skipped stream", headers(5) + data(3, b"x"), Dies(PROTOCOL_ERROR, 5)),
    Row("5.1.1", "RST_STREAM on a skipped stream", headers(5) + rst(3), Lives((5,))),
    Row("5.1.1", "WINDOW_UPDATE on a skipped stream", headers(5) + window_update(3, 1), Lives((5,))),
    Row("5.1.1", "PRIORITY on a skipped stream", headers(5) + priority(3), Lives((5,))),
    Row("5.1.1", "2^30 ids skipped at once", headers(0x4000_0001) + headers(0x4000_0003),
        Lives((0x4000_0001, 0x4000_0003))),
    Row("5.1.2", "one stream more than announced", headers(1, HANG) + headers(3, HANG) + headers(5) + rst(3),
        Resets(REFUSED_STREAM, 5), announced=Settings(max_concurrent_streams=2)),
    Row("5.1.2", "as many as announced, one after the other", b"".join(headers(i) for i in (1, 3, 5)),
        Lives((1, 3, 5)), announced=Settings(max_concurrent_streams=1)),
    Row("5.1.2", "a reset stream does not count", headers(1, HANG) + rst(1) + headers(3), Lives((3,)),
        announced=Settings(max_concurrent_streams=1)),
    Row("5.1.2", "a stream that the server ended early does not count", open_headers(1, EARLY) + headers(3),
        Lives((1, 3)), announced=Settings(max_concurrent_streams=1)),
    Row("5.1.2", "a refused stream's DATA is ignored", headers(1, HANG) + open_headers(3) + data(3, bytes(999), 0) * 2
        + headers(3) + rst(1), Resets(REFUSED_STREAM, 3), announced=Settings(max_concurrent_streams=1)),
    Row("5.5", "an extension's setting", settings((0xFE03, 1), (0x8, 1)), Lives()),
)  # fmt: skip


@pytest.mark.rule("T18")
@table(*OPENING)
def test_opening(row: Row) -> None:
    check(row)


@pytest.mark.rule("T19")
@table(*FRAMES)
def test_frames(row: Row) -> None:
    check(row)


@pytest.mark.rule("T23", "T24")
@table(*STATES)
def test_stream_states(row: Row) -> None:
    check(row)


@pytest.mark.rule("T32")
@table(*IDS)
def test_stream_ids_and_their_number(row: Row) -> None:
    check(row)


@pytest.mark.rule("T27")
@pytest.mark.parametrize("cut", range(len(POST) + 1))
def test_a_block_may_be_cut_anywhere(cut: int) -> None:
    check(
        Row("6.10", f"cut at {cut}", headers(1, POST[:cut], END_STREAM) + continuation(1, POST[cut:]), Lives((1,))),
    )


@pytest.mark.rule("T27")
def test_a_block_in_frames_of_one_byte() -> None:
    fragments = block(request_fields(b"/", (b"x", b"y")))
    sent = headers(1, b"", END_STREAM) + b"".join(
        frame(CONTINUATION, END_HEADERS if at == len(fragments) - 1 else 0, 1, fragments[at : at + 1])
        for at in range(len(fragments))
    )
    check(Row("6.10", "byte by byte", sent, Lives((1,))))
