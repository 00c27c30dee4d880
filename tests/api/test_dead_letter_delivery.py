"""Retry and dead-letter policies as Pull and StreamingPull show them (service.md §7.1.11, §10)."""

from typing import Any

import pytest

from emulator.errors import Code, PubsubError
from tests.api.streaming import Client
from tests.api.world import DEAD, ORDERS, PULLED, World, parse, texts

LETTERS = "projects/acme/subscriptions/letters"
LAST = "projects/other/topics/last"
ENDS = "projects/other/subscriptions/ends"

PREFIX = "CloudPubSubDeadLetterSource"
POLICY = {"deadLetterTopic": DEAD, "maxDeliveryAttempts": 5}


@pytest.fixture
def world(world: World) -> World:
    """PULLED forwards to DEAD after five attempts; LETTERS is a subscription of that."""
    world.update_subscription(PULLED, "deadLetterPolicy", deadLetterPolicy=POLICY)
    world.call("CreateSubscription", name=LETTERS, topic=DEAD)
    return world


def fail(world: World, times: int = 5, name: str = PULLED) -> list[int]:
    """Pull everything and nack it, so often; the attempts that it had."""
    attempts: list[int] = []
    for _ in range(times):
        received = world.pull(name)
        attempts += [each.delivery_attempt for each in received]
        world.modify(name, received)
    return attempts


def letter(world: World, name: str = LETTERS) -> Any:
    """The message that has to be there alone."""
    (received,) = world.pull(name)
    return received.message


class TestAttempts:
    @pytest.mark.rule("S7.1.11", "S10.3", "B061", "B161")
    def test_count_from_1_to_5_in_pulls(self, world: World) -> None:
        world.publish(ORDERS, "x")

        assert fail(world) == [1, 2, 3, 4, 5]
        assert (world.pull(PULLED), letter(world).attributes["text"]) == ([], "x")

    @pytest.mark.rule("S7.1.11", "S10.3")
    def test_count_from_1_to_5_on_a_stream(self, world: World) -> None:
        client = Client.opened(world)
        world.publish(ORDERS, "x")

        for _ in range(5):
            client.read()
            client.send(modifyDeadlineAckIds=client.ack_ids[-1:], modifyDeadlineSeconds=[0])
        client.read()

        assert [one.delivery_attempt for one in client.received] == [1, 2, 3, 4, 5]
        assert letter(world).attributes["text"] == "x"

    @pytest.mark.rule("S7.1.11", "S10.3")
    def test_count_nacks_expiries_and_lost_streams_alike(self, world: World) -> None:
        world.publish(ORDERS, "x")
        fail(world, 1)
        world.pull(PULLED)
        world.clock.advance(10)
        lost = Client.opened(world)
        lost.read()
        lost.disconnect()
        world.clock.advance(10)

        assert fail(world, 2) == [4, 5]
        assert letter(world).attributes[f"{PREFIX}DeliveryCount"] == "5"

    @pytest.mark.rule("S7.1.11", "B068", "B166")
    def test_are_not_shown_without_a_policy(self, world: World) -> None:
        world.publish(ORDERS, "x")
        fail(world, 2)

        world.call("UpdateSubscription", subscription={"name": PULLED}, updateMask="deadLetterPolicy")

        assert fail(world, 2) == [0, 0]

    @pytest.mark.rule("S7.1.11", "S4.subscription.dead_letter_policy")
    def test_are_shown_from_when_a_policy_is_there(self, world: World) -> None:
        world.call("UpdateSubscription", subscription={"name": PULLED}, updateMask="deadLetterPolicy")
        client = Client.opened(world)
        world.publish(ORDERS, "x")
        client.read()

        world.update_subscription(PULLED, "deadLetterPolicy", deadLetterPolicy=POLICY)
        client.send(modifyDeadlineAckIds=client.ack_ids, modifyDeadlineSeconds=[0])
        client.read()

        assert [one.delivery_attempt for one in client.received] == [0, 2]

    @pytest.mark.rule("S10.3", "S4.subscription.dead_letter_policy")
    def test_are_five_when_the_policy_does_not_say(self, world: World) -> None:
        world.update_subscription(PULLED, "deadLetterPolicy", deadLetterPolicy={"deadLetterTopic": DEAD})
        world.publish(ORDERS, "x")

        assert fail(world) == [1, 2, 3, 4, 5]
        assert letter(world)

    @pytest.mark.rule("S10.11")
    def test_begin_anew_for_what_was_forwarded(self, world: World) -> None:
        world.call("CreateTopic", name=LAST)
        world.update_subscription(
            LETTERS, "deadLetterPolicy", deadLetterPolicy={"deadLetterTopic": LAST, "maxDeliveryAttempts": 7}
        )
        world.publish(ORDERS, "x")
        fail(world)

        assert fail(world, 3, LETTERS) == [1, 2, 3]


class TestALetter:
    @pytest.mark.rule("S10.4", "S10.5", "B067")
    def test_is_a_new_message_and_says_where_it_comes_from(self, world: World) -> None:
        message = {"data": "aGk=", "attributes": {"own": "kept"}, "orderingKey": "key"}
        (identifier,) = world.call("Publish", topic=ORDERS, messages=[message]).message_ids
        published = world.pull(PULLED)[0].message.publish_time
        world.clock.advance(60)

        fail(world, 3)
        world.clock.advance(0.5)
        fail(world, 1)

        found = letter(world)
        assert int(found.message_id) > int(identifier)
        assert (found.data, found.ordering_key) == (b"hi", "key")
        assert dict(found.attributes) == {
            "own": "kept",
            f"{PREFIX}DeliveryCount": "5",
            f"{PREFIX}Subscription": "pulled",
            f"{PREFIX}SubscriptionProject": "acme",
            f"{PREFIX}TopicPublishTime": published.ToJsonString(),
        }
        assert found.publish_time.ToNanoseconds() == world.clock.now() // 1_000_000 * 1_000_000

    @pytest.mark.rule("S10.4", "S10.5")
    def test_of_a_letter_says_where_the_letter_came_from(self, world: World) -> None:
        world.call("CreateTopic", name=LAST)
        world.call("CreateSubscription", name=ENDS, topic=LAST)
        world.update_subscription(
            LETTERS, "deadLetterPolicy", deadLetterPolicy={"deadLetterTopic": LAST, "maxDeliveryAttempts": 6}
        )
        world.publish(ORDERS, "x")
        fail(world)
        world.clock.advance(5)
        forwarded = world.pull(LETTERS)
        world.modify(LETTERS, forwarded)

        fail(world, 5, LETTERS)

        found = letter(world, ENDS)
        assert dict(found.attributes) == {
            "text": "x",
            f"{PREFIX}DeliveryCount": "6",
            f"{PREFIX}Subscription": "letters",
            f"{PREFIX}SubscriptionProject": "acme",
            f"{PREFIX}TopicPublishTime": forwarded[0].message.publish_time.ToJsonString(),
        }
        assert world.pull(LETTERS) == []

    @pytest.mark.rule("S10.4", "S10.5")
    def test_may_go_to_another_project(self, world: World) -> None:
        world.call("CreateTopic", name=LAST)
        world.call("CreateSubscription", name=ENDS, topic=LAST)
        world.update_subscription(PULLED, "deadLetterPolicy", deadLetterPolicy={"deadLetterTopic": LAST})
        world.publish(ORDERS, "x")

        fail(world)

        assert letter(world, ENDS).attributes[f"{PREFIX}SubscriptionProject"] == "acme"

    @pytest.mark.rule("S10.4")
    def test_comes_to_streams_of_its_topic_at_once(self, world: World) -> None:
        client = Client.opened(world, subscription=LETTERS)
        world.publish(ORDERS, "x")

        fail(world)

        assert client.read_texts() == ["x"]

    @pytest.mark.rule("S10.10", "S10.11")
    def test_may_come_to_the_topic_it_came_from(self, world: World) -> None:
        world.update_subscription(PULLED, "deadLetterPolicy", deadLetterPolicy={"deadLetterTopic": ORDERS})
        (identifier,) = world.publish(ORDERS, "x")
        attempts = fail(world)

        (again,) = world.pull(PULLED)

        assert (attempts, again.delivery_attempt) == ([1, 2, 3, 4, 5], 1)
        assert again.message.message_id != identifier


class TestATopicThatIsGone:
    @pytest.mark.rule("S10.6")
    def test_stays_in_the_policy_and_attempts_count_on(self, world: World) -> None:
        world.call("DeleteTopic", topic=DEAD)
        world.publish(ORDERS, "x")

        attempts = fail(world, 8)

        policy = world.call("GetSubscription", subscription=PULLED).dead_letter_policy
        assert (policy.dead_letter_topic, policy.max_delivery_attempts) == (DEAD, 5)
        assert attempts == [1, 2, 3, 4, 5, 6, 7, 8]
        assert texts(world.pull(PULLED)) == ["x"]

    @pytest.mark.rule("S10.6")
    def test_gets_letters_again_when_it_is_created_again(self, world: World) -> None:
        world.call("DeleteTopic", topic=DEAD)
        world.publish(ORDERS, "x")
        fail(world, 6)
        world.call("CreateTopic", name=DEAD)
        world.call("CreateSubscription", name=ENDS, topic=DEAD)

        attempts = fail(world, 1)

        assert attempts == [7]
        assert letter(world, ENDS).attributes[f"{PREFIX}DeliveryCount"] == "7"
        assert (world.pull(PULLED), world.pull(LETTERS)) == ([], [])

    @pytest.mark.rule("S10.6", "S4.subscription.dead_letter_policy")
    def test_may_stay_when_something_else_is_updated(self, world: World) -> None:
        world.call("DeleteTopic", topic=DEAD)

        world.update_subscription(PULLED, "ackDeadlineSeconds", ackDeadlineSeconds=20)

        with pytest.raises(PubsubError) as caught:
            world.update_subscription(
                PULLED, "deadLetterPolicy", deadLetterPolicy={"deadLetterTopic": DEAD, "maxDeliveryAttempts": 6}
            )
        assert caught.value.code is Code.NOT_FOUND

    @pytest.mark.rule("S10.7")
    def test_is_not_one_without_subscriptions_which_loses_them(self, world: World) -> None:
        world.call("DeleteSubscription", subscription=LETTERS)
        world.publish(ORDERS, "x")
        fail(world)

        world.call("CreateSubscription", name=LETTERS, topic=DEAD)

        assert (world.pull(PULLED), world.pull(LETTERS)) == ([], [])


class TestUpdatesWhileMessagesAreOut:
    @pytest.mark.rule("S10.3", "S4.subscription.dead_letter_policy")
    def test_another_topic_gets_them(self, world: World) -> None:
        world.call("CreateTopic", name=LAST)
        world.call("CreateSubscription", name=ENDS, topic=LAST)
        world.publish(ORDERS, "x")
        fail(world, 4)
        held = world.pull(PULLED)

        world.update_subscription(PULLED, "deadLetterPolicy", deadLetterPolicy={"deadLetterTopic": LAST})
        world.modify(PULLED, held)

        assert (world.pull(LETTERS), texts(world.pull(ENDS))) == ([], ["x"])

    @pytest.mark.rule("S10.3", "S4.subscription.dead_letter_policy")
    def test_without_a_policy_they_stay(self, world: World) -> None:
        world.publish(ORDERS, "x")
        fail(world, 4)
        held = world.pull(PULLED)

        world.call("UpdateSubscription", subscription={"name": PULLED}, updateMask="deadLetterPolicy")
        world.modify(PULLED, held)

        assert (world.pull(LETTERS), texts(world.pull(PULLED))) == ([], ["x"])


class TestRetryPolicy:
    @pytest.mark.rule("S10.1", "B064", "B065")
    def test_that_an_update_sets_has_nacked_messages_wait(self, world: World) -> None:
        world.publish(ORDERS, "x")
        held = world.pull(PULLED)

        world.update_subscription(
            PULLED, "retryPolicy", retryPolicy={"minimumBackoff": "1.500s", "maximumBackoff": "2s"}
        )
        for wait in (1.5, 2, 2):
            world.modify(PULLED, held)
            world.clock.advance(wait - 0.001)
            assert world.pull(PULLED) == []
            world.clock.advance(0.001)
            held = world.pull(PULLED)
            assert texts(held) == ["x"]

    @pytest.mark.rule("S10.1")
    def test_has_defaults_of_10_and_600_seconds(self, world: World) -> None:
        world.call("UpdateSubscription", subscription={"name": PULLED}, updateMask="deadLetterPolicy")
        world.update_subscription(PULLED, "retryPolicy", retryPolicy={})
        world.publish(ORDERS, "x")

        waits: list[float] = []
        for _ in range(8):
            world.modify(PULLED, world.pull(PULLED))
            start = world.clock.now()
            while not world.broker.counts()["waiting"]:
                world.clock.advance(1)
            waits.append((world.clock.now() - start) / 1e9)

        assert waits == [10, 20, 40, 80, 160, 320, 600, 600]

    @pytest.mark.rule("S10.1", "V13")
    def test_has_a_stream_wait_and_then_get_the_message_unasked(self, world: World) -> None:
        world.update_subscription(PULLED, "retryPolicy", retryPolicy={"minimumBackoff": "1s"})
        client = Client.opened(world)
        world.publish(ORDERS, "x")
        client.read()
        client.send(modifyDeadlineAckIds=client.ack_ids, modifyDeadlineSeconds=[0])
        before = client.read()

        world.clock.advance(1)

        assert (before, client.read_texts()) == ([], ["x"])

    @pytest.mark.rule("S10.1")
    def test_answers_a_pull_that_waits_when_the_wait_is_over(self, world: World) -> None:
        world.update_subscription(PULLED, "retryPolicy", retryPolicy={"minimumBackoff": "1s"})
        world.publish(ORDERS, "x")
        world.modify(PULLED, world.pull(PULLED))
        parked: Any = world.send("Pull", parse("Pull", {"subscription": PULLED, "maxMessages": 1}))

        world.clock.advance(1)

        assert texts(parked.result().message.received_messages) == ["x"]
