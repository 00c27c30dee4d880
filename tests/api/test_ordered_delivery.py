"""Ordering keys as Pull and StreamingPull show them (service.md §9)."""

from typing import Any

import pytest

from tests.api.streaming import Client
from tests.api.world import ORDERS, PULLED, World, texts

KEYS = "abc"


@pytest.fixture
def world() -> World:
    """ORDERS, and PULLED, an ordered subscription of it."""
    world = World.empty()
    world.call("CreateTopic", name=ORDERS)
    world.call("CreateSubscription", name=PULLED, topic=ORDERS, enableMessageOrdering=True)
    return world


def by_key(received: list[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in received:
        found.setdefault(each.message.ordering_key, []).append(each.message.attributes["text"])
    return found


def publish_rounds(world: World, count: int) -> dict[str, list[str]]:
    """So many messages of each key, in turn; what has to come."""
    for number in range(count):
        for key in KEYS:
            world.publish(ORDERS, f"{key}{number}", key=key)
    return {key: [f"{key}{number}" for number in range(count)] for key in KEYS}


@pytest.mark.rule("S9.2", "B038")
@pytest.mark.parametrize("most", [1, 4, 1_000])
def test_pulls_keep_the_order_from_reply_to_reply(world: World, most: int) -> None:
    expected = publish_rounds(world, 30)

    received: list[Any] = []
    while some := world.pull(PULLED, most):
        received += some
        world.acknowledge(PULLED, some)

    assert by_key(received) == expected


@pytest.mark.rule("S9.2", "B038")
@pytest.mark.parametrize("most", [0, 1, 4])
def test_a_stream_keeps_the_order_from_response_to_response(world: World, most: int) -> None:
    expected = publish_rounds(world, 30)
    client = Client.opened(world, maxOutstandingMessages=most)

    while some := [one for response in client.read() for one in response.received_messages]:
        client.send(ackIds=[one.ack_id for one in some])

    assert by_key(client.received) == expected


@pytest.mark.rule("S9.2", "S9.3")
def test_streams_share_keys_and_not_the_messages_of_one(world: World) -> None:
    clients = [Client.opened(world) for _ in range(3)]

    expected = publish_rounds(world, 10)
    for client in clients:
        client.read()

    assert [by_key(client.received) for client in clients] == [{key: expected[key]} for key in KEYS]


@pytest.mark.rule("S9.2")
def test_an_ordering_key_does_not_matter_without_the_option(world: World) -> None:
    world.call("DeleteSubscription", subscription=PULLED)
    world.call("CreateSubscription", name=PULLED, topic=ORDERS)
    world.publish(ORDERS, "a1", "a2", key="a")

    first, second = world.pull(PULLED, 1), world.pull(PULLED, 1)

    assert texts([*first, *second]) == ["a1", "a2"]


@pytest.mark.rule("S9.4", "S9.5", "B034")
def test_a_nack_over_unary_has_the_rest_come_again_to_a_pull(world: World) -> None:
    world.publish(ORDERS, "a1", "a2", "a3", key="a")
    held = world.pull(PULLED)
    world.acknowledge(PULLED, held[1:2])

    world.modify(PULLED, held[:1])

    assert texts(world.pull(PULLED)) == ["a1", "a2", "a3"]


@pytest.mark.rule("S9.4")
def test_a_nack_on_a_stream_has_the_rest_come_again_on_it(world: World) -> None:
    client = Client.opened(world)
    world.publish(ORDERS, "a1", "a2", "a3", key="a")
    client.read()

    client.send(modifyDeadlineAckIds=client.ack_ids[:1], modifyDeadlineSeconds=[0])

    assert client.read_texts() == ["a1", "a2", "a3"]


@pytest.mark.rule("S9.4")
def test_acks_and_a_nack_of_one_request_leave_what_the_nack_says(world: World) -> None:
    client = Client.opened(world)
    world.publish(ORDERS, "a1", "a2", "a3", key="a")
    client.read()
    first, second, third = client.ack_ids

    client.send(ackIds=[third, first], modifyDeadlineAckIds=[second], modifyDeadlineSeconds=[0])

    assert client.read_texts() == ["a2", "a3"]


@pytest.mark.rule("S9.4")
def test_acks_of_what_a_failure_took_along_are_ok_and_settle_nothing(world: World) -> None:
    world.publish(ORDERS, "a1", "a2", key="a")
    held = world.pull(PULLED)
    world.modify(PULLED, held[:1])

    world.acknowledge(PULLED, held[1:])
    world.modify(PULLED, held[1:], 600)

    assert texts(world.pull(PULLED)) == ["a1", "a2"]


@pytest.mark.rule("S9.3", "S9.4", "V14", "B166")
class TestAStreamIsLost:
    def test_its_keys_wait_for_their_deadline_and_come_whole(self, world: World) -> None:
        lost, other = Client.opened(world), Client.opened(world)
        world.publish(ORDERS, "a1", "a2", key="a")
        world.publish(ORDERS, "b1", "b2", key="b")
        lost.read()
        other.read()

        lost.disconnect()
        world.publish(ORDERS, "a3", key="a")
        world.publish(ORDERS, "b3", key="b")
        before = other.read_texts()
        other.send(ackIds=other.ack_ids)
        world.clock.advance(10)

        assert (before, other.read_texts()) == (["b3"], ["a1", "a2", "a3"])

    def test_what_it_has_may_be_acked_elsewhere_and_the_next_comes(self, world: World) -> None:
        lost, other = Client.opened(world, maxOutstandingMessages=1), Client.opened(world)
        world.publish(ORDERS, "a1", "a2", key="a")
        lost.read()
        lost.disconnect()
        before = other.read_texts()

        other.send(ackIds=lost.ack_ids)

        assert (before, other.read_texts()) == ([], ["a2"])

    def test_what_it_never_got_is_free_at_once(self, world: World) -> None:
        lost, other = Client.opened(world, window=0), Client.opened(world)
        world.publish(ORDERS, "a1", "a2", key="a")
        before = lost.read(), other.read()

        lost.disconnect()

        assert (before, other.read_texts()) == (([], []), ["a1", "a2"])


@pytest.mark.rule("S9.6")
def test_an_ack_out_of_order_is_remembered_and_undone_by_a_failure(world: World) -> None:
    world.publish(ORDERS, "a1", "a2", "a3", key="a")
    held = world.pull(PULLED)
    world.acknowledge(PULLED, held[1:])
    world.modify(PULLED, held[:1])
    again = world.pull(PULLED)

    world.acknowledge(PULLED, again[1:])
    world.acknowledge(PULLED, again[:1])
    world.clock.advance(600)

    assert texts(again) == ["a1", "a2", "a3"]
    assert world.pull(PULLED) == []


@pytest.mark.rule("S9.7")
def test_back_off_at_its_head_holds_up_a_key_and_no_other(world: World) -> None:
    world.update_subscription(PULLED, "retryPolicy", retryPolicy={"minimumBackoff": "2s"})
    client = Client.opened(world)
    world.publish(ORDERS, "a1", "a2", key="a")
    client.read()
    client.send(modifyDeadlineAckIds=client.ack_ids[:1], modifyDeadlineSeconds=[0])

    world.publish(ORDERS, "b1", key="b")
    world.clock.advance(1.999)
    before = client.read_texts()
    world.clock.advance(0.001)

    assert (before, client.read_texts()) == (["b1"], ["a1", "a2"])


@pytest.mark.rule("S9.1", "S4.subscription.enable_message_ordering")
def test_streams_say_that_the_subscription_is_ordered(world: World) -> None:
    client = Client.opened(world)
    world.publish(ORDERS, "a1", key="a")

    (response,) = client.read()

    assert response.subscription_properties.message_ordering_enabled
