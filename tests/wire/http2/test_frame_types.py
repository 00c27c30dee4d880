"""RFC 9113 §6 and §7: each type of frame, its length, its stream, its values."""

import pytest

from tests.wire.http2.peer import (
    ACK,
    CONTINUATION,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    HANG,
    HEADER_TABLE_SIZE,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    PADDED,
    PING,
    POST,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    Frame,
    Peer,
    body_of,
    continuation,
    data,
    frame,
    goaway,
    headers,
    of_kind,
    open_headers,
    ping,
    priority,
    rst,
    settings,
    u32,
    window_update,
)
from tests.wire.http2.rows import TIGHT, Dies, Lives, Resets, Row, check, table

MAX = 2**31 - 1
ALL = END_HEADERS | END_STREAM


def padded(payload: bytes, padding: int, claimed: int | None = None) -> bytes:
    return bytes([padding if claimed is None else claimed]) + payload + bytes(padding)


DATA_ROWS = (
    Row("6.1", "on stream 0", data(0, b"x"), Dies(PROTOCOL_ERROR)),
    Row("6.1", "padded", open_headers(1) + data(1, padded(b"x", 9), PADDED | END_STREAM), Lives((1,))),
    Row("6.1", "padding of no bytes", open_headers(1) + data(1, padded(b"x", 0), PADDED | END_STREAM), Lives((1,))),
    Row("6.1", "only padding", open_headers(1) + data(1, padded(b"", 255), PADDED | END_STREAM), Lives((1,))),
    Row("6.1", "padding that isn't zero", open_headers(1) + data(1, b"\2x\xff\xff", PADDED | END_STREAM), Lives((1,))),
    Row("6.1", "padding as long as the frame", open_headers(1) + data(1, b"\4xyz", PADDED), Dies(PROTOCOL_ERROR, 1)),
    Row("6.1", "padding longer than the frame", open_headers(1) + data(1, b"\xffxy", PADDED), Dies(PROTOCOL_ERROR, 1)),
    Row("6.1", "no room for the padding's length", open_headers(1) + data(1, b"", PADDED), Dies(FRAME_SIZE_ERROR, 1)),
    Row("6.1", "empty DATA without end", open_headers(1) + data(1, b"", 0) * 50 + data(1), Lives((1,))),
)

HEADERS_ROWS = (
    Row("6.2", "padded", headers(1, padded(POST, 7), ALL | PADDED), Lives((1,))),
    Row("6.2", "with priority", headers(1, u32(0) + b"\xff" + POST, ALL | WITH_PRIORITY), Lives((1,))),
    Row("6.2", "with an exclusive priority", headers(3, u32(0x8000_0001) + b"\0" + POST, ALL | WITH_PRIORITY),
        Lives((3,))),
    Row("6.2", "padded with priority", headers(1, padded(u32(0) + b"\0" + POST, 3), ALL | PADDED | WITH_PRIORITY),
        Lives((1,))),
    Row("6.2", "padded over CONTINUATION", headers(1, padded(POST[:9], 3), END_STREAM | PADDED)
        + continuation(1, POST[9:]), Lives((1,))),
    Row("6.2", "padding as long as the frame", headers(1, b"\1", ALL | PADDED), Dies(PROTOCOL_ERROR)),
    Row("6.2", "padding longer than the frame", headers(1, padded(POST, 0, 255), ALL | PADDED), Dies(PROTOCOL_ERROR)),
    Row("6.2", "padding that eats the priority",
        headers(1, padded(u32(0) + b"\0" + POST, 0, len(POST) + 3), ALL | PADDED | WITH_PRIORITY),
        Dies(PROTOCOL_ERROR)),
    Row("6.2", "no room for the padding's length", headers(1, b"", ALL | PADDED), Dies(FRAME_SIZE_ERROR)),
    Row("6.2", "no room for the priority", headers(1, b"\0\0\0\0", ALL | WITH_PRIORITY), Dies(FRAME_SIZE_ERROR)),
    Row("6.2", "no room for both", headers(1, bytes(5), ALL | PADDED | WITH_PRIORITY), Dies(FRAME_SIZE_ERROR)),
    Row("6.2", "a stream that depends on itself", headers(1, u32(1) + b"\0" + POST, ALL | WITH_PRIORITY),
        Resets(PROTOCOL_ERROR)),
    Row("6.2", "trailers that depend on their stream",
        open_headers(1) + headers(1, u32(1) + b"\0", ALL | WITH_PRIORITY), Resets(PROTOCOL_ERROR)),
    Row("6.2", "an empty block", headers(1, b""), Resets(PROTOCOL_ERROR)),
)  # fmt: skip

PRIORITY_ROWS = (
    Row("6.3", "on stream 0", priority(0), Dies(PROTOCOL_ERROR)),
    Row("6.3", "4 bytes, open stream", headers(1, HANG) + frame(PRIORITY, 0, 1, bytes(4)), Resets(FRAME_SIZE_ERROR)),
    Row("6.3", "6 bytes, open stream", headers(1, HANG) + frame(PRIORITY, 0, 1, bytes(6)), Resets(FRAME_SIZE_ERROR)),
    Row("6.3", "4 bytes, stream that was", headers(1) + frame(PRIORITY, 0, 1, bytes(4)), Resets(FRAME_SIZE_ERROR)),
    Row("6.3", "4 bytes, idle stream: nothing to reset", frame(PRIORITY, 0, 1, bytes(4)), Dies(FRAME_SIZE_ERROR)),
    Row("6.3", "depends on itself", headers(1, HANG) + priority(1, 1), Resets(PROTOCOL_ERROR)),
    Row("6.3", "depends on itself, exclusively", headers(1, HANG) + priority(1, 0x8000_0001), Resets(PROTOCOL_ERROR)),
    Row("6.3", "depends on itself, idle stream", priority(1, 1), Dies(PROTOCOL_ERROR)),
    Row("6.3", "a stream of the server's", priority(2, 0), Lives()),
)

RST_ROWS = (
    Row("6.4", "on stream 0", rst(0), Dies(PROTOCOL_ERROR)),
    Row("6.4", "3 bytes", headers(1, HANG) + frame(RST_STREAM, 0, 1, bytes(3)), Dies(FRAME_SIZE_ERROR, 1)),
    Row("6.4", "5 bytes", headers(1, HANG) + frame(RST_STREAM, 0, 1, bytes(5)), Dies(FRAME_SIZE_ERROR, 1)),
    Row("6.4", "twice", headers(1, HANG) + rst(1) + rst(1), Lives()),
    Row("7", "an unknown error code", headers(1, HANG) + rst(1, 0xFFFF_FFFF), Lives()),
)

SETTINGS_ROWS = (
    Row("6.5", "on a stream", frame(SETTINGS, 0, 1), Dies(PROTOCOL_ERROR)),
    Row("6.5", "an ACK on a stream", frame(SETTINGS, ACK, 1), Dies(PROTOCOL_ERROR)),
    Row("6.5", "an ACK with a payload", frame(SETTINGS, ACK, 0, bytes(6)), Dies(FRAME_SIZE_ERROR)),
    Row("6.5", "an ACK", frame(SETTINGS, ACK), Lives()),
    Row("6.5", "an ACK too many", frame(SETTINGS, ACK) * 3, Lives()),
    Row("6.5", "5 bytes", frame(SETTINGS, 0, 0, bytes(5)), Dies(FRAME_SIZE_ERROR)),
    Row("6.5", "7 bytes", frame(SETTINGS, 0, 0, bytes(7)), Dies(FRAME_SIZE_ERROR)),
    Row("6.5.2", "unknown ids", settings((0, 1), (7, 1), (0xFE03, 1), (0xFFFF, 2**32 - 1)), Lives()),
    Row("6.5.2", "HEADER_TABLE_SIZE at its extremes", settings((HEADER_TABLE_SIZE, 0))
        + settings((HEADER_TABLE_SIZE, 2**32 - 1)), Lives()),
    Row("6.5.2", "ENABLE_PUSH 0 and 1", settings((ENABLE_PUSH, 0), (ENABLE_PUSH, 1)), Lives()),
    Row("6.5.2", "ENABLE_PUSH 2", settings((ENABLE_PUSH, 2)), Dies(PROTOCOL_ERROR)),
    Row("6.5.2", "MAX_CONCURRENT_STREAMS 0", settings((MAX_CONCURRENT_STREAMS, 0)), Lives()),
    Row("6.5.2", "INITIAL_WINDOW_SIZE 2^31-1", settings((INITIAL_WINDOW_SIZE, MAX)), Lives()),
    Row("6.5.2", "INITIAL_WINDOW_SIZE 2^31", settings((INITIAL_WINDOW_SIZE, MAX + 1)), Dies(FLOW_CONTROL_ERROR)),
    Row("6.5.2", "INITIAL_WINDOW_SIZE 2^31, mended at once",
        settings((INITIAL_WINDOW_SIZE, MAX + 1), (INITIAL_WINDOW_SIZE, 1)), Dies(FLOW_CONTROL_ERROR)),
    Row("6.5.2", "MAX_FRAME_SIZE 16,383", settings((MAX_FRAME_SIZE, 16_383)), Dies(PROTOCOL_ERROR)),
    Row("6.5.2", "MAX_FRAME_SIZE 16,384", settings((MAX_FRAME_SIZE, 16_384)), Lives()),
    Row("6.5.2", "MAX_FRAME_SIZE 2^24-1", settings((MAX_FRAME_SIZE, 2**24 - 1)), Lives()),
    Row("6.5.2", "MAX_FRAME_SIZE 2^24", settings((MAX_FRAME_SIZE, 2**24)), Dies(PROTOCOL_ERROR)),
    Row("6.5.2", "MAX_HEADER_LIST_SIZE 0", settings((MAX_HEADER_LIST_SIZE, 0)), Lives()),
    Row("6.5.3", "one id many times: the last counts", settings(*((INITIAL_WINDOW_SIZE, n) for n in (0, 9, 65_535))),
        Lives()),
)  # fmt: skip

OTHER_ROWS = (
    Row("6.6", "PUSH_PROMISE from a client", frame(PUSH_PROMISE, END_HEADERS, 1, u32(2)), Dies(PROTOCOL_ERROR)),
    Row("6.6", "PUSH_PROMISE on an open stream", headers(1, HANG) + frame(PUSH_PROMISE, 4, 1, u32(2) + POST),
        Dies(PROTOCOL_ERROR, 1)),
    Row("6.7", "PING on a stream", frame(PING, 0, 1, bytes(8)), Dies(PROTOCOL_ERROR)),
    Row("6.7", "PING of 7 bytes", ping(bytes(7)), Dies(FRAME_SIZE_ERROR)),
    Row("6.7", "PING of 9 bytes", ping(bytes(9)), Dies(FRAME_SIZE_ERROR)),
    Row("6.7", "empty PING", ping(b""), Dies(FRAME_SIZE_ERROR)),
    Row("6.7", "a PING ACK that nobody asked for", ping(flags=ACK), Lives()),
    Row("6.8", "GOAWAY on a stream", frame(7, 0, 1, bytes(8)), Dies(PROTOCOL_ERROR)),
    Row("6.8", "GOAWAY of 7 bytes", frame(7, 0, 0, bytes(7)), Dies(FRAME_SIZE_ERROR)),
    Row("6.8", "GOAWAY with debug data", goaway(0, 0, b"bye"), Lives()),
    Row("6.8", "GOAWAY: what is open is finished", open_headers(1) + goaway() + data(1), Lives((1,))),
    Row("7", "GOAWAY with an unknown code", goaway(0, 0xFFFF_FFFF), Lives()),
    Row("6.10", "CONTINUATION without HEADERS", continuation(1, POST), Dies(PROTOCOL_ERROR)),
    Row("6.10", "CONTINUATION on stream 0", continuation(0, POST), Dies(PROTOCOL_ERROR)),
    Row("6.10", "CONTINUATION after END_HEADERS", open_headers(1) + continuation(1, b""), Dies(PROTOCOL_ERROR, 1)),
    Row("6.10", "CONTINUATION after CONTINUATION with END_HEADERS",
        headers(1, POST, 1) + continuation(1, b"") * 2, Dies(PROTOCOL_ERROR, 1)),
    Row("6.10", "CONTINUATION after DATA", open_headers(1, HANG) + data(1, b"x") + continuation(1, b""),
        Dies(PROTOCOL_ERROR, 1)),
    Row("6.10", "empty CONTINUATION", headers(1, POST, 1) + frame(CONTINUATION, 0, 1) * 9 + continuation(1, b""),
        Lives((1,))),
    Row("6.10", "trailers over CONTINUATION", open_headers(1) + headers(1, b"", 1) + continuation(1, b""),
        Lives((1,))),
)  # fmt: skip

WINDOW_ROWS = (
    Row("6.9", "0 on the connection", window_update(0, 0), Dies(PROTOCOL_ERROR)),
    Row("6.9", "0 on the connection but for the reserved bit", window_update(0, MAX + 1), Dies(PROTOCOL_ERROR)),
    Row("6.9", "0 on a stream", headers(1, HANG) + window_update(1, 0), Resets(PROTOCOL_ERROR)),
    Row("6.9", "3 bytes", frame(WINDOW_UPDATE, 0, 0, bytes(3)), Dies(FRAME_SIZE_ERROR)),
    Row("6.9", "5 bytes on a stream", headers(1, HANG) + frame(WINDOW_UPDATE, 0, 1, bytes(5)),
        Dies(FRAME_SIZE_ERROR, 1)),
    Row("6.9", "the reserved bit", window_update(0, 0x8000_0001), Lives()),
    Row("6.9.1", "the connection's window up to 2^31-1", window_update(0, MAX - 65_535), Lives()),
    Row("6.9.1", "the connection's window beyond it", window_update(0, MAX - 65_534), Dies(FLOW_CONTROL_ERROR)),
    Row("6.9.1", "the connection's window beyond it in two", window_update(0, MAX - 70_000) + window_update(0, 9_999),
        Dies(FLOW_CONTROL_ERROR)),
    Row("6.9.1", "a stream's window up to 2^31-1", headers(1, HANG) + window_update(1, MAX - 65_535), Lives()),
    Row("6.9.1", "a stream's window beyond it", headers(1, HANG) + window_update(1, MAX - 65_534),
        Resets(FLOW_CONTROL_ERROR)),
    Row("6.9.1", "more data than a stream's window", open_headers(1) + data(1, bytes(101)),
        Resets(FLOW_CONTROL_ERROR), announced=TIGHT),
    Row("6.9.1", "padding counts", open_headers(1) + data(1, padded(b"", 100), PADDED),
        Resets(FLOW_CONTROL_ERROR), announced=TIGHT),
    Row("6.9.1", "as much data as a stream's window", open_headers(1) + data(1, bytes(100), 0) + data(1, bytes(100)),
        Lives((1,)), announced=TIGHT),
    Row("6.9.1", "more data than the connection's window", open_headers(1) + data(1, bytes(65_536)),
        Dies(FLOW_CONTROL_ERROR, 1), announced=TIGHT),
    Row("6.9.1", "more than the connection's window for a stream that was",
        open_headers(1, HANG) + rst(1) + data(1, bytes(65_536)), Dies(FLOW_CONTROL_ERROR, 1), announced=TIGHT),
    Row("6.9.2", "INITIAL_WINDOW_SIZE lifts a stream's window beyond 2^31-1",
        headers(1, HANG) + window_update(1, 1) + settings((INITIAL_WINDOW_SIZE, MAX)), Dies(FLOW_CONTROL_ERROR, 1)),
    Row("6.9.2", "INITIAL_WINDOW_SIZE lifts a stream's window to it",
        headers(1, HANG) + settings((INITIAL_WINDOW_SIZE, MAX)), Lives()),
    Row("6.9.2", "INITIAL_WINDOW_SIZE does not touch the connection's",
        window_update(0, MAX - 65_535) + settings((INITIAL_WINDOW_SIZE, MAX)), Lives()),
)  # fmt: skip


@table(*DATA_ROWS)
def test_data(row: Row) -> None:
    check(row)


@table(*HEADERS_ROWS)
def test_headers(row: Row) -> None:
    check(row)


@table(*PRIORITY_ROWS)
def test_priority(row: Row) -> None:
    check(row)


@table(*RST_ROWS)
def test_rst_stream(row: Row) -> None:
    check(row)


@pytest.mark.rule("T19")
@table(*SETTINGS_ROWS)
def test_settings(row: Row) -> None:
    check(row)


@table(*OTHER_ROWS)
def test_push_promise_ping_goaway_and_continuation(row: Row) -> None:
    check(row)


@pytest.mark.rule("T27")
@table(*WINDOW_ROWS)
def test_window_update_and_flow_control(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("padding", [0, 1, 255])
def test_padding_is_no_part_of_the_body(padding: int) -> None:
    peer = Peer()
    out = peer.send(open_headers(1), data(1, padded(b"body", padding), PADDED | END_STREAM))
    assert body_of(out, 1) == b"body"


def test_each_settings_frame_is_acknowledged_once() -> None:
    peer = Peer()
    out = peer.send(settings(), settings((9, 9)), frame(SETTINGS, ACK))
    assert out == [Frame(SETTINGS, ACK, 0, b"")] * 2


def test_a_ping_comes_back_as_it_was() -> None:
    peer = Peer()
    assert peer.send(ping(b"\0\xff ping!")) == [Frame(PING, ACK, 0, b"\0\xff ping!")]


def test_our_own_ping_is_heard_of() -> None:
    peer = Peer()
    heard: list[bytes] = []
    peer.connection.on_ping_ack = heard.append
    peer.send(ping(b"goodbye!", ACK), ping(b"12345678"))
    assert heard == [b"goodbye!"]


def test_a_goaway_names_the_last_stream_even_in_the_middle_of_one() -> None:
    peer = Peer()
    out = peer.send(open_headers(1, HANG), open_headers(3, HANG), data(1, b"x", 0), ping(b""))
    assert [f.number for f in of_kind(out, 7)] == [3]
