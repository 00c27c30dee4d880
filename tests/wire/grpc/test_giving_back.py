"""Replies that hold leases: given back whenever the reply was not written (service.md §7.2.4)."""

import gc
from collections.abc import Callable
from typing import Any

import pytest

from emulator.api import pb
from emulator.api.replies import Parked, Undoable
from emulator.errors import Code
from emulator.wire.grpc import server as server_module
from emulator.wire.grpc.unary import UnaryCall
from tests.wire.grpc.memory import Fake, Lab, Peer, framed, path_of

PULL = path_of("Pull")
REQUEST = framed(pb.PullRequest(subscription="projects/acme/subscriptions/pulled", max_messages=10).SerializeToString())

# More than a stream's window at its start, so that the reply has to wait for the peer.
LARGE = 100_000

pytestmark = pytest.mark.rule("S7.2.4")


class Pulling:
    """A Pull that answers with leases; `returned` counts how often they were given back."""

    def __init__(self, size: int, *, parked: bool = False) -> None:
        self.returned = 0
        received = pb.ReceivedMessage(message=pb.PubsubMessage(data=bytes(size)))
        self.reply: Undoable[Any] = Undoable(pb.PullResponse(received_messages=[received]), self._give_back)
        self.parked: Parked[Any] = Parked(lambda: None, lambda: None)
        self._is_parked = parked

    def __call__(self) -> Any:
        return self.parked if self._is_parked else self.reply

    def _give_back(self) -> None:
        self.returned += 1


def lose(peer: Peer, lab: Lab) -> None:
    peer.transport.die()
    lab.turn(2)


def cancel(peer: Peer, lab: Lab) -> None:
    peer.cancel(1)


def break_the_protocol(peer: Peer, lab: Lab) -> None:
    peer.transport.deliver(b"\0\0\0\0\0\0\0\0\0")  # DATA on stream 0


def stop_sending(peer: Peer, lab: Lab) -> None:
    peer.transport.stop_sending()


WAYS_TO_GO = pytest.mark.parametrize("go", [lose, cancel, break_the_protocol, stop_sending])


@pytest.mark.parametrize("parked", [False, True])
def test_a_written_reply_is_kept(lab: Lab, parked: bool) -> None:
    pulling = Pulling(10, parked=parked)
    fake = Fake(lab, pull=pulling)
    peer = fake.peer()
    reply = peer.call(PULL, REQUEST)
    if parked:
        pulling.parked.complete(pulling.reply)
        lab.turn(2)
        peer.exchange()
    assert reply.status == Code.OK

    lose(peer, lab)

    assert pulling.returned == 0
    assert fake.connections[0].unwritten == []


@pytest.mark.parametrize("parked", [False, True])
@WAYS_TO_GO
def test_a_reply_that_waits_for_the_window_is_given_back(
    lab: Lab, parked: bool, go: Callable[[Peer, Lab], None]
) -> None:
    pulling = Pulling(LARGE, parked=parked)
    fake = Fake(lab, pull=pulling)
    peer = fake.peer(credits=False)
    reply = peer.call(PULL, REQUEST)
    if parked:
        pulling.parked.complete(pulling.reply)
        lab.turn(2)
        peer.exchange()
    assert (len(reply.data), reply.ended, pulling.returned) == (65_535, False, 0)

    go(peer, lab)

    assert pulling.returned == 1
    assert fake.server.counts()["streams"] == 0


def test_a_reply_that_waits_for_the_window_is_kept_once_it_is_out(lab: Lab) -> None:
    pulling = Pulling(LARGE)
    peer = Fake(lab, pull=pulling).peer(credits=False)
    reply = peer.call(PULL, REQUEST)
    peer.h2.increment_flow_control_window(LARGE, 1)
    peer.h2.increment_flow_control_window(LARGE)
    peer.exchange()
    assert reply.status == Code.OK

    lose(peer, lab)

    assert pulling.returned == 0


@pytest.mark.rule("T4")
@pytest.mark.parametrize("parked", [False, True])
def test_a_deadline_ends_a_reply_that_waits_for_the_window(lab: Lab, parked: bool) -> None:
    pulling = Pulling(LARGE, parked=parked)
    fake = Fake(lab, pull=pulling)
    peer = fake.peer(credits=False)
    reply = peer.call(PULL, REQUEST, ("grpc-timeout", "2S"))
    if parked:
        pulling.parked.complete(pulling.reply)
        lab.turn(2)
    lab.advance(1.9)
    peer.exchange()
    assert (len(reply.data), reply.ended, pulling.returned) == (65_535, False, 0)

    lab.advance(0.1)
    peer.exchange()

    assert (reply.status, reply.alone, pulling.returned) == (Code.DEADLINE_EXCEEDED, False, 1)
    assert (fake.is_empty(), lab.timers()) == (True, 0)


@pytest.mark.rule("T36")
def test_the_deadline_of_a_reply_that_is_out_is_none(lab: Lab) -> None:
    pulling = Pulling(LARGE)
    fake = Fake(lab, pull=pulling)
    peer = fake.peer(credits=False)
    reply = peer.call(PULL, REQUEST, ("grpc-timeout", "2S"))
    assert lab.timers() == 1

    peer.h2.increment_flow_control_window(LARGE, 1)
    peer.h2.increment_flow_control_window(LARGE)
    peer.exchange()

    assert (reply.status, lab.timers(), pulling.returned) == (Code.OK, 0, 0)


@pytest.mark.rule("T33")
def test_replies_to_parked_calls_are_bounded_too(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_QUEUED_MAX_BYTES", 3 * LARGE)
    pulls = [Pulling(LARGE, parked=True) for _ in range(10)]
    order = iter(pulls)
    fake = Fake(lab, pull=lambda: next(order)())
    peer = fake.peer(credits=False)
    streams = [peer.open(PULL) for _ in pulls]
    for stream in streams:
        peer.send(stream, REQUEST, end=True)

    for pulling in pulls:
        pulling.parked.complete(pulling.reply)
    lab.turn(5)
    peer.exchange()

    refused = [peer.replies[stream].ended for stream in streams]
    assert refused == [False] * 4 + [True] * 6
    assert {peer.replies[stream].status for stream in streams[4:]} == {Code.RESOURCE_EXHAUSTED}
    assert [pulling.returned for pulling in pulls] == [0] * 4 + [1] * 6


@pytest.mark.rule("T34")
def test_a_parked_reply_is_not_made_by_whoever_completes_it(lab: Lab) -> None:
    made: list[int] = []
    pulling = Pulling(10, parked=True)
    peer = Fake(lab, pull=pulling).peer()
    reply = peer.call(PULL, REQUEST)

    def make() -> object:
        made.append(1)
        return pulling.reply

    pulling.parked.complete_later(make)
    assert made == []
    lab.turn()
    peer.exchange()

    assert (reply.status, made) == (Code.OK, [1])


@pytest.mark.rule("T33")
def test_a_call_that_was_answered_is_freed_at_once(lab: Lab) -> None:
    fake = Fake(lab, pull=Pulling(10))
    peer = fake.peer()
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            assert peer.call(PULL, REQUEST).status == Code.OK
        assert [each for each in gc.get_objects() if isinstance(each, UnaryCall)] == []
    finally:
        gc.enable()


def test_a_reply_that_comes_while_the_connection_dies_is_given_back(lab: Lab) -> None:
    pulling = Pulling(10, parked=True)
    peer = Fake(lab, pull=pulling).peer()
    peer.call(PULL, REQUEST)

    pulling.parked.complete(pulling.reply)
    peer.transport.die()
    lab.turn(3)

    assert pulling.returned == 1


def test_a_reply_whose_writing_finds_the_connection_dead_is_given_back(lab: Lab) -> None:
    pulling = Pulling(10, parked=True)
    peer = Fake(lab, pull=pulling).peer()
    peer.call(PULL, REQUEST)
    peer.transport.die_unnoticed()

    pulling.parked.complete(pulling.reply)
    lab.turn(3)

    assert pulling.returned == 1


def test_a_reply_that_cannot_be_serialized_is_given_back(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    pulling = Pulling(10)
    pulling.reply.message = None
    peer = Fake(lab, pull=pulling).peer()

    assert peer.call(PULL, REQUEST).status == Code.INTERNAL
    assert pulling.returned == 1
    assert len(caplog.records) == 1


def test_an_error_after_a_parked_call_leaves_nothing_waiting(lab: Lab) -> None:
    pulling = Pulling(10, parked=True)
    fake = Fake(lab, pull=pulling)
    peer = fake.peer()
    peer.call(PULL, REQUEST)

    lose(peer, lab)
    lab.advance(10)

    assert pulling.parked.done
    assert fake.is_empty()
