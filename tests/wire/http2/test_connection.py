"""A connection from its start to its end: requests in every shape, GOAWAY in two steps, the loss of the transport."""

import pytest

from emulator.wire.http2 import frames
from emulator.wire.http2.connection import Connection
from emulator.wire.http2.frames import ErrorCode, Http2Error, StreamError
from emulator.wire.http2.heads import HeadDecoder, RequestHead, TableSizeNotice
from emulator.wire.http2.stream import NO_CALL, Stream
from tests.wire.http2.peer import (
    ACK,
    CANCEL,
    EARLY,
    END_STREAM,
    GOAWAY,
    HANG,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    NO_ERROR,
    PING,
    POST,
    PREFACE,
    PROTOCOL_ERROR,
    RST_STREAM,
    Echo,
    EchoCall,
    Frame,
    Peer,
    block,
    body_of,
    data,
    frame,
    headers,
    of_kind,
    open_headers,
    ping,
    reply,
    request_fields,
    rst,
    settings,
    u32,
    window_update,
)

# Requests


@pytest.mark.rule("T26")
@pytest.mark.parametrize(
    ("sent", "received", "chunks"),
    [
        pytest.param(headers(1), b"", 0, id="END_STREAM on HEADERS"),
        pytest.param(open_headers(1) + data(1, b"abc"), b"abc", 1, id="END_STREAM on the last DATA"),
        pytest.param(open_headers(1) + data(1, b"abc", 0) + data(1), b"abc", 1, id="END_STREAM on an empty DATA"),
        pytest.param(open_headers(1) + data(1, b"ab", 0) + data(1, b"c"), b"abc", 2, id="two DATA"),
        pytest.param(open_headers(1) + data(1, b"ab", 0) + headers(1, block([(b"x", b"y")])), b"ab", 1, id="trailers"),
        pytest.param(open_headers(1) + data(1, b"", 0) * 3 + data(1), b"", 0, id="only empty DATA"),
    ],
)
def test_a_request_ends_once_however_it_ends(sent: bytes, received: bytes, chunks: int) -> None:
    peer = Peer()
    out = peer.send(sent)
    call = peer.calls[1]
    assert (bytes(call.received), call.chunks, call.ends) == (received, chunks, 1)
    assert body_of(out, 1) == received


@pytest.mark.rule("T11", "T28")
def test_what_a_head_holds() -> None:
    peer = Peer()
    fields = request_fields(b"/a?b=c", (b"x", b"1"), (b"content-length", b"0"), (b"x", b"2"), (b"y", b"\xe9"))
    peer.send(headers(1, block(fields)))
    head = peer.calls[1].head
    assert (head.method, head.path, head.content_length, head.problem) == ("POST", "/a?b=c", 0, "")
    assert head.headers == {"x": "1,2", "content-length": "0", "y": "é", "host": "here"}


def test_a_host_header_stands_before_the_authority() -> None:
    peer = Peer()
    peer.send(headers(1, block(request_fields(b"/", (b"host", b"there")))))
    assert peer.calls[1].head.headers["host"] == "there"


def test_the_bytes_may_come_in_any_pieces() -> None:
    whole = open_headers(1) + data(1, b"body") + ping()
    peer = Peer(hello=b"")
    out = []
    for byte in PREFACE + settings() + whole:
        out += peer.send(bytes([byte]))
    assert body_of(out, 1) == b"body"
    assert of_kind(out, PING) == [Frame(PING, ACK, 0, b"12345678")]


def test_process_stops_after_as_many_frames_as_it_was_told() -> None:
    peer = Peer()
    connection = peer.connection
    connection.feed(ping() * 5)
    assert connection.process(3)
    assert (len(peer.read()), connection.unprocessed()) == (3, 2 * 17)
    connection.feed(ping())
    assert connection.process(3)
    assert not connection.process(1)
    assert (len(peer.read()), connection.unprocessed()) == (3, 0)


def test_a_stream_that_nobody_took_swallows_what_comes() -> None:
    class Nobody:
        def request(self, stream: Stream, head: RequestHead) -> None: ...

    connection = Connection(Nobody())
    connection.start()
    connection.feed(PREFACE + settings() + open_headers(1) + data(1, b"x", 0) + data(1, b"y") + open_headers(3))
    connection.process(64)
    assert connection.open_streams == 2
    connection.feed(rst(1))
    connection.process(64)
    connection.lost()
    assert connection.open_streams == 0


@pytest.mark.rule("T23")
def test_what_comes_after_our_early_end_is_not_heard_above() -> None:
    peer = Peer()
    peer.send(open_headers(1, EARLY), data(1, b"x", 0), headers(1, b""), rst(1))
    assert (peer.calls[1].chunks, peer.calls[1].ends, peer.calls[1].gone_count) == (0, 0, 0)


def test_a_call_that_ends_its_stream_within_a_frame_hears_no_more() -> None:
    peer = Peer()
    peer.send(open_headers(1))
    call = peer.calls[1]

    class Impatient(EchoCall):
        def data(self, chunk: bytes, end: bool) -> None:
            super().data(chunk, end)
            self.stream.cut(b"\x88")

    call.stream.call = impatient = Impatient(call.stream, call.head)
    out = peer.send(data(1, b"a", 0), data(1, b"b"))
    assert impatient.received == b"a"
    assert out == [Frame(HEADERS, 5, 1, b"\x88"), Frame(RST_STREAM, 0, 1, u32(NO_ERROR))]


@pytest.mark.parametrize(
    "mistake", [data(1, b"x"), headers(1), window_update(1, 0)], ids=["DATA", "HEADERS", "WINDOW_UPDATE"]
)
def test_a_call_hears_of_a_stream_error_once(mistake: bytes) -> None:
    peer = Peer()
    peer.send(headers(1, HANG), mistake, rst(1))
    assert peer.calls[1].gone_count == 1
    peer.connection.lost()
    assert peer.calls[1].gone_count == 1


# The end


@pytest.mark.rule("T35")
def test_goaway_in_two_steps() -> None:
    peer = Peer()
    heard: list[bytes] = []
    peer.connection.on_ping_ack = heard.append
    peer.connection.announce_goaway(b"goodbye!")
    assert peer.read() == [
        Frame(GOAWAY, 0, 0, u32(2**31 - 1) + u32(NO_ERROR)),
        Frame(PING, 0, 0, b"goodbye!"),
    ]
    assert peer.send(open_headers(1), data(1, b"still served"), ping(b"goodbye!", ACK)) == reply(1, b"still served")
    assert heard == [b"goodbye!"]
    peer.send(open_headers(3))
    peer.connection.final_goaway()
    assert peer.read() == [Frame(GOAWAY, 0, 0, u32(3) + u32(NO_ERROR))]
    assert peer.send(headers(5), open_headers(7), data(7, b"x"), data(3, b"late")) == reply(3, b"late")
    assert peer.connection.open_streams == 0


@pytest.mark.rule("T35")
def test_the_last_stream_never_rises_from_one_goaway_to_the_next() -> None:
    peer = Peer()
    peer.send(headers(1))
    peer.connection.final_goaway()
    peer.send(headers(3))
    peer.connection.final_goaway()
    out = peer.send(ping(b"too short"))
    assert [f.number for f in of_kind(out, GOAWAY)] == [1, 1]
    assert out[-1].payload[4:] == u32(6)


def test_a_loss_tells_every_open_call_once() -> None:
    peer = Peer()
    peer.send(headers(1), headers(3, HANG), open_headers(5), headers(7, HANG), rst(7))
    peer.connection.lost()
    peer.connection.lost()
    assert {at: call.gone_count for at, call in peer.calls.items()} == {1: 0, 3: 1, 5: 1, 7: 1}
    assert peer.connection.open_streams == 0


def test_what_one_lost_call_sets_off_reaches_no_other_of_its_connection() -> None:
    peer = Peer()
    peer.send(headers(1, HANG), headers(3, HANG))
    second = peer.calls[3].stream

    class GivesBack(EchoCall):
        closed: bool | None = None

        def gone(self) -> None:
            self.closed = second.closed

    first = peer.calls[1].stream
    first.call = call = GivesBack(first, peer.calls[1].head)
    peer.connection.lost()
    assert call.closed is True


def test_nothing_waits_after_a_loss() -> None:
    peer = Peer(hello=PREFACE + settings((INITIAL_WINDOW_SIZE, 70_000)))
    peer.send(headers(1, HANG), headers(3, HANG))
    peer.calls[1].stream.send_data(bytes(70_000))
    assert not peer.calls[3].stream.ready()
    assert repr(peer.connection.sender) == "<Sender window=0 blocked=1 waiting=1>"
    peer.connection.lost()
    assert repr(peer.connection.sender) == "<Sender window=0 blocked=0 waiting=0>"
    peer.connection.sender.pause(paused=False)
    assert peer.calls[3].writable_count == 0


def test_an_error_reaches_whoever_feeds() -> None:
    connection = Connection(Echo())
    connection.start()
    connection.feed(PREFACE + settings() + frame(PING, 0, 1, bytes(8)))
    with pytest.raises(Http2Error, match="PING on a stream") as caught:
        connection.process(64)
    assert caught.value.code is ErrorCode.PROTOCOL_ERROR


def test_an_unanswered_ping_of_ours_needs_no_listener() -> None:
    peer = Peer()
    assert peer.send(ping(flags=ACK)) == []


def test_a_reset_names_the_code_that_the_call_does_not_need() -> None:
    peer = Peer()
    peer.send(open_headers(1), rst(1, CANCEL))
    assert peer.calls[1].gone_count == 1
    assert peer.send(data(1, b"", END_STREAM))[0].number == 5


# Reading matter for a log


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (Http2Error(ErrorCode.PROTOCOL_ERROR, "why"), "<Http2Error PROTOCOL_ERROR why>"),
        (StreamError(ErrorCode.CANCEL, "why"), "<StreamError CANCEL why>"),
        (NO_CALL, "<NoCall>"),
        (HeadDecoder(1), "<HeadDecoder insertions=0 cached=0>"),
        (TableSizeNotice(), "<TableSizeNotice said=4096 wanted=4096>"),
        (RequestHead([(b":method", b"GET"), (b":scheme", b"x"), (b":path", b"/p")], 1), "<RequestHead GET /p>"),
        (RequestHead([], 1), "<RequestHead   no :method>"),
    ],
)
def test_representations(thing: object, text: str) -> None:
    assert repr(thing) == text


def test_representations_of_what_is_in_use() -> None:
    peer = Peer()
    peer.send(headers(1, HANG), headers(3))
    peer.calls[1].stream.send_data(bytes(65_537))
    assert repr(peer.calls[1].stream) == "<Stream 1 queued=2>"
    assert repr(peer.calls[3].stream) == "<Stream 3 queued=0 closed>"
    assert repr(peer.connection) == "<Connection streams=1 unprocessed=0>"


def test_frames_are_what_an_independent_reader_reads() -> None:
    assert frames.PREFACE == PREFACE
    assert frames.rst_stream(5, ErrorCode.CANCEL) == rst(5, CANCEL)
    assert frames.window_update(5, 9) == window_update(5, 9)
    assert frames.ping(b"12345678", ack=False) == ping()
    assert frames.headers(1, POST, 16_384, end_stream=True) == headers(1)
    assert frames.goaway(1, ErrorCode.PROTOCOL_ERROR)[9:] == u32(1) + u32(PROTOCOL_ERROR)
