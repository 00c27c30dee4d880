"""What a StreamingPull's responses hold (service.md §7.3.5 to §7.3.11, outbox.md O18, O19)."""

from typing import Any

import pytest

from emulator.api import pb
from tests.api.streaming import Client, publish_bytes
from tests.api.world import DEAD, ORDERS, PULLED, World

NEITHER = pb.StreamingPullResponse.SubscriptionProperties()


class TestMessages:
    @pytest.mark.rule("S7.3.5", "S7.1.1")
    def test_come_whole_and_with_an_ack_id(self, world: World) -> None:
        client = Client.opened(world)
        message = pb.PubsubMessage(data=b"hello", attributes={"a": "b"}, ordering_key="k")
        reply: Any = world.send("Publish", pb.PublishRequest(topic=ORDERS, messages=[message]))

        (response,) = client.read()

        (received,) = response.received_messages
        message.message_id = reply.message_ids[0]
        message.publish_time.FromNanoseconds(world.clock.now() // 1_000_000 * 1_000_000)
        assert received.message == message
        assert 0 < len(received.ack_id) <= 24
        assert received.delivery_attempt == 0

    @pytest.mark.rule("S7.3.5")
    def test_come_with_nothing_else_but_the_properties(self, world: World) -> None:
        client = Client.opened(world, protocolVersion=1)
        world.publish(ORDERS, "one", "two")
        client.read()

        client.send(ackIds=client.ack_ids[:1], modifyDeadlineAckIds=client.ack_ids[1:], modifyDeadlineSeconds=[60])
        world.publish(ORDERS, "three")
        client.read()

        fields = [{field.name for field, _ in response.ListFields()} for response in client.call.sent]
        assert fields == [{"received_messages", "subscription_properties"}] * 2

    @pytest.mark.rule("S7.3.11")
    def test_are_shared_by_streams_in_turn(self, world: World) -> None:
        clients = [Client.opened(world) for _ in range(3)]

        world.publish(ORDERS, *"abcdefg")

        assert [client.read_texts() for client in clients] == [["a", "d", "g"], ["b", "e"], ["c", "f"]]

    @pytest.mark.rule("S7.3.8", "B010", "V8", "C15")
    def test_come_one_at_a_time_when_one_may_be_outstanding(self, world: World) -> None:
        client = Client.opened(world, maxOutstandingMessages=1)
        world.publish(ORDERS, "one", "two", "three")
        before = client.read_texts() + client.read_texts()

        client.send(ackIds=client.ack_ids)

        assert (before, client.read_texts()) == (["one"], ["two"])

    @pytest.mark.rule("S7.3.8", "B011", "V8")
    def test_never_are_more_than_the_first_request_allows(self, world: World) -> None:
        client = Client.opened(world, maxOutstandingMessages=2)

        world.publish(ORDERS, *"abcdefghij")

        assert client.read_texts() == ["a", "b"]

    @pytest.mark.rule("S7.3.8", "V8", "V9", "C16")
    def test_are_held_back_by_their_bytes_but_one_always_comes(self, world: World) -> None:
        client = Client.opened(world, maxOutstandingBytes=1_000)
        publish_bytes(world, 5_000, 400, 400, 400)

        client.read()
        alone = len(client.received)
        client.send(ackIds=client.ack_ids)
        client.read()

        assert (alone, len(client.received)) == (1, 4)

    @pytest.mark.rule("S7.3.8", "V10")
    @pytest.mark.parametrize("limit", [0, -1])
    def test_are_not_held_back_without_limits(self, world: World, limit: int) -> None:
        client = Client.opened(world, maxOutstandingMessages=limit, maxOutstandingBytes=limit)

        for _ in range(3):
            world.publish(ORDERS, *["x"] * 1_000)

        assert len(client.read_texts()) == 3_000

    @pytest.mark.rule("S7.1.11", "O15")
    def test_say_their_attempts_where_a_dead_letter_policy_is(self, world: World) -> None:
        world.update_subscription(PULLED, "deadLetterPolicy", deadLetterPolicy={"deadLetterTopic": DEAD})
        client = Client.opened(world)
        world.publish(ORDERS, "hello")
        world.clock.advance(10)  # expires unwritten, which does not count
        client.read()
        world.clock.advance(10)
        client.read()
        client.send(modifyDeadlineAckIds=client.ack_ids[-1:], modifyDeadlineSeconds=[0])

        client.read()

        assert [received.delivery_attempt for received in client.received] == [1, 2, 3]


@pytest.mark.rule("O18", "S7.1.12", "T7")
class TestSize:
    def test_many_messages_share_a_response(self, world: World) -> None:
        client = Client.opened(world)

        world.publish(ORDERS, *["x"] * 500)

        assert [len(response.received_messages) for response in client.read()] == [500]

    def test_no_response_is_larger_than_4_million_bytes(self, world: World) -> None:
        client = Client.opened(world)

        publish_bytes(world, *[999_900] * 9)

        responses = client.read()
        assert [len(response.received_messages) for response in responses] == [4, 4, 1]
        assert all(response.ByteSize() <= 4_000_000 for response in responses)

    def test_what_is_larger_leaves_alone(self, world: World) -> None:
        client = Client.opened(world)

        publish_bytes(world, 10, 5_000_000, 10, 10)

        assert [len(response.received_messages) for response in client.read()] == [1, 1, 2]

    @pytest.mark.parametrize("size", [3_880, 3_895, 3_910, 4_100])
    def test_what_is_reckoned_is_no_less_than_what_is_sent(self, world: World, size: int) -> None:
        world.update_subscription(
            PULLED,
            "deadLetterPolicy",
            deadLetterPolicy={"deadLetterTopic": DEAD},
        )
        message = pb.PubsubMessage(data=b"x" * size, ordering_key="k")
        for _ in range(4):
            world.send("Publish", pb.PublishRequest(topic=ORDERS, messages=[message] * 300))
        client = Client.opened(world)

        client.read()

        largest = max(response.ByteSize() for response in client.call.sent)
        assert len(client.received) == 1_200
        assert 3_800_000 < largest <= 4_000_000


@pytest.mark.rule("S7.3.5", "B013")
class TestProperties:
    @pytest.mark.parametrize("ordered", [False, True])
    @pytest.mark.parametrize("exactly_once", [False, True])
    @pytest.mark.parametrize("version", [0, 1])
    def test_are_in_every_response(self, world: World, ordered: bool, exactly_once: bool, version: int) -> None:
        name = "projects/acme/subscriptions/special"
        world.call(
            "CreateSubscription",
            name=name,
            topic=ORDERS,
            enableMessageOrdering=ordered,
            enableExactlyOnceDelivery=exactly_once,
        )
        client = Client.opened(world, subscription=name, protocolVersion=version)
        world.publish(ORDERS, "hello")
        client.read()
        client.send()
        client.read()

        expected = pb.StreamingPullResponse.SubscriptionProperties(
            message_ordering_enabled=ordered, exactly_once_delivery_enabled=exactly_once
        )
        assert len(client.call.sent) == 1 + version
        assert all(response.HasField("subscription_properties") for response in client.call.sent)
        assert all(response.subscription_properties == expected for response in client.call.sent)

    @pytest.mark.rule("O19")
    def test_that_change_are_told_at_once_to_clients_that_know_them(self, world: World) -> None:
        client = Client.opened(world, protocolVersion=1)

        world.update_subscription(PULLED, "enableExactlyOnceDelivery", enableExactlyOnceDelivery=True)

        (response,) = client.read()
        assert response.subscription_properties.exactly_once_delivery_enabled
        assert not response.received_messages

    @pytest.mark.rule("K4", "O19")
    def test_that_change_are_told_other_clients_with_the_next_message(self, world: World) -> None:
        client = Client.opened(world)

        world.update_subscription(PULLED, "enableExactlyOnceDelivery", enableExactlyOnceDelivery=True)
        unsolicited = client.read()
        world.publish(ORDERS, "hello")

        (response,) = client.read()
        assert unsolicited == []
        assert response.subscription_properties.exactly_once_delivery_enabled

    @pytest.mark.rule("O19")
    def test_that_change_twice_are_told_once(self, world: World) -> None:
        client = Client.opened(world, protocolVersion=1)

        for wanted in (True, False):
            world.update_subscription(PULLED, "enableExactlyOnceDelivery", enableExactlyOnceDelivery=wanted)

        (response,) = client.read()
        assert response.subscription_properties == NEITHER


class TestHeartbeats:
    @pytest.mark.rule("S7.3.6", "K3", "B001", "B002")
    @pytest.mark.parametrize("version", [1, 2])
    def test_every_empty_request_is_answered_at_once(self, world: World, version: int) -> None:
        client = Client.opened(world, protocolVersion=version)
        answers = [client.read()]

        for _ in range(20):
            world.clock.advance(30)
            client.send()
            answers.append(client.read())

        assert [len(each) for each in answers] == [0] + [1] * 20
        assert all(response.HasField("subscription_properties") for each in answers for response in each)
        assert all(len(response.ListFields()) == 1 for each in answers for response in each)
        assert client.call.ended is None

    @pytest.mark.rule("S7.3.6", "K4")
    def test_without_a_protocol_version_none_is(self, world: World) -> None:
        client = Client.opened(world)

        for _ in range(20):
            world.clock.advance(30)
            client.send()

        assert (client.read(), client.call.ended) == ([], None)

    @pytest.mark.rule("S7.3.6")
    def test_a_request_with_only_a_client_id_is_empty(self, world: World) -> None:
        client = Client.opened(world, protocolVersion=1)

        client.send(clientId="me")

        assert len(client.read()) == 1

    @pytest.mark.rule("S7.3.6", "K4")
    @pytest.mark.parametrize("what", ["acks", "modacks", "deadline"])
    def test_a_request_that_says_something_is_not(self, world: World, what: str) -> None:
        world.publish(ORDERS, "hello")
        (received,) = world.pull(PULLED)
        client = Client.opened(world, protocolVersion=1)
        requests: dict[str, dict[str, Any]] = {
            "acks": {"ackIds": [received.ack_id]},
            "modacks": {"modifyDeadlineAckIds": [received.ack_id], "modifyDeadlineSeconds": [60]},
            "deadline": {"streamAckDeadlineSeconds": 60},
        }

        client.send(**requests[what])

        assert client.read() == []

    @pytest.mark.rule("O19")
    def test_pings_before_its_turn_are_answered_together_and_before_messages(self, world: World) -> None:
        client = Client.opened(world, protocolVersion=1)
        world.publish(ORDERS, "hello")

        for _ in range(3):
            client.send()
        client.read()

        assert client.texts_by_response == [[], ["hello"]]

    @pytest.mark.rule("O19", "O17")
    def test_one_waits_for_the_streams_window(self, world: World) -> None:
        client = Client.opened(world, protocolVersion=1, window=0)
        for _ in range(3):
            client.send()
        shut = client.read()

        client.grow(1_000)

        assert (shut, len(client.read())) == ([], 1)

    @pytest.mark.rule("S7.3.6", "V8")
    def test_one_comes_although_the_credit_is_used_up(self, world: World) -> None:
        client = Client.opened(world, protocolVersion=1, maxOutstandingMessages=1)
        world.publish(ORDERS, "one", "two")
        client.read()

        client.send()

        (response,) = client.read()
        assert not response.received_messages


@pytest.mark.rule("S7.3.6", "B001", "B002")
def test_a_ping_is_answered_when_its_sender_has_noted_it(world: World) -> None:
    client = Client.opened(world, protocolVersion=1)

    client.send()

    (delay,) = client.call.delays
    assert 0.005 <= delay <= 0.1
