"""What leaves: windows, frame sizes, the order of frames, whose turn it is, and the table size notice."""

import random

import pytest
from hpack.hpack import Decoder

from tests.wire.http2.peer import (
    ACK,
    CANCEL,
    CONTINUATION,
    DATA,
    EARLY,
    END_HEADERS,
    END_STREAM,
    HANG,
    HEADER_TABLE_SIZE,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_FRAME_SIZE,
    NO_ERROR,
    PING,
    PREFACE,
    REPLY_HEADERS,
    REPLY_TRAILERS,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    EchoCall,
    Frame,
    Peer,
    body_of,
    data,
    headers,
    literal,
    of_kind,
    open_headers,
    ping,
    reply,
    rst,
    settings,
    u32,
    window_update,
)

MAX = 2**31 - 1


def with_stream(*pairs: tuple[int, int], stream: int = 1) -> tuple[Peer, EchoCall]:
    """A peer that announced these settings, and a stream of it that the test replies on."""
    peer = Peer(hello=PREFACE + settings(*pairs))
    peer.send(headers(stream, HANG))
    return peer, peer.calls[stream]


def sizes(frames: list[Frame]) -> list[int]:
    return [len(f.payload) for f in frames if f.kind == DATA]


def order(frames: list[Frame]) -> list[int]:
    return [f.stream for f in frames if f.kind == DATA]


# The first frames


@pytest.mark.rule("T19")
def test_settings_come_first_and_the_window_with_them() -> None:
    peer = Peer(hello=b"")
    assert [f.kind for f in peer.first] == [SETTINGS, WINDOW_UPDATE]
    values = peer.first[0].payload
    pairs = {
        int.from_bytes(values[at : at + 2]): int.from_bytes(values[at + 2 : at + 6]) for at in range(0, len(values), 6)
    }
    assert pairs == {3: 10_000, 4: 1_048_576, 5: 16_384, 6: 65_536}
    assert (peer.first[1].stream, peer.first[1].number) == (0, 16_777_216 - 65_535)


@pytest.mark.rule("T8", "T19")
def test_settings_come_first_even_if_a_ping_was_quicker() -> None:
    peer = Peer(hello=PREFACE + settings() + ping())
    assert [(f.kind, f.flags) for f in peer.first] == [(SETTINGS, 0), (WINDOW_UPDATE, 0), (PING, ACK), (SETTINGS, ACK)]


@pytest.mark.rule("T19")
def test_the_peers_settings_hold_for_the_reply_that_comes_with_them() -> None:
    peer = Peer(hello=PREFACE + settings((INITIAL_WINDOW_SIZE, 3)) + open_headers(1) + data(1, b"12345"))
    assert body_of(peer.first, 1) == b"123"


# Order


@pytest.mark.rule("T8")
def test_a_ping_is_answered_before_data_that_waits() -> None:
    peer = Peer()
    out = peer.send(open_headers(1), data(1, bytes(9_000)), ping())
    assert [f.kind for f in out] == [PING, HEADERS, DATA, HEADERS]


@pytest.mark.rule("T19", "T20", "T27")
@pytest.mark.parametrize(
    ("limit", "broken_by"),
    [
        pytest.param((HEADER_TABLE_SIZE, 0), "headers without a size update", id="table size"),
        pytest.param((MAX_FRAME_SIZE, 16_384), "a larger frame", id="frame size"),
        pytest.param((INITIAL_WINDOW_SIZE, 10), "more data", id="window"),
    ],
)
def test_what_was_queued_before_new_limits_leaves_before_their_ack(limit: tuple[int, int], broken_by: str) -> None:
    peer = Peer(hello=PREFACE + settings((MAX_FRAME_SIZE, 50_000)))
    out = peer.send(open_headers(1), data(1, bytes(9_000), 0), data(1, bytes(9_000)), settings(limit))
    assert [f.kind for f in out] == [HEADERS, DATA, HEADERS, SETTINGS], broken_by


@pytest.mark.rule("T19", "T27")
def test_what_new_limits_allow_leaves_after_their_ack() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, 0))
    call.stream.send_data(b"x")
    out = peer.send(settings((INITIAL_WINDOW_SIZE, 1)))
    assert [f.kind for f in out] == [SETTINGS, DATA]


@pytest.mark.rule("T25")
def test_trailers_wait_for_the_data_of_their_stream() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, 3))
    call.stream.send_headers(REPLY_HEADERS)
    call.stream.send_data(b"12")
    call.stream.send_data(b"345")
    call.stream.finish(REPLY_TRAILERS)
    assert [f.payload for f in peer.read()] == [REPLY_HEADERS, b"12", b"3"]
    assert peer.connection.open_streams == 1
    assert peer.send(window_update(1, 1)) == [Frame(DATA, 0, 1, b"4")]
    out = peer.send(window_update(1, 1))
    assert [(f.kind, f.payload) for f in out] == [(DATA, b"5"), (HEADERS, REPLY_TRAILERS)]
    assert peer.connection.open_streams == 0


@pytest.mark.rule("T25")
def test_data_given_while_other_data_waits_keeps_its_place() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, 1))
    for piece in (b"12", b"34", b"5"):
        call.stream.send_data(piece)
    assert body_of(peer.send(window_update(1, 100)), 1) == b"12345"


@pytest.mark.rule("T25")
def test_a_cut_drops_what_has_not_left() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, 3))
    call.stream.send_data(b"12345")
    call.stream.finish(REPLY_TRAILERS)
    call.stream.cut(b"\x88")
    out = peer.read()
    assert [(f.kind, f.payload) for f in out] == [(DATA, b"123"), (HEADERS, b"\x88")]
    assert peer.send(window_update(1, 100)) == []


@pytest.mark.rule("T25")
def test_nothing_follows_a_finish_that_waits() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, 1))
    call.stream.send_data(b"12")
    call.stream.finish(REPLY_TRAILERS)
    call.stream.send_data(b"late")
    call.stream.send_headers(REPLY_HEADERS)
    call.stream.finish(b"\x88")
    out = peer.send(window_update(1, 100))
    assert [(f.kind, f.payload) for f in out] == [(DATA, b"1"), (DATA, b"2"), (HEADERS, REPLY_TRAILERS)]


@pytest.mark.rule("T24")
def test_a_reply_before_the_requests_end_is_followed_by_a_reset_without_error() -> None:
    peer = Peer()
    out = peer.send(open_headers(1, EARLY))
    assert out == [*reply(1, b""), Frame(RST_STREAM, 0, 1, u32(NO_ERROR))]
    assert peer.connection.open_streams == 0


def test_a_closed_stream_takes_everything_and_sends_nothing() -> None:
    peer, call = with_stream()
    call.reply()
    peer.read()
    call.stream.send_headers(REPLY_HEADERS)
    call.stream.send_data(b"x")
    call.stream.finish(REPLY_TRAILERS)
    call.stream.cut(REPLY_TRAILERS)
    call.reply()
    assert not call.stream.ready()
    assert peer.read() == []


def test_empty_data_makes_no_frame() -> None:
    peer, call = with_stream()
    call.stream.send_data(b"")
    assert peer.read() == []


# Sizes and windows


@pytest.mark.rule("T27")
@pytest.mark.parametrize("most", [16_384, 16_385, 40_000, 2**24 - 1])
def test_no_data_frame_is_larger_than_the_peer_allows(most: int) -> None:
    peer, call = with_stream((MAX_FRAME_SIZE, most), (INITIAL_WINDOW_SIZE, MAX))
    peer.send(window_update(0, MAX - 65_535))
    call.received += bytes(100_000)
    call.reply()
    out = peer.read()
    assert len(body_of(out, 1)) == 100_000
    assert max(sizes(out)) == min(most, 100_000)
    assert [f.kind for f in out if f.flags & END_STREAM] == [HEADERS]


@pytest.mark.rule("T27")
@pytest.mark.parametrize("size", [16_384, 16_385, 32_768, 32_769, 50_000])
@pytest.mark.parametrize("whole", [True, False])
def test_a_block_larger_than_a_frame_goes_on_in_continuation(size: int, whole: bool) -> None:
    peer, call = with_stream()
    trailers = literal(b"x", b"v" * (size - 7))[:size]
    if whole:
        call.stream.reply(REPLY_HEADERS, b"data", trailers)
    else:
        call.stream.send_headers(REPLY_HEADERS)
        call.stream.finish(trailers)
    out = [f for f in peer.read() if f.kind in (HEADERS, CONTINUATION)][1:]
    assert b"".join(f.payload for f in out) == trailers
    assert [f.kind for f in out] == [HEADERS] + [CONTINUATION] * (len(out) - 1)
    assert max(len(f.payload) for f in out) <= 16_384
    assert [bool(f.flags & END_HEADERS) for f in out] == [False] * (len(out) - 1) + [True]
    assert [bool(f.flags & END_STREAM) for f in out] == [True] + [False] * (len(out) - 1)


@pytest.mark.rule("T9", "T27")
def test_a_streams_window_is_kept() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, 0))
    call.received += b"12345"
    call.reply()
    assert sizes(peer.read()) == []
    assert [sizes(peer.send(window_update(1, n))) for n in (1, 2, 9)] == [[1], [2], [2]]


@pytest.mark.rule("T9", "T27")
def test_the_connections_window_is_kept() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, MAX))
    call.received += bytes(70_000)
    call.reply()
    assert sum(sizes(peer.read())) == 65_535
    assert sum(sizes(peer.send(window_update(0, 4_000)))) == 4_000
    out = peer.send(window_update(0, 4_000))
    assert sum(sizes(out)) == 465
    assert out[-1] == Frame(HEADERS, END_HEADERS | END_STREAM, 1, REPLY_TRAILERS)


@pytest.mark.rule("T9", "T27")
def test_whole_replies_use_up_the_connections_window_together() -> None:
    peer = Peer()
    out = peer.send(*(open_headers(at) + data(at, bytes(10_000)) for at in range(1, 21, 2)))
    assert sum(sizes(out)) == 65_535
    out = peer.send(window_update(0, 100_000))
    assert sum(sizes(out)) == 100_000 - 65_535
    assert peer.connection.open_streams == 0


@pytest.mark.rule("T27")
def test_a_window_may_become_negative() -> None:
    peer, call = with_stream()
    call.received += bytes(30_000)
    call.stream.send_data(bytes(10_000))
    call.reply()
    peer, call = with_stream((INITIAL_WINDOW_SIZE, 10_000))
    call.stream.send_data(bytes(15_000))
    assert sum(sizes(peer.read())) == 10_000
    # -6,000 now
    assert sizes(peer.send(settings((INITIAL_WINDOW_SIZE, 4_000)))) == []
    assert sizes(peer.send(window_update(1, 6_000))) == []
    assert sizes(peer.send(window_update(1, 1))) == [1]
    assert sizes(peer.send(settings((INITIAL_WINDOW_SIZE, 5_000)))) == [1_000]
    assert sizes(peer.send(window_update(1, 4_000))) == [3_999]


@pytest.mark.rule("T27")
def test_a_whole_reply_respects_a_negative_window() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, 100))
    call.stream.send_data(bytes(100))
    peer.send(settings((INITIAL_WINDOW_SIZE, 0)))
    call.stream.reply(REPLY_HEADERS, b"", REPLY_TRAILERS)
    assert [f.kind for f in peer.read()] == [HEADERS, HEADERS]


@pytest.mark.rule("T27")
def test_the_initial_window_of_streams_to_come_changes_too() -> None:
    peer, _ = with_stream((INITIAL_WINDOW_SIZE, 7), (INITIAL_WINDOW_SIZE, 5))
    assert sizes(peer.send(open_headers(3), data(3, b"123456789"))) == [5]


@pytest.mark.rule("T27")
def test_the_largest_windows_work() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, MAX))
    peer.send(window_update(0, MAX - 65_535))
    call.received += bytes(500_000)
    call.reply()
    assert sum(sizes(peer.read())) == 500_000
    assert peer.send(window_update(0, 500_000)) == []
    assert peer.died is None


# Whose turn it is


def blocked_peer(streams: int, size: int) -> Peer:
    """A peer whose connection window is used up, with replies of this size waiting on streams 3, 5, ..."""
    peer = Peer(hello=PREFACE + settings((INITIAL_WINDOW_SIZE, MAX)))
    ids = [3 + 2 * at for at in range(streams)]
    peer.send(headers(1, HANG), *(headers(at, HANG) for at in ids))
    peer.calls[1].stream.send_data(bytes(65_535))
    for at in ids:
        peer.calls[at].received += bytes(size)
        peer.calls[at].reply()
    peer.read()
    return peer


def test_blocked_streams_take_turns_frame_by_frame() -> None:
    peer = blocked_peer(3, 40_000)
    assert order(peer.send(window_update(0, 16_384 * 6))) == [3, 5, 7, 3, 5, 7]
    assert order(peer.send(window_update(0, 16_384 * 9))) == [3, 5, 7]
    assert peer.connection.open_streams == 1


def test_a_turn_that_was_cut_short_goes_on_with_the_next_stream() -> None:
    peer = blocked_peer(3, 40_000)
    assert [order(peer.send(window_update(0, 10))) for _ in range(4)] == [[3], [5], [7], [3]]


def test_a_stream_that_is_gone_loses_its_turn() -> None:
    peer = blocked_peer(3, 40_000)
    peer.send(rst(3))
    peer.calls[5].stream.cut(REPLY_TRAILERS)
    peer.read()
    assert order(peer.send(window_update(0, 16_384 * 2))) == [7, 7]


def test_a_stream_whose_own_window_closed_loses_its_turn_until_it_opens() -> None:
    peer = blocked_peer(2, 40_000)
    peer.send(settings((INITIAL_WINDOW_SIZE, 0)), window_update(5, 5))
    assert order(peer.send(window_update(0, 100))) == [5]
    assert order(peer.send(window_update(3, 20))) == [3]
    assert order(peer.send(settings((INITIAL_WINDOW_SIZE, 30)))) == [3, 5]


@pytest.mark.rule("T8")
def test_streams_that_were_reset_while_blocked_are_not_remembered() -> None:
    peer = blocked_peer(1, 40_000)
    for stream in range(5, 2_005, 2):
        peer.send(open_headers(stream), data(stream, bytes(9)), rst(stream))
    assert "blocked=1 " in repr(peer.connection.sender)


# Ready, writable, pause


def test_a_stream_is_ready_while_both_windows_are_open() -> None:
    _, call = with_stream()
    assert call.stream.ready()
    call.stream.send_data(bytes(65_534))
    assert call.stream.ready()


@pytest.mark.parametrize(
    ("opening", "writable"),
    [
        pytest.param(window_update(0, 1), 0, id="the connection's window"),
        pytest.param(window_update(1, 1), 0, id="the stream's window"),
        pytest.param(window_update(1, 1) + window_update(0, 1), 1, id="both"),
        pytest.param(settings((INITIAL_WINDOW_SIZE, 65_536)) + window_update(0, 1), 1, id="both, by SETTINGS"),
    ],
)
def test_writable_tells_once_when_the_windows_open(opening: bytes, writable: int) -> None:
    peer, call = with_stream()
    call.stream.send_data(bytes(65_535))
    assert not call.stream.ready()
    peer.send(opening)
    assert call.writable_count == writable
    peer.send(window_update(0, 1), window_update(1, 1))
    assert call.writable_count == 1


def test_writable_waits_until_the_queue_has_left() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, 3))
    call.stream.send_data(b"12345")
    assert not call.stream.ready()
    peer.send(window_update(1, 2))
    assert call.writable_count == 0
    call.stream.send_data(b"6")
    peer.send(window_update(1, 2))
    assert call.writable_count == 1
    assert call.stream.ready()


def test_writable_tells_when_the_queue_leaves_by_the_connections_window() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, MAX))
    call.stream.send_data(bytes(65_540))
    assert not call.stream.ready()
    peer.send(window_update(0, 5))
    assert call.writable_count == 0
    peer.send(window_update(0, 5))
    assert call.writable_count == 1


def test_nobody_who_did_not_ask_is_told() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, 3))
    call.stream.send_data(b"12345")
    peer.send(window_update(1, 9))
    peer.connection.sender.pause(paused=True)
    peer.connection.sender.pause(paused=False)
    assert call.writable_count == 0


@pytest.mark.rule("T33")
def test_nobody_is_ready_while_the_socket_is_full() -> None:
    peer, call = with_stream()
    peer.connection.sender.pause(paused=True)
    assert not call.stream.ready()
    peer.send(window_update(1, 1))
    assert call.writable_count == 0
    peer.connection.sender.pause(paused=False)
    assert call.writable_count == 1


def test_a_stream_that_ended_is_not_told() -> None:
    peer, call = with_stream((INITIAL_WINDOW_SIZE, 0))
    assert not call.stream.ready()
    peer.send(rst(1, CANCEL))
    peer.connection.sender.pause(paused=False)
    assert (call.writable_count, call.gone_count) == (0, 1)


class Greedy(EchoCall):
    """Sends a piece whenever it may."""

    log: list[int]

    def writable(self) -> None:
        while self.stream.ready():
            self.log.append(self.stream.id)
            self.stream.send_data(bytes(10))


def test_who_waits_to_write_takes_turns_too() -> None:
    peer = Peer()
    log: list[int] = []
    peer.send(*(headers(at, HANG) for at in (1, 3, 5, 7)))
    peer.calls[1].stream.send_data(bytes(65_535))
    for at in (3, 5, 7):
        call = Greedy(peer.calls[at].stream, peer.calls[at].head)
        call.log = log
        call.stream.call = call
        call.writable()
    for _ in range(4):
        peer.send(window_update(0, 10))
    assert log == [3, 5, 7, 3]


# The table size notice


def updates_at_head(block: bytes) -> list[int]:
    """The sizes that a block begins with, by RFC 7541 §6.3."""
    out = []
    while block and block[0] >> 5 == 1:
        size, at = block[0] & 31, 1
        if size == 31:
            shift = 0
            while True:
                size += (block[at] & 127) << shift
                shift += 7
                at += 1
                if block[at - 1] < 128:
                    break
        out.append(size)
        block = block[at:]
    return out


@pytest.mark.rule("T20")
@pytest.mark.parametrize(
    ("announced", "said"),
    [
        ([], []),
        ([4_096], []),
        ([65_536], []),
        ([0], [0]),
        ([1_024], [1_024]),
        ([0, 4_096], [0, 4_096]),
        ([0, 65_536], [0, 4_096]),
        ([1_024, 0, 2_000], [0, 2_000]),
        ([2_000, 1_024], [1_024]),
        ([65_536, 1_024, 65_536], [1_024, 4_096]),
        ([4_095], [4_095]),
    ],
)
@pytest.mark.parametrize("in_one_frame", [True, False])
def test_the_smallest_size_and_the_last_are_said_once(
    announced: list[int], said: list[int], in_one_frame: bool
) -> None:
    pairs = [(HEADER_TABLE_SIZE, size) for size in announced]
    peer = Peer()
    peer.send(settings(*pairs) if in_one_frame else b"".join(settings(pair) for pair in pairs))
    out = of_kind(peer.send(headers(1), headers(3)), HEADERS)
    assert [updates_at_head(f.payload) for f in out] == [said, [], [], []]


@pytest.mark.rule("T20")
def test_trailers_carry_the_notice_if_they_are_next() -> None:
    peer, call = with_stream()
    call.stream.send_headers(REPLY_HEADERS)
    peer.send(settings((HEADER_TABLE_SIZE, 0)))
    call.stream.finish(REPLY_TRAILERS)
    assert [updates_at_head(f.payload) for f in peer.read()] == [[0]]


@pytest.mark.rule("T20")
def test_any_sequence_of_sizes_satisfies_a_strict_peer() -> None:
    rnd = random.Random(20)
    peer, decoder = Peer(), Decoder()
    in_force = 4_096  # what the peer's decoder last heard
    lowest = limit = 4_096
    for stream in range(1, 2_000, 2):
        for _ in range(rnd.choice([0, 0, 1, 1, 2, 3])):
            limit = rnd.choice([0, 1, 1_024, 4_095, 4_096, 4_097, 65_536, 2**32 - 1])
            lowest = min(lowest, limit)
            peer.send(settings((HEADER_TABLE_SIZE, limit)))
            decoder.max_allowed_table_size = limit
        first, second = of_kind(peer.send(headers(stream)), HEADERS)
        said = updates_at_head(first.payload)
        if lowest < in_force:
            assert said[0] <= lowest
        assert len(said) <= 2
        in_force = said[-1] if said else in_force
        assert in_force <= limit
        lowest = limit
        assert [bytes(value) for _, value in decoder.decode(first.payload, raw=True)] == [b"200"]
        assert [bytes(value) for _, value in decoder.decode(second.payload, raw=True)] == [b"1"]
        assert decoder.header_table_size == in_force
