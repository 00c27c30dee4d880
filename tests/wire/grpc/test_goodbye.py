"""How a server ends its connections: GOAWAY in two steps, calls answered, nobody kept waiting."""

import asyncio

import pytest
from hyperframe.frame import GoAwayFrame, HeadersFrame, PingFrame, RstStreamFrame

from emulator.api import pb
from emulator.api.dispatch import Outcome, Reply
from emulator.api.replies import Parked
from emulator.errors import Code
from emulator.wire.grpc.calls import StreamingCall
from tests.wire.grpc.memory import Arrived, Fake, Lab, RawPeer, framed, path_of
from tests.wire.grpc.test_pressure import calls

GET_TOPIC = path_of("GetTopic")
PUBLISH = path_of("Publish")
STREAM = path_of("StreamingPull")
REQUEST = framed(pb.GetTopicRequest(topic="projects/acme/topics/orders").SerializeToString())

LAST_OF_ALL = 2**31 - 1


def goaways(arrived: list[Arrived]) -> list[tuple[int, int, bytes]]:
    frames = [each.frame for each in arrived]
    return [
        (each.last_stream_id, each.error_code, each.additional_data) for each in frames if isinstance(each, GoAwayFrame)
    ]


def pings(arrived: list[Arrived]) -> list[bytes]:
    return [each.frame.opaque_data for each in arrived if isinstance(each.frame, PingFrame)]


class Quiet:
    """A conversation that says nothing."""

    def __init__(self, call: StreamingCall) -> None:
        self.events: list[str] = []

    def message(self, request: object) -> None: ...

    def half_closed(self) -> None: ...

    def sent(self) -> None: ...

    def gone(self) -> None:
        self.events.append("gone")

    def writable(self) -> None: ...


class Stopping:
    """A server that stops while a call is parked or streams."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.parked: Parked[Reply] = Parked(lambda: None, lambda: None)
        self.quiet: list[Quiet] = []
        self.fake = Fake(lab, {STREAM: self._open}, get_topic=self._answer)
        self.task: asyncio.Task[None] | None = None

    def _open(self, call: StreamingCall) -> Quiet:
        self.quiet.append(Quiet(call))
        return self.quiet[-1]

    def _answer(self) -> Outcome:
        return self.parked

    def stop(self) -> None:
        self.task = self.lab.loop.create_task(self.fake.server.shutdown())
        self.lab.turn(3)

    @property
    def done(self) -> bool:
        assert self.task is not None
        return self.task.done()


@pytest.fixture
def stopping(lab: Lab) -> Stopping:
    return Stopping(lab)


def ack(peer: RawPeer, opaque: bytes) -> None:
    peer.send(PingFrame(0, opaque_data=opaque, flags=["ACK"]))


@pytest.mark.rule("T10", "T35")
def test_the_first_goaway_names_no_stream_and_asks_for_a_sign(stopping: Stopping) -> None:
    peer = stopping.fake.raw_peer()
    peer.arrived()

    stopping.stop()

    arrived = peer.arrived()
    assert goaways(arrived) == [(LAST_OF_ALL, 0, b"")]
    assert len(pings(arrived)) == 1
    assert not stopping.done


@pytest.mark.rule("T35")
@pytest.mark.parametrize("acks", [True, False])
def test_the_second_comes_with_the_sign_or_after_200_ms(lab: Lab, stopping: Stopping, acks: bool) -> None:
    peer = stopping.fake.raw_peer()
    peer.request(1, PUBLISH, REQUEST)
    stopping.stop()
    (opaque,) = pings(peer.arrived())
    lab.advance(0.19)
    assert (goaways(peer.arrived()), stopping.done) == ([], False)

    if acks:
        ack(peer, opaque)
        lab.turn(5)
    else:
        lab.advance(0.02)

    assert goaways(peer.arrived()) == [(1, 0, b"")]
    assert (peer.transport.lost, peer.transport.aborted, stopping.done) == (True, False, True)


@pytest.mark.rule("T35")
def test_another_ping_is_no_sign(lab: Lab, stopping: Stopping) -> None:
    peer = stopping.fake.raw_peer()
    stopping.stop()
    peer.arrived()

    ack(peer, b"whatever")
    lab.turn(5)

    assert (goaways(peer.arrived()), stopping.done) == ([], False)


@pytest.mark.rule("T35")
def test_before_the_second_new_calls_are_answered(lab: Lab, stopping: Stopping) -> None:
    peer = stopping.fake.raw_peer()
    stopping.stop()
    (opaque,) = pings(peer.arrived())

    peer.request(1, PUBLISH, REQUEST)
    assert peer.statuses() == {1: Code.OK}
    ack(peer, opaque)
    lab.turn(5)

    assert goaways(peer.arrived()) == [(1, 0, b"")]


@pytest.mark.rule("T10", "T35")
def test_a_call_that_waits_is_answered_first_and_later_streams_are_not(lab: Lab, stopping: Stopping) -> None:
    peer = stopping.fake.raw_peer()
    peer.request(1, GET_TOPIC, REQUEST)
    stopping.stop()
    (opaque,) = pings(peer.arrived())
    ack(peer, opaque)
    lab.turn(5)
    assert (goaways(peer.arrived()), stopping.done) == ([(1, 0, b"")], False)
    peer.request(3, PUBLISH, REQUEST)
    assert peer.arrived() == []

    stopping.parked.complete(pb.Topic())
    lab.turn(5)

    assert peer.statuses() == {1: Code.OK}
    assert [call.rpc for call in stopping.fake.calls] == ["get_topic"]
    assert (peer.transport.lost, peer.transport.aborted, stopping.done) == (True, False, True)


@pytest.mark.rule("T10")
def test_a_stream_ends_with_unavailable_at_once(lab: Lab, stopping: Stopping) -> None:
    peer = stopping.fake.raw_peer()
    peer.request(1, STREAM)
    peer.arrived()

    stopping.stop()

    arrived = peer.arrived()
    (end,) = [each for each in arrived if isinstance(each.frame, HeadersFrame)]
    assert end.fields["grpc-status"] == str(int(Code.UNAVAILABLE))
    assert "shutdownNow" not in end.fields["grpc-message"]
    assert [each.frame.error_code for each in arrived if isinstance(each.frame, RstStreamFrame)] == [0]
    assert stopping.quiet[0].events == ["gone"]
    lab.advance(0.21)
    assert stopping.done


@pytest.mark.rule("T10")
@pytest.mark.parametrize("whole", [True, False], ids=["a call that nobody answers", "a request that never ends"])
def test_a_second_is_given_and_no_more(lab: Lab, stopping: Stopping, whole: bool) -> None:
    peer = stopping.fake.raw_peer()
    peer.request(1, GET_TOPIC, REQUEST if whole else None)
    stopping.stop()
    lab.advance(0.21)
    lab.advance(0.7)
    assert not stopping.done

    lab.advance(0.2)

    assert (peer.transport.aborted, stopping.done) == (True, True)
    assert stopping.parked.done == whole
    assert stopping.fake.server.counts() == {"connections": 0, "streams": 0, "buffered_bytes": 0}


@pytest.mark.rule("T10")
def test_a_peer_that_does_not_read_is_not_waited_for_longer(lab: Lab, stopping: Stopping) -> None:
    peer = stopping.fake.raw_peer(room=0)
    for piece in calls(6_000):
        peer.transport.deliver(piece.replace(GET_TOPIC.encode(), PUBLISH.encode().ljust(len(GET_TOPIC), b"/")))

    async def stop() -> bool:
        await stopping.fake.server.shutdown()
        return peer.transport.lost

    task = lab.loop.create_task(stop())
    lab.advance(0.1)
    lab.advance(0.21)
    assert not task.done()

    lab.advance(1)

    assert (peer.transport.aborted, task.done()) == (True, True)
    assert task.result() is True, "it returned before all was over"


def test_who_has_gone_is_not_waited_for(lab: Lab, stopping: Stopping) -> None:
    peer = stopping.fake.raw_peer()
    stopping.stop()

    peer.transport.die()
    lab.turn(5)

    assert (stopping.done, lab.timers()) == (True, 0)


def test_a_server_without_connections_stops_at_once(stopping: Stopping) -> None:
    stopping.stop()

    assert stopping.done


def test_saying_goodbye_twice_says_it_once(stopping: Stopping) -> None:
    peer = stopping.fake.raw_peer()
    peer.arrived()
    stopping.stop()

    stopping.fake.connections[0].say_goodbye()

    assert len(goaways(peer.arrived())) == 1
