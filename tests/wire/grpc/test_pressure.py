"""Peers that write more than they read, and many that write at once."""

from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace

import pytest
from h2.settings import SettingCodes
from hyperframe.frame import DataFrame, GoAwayFrame, HeadersFrame, RstStreamFrame, SettingsFrame

from emulator.api import pb
from emulator.errors import Code
from emulator.wire.grpc import server as server_module
from tests.wire.grpc.memory import Fake, Lab, MemoryTransport, framed, head, path_of

GET_TOPIC = path_of("GetTopic")
REQUEST = framed(pb.GetTopicRequest(topic="projects/acme/topics/orders").SerializeToString())
TOPIC = pb.Topic(name="projects/acme/topics/orders")

# What stands between a peer and a server's process: the system's buffers on the way there and on the way back.
KERNEL_BYTES = 262_144
# Room for the buffer's high-water mark, what one burst of frames adds to it, and what was received but not handled.
HELD_MAX_BYTES = 800_000


@pytest.fixture
def fake(lab: Lab) -> Fake:
    return Fake(lab, get_topic=lambda: TOPIC)


def call_bytes(first: int, count: int) -> bytes:
    """So many calls, on every odd stream from `first` on; their header block touches no table."""
    block = b"".join(
        b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in head(GET_TOPIC)
    )
    parts = []
    for stream in range(first, first + 2 * count, 2):
        parts.append(HeadersFrame(stream, data=block, flags=["END_HEADERS"]).serialize())
        parts.append(DataFrame(stream, data=REQUEST, flags=["END_STREAM"]).serialize())
    return b"".join(parts)


def calls(count: int, at_once: int = 1_000) -> Iterator[bytes]:
    """The bytes of `count` calls in pieces; ids are patched in, since building frames would take the longest."""
    template = bytearray(call_bytes(1, at_once))
    size = len(template) // at_once
    data_at = size - 9 - len(REQUEST)
    for batch in range(count // at_once):
        for index in range(at_once):
            stream = (1 + 2 * (batch * at_once + index)).to_bytes(4, "big")
            start = index * size
            template[start + 5 : start + 9] = stream
            template[start + data_at + 5 : start + data_at + 9] = stream
        yield bytes(template)


@pytest.mark.rule("T33")
@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_a_peer_that_never_reads_is_not_read_either(lab: Lab, fake: Fake, count: int) -> None:
    peer = fake.raw_peer(room=KERNEL_BYTES)
    peer.open_window()
    transport = peer.transport
    reply_size = size_of_a_reply(lab)
    peer.arrived()
    written, held = 0, 0

    for piece in calls(count):
        while transport.unread > KERNEL_BYTES:
            assert not transport.is_reading()
            before = fake.server.counts()["buffered_bytes"], len(fake.calls)
            lab.turn(10)
            after = fake.server.counts()["buffered_bytes"], len(fake.calls)
            assert after == before, "it works on though nobody takes the answers"
            # It has stopped, so the peer could wait for ever. It reads a little now, and finds its answers.
            written += len(transport.read())
            lab.turn(10)
        transport.deliver(piece)
        lab.turn()
        held = max(held, fake.server.counts()["buffered_bytes"])
        assert transport.get_write_buffer_size() <= 262_144 + 64 * reply_size
    while piece := transport.read():
        written += len(piece)
        lab.turn(5)

    assert 262_144 < held < HELD_MAX_BYTES
    # The rest are some updates of the connection's window.
    assert 0 <= written - count * reply_size < 1_000
    assert (len(fake.calls), fake.is_empty()) == (count, True)


def size_of_a_reply(lab: Lab) -> int:
    """How many bytes one call is answered with; each is answered with as many."""
    peer = Fake(lab, get_topic=lambda: TOPIC).raw_peer()
    peer.arrived()
    peer.transport.deliver(call_bytes(1, 1))
    return len(peer.transport.read())


@pytest.mark.rule("T33")
def test_a_peer_that_stops_reading_is_served_again_when_it_reads(lab: Lab, fake: Fake) -> None:
    peer = fake.raw_peer(room=1_000)
    peer.open_window()
    for piece in calls(6_000):
        peer.transport.deliver(piece)
    lab.turn(10)
    assert peer.transport.is_reading() is False
    assert len(fake.calls) < 6_000

    statuses: dict[int, int] = {}
    while len(statuses) < 6_000:
        peer.transport.room = None
        statuses |= peer.statuses()
        lab.turn()

    assert set(statuses.values()) == {Code.OK}
    assert peer.transport.is_reading() is True


@pytest.mark.rule("T32", "T33")
def test_a_peer_that_never_opens_its_window_is_refused_in_the_end(lab: Lab, fake: Fake) -> None:
    peer = fake.raw_peer()
    for piece in calls(20_000):
        peer.transport.deliver(piece)
        lab.turn(10)
    lab.until(lambda: peer.transport.unread == 0 and fake.server.counts()["streams"] == 10_000)

    refused = [each.frame for each in peer.arrived() if isinstance(each.frame, RstStreamFrame)]

    assert {frame.error_code for frame in refused} == {7}
    assert len(refused) + len(fake.calls) == 20_000
    reply = len(framed(TOPIC.SerializeToString()))
    assert fake.server.counts()["buffered_bytes"] <= 10_000 * reply


@pytest.mark.rule("T33")
def test_large_replies_that_nobody_takes_are_bounded(lab: Lab, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_QUEUED_MAX_BYTES", 200)
    peer = fake.peer(credits=False)
    peer.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
    peer.exchange()
    size = len(framed(TOPIC.SerializeToString()))
    replies = [peer.call(GET_TOPIC, REQUEST) for _ in range(200 // size + 2)]

    assert [reply.ended for reply in replies[:-1]] == [False] * (len(replies) - 1)
    assert replies[-1].status == Code.RESOURCE_EXHAUSTED
    assert fake.server.counts()["buffered_bytes"] == size * (len(replies) - 1)
    peer.cancel(1)
    assert not peer.call(GET_TOPIC, REQUEST).ended


class Ticking:
    """A clock on which every look takes a millisecond."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 0.001
        return self._now


class TestFairness:
    """A peer that says much at once does not keep others waiting."""

    @pytest.fixture(autouse=True)
    def time_passes(self, no_time_passes: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server_module, "time", SimpleNamespace(monotonic=Ticking().monotonic))

    @pytest.mark.rule("T34")
    def test_a_long_burst_is_worked_off_in_turns(self, lab: Lab, fake: Fake) -> None:
        loud = fake.raw_peer()
        loud.transport.deliver(b"".join(calls(1_000)))
        done = [len(fake.calls)]
        while len(fake.calls) < 1_000:
            assert loud.transport.is_reading() is False
            lab.turn()
            done.append(len(fake.calls))

        steps = [after - before for before, after in pairwise([0, *done])]
        # Five looks at the clock are five frames, and a call is two: not even a heavy call lets more than that pass.
        assert max(steps) <= 3
        assert len(loud.statuses()) == 1_000
        lab.until(loud.transport.is_reading)

    @pytest.mark.rule("T34")
    def test_another_peer_is_answered_meanwhile(self, lab: Lab, fake: Fake) -> None:
        loud, quiet = fake.raw_peer(), fake.raw_peer()
        loud.transport.deliver(b"".join(calls(2_000)))
        lab.turn()

        quiet.transport.deliver(b"".join(calls(1, at_once=1)))

        assert list(quiet.statuses().values()) == [Code.OK]
        assert len(fake.calls) < 2_000
        lab.until(lambda: len(fake.calls) == 2_001)

    @pytest.mark.rule("T34")
    def test_what_comes_meanwhile_waits_its_turn(self, lab: Lab, fake: Fake) -> None:
        loud = fake.raw_peer()
        loud.open_window()
        pieces = list(calls(3_000))
        loud.transport.deliver(pieces[0])
        before = len(fake.calls)

        for piece in pieces[1:]:
            loud.transport.deliver(piece)

        assert len(fake.calls) == before
        lab.until(lambda: len(fake.calls) == 3_000)
        assert len(loud.statuses()) == 3_000

    @pytest.mark.rule("T34")
    def test_a_peer_that_sends_no_more_is_answered_first(self, lab: Lab, fake: Fake) -> None:
        loud = fake.raw_peer()
        loud.open_window()
        loud.transport.deliver(b"".join(calls(1_000)))
        assert len(fake.calls) < 1_000

        loud.transport.stop_sending()
        lab.until(lambda: fake.server.counts()["connections"] == 0)

        assert set(loud.statuses().values()) == {Code.OK}
        assert len(fake.calls) == 1_000

    def test_one_that_does_not_read_either_is_dropped(self, lab: Lab, fake: Fake) -> None:
        loud = fake.raw_peer()
        loud.transport.deliver(b"".join(calls(1_000)))
        loud.transport.stop_sending()
        fake.connections[0].pause_writing()

        lab.turn(2)
        lab.advance(1)

        assert len(fake.calls) < 1_000
        assert fake.server.counts()["connections"] == 0

    def test_a_peer_that_goes_meanwhile_is_forgotten(self, lab: Lab, fake: Fake) -> None:
        loud = fake.raw_peer()
        loud.transport.deliver(b"".join(calls(1_000)))

        loud.transport.die()
        lab.turn(10)

        assert len(fake.calls) < 1_000
        assert fake.server.counts()["connections"] == 0


class TestBadPeers:
    """A peer that breaks the protocol."""

    GARBAGE = b"\0\0\0\0\0\0\0\0\0"  # DATA on stream 0

    def test_it_is_told_and_closed(self, lab: Lab, fake: Fake) -> None:
        peer = fake.raw_peer()
        peer.arrived()

        peer.transport.deliver(self.GARBAGE)
        lab.turn()

        frames = [each.frame for each in peer.arrived()]
        assert [frame.error_code for frame in frames if isinstance(frame, GoAwayFrame)] == [1]
        assert (peer.transport.lost, peer.transport.aborted) == (True, False)
        assert fake.server.counts()["connections"] == 0

    def test_replies_that_were_made_before_leave_first(self, lab: Lab, fake: Fake) -> None:
        peer = fake.raw_peer()
        peer.transport.deliver(call_bytes(1, 3) + self.GARBAGE)
        lab.turn()

        assert peer.statuses() == {1: 0, 3: 0, 5: 0}

    def test_one_that_does_not_read_either_is_dropped_after_a_second(self, lab: Lab, fake: Fake) -> None:
        peer = fake.raw_peer(room=0)
        for piece in calls(6_000):
            peer.transport.deliver(piece)
        peer.transport.stop_sending()
        lab.advance(0.9)
        assert (peer.transport.is_closing(), peer.transport.lost) == (True, False)

        lab.advance(0.2)

        assert (peer.transport.lost, peer.transport.aborted) == (True, True)
        assert fake.server.counts() == {"connections": 0, "streams": 0, "buffered_bytes": 0}

    def test_nothing_is_read_any_more(self, lab: Lab, fake: Fake) -> None:
        peer = fake.raw_peer(room=300_000)
        fill(peer.transport)
        peer.transport.deliver(self.GARBAGE)
        lab.turn(5)
        while not peer.transport.is_closing():
            peer.transport.read()
            lab.turn()
        before = len(fake.calls)
        fake.connections[0].data_received(call_bytes(99_999, 1))

        while peer.transport.read():
            lab.turn(3)

        assert len(fake.calls) == before
        assert peer.transport.lost


def fill(transport: MemoryTransport) -> None:
    """Have more answered than the peer's end takes in."""
    for piece in calls(5_000):
        transport.deliver(piece)


def test_the_patched_frames_are_frames(lab: Lab, fake: Fake) -> None:
    (piece,) = calls(2, at_once=2)

    assert piece == call_bytes(1, 2)
    peer = fake.raw_peer()
    peer.transport.deliver(piece)
    assert peer.statuses() == {1: Code.OK, 3: Code.OK}


@pytest.mark.rule("T33")
def test_large_answers_do_not_pile_up_before_the_socket_is_looked_at(lab: Lab) -> None:
    size = 200_000
    fake = Fake(lab, get_topic=lambda: pb.Topic(labels={"big": "v" * size}))
    deaf = fake.raw_peer(room=0)
    deaf.open_window()
    deaf.send(SettingsFrame(0, {SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1}))

    deaf.transport.deliver(b"".join(calls(60)))

    assert len(fake.calls) <= HELD_MAX_BYTES // size
    assert fake.server.counts()["buffered_bytes"] < HELD_MAX_BYTES
