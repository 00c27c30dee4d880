"""Floods and cancels: what one connection holds stays bounded, and honest peers never notice the bounds."""

import gc
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import TypeAlias

import pytest

from emulator.wire.http2.closed import Closed, ClosedStreams
from emulator.wire.http2.heads import RequestHead
from emulator.wire.http2.settings import Settings
from emulator.wire.http2.stream import Stream
from tests.wire.http2.peer import (
    EARLY,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    HANG,
    INITIAL_WINDOW_SIZE,
    PING,
    POST,
    PREFACE,
    REFUSED_STREAM,
    REPLY_HEADERS,
    REPLY_TRAILERS,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Frame,
    Peer,
    data,
    frame,
    goaway,
    headers,
    literal,
    of_kind,
    open_headers,
    ping,
    priority,
    rst,
    settings,
    u32,
    window_update,
)


class Curt:
    """A handler that answers with a few bytes at once, and keeps nothing."""

    def request(self, stream: Stream, head: RequestHead) -> None:
        stream.reply(REPLY_HEADERS, b"data", REPLY_TRAILERS)


class Mute:
    """A handler that never answers, and keeps nothing."""

    def request(self, stream: Stream, head: RequestHead) -> None: ...


def held(root: object) -> int:
    """Bytes of everything that can be reached from an object, code and modules left out."""
    seen: set[int] = set()
    todo = [root]
    size = 0
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, (type, ModuleType, FunctionType)):
            continue
        seen.add(id(item))
        size += sys.getsizeof(item)
        todo.extend(gc.get_referents(item))
    return size


def peer_of(handler: Curt | Mute, *pairs: tuple[int, int]) -> Peer:
    """A peer whose own connection window is no hindrance."""
    return Peer(hello=PREFACE + settings(*pairs) + window_update(0, 2**30), handler=handler)


class Ids:
    """The next stream's id."""

    def __init__(self) -> None:
        self.last = -1

    def next(self) -> int:
        self.last += 2
        return self.last


Maker: TypeAlias = Callable[[Ids], bytes]

# What is sent each time, by a peer that reads what it gets.
FLOODS: Mapping[str, Maker] = {
    "PING": lambda ids: ping(),
    "PING ACK": lambda ids: ping(flags=1),
    "SETTINGS": lambda ids: settings((INITIAL_WINDOW_SIZE, 1), (INITIAL_WINDOW_SIZE, 65_535)),
    "SETTINGS ACK": lambda ids: frame(SETTINGS, 1),
    "WINDOW_UPDATE": lambda ids: headers(stream := ids.next()) + window_update(stream, 1) + window_update(0, 1),
    "PRIORITY": lambda ids: priority(ids.next()),
    "GOAWAY": lambda ids: goaway(debug=b"x" * 100),
    "an unknown type": lambda ids: frame(0xEE, 0xFF, 9, b"x" * 100),
    "requests": lambda ids: headers(ids.next()),
    "resets": lambda ids: headers(stream := ids.next()) + rst(stream),
    "malformed requests": lambda ids: headers(ids.next(), b""),
    "skipped streams": lambda ids: headers(ids.next() + 2 * ids.next()),
    "distinct blocks": lambda ids: headers(stream := ids.next(), POST + literal(b"n", b"%d" % stream)),
    "blocks that fill the table": lambda ids: headers(ids.next(), POST + b"\x40\1a\1b"),
    "uploads on streams that are over": lambda ids: open_headers(stream := ids.next()) + data(stream, bytes(999), 0),
    "blocks cut in many pieces": lambda ids: (
        headers(stream := ids.next(), POST, END_STREAM) + frame(9, 0, stream) * 9 + frame(9, 4, stream)
    ),
}


def waves(peer: Peer, make: Maker, ids: Ids | None = None) -> tuple[int, int]:
    """What the connection holds after a first wave, which passes every bound on the way, and after a second one."""
    ids = ids or Ids()
    sizes = []
    for count in (110, 60):
        for _ in range(count):
            peer.send(*(make(ids) for _ in range(100)))
        assert peer.died is None
        assert peer.connection.open_streams == 0
        sizes.append(held(peer.connection))
    return sizes[0], sizes[1]


@pytest.mark.rule("T8")
@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_that_is_read_leaves_nothing_behind(flood: str) -> None:
    first, second = waves(peer_of(Curt()), FLOODS[flood])
    assert second < first + 20_000


@pytest.mark.rule("T8")
def test_rapid_resets_of_calls_that_wait_leave_nothing_behind() -> None:
    first, second = waves(peer_of(Mute()), FLOODS["resets"])
    assert second < first + 20_000


@pytest.mark.rule("T8", "T33")
@pytest.mark.parametrize("shut", [(INITIAL_WINDOW_SIZE, 0), None], ids=["by its own window", "by the connection's"])
def test_replies_that_wait_for_a_window_are_forgotten_when_reset(shut: tuple[int, int] | None) -> None:
    ids = Ids()
    if shut:
        peer = peer_of(Curt(), shut)
    else:
        peer = Peer(handler=Curt())
        peer.send(*(headers(ids.next()) for _ in range(65_535 // 4)))
    first, second = waves(peer, lambda ids: headers(stream := ids.next()) + rst(stream), ids)
    assert second < first + 20_000


# Backlog: the peer does not read

BACKLOG: Mapping[str, tuple[Maker, int]] = {
    "PING": (lambda ids: ping(), 1),
    "SETTINGS": (lambda ids: settings(), 1),
    "malformed requests": (lambda ids: headers(ids.next(), b""), 1),
    "DATA on streams that it had reset": (
        lambda ids: open_headers(stream := ids.next(), HANG) + rst(stream) + data(stream),
        1,
    ),
    "PING and SETTINGS": (lambda ids: ping() + settings(), 2),
}


@pytest.mark.rule("T8")
@pytest.mark.parametrize("flood", BACKLOG)
def test_ten_thousand_unread_answers_are_the_limit(flood: str) -> None:
    peer, ids = Peer(), Ids()
    make, answers = BACKLOG[flood]
    ends = []
    for count in (10_000 // answers, 1):
        peer.feed(*(make(ids) for _ in range(count)))
        ends.append(peer.died)
    assert ends == [None, ENHANCE_YOUR_CALM]
    out = peer.read()
    assert (out[-1].kind, out[-1].payload[4:]) == (7, u32(ENHANCE_YOUR_CALM))
    peer.connection.lost()
    assert peer.connection.open_streams == 0


@pytest.mark.rule("T8")
def test_any_number_of_answers_may_be_read() -> None:
    peer = Peer()
    answers = sum(len(peer.send(ping() * 9_999)) for _ in range(4))
    assert (answers, peer.died) == (39_996, None)


@pytest.mark.rule("T8")
@pytest.mark.parametrize(
    "silent",
    [
        pytest.param(window_update(0, 1), id="WINDOW_UPDATE"),
        pytest.param(ping(flags=1), id="PING ACK"),
        pytest.param(frame(SETTINGS, 1), id="SETTINGS ACK"),
        pytest.param(priority(9), id="PRIORITY"),
        pytest.param(data(1, b"", 0), id="empty DATA"),
        pytest.param(frame(0xEE), id="an unknown type"),
    ],
)
def test_frames_that_ask_for_nothing_make_no_backlog(silent: bytes) -> None:
    peer = Peer()
    peer.send(open_headers(1))
    assert peer.send(silent * 10_001) == []
    assert peer.died is None


@pytest.mark.rule("T8")
def test_a_thousand_cancels_at_once_are_fine() -> None:
    peer = Peer()
    assert peer.send(*(headers(at, HANG) + rst(at) for at in range(1, 2_001, 2))) == []
    assert {call.gone_count for call in peer.calls.values()} == {1}
    assert peer.still_works()


# Windows are given back


class Uploader:
    """A peer that never sends more than the server's connection window allows."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.window = 65_535 + sum(f.number for f in peer.first if f.kind == WINDOW_UPDATE)
        peer.send(window_update(0, 2**30))  # what comes back is no hindrance

    def send(self, sent: bytes, counts: int) -> list[Frame]:
        assert counts <= self.window, "the server keeps the window"
        self.window -= counts
        out = self.peer.send(sent)
        self.window += sum(f.number for f in of_kind(out, WINDOW_UPDATE) if f.stream == 0)
        return out


Sender: TypeAlias = Callable[[int], bytes]


def nothing(stream: int) -> bytes:
    return b""


def upload(stream: int, size: int, *, padded: bool) -> bytes:
    chunk = b"\xff" + bytes(size // 4 - 1) if padded else bytes(size // 4)
    return data(stream, chunk, 8 * padded) * 4


@pytest.mark.rule("T22")
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    ("request_block", "before", "after"),
    [
        pytest.param(HANG, nothing, rst, id="cancelled after the data"),
        pytest.param(HANG, rst, nothing, id="reset before the data"),
        pytest.param(EARLY, nothing, rst, id="ended by the server before the data"),
        pytest.param(b"", nothing, rst, id="malformed"),
        pytest.param(POST, nothing, data, id="finished"),
    ],
)
def test_a_thousand_uploads_that_came_to_nothing_leave_the_window_open(
    request_block: bytes, before: Sender, after: Sender, padded: bool
) -> None:
    uploader = Uploader(Peer())
    for stream in range(1, 2_001, 2):
        body = upload(stream, 60_000, padded=padded)
        uploader.send(open_headers(stream, request_block) + before(stream) + body + after(stream), 60_000)
        uploader.peer.calls.clear()
    assert uploader.peer.still_works()


@pytest.mark.rule("T22", "T32")
def test_uploads_on_refused_streams_leave_the_window_open() -> None:
    uploader = Uploader(Peer(Settings(max_concurrent_streams=1)))
    uploader.send(headers(1, HANG), 0)
    for stream in range(3, 2_003, 2):
        uploader.send(open_headers(stream) + upload(stream, 60_000, padded=False), 60_000)
    uploader.send(rst(1), 0)
    assert uploader.peer.still_works()


@pytest.mark.rule("T22")
def test_an_upload_of_any_size_goes_through_both_windows() -> None:
    peer = Peer()
    uploader = Uploader(peer)
    stream_window = 1_048_576
    uploader.send(open_headers(1, HANG), 0)
    for _ in range(2_000):
        assert stream_window >= 16_384
        out = uploader.send(data(1, bytes(16_384), 0), 16_384)
        stream_window += sum(f.number for f in of_kind(out, WINDOW_UPDATE) if f.stream == 1) - 16_384
    assert len(peer.calls[1].received) == 2_000 * 16_384


# Streams


@pytest.mark.rule("T9", "T32")
def test_ten_thousand_streams_at_once_and_not_one_more() -> None:
    peer = Peer()
    ids = range(1, 20_001, 2)
    assert peer.send(*(open_headers(at, HANG) for at in ids)) == []
    assert peer.connection.open_streams == 10_000
    taught = POST + b"\x40\1a\1b"
    assert peer.send(headers(20_001, taught)) == [Frame(RST_STREAM, 0, 20_001, u32(REFUSED_STREAM))]
    assert peer.connection.open_streams == 10_000
    peer.send(rst(1), headers(20_003, POST + b"\xbe"))
    assert peer.calls[20_003].head.headers["a"] == "b"
    peer.connection.lost()
    assert {peer.calls[at].gone_count for at in ids} == {1}


@pytest.mark.rule("T24", "T32")
def test_streams_ended_early_make_room_at_once() -> None:
    peer = Peer(Settings(max_concurrent_streams=1))
    out = peer.send(*(open_headers(at, EARLY) for at in range(1, 201, 2)))
    assert REFUSED_STREAM not in {f.number for f in of_kind(out, RST_STREAM)}
    assert len(peer.calls) == 100


@pytest.mark.rule("T27")
def test_a_frame_of_many_window_changes_changes_each_stream_once() -> None:
    peer = Peer()
    peer.send(*(headers(at, HANG) for at in range(1, 201, 2)))
    changes = []

    class Counted(Stream):
        __slots__ = ()

        def __setattr__(self, name: str, value: object) -> None:
            if name == "send_window":
                changes.append(value)
            super().__setattr__(name, value)

    stream = peer.calls[1].stream
    stream.__class__ = Counted
    peer.send(settings(*((INITIAL_WINDOW_SIZE, at) for at in range(2_730))))
    assert changes == [2_729]
    assert {call.stream.send_window for call in peer.calls.values()} == {2_729}


# What is remembered of ended streams


@pytest.mark.rule("T23")
def test_the_usual_end_is_not_remembered() -> None:
    closed = ClosedStreams()
    closed.opened(1)
    closed.opened(3)
    assert [closed.how(at) for at in (1, 3)] == [Closed.BY_BOTH] * 2
    assert repr(closed) == "<ClosedStreams last=3 remembered=0 gaps=0>"


@pytest.mark.rule("T23")
def test_ten_thousand_unusual_ends_are_remembered_and_the_older_ones_doubtful() -> None:
    closed = ClosedStreams()
    for stream in range(1, 20_005, 2):
        closed.opened(stream)
        closed.add(stream, Closed.BY_PEER)
    assert [closed.how(at) for at in (1, 3, 5, 20_003)] == [Closed.FORGOTTEN] * 2 + [Closed.BY_PEER] * 2
    closed.judge(1)  # ignored: it may have been ended by this side


@pytest.mark.rule("T23")
def test_a_thousand_gaps_are_remembered() -> None:
    closed = ClosedStreams()
    for stream in range(5, 5 + 4 * 1_001, 4):
        closed.opened(stream)
    assert [closed.how(at) for at in (1, 3, 5, 7, 9, 11)] == [
        Closed.FORGOTTEN,
        Closed.FORGOTTEN,
        Closed.FORGOTTEN,
        Closed.NEVER_OPENED,
        Closed.BY_BOTH,
        Closed.NEVER_OPENED,
    ]


@pytest.mark.parametrize(
    ("opened", "skipped"),
    [([1], []), ([3], [1]), ([5], [1, 3]), ([1, 3, 7], [5]), ([1, 9, 11], [3, 5, 7]), ([2**31 - 1], [1, 2**31 - 3])],
)
def test_skipped_ids_are_told_from_used_ones(opened: list[int], skipped: list[int]) -> None:
    closed = ClosedStreams()
    for stream in opened:
        closed.opened(stream)
    assert {closed.how(at) for at in opened} == {Closed.BY_BOTH}
    assert [at for at in skipped if closed.how(at) is not Closed.NEVER_OPENED] == []


def test_a_ping_flood_is_answered_one_by_one() -> None:
    assert of_kind(Peer().send(ping() * 500), PING) == [Frame(PING, 1, 0, b"12345678")] * 500
