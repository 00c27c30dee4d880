"""The dispatcher: which handler a row has, and how each failure leaves it."""

import logging
from typing import Any

import pytest

from emulator.api import pb
from emulator.api.catalogue import RPCS, Rpc
from emulator.api.dispatch import Dispatcher
from emulator.api.services import build_services
from emulator.clock import FakeClock
from emulator.engine.broker import Broker
from emulator.errors import Code, PubsubError
from tests.api.world import World, row

# Everything else comes with later issues and says so.
IMPLEMENTED = {
    "CreateTopic",
    "UpdateTopic",
    "Publish",
    "GetTopic",
    "ListTopics",
    "ListTopicSubscriptions",
    "DeleteTopic",
    "DetachSubscription",
    "CreateSubscription",
    "GetSubscription",
    "UpdateSubscription",
    "ListSubscriptions",
    "DeleteSubscription",
    "ModifyAckDeadline",
    "Acknowledge",
    "Pull",
    "ModifyPushConfig",
    "ListTopicSnapshots",
    "GetSnapshot",
    "ListSnapshots",
    "CreateSnapshot",
    "UpdateSnapshot",
    "DeleteSnapshot",
    "Seek",
}


class Service:
    """A Publisher with one method that answers and one that is broken."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def get_topic(self, request: pb.GetTopicRequest) -> pb.Topic:
        self.seen.append(request)
        return pb.Topic(name=request.topic)

    def delete_topic(self, request: pb.DeleteTopicRequest) -> pb.Empty:
        raise KeyError("a fault of our own")

    def __repr__(self) -> str:
        return "<Service>"


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def dispatcher(service: Service) -> Dispatcher:
    return Dispatcher({"google.pubsub.v1.Publisher": service})


def test_a_call_reaches_the_method_named_like_its_row(dispatcher: Dispatcher, service: Service) -> None:
    request = pb.GetTopicRequest(topic="t")

    reply = dispatcher.call(row("GetTopic"), request)

    assert reply == pb.Topic(name="t")
    assert service.seen == [request]


@pytest.mark.rule("S1.1")
@pytest.mark.parametrize("method", ["GetSubscription", "CreateTopic"])
def test_a_row_without_service_or_method_is_unimplemented_and_says_so(dispatcher: Dispatcher, method: str) -> None:
    rpc = row(method)

    with pytest.raises(PubsubError) as refusal:
        dispatcher.call(rpc, rpc.request())

    assert refusal.value.code is Code.UNIMPLEMENTED
    assert refusal.value.message == f"{rpc.service}.{method} is not implemented by this emulator yet."


def test_a_fault_becomes_internal_and_its_traceback_is_logged(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(PubsubError) as refusal:
        dispatcher.call(row("DeleteTopic"), pb.DeleteTopicRequest())

    assert refusal.value.code is Code.INTERNAL
    assert "KeyError" in refusal.value.message
    assert "a fault of our own" not in refusal.value.message
    assert "rpc=DeleteTopic failed unexpectedly" in caplog.text
    assert "KeyError: 'a fault of our own'" in caplog.text
    assert "in delete_topic" in caplog.text


def test_a_refusal_leaves_as_it_is_and_is_not_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(PubsubError) as refusal:
        world.call("GetTopic", topic="projects/acme/topics/absent")

    assert refusal.value.code is Code.NOT_FOUND
    assert caplog.records == []


@pytest.mark.rule("S1", "S1.1")
@pytest.mark.parametrize("rpc", RPCS, ids=lambda rpc: rpc.method)
def test_the_services_implement_what_exists_so_far(rpc: Rpc) -> None:
    dispatcher = Dispatcher(build_services(Broker(FakeClock())))

    if rpc.method in IMPLEMENTED:
        assert dispatcher.implements(rpc)
    else:
        assert not dispatcher.implements(rpc)
        with pytest.raises(PubsubError, match=f"{rpc.method} is not implemented"):
            dispatcher.call(rpc, rpc.request())


def test_reprs_tell_how_much_there_is() -> None:
    world = World.empty()
    services = build_services(world.broker)

    assert repr(world.dispatcher) == f"<Dispatcher implemented={len(IMPLEMENTED)}>"
    assert [repr(service) for service in services.values()] == [
        "<Publisher <Broker topics=0 subscriptions=0>>",
        "<Subscriber <Broker topics=0 subscriptions=0>>",
    ]
