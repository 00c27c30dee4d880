"""Exactly-once as callers see it: which ids were refused, and what streams are told (service.md §8, §7.3.10)."""

from typing import Any

import pytest

from emulator.api import pb
from emulator.errors import Code, PubsubError
from tests.api.streaming import Client, messages
from tests.api.world import ORDERS, PULLED, World, texts

INVALID = "PERMANENT_FAILURE_INVALID_ACK_ID"
UNORDERED = "TRANSIENT_FAILURE_UNORDERED_ACK_ID"


@pytest.fixture
def once() -> World:
    """A world whose one subscription has exactly-once and ordering."""
    world = World.empty()
    world.call("CreateTopic", name=ORDERS)
    world.call(
        "CreateSubscription",
        name=PULLED,
        topic=ORDERS,
        ackDeadlineSeconds=10,
        enableExactlyOnceDelivery=True,
        enableMessageOrdering=True,
    )
    return world


def late_ids(world: World, count: int) -> list[str]:
    """Ids of deliveries whose deadline has passed."""
    world.publish(ORDERS, *map(str, range(count)))
    late = [received.ack_id for received in world.pull(PULLED, count)]
    world.clock.advance(10)
    return late


def publish_in_order(world: World, *bodies: str) -> None:
    drafts = [{"attributes": {"text": text}, "orderingKey": "k"} for text in bodies]
    world.call("Publish", topic=ORDERS, messages=drafts)


def refusal(world: World, method: str, **request: Any) -> PubsubError:
    with pytest.raises(PubsubError) as caught:
        world.call(method, subscription=PULLED, **request)
    return caught.value


class TestUnaryCalls:
    @pytest.mark.rule("S8.2", "S8.4", "S8.5", "S8.6", "V6", "C20")
    @pytest.mark.parametrize(
        ("method", "more"), [("Acknowledge", {}), ("ModifyAckDeadline", {"ackDeadlineSeconds": 20})]
    )
    def test_name_the_ids_that_failed_and_no_others(self, once: World, method: str, more: dict[str, int]) -> None:
        (late,) = late_ids(once, 1)
        (fresh,) = once.pull(PULLED)

        problem = refusal(once, method, ackIds=[fresh.ack_id, late], **more)

        assert (problem.code, problem.reason) == (Code.INVALID_ARGUMENT, "EXACTLY_ONCE_ACKID_FAILURE")
        assert problem.metadata == {late: INVALID}
        assert all(part in problem.message for part in ("ack_ids", late, INVALID))

    @pytest.mark.rule("S8.13")
    def test_have_a_short_message_however_many_failed(self, once: World) -> None:
        problem = refusal(once, "Acknowledge", ackIds=late_ids(once, 1_000))

        assert len(problem.metadata) == 1_000
        assert len(problem.message.encode()) <= 500

    @pytest.mark.rule("S8.11")
    def test_say_of_a_malformed_id_nothing_that_clients_would_retry(self, once: World) -> None:
        problem = refusal(once, "Acknowledge", ackIds=["no ack id"])

        assert (problem.code, problem.reason, problem.metadata) == (Code.INVALID_ARGUMENT, "", {})


@pytest.mark.rule("S8.1")
@pytest.mark.parametrize(
    ("fields", "seconds"),
    [({}, 60), ({"ackDeadlineSeconds": 11}, 11), ({"enableExactlyOnceDelivery": False}, 10)],
)
def test_the_default_deadline(once: World, fields: dict[str, Any], seconds: int) -> None:
    asked = {"enableExactlyOnceDelivery": True, **fields}

    made = once.call("CreateSubscription", name="projects/acme/subscriptions/new", topic=ORDERS, **asked)

    assert made.ack_deadline_seconds == seconds


class TestStreams:
    @pytest.mark.rule("S7.3.10", "V11", "B070")
    def test_are_told_what_became_of_acks(self, once: World) -> None:
        (late,) = late_ids(once, 1)
        client = Client.opened(once, protocolVersion=1)
        client.read()
        publish_in_order(once, "1", "2")
        client.read()
        expired_again, first, second = client.ack_ids

        client.send(ackIds=[second, late, expired_again])
        (response,) = client.read()

        assert response.acknowledge_confirmation == pb.StreamingPullResponse.AcknowledgeConfirmation(
            ack_ids=[expired_again], invalid_ack_ids=[late], unordered_ack_ids=[second]
        )
        assert response.subscription_properties.exactly_once_delivery_enabled
        assert not response.received_messages
        assert not response.HasField("modify_ack_deadline_confirmation")
        client.send(ackIds=[first, second])
        assert [list(each.acknowledge_confirmation.ack_ids) for each in client.read()] == [[first, second]]

    @pytest.mark.rule("S7.3.10", "S8.9")
    def test_are_told_what_became_of_modacks(self, once: World) -> None:
        (late,) = late_ids(once, 1)
        client = Client.opened(once)
        once.publish(ORDERS, "new")
        client.read()
        again, new = client.ack_ids

        client.send(modifyDeadlineAckIds=[late, again, new], modifyDeadlineSeconds=[10, 0, 600])
        response = client.read()[0]

        assert response.modify_ack_deadline_confirmation == (
            pb.StreamingPullResponse.ModifyAckDeadlineConfirmation(ack_ids=[again, new], invalid_ack_ids=[late])
        )
        assert not response.HasField("acknowledge_confirmation")

    @pytest.mark.rule("S7.3.10")
    def test_are_told_at_once_on_the_first_request_too(self, once: World) -> None:
        (late,) = late_ids(once, 1)

        client = Client.opened(once, ackIds=[late])

        told = [list(each.acknowledge_confirmation.invalid_ack_ids) for each in client.read()]
        assert [late] in told

    @pytest.mark.rule("S7.3.10")
    def test_that_settle_much_between_two_responses_get_one(self, once: World) -> None:
        late = late_ids(once, 3)
        client = Client.opened(once, maxOutstandingMessages=1)
        client.read()

        for ack_id in late:
            client.send(ackIds=[ack_id])
        responses = client.read()

        assert [list(each.acknowledge_confirmation.invalid_ack_ids) for each in responses] == [late]

    @pytest.mark.rule("S7.3.10")
    def test_are_told_what_happened_elsewhere_by_no_one(self, once: World) -> None:
        """Unary calls have answers of their own."""
        once.publish(ORDERS, "one")
        client = Client.opened(once)
        client.read()

        once.call("Acknowledge", subscription=PULLED, ackIds=client.ack_ids)

        assert client.read() == []

    @pytest.mark.rule("S7.3.10", "S8.10")
    def test_get_no_confirmation_while_it_is_off(self, once: World) -> None:
        once.update_subscription(PULLED, "enableExactlyOnceDelivery", enableExactlyOnceDelivery=False)
        once.publish(ORDERS, "one", "two")
        client = Client.opened(once)
        client.read()

        client.send(ackIds=client.ack_ids[:1], modifyDeadlineAckIds=client.ack_ids[1:], modifyDeadlineSeconds=[60])

        assert client.read() == []

    @pytest.mark.rule("S8.10", "S7.3.5")
    def test_hear_at_once_that_it_is_on(self, once: World) -> None:
        once.update_subscription(PULLED, "enableExactlyOnceDelivery", enableExactlyOnceDelivery=False)
        client = Client.opened(once, protocolVersion=1)
        client.read()

        once.update_subscription(PULLED, "enableExactlyOnceDelivery", enableExactlyOnceDelivery=True)

        (response,) = client.read()
        assert response.subscription_properties.exactly_once_delivery_enabled
        once.publish(ORDERS, "one")
        client.read()
        client.send(ackIds=client.ack_ids)
        (response,) = client.read()
        assert list(response.acknowledge_confirmation.ack_ids) == client.ack_ids

    @pytest.mark.rule("S7.3.10", "O19")
    def test_that_do_not_read_get_all_of_it_once_they_do(self, once: World) -> None:
        late = late_ids(once, 2)
        client = Client.opened(once, window=0)

        client.send(ackIds=late[:1])
        client.send(ackIds=late[1:])
        assert client.read() == []
        client.grow()

        confirmed = [list(each.acknowledge_confirmation.invalid_ack_ids) for each in client.read()]
        assert [ids for ids in confirmed if ids] == [late]

    @pytest.mark.rule("S7.3.10", "T33")
    def test_that_never_read_end_before_what_they_are_owed_grows_large(self, once: World) -> None:
        late = late_ids(once, 1_000)
        client = Client.opened(once, window=0)

        for _ in range(200):
            client.send(ackIds=late)

        assert client.call.ended is Code.RESOURCE_EXHAUSTED
        assert not once.broker.counts()["pull_streams"]

    @pytest.mark.rule("S7.3.10")
    def test_get_none_after_it_was_switched_off(self, once: World) -> None:
        late = late_ids(once, 1)
        client = Client.opened(once, window=0, protocolVersion=1)
        client.send(ackIds=late)

        once.update_subscription(PULLED, "enableExactlyOnceDelivery", enableExactlyOnceDelivery=False)
        client.grow()

        assert [response.HasField("acknowledge_confirmation") for response in client.read()] == [False, False]

    @pytest.mark.rule("S7.3.10")
    def test_are_told_once_of_an_id_with_several_deadlines(self, once: World) -> None:
        once.publish(ORDERS, "one")
        client = Client.opened(once)
        client.read()

        client.send(modifyDeadlineAckIds=client.ack_ids * 3, modifyDeadlineSeconds=[20, 30, 20])

        (response,) = client.read()
        assert list(response.modify_ack_deadline_confirmation.ack_ids) == client.ack_ids

    @pytest.mark.rule("S7.3.10", "S7.3.7")
    def test_that_half_close_are_told_before_the_end(self, once: World) -> None:
        (late,) = late_ids(once, 1)
        client = Client.opened(once, maxOutstandingMessages=1)
        client.read()

        client.send(ackIds=[late])
        client.half_close()

        assert client.call.ended is Code.OK
        assert list(client.call.sent[-1].acknowledge_confirmation.invalid_ack_ids) == [late]

    @pytest.mark.rule("S7.3.10", "S8.11", "S7.3.4")
    def test_end_with_a_malformed_id_and_nothing_is_settled(self, once: World) -> None:
        once.publish(ORDERS, "one")
        client = Client.opened(once)
        client.read()
        before = messages(once)

        client.send(ackIds=[*client.ack_ids, "nonsense"])

        assert (client.call.ended, messages(once)) == (Code.INVALID_ARGUMENT, before)

    @pytest.mark.rule("S7.3.10")
    def test_are_told_once_of_an_id_that_stands_twice(self, once: World) -> None:
        once.publish(ORDERS, "one")
        client = Client.opened(once)
        client.read()

        client.send(ackIds=client.ack_ids * 2)

        (response,) = client.read()
        assert list(response.acknowledge_confirmation.ack_ids) == client.ack_ids
        assert texts(once.pull(PULLED)) == []
