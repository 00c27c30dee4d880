"""Dead letters: attempts, what is forwarded and what it says, and topics that are gone (service.md §10.3 to §10.10)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.api import pb
from emulator.engine.dead_letters import dead_letter
from tests.engine.helpers import DEAD, OTHER, SUBSCRIPTION, TOPIC, Answer, World, message, settings
from tests.engine.streams import Reader

LETTERS = "projects/p/subscriptions/letters"

COUNT = "CloudPubSubDeadLetterSourceDeliveryCount"
SOURCE = "CloudPubSubDeadLetterSourceSubscription"
PROJECT = "CloudPubSubDeadLetterSourceSubscriptionProject"
PUBLISHED = "CloudPubSubDeadLetterSourceTopicPublishTime"


@pytest.fixture
def world(empty: World) -> World:
    """A subscription that forwards after five attempts to DEAD, and LETTERS, a subscription of that."""
    empty.create_topic()
    empty.create_topic(DEAD)
    empty.subscribe(to=settings(dead_letter=5))
    empty.subscribe(LETTERS, DEAD)
    return empty


def letters(world: World) -> Answer:
    return world.pull(name=LETTERS)


def fail(world: World, times: int = 1, name: str = SUBSCRIPTION) -> list[int]:
    """Pull everything and nack it, so often; the attempts that the first message had."""
    attempts: list[int] = []
    for _ in range(times):
        held = world.pull(name=name)
        attempts += held.attempts[:1]
        world.nack(*held.ack_ids, name=name)
    return attempts


class TestAttempts:
    @pytest.mark.rule("S10.3", "S7.1.11", "S10.9", "B061", "B161")
    @pytest.mark.parametrize("most", [5, 6, 100])
    def test_are_as_many_as_allowed_and_then_it_is_forwarded(self, world: World, most: int) -> None:
        world.subscription().update(settings(dead_letter=most))
        world.publish(b"a")

        attempts = fail(world, most)

        assert attempts == list(range(1, most + 1))
        assert (world.pull().bodies, letters(world).bodies) == ([], [b"a"])

    @pytest.mark.rule("S10.3", "S10.9")
    def test_are_not_fewer(self, world: World) -> None:
        world.publish(b"a")

        fail(world, 4)

        assert letters(world).bodies == []
        assert world.pull().attempts == [5]

    @pytest.mark.rule("S10.3", "V4")
    def test_end_by_expiry_as_well(self, world: World) -> None:
        world.publish(b"a")
        fail(world, 4)
        world.pull()

        world.advance(9.999)
        before = letters(world).bodies
        world.advance(0.001)

        assert (before, world.pull().bodies, letters(world).bodies) == ([], [], [b"a"])

    @pytest.mark.rule("S10.3")
    def test_that_end_in_an_ack_forward_nothing(self, world: World) -> None:
        world.publish(b"a")
        fail(world, 4)

        world.ack(*world.pull().ack_ids)

        world.advance(10)
        assert letters(world).bodies == []

    @pytest.mark.rule("S10.3", "S7.1.11")
    def test_are_each_messages_own(self, world: World) -> None:
        world.publish(b"a")
        fail(world, 3)
        world.publish(b"b")
        fail(world, 2)

        assert letters(world).bodies == [b"a"]
        assert world.pull().attempts == [3]

    @pytest.mark.rule("S7.1.11")
    def test_are_each_subscriptions_own(self, world: World) -> None:
        world.subscribe(OTHER, to=settings(dead_letter=5))
        world.publish(b"a")

        fail(world, 5)

        assert (letters(world).bodies, world.pull(name=OTHER).attempts) == ([b"a"], [1])

    @pytest.mark.rule("S7.1.11", "O16")
    def test_do_not_grow_by_deliveries_that_were_never_written(self, world: World) -> None:
        world.publish(b"a")
        for _ in range(10):
            Reader(world).close()

        assert world.pull().attempts == [1]

    @pytest.mark.rule("S7.1.11", "O15")
    def test_do_not_grow_by_an_expiry_of_an_unwritten_one(self, world: World) -> None:
        stalled = Reader(world)
        world.publish(b"a")
        stalled.pile.shut = True

        world.advance(10)

        assert world.pull().attempts == [1]

    @pytest.mark.rule("S10.3", "S10.1")
    def test_wait_for_each_other_with_a_retry_policy_and_forwarding_does_not(self, world: World) -> None:
        world.subscription().update(settings(dead_letter=5, backoff=(1, 600)))
        world.publish(b"a")
        for wait in (1, 2, 4, 8):
            fail(world)
            world.advance(wait)

        fail(world)

        assert letters(world).bodies == [b"a"]

    @pytest.mark.rule("S10.11")
    def test_begin_anew_after_forwarding(self, world: World) -> None:
        world.subscription(LETTERS).update(settings(dead_letter=5, dead_topic=TOPIC))
        world.publish(b"a")

        fail(world, 5)

        assert letters(world).attempts == [1]


class TestPolicyChanges:
    @pytest.mark.rule("S4.subscription.dead_letter_policy")
    def test_a_policy_that_is_taken_away_forwards_nothing(self, world: World) -> None:
        world.publish(b"a")
        fail(world, 4)
        held = world.pull()

        world.subscription().update(settings())
        world.nack(*held.ack_ids)

        assert letters(world).bodies == []
        fail(world, 10)
        assert world.pull().bodies == [b"a"]

    @pytest.mark.rule("S4.subscription.dead_letter_policy", "S10.3", "S7.1.11")
    def test_a_policy_that_comes_later_knows_of_earlier_failures(self, world: World) -> None:
        world.subscription().update(settings())
        world.publish(b"a")
        fail(world, 6)
        held = world.pull()

        world.subscription().update(settings(dead_letter=10))
        world.nack(*held.ack_ids)

        assert fail(world, 3) == [8, 9, 10]
        assert letters(world).bodies == [b"a"]

    @pytest.mark.rule("S4.subscription.dead_letter_policy", "S10.3")
    def test_a_lower_maximum_counts_at_the_next_failure(self, world: World) -> None:
        world.subscription().update(settings(dead_letter=100))
        world.publish(b"a")
        fail(world, 7)

        world.subscription().update(settings(dead_letter=5))
        before = letters(world).bodies
        fail(world)

        (letter,) = letters(world).deliveries
        assert (before, letter.message.attributes[COUNT]) == ([], "8")

    @pytest.mark.rule("S4.subscription.dead_letter_policy")
    def test_another_topic_gets_what_fails_from_then_on(self, world: World) -> None:
        world.create_topic("projects/p/topics/graves")
        world.subscribe(OTHER, "projects/p/topics/graves")
        world.publish(b"a")
        fail(world, 4)
        held = world.pull()

        world.subscription().update(settings(dead_letter=5, dead_topic="projects/p/topics/graves"))
        world.nack(*held.ack_ids)

        assert (letters(world).bodies, world.pull(name=OTHER).bodies) == ([], [b"a"])


class TestTheLetter:
    @pytest.mark.rule("S10.4", "B067")
    def test_is_a_new_message_with_the_same_content(self, world: World) -> None:
        (number,) = world.publish(b"body", key="key", attributes={"own": "kept", "empty": ""})
        published = world.clock.now()
        world.advance(3.5)

        fail(world, 5)

        (letter,) = letters(world).deliveries
        assert letter.number > number
        assert letter.publish_time == published + 3_500_000_000
        assert (letter.body, letter.message.ordering_key) == (b"body", "key")
        assert {"own": "kept", "empty": ""}.items() <= letter.message.attributes.items()

    @pytest.mark.rule("S10.5", "B067")
    def test_has_four_attributes_more(self, world: World) -> None:
        world.advance(0.25)
        world.publish(b"a", attributes={"own": "kept"})
        world.advance(100)

        fail(world, 5)

        (letter,) = letters(world).deliveries
        assert letter.message.attributes == {
            "own": "kept",
            COUNT: "5",
            SOURCE: "readers",
            PROJECT: "p",
            PUBLISHED: "2023-11-14T22:13:20.250Z",
        }

    @pytest.mark.rule("S10.5")
    @pytest.mark.parametrize(
        ("nanoseconds", "text"),
        [
            (0, "1970-01-01T00:00:00Z"),
            (1_000_000, "1970-01-01T00:00:00.001Z"),
            (1_700_000_000_120_000_000, "2023-11-14T22:13:20.120Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00Z"),
            (4_102_444_799_999_000_000, "2099-12-31T23:59:59.999Z"),
        ],
    )
    def test_says_when_its_source_was_published_as_protobuf_does(self, nanoseconds: int, text: str) -> None:
        draft = dead_letter(SUBSCRIPTION, message(1, publish_time=nanoseconds), 5)

        stamp = pb.Timestamp()
        stamp.FromNanoseconds(nanoseconds)
        assert draft.attributes[PUBLISHED] == text == stamp.ToJsonString()

    @pytest.mark.rule("S10.5")
    def test_names_the_subscription_by_its_id_and_project(self) -> None:
        draft = dead_letter("projects/a.b:c-1/subscriptions/x.y%z", message(1), 7)

        assert (draft.attributes[SOURCE], draft.attributes[PROJECT]) == ("x.y%z", "a.b:c-1")

    @pytest.mark.rule("S10.4")
    def test_leaves_the_attributes_of_its_source_as_they_are(self, world: World) -> None:
        world.subscribe(OTHER)
        world.publish(b"a", attributes={"own": "kept"})

        fail(world, 5)

        (source,) = world.pull(name=OTHER).deliveries
        assert source.message.attributes == {"own": "kept"}

    @pytest.mark.rule("S10.4")
    def test_goes_to_every_subscription_of_its_topic(self, world: World) -> None:
        world.subscribe(OTHER, DEAD)
        world.publish(b"a")

        fail(world, 5)

        assert (letters(world).bodies, world.pull(name=OTHER).bodies) == ([b"a"], [b"a"])

    @pytest.mark.rule("S10.4")
    def test_reaches_who_waits_for_it_at_once(self, world: World) -> None:
        waiting, reader = world.pull(name=LETTERS, wait=True), Reader(world)
        world.publish(b"a")

        for _ in range(5):
            reader.read()
            world.nack(*reader.ack_ids[-1:])

        assert (waiting.bodies, reader.read()) == ([b"a"], [])

    @pytest.mark.rule("S10.4")
    def test_is_there_once_when_its_source_is_gone(self, world: World) -> None:
        world.publish(b"a")
        fail(world, 4)
        held = world.pull()

        world.nack(*held.ack_ids)
        world.nack(*held.ack_ids)
        world.ack(*held.ack_ids)
        world.advance(600)

        assert (letters(world).bodies, world.held()) == ([b"a"], 0)

    @pytest.mark.rule("S10.4")
    def test_frees_the_credit_of_the_stream_that_had_it(self, world: World) -> None:
        reader = Reader(world, messages=1)
        world.publish(b"a", b"b")

        for _ in range(5):
            reader.read()
            world.nack(*reader.ack_ids[-1:])

        assert (reader.read(), reader.bodies) == ([b"b"], [b"a"] * 5 + [b"b"])

    @pytest.mark.rule("S10.4")
    def test_keeps_its_place_among_those_that_failed_with_it(self, world: World) -> None:
        many = [b"%d" % number for number in range(20)]
        world.publish(*many)

        fail(world, 5)

        assert letters(world).bodies == many

    @pytest.mark.rule("S10.4", "S10.3")
    def test_of_each_of_a_thousand_that_expire_comes_once(self, world: World) -> None:
        world.publish(*(b"%d" % number for number in range(1_000)))
        fail(world, 4)
        world.pull()

        world.advance(10)

        assert sorted(map(int, letters(world).bodies)) == list(range(1_000))
        assert world.held() == 0


@pytest.mark.rule("S10.4", "V8")
@given(
    data=st.binary(max_size=300),
    attributes=st.dictionaries(st.text(max_size=200), st.text(max_size=200), max_size=3),
    key=st.text(max_size=200),
)
def test_a_letter_counts_with_its_serialized_size(data: bytes, attributes: Mapping[str, str], key: str) -> None:
    source = message(1)
    source.data, source.attributes, source.ordering_key = data, attributes, key

    draft = dead_letter(SUBSCRIPTION, source, 5)

    sent: Any = pb.PubsubMessage(data=data, attributes=draft.attributes, ordering_key=key)
    assert draft.size == sent.ByteSize()


@pytest.mark.rule("S10.4")
@pytest.mark.parametrize("size", [127, 128, 16_383, 16_384, 2_097_151, 2_097_152])
def test_a_large_letter_does_too(size: int) -> None:
    source = message(1)
    source.data = bytes(size)

    draft = dead_letter(SUBSCRIPTION, source, 5)

    assert draft.size == pb.PubsubMessage(data=source.data, attributes=draft.attributes).ByteSize()


@pytest.mark.rule("S10.4", "S5.5")
def test_a_letter_may_have_more_and_longer_attributes_than_a_publisher_may_send(world: World) -> None:
    world.publish(b"a", attributes={f"{number}": "x" * 1_024 for number in range(100)})

    fail(world, 5)

    (letter,) = letters(world).deliveries
    assert len(letter.message.attributes) == 104


class TestTopicThatIsGone:
    @pytest.mark.rule("S10.6")
    def test_has_messages_redelivered_with_attempts_counting_on(self, world: World) -> None:
        world.broker.delete_topic(DEAD)
        world.publish(b"a")

        attempts = fail(world, 12)

        assert attempts == list(range(1, 13))
        assert world.pull().bodies == [b"a"]

    @pytest.mark.rule("S10.6")
    def test_leaves_the_policy_as_it_is(self, world: World) -> None:
        before = world.subscription().settings

        world.broker.delete_topic(DEAD)

        assert world.subscription().settings == before

    @pytest.mark.rule("S10.6")
    def test_has_messages_end_by_ack(self, world: World) -> None:
        world.broker.delete_topic(DEAD)
        world.publish(b"a")
        fail(world, 9)

        world.ack(*world.pull().ack_ids)

        assert world.held() == 0

    @pytest.mark.rule("S10.6", "S6.5")
    def test_has_messages_end_by_age(self, world: World) -> None:
        world.subscription().update(settings(dead_letter=5, retention=600))
        world.broker.delete_topic(DEAD)
        world.publish(b"a")
        fail(world, 9)

        world.advance(601)

        assert (world.held(), world.pull().bodies) == (0, [])

    @pytest.mark.rule("S10.6")
    def test_gets_letters_again_when_its_name_exists_again(self, world: World) -> None:
        world.broker.delete_topic(DEAD)
        world.publish(b"a")
        fail(world, 8)

        world.create_topic(DEAD)
        world.subscribe(OTHER, DEAD)
        before = world.pull(name=OTHER).bodies
        fail(world)

        (letter,) = world.pull(name=OTHER).deliveries
        assert (before, letter.message.attributes[COUNT]) == ([], "9")
        assert (letters(world).bodies, world.held()) == ([], 0)

    @pytest.mark.rule("S10.6", "S10.1")
    def test_has_them_wait_ever_longer_with_a_retry_policy(self, world: World) -> None:
        world.subscription().update(settings(dead_letter=5, backoff=(1, 600)))
        world.broker.delete_topic(DEAD)
        world.publish(b"a")

        for wait in (1, 2, 4, 8, 16, 32):
            fail(world)
            world.advance(wait - 0.001)
            assert world.pull().bodies == []
            world.advance(0.001)

        assert world.pull().attempts == [7]


@pytest.mark.rule("S10.7")
def test_a_topic_without_subscriptions_swallows_them(world: World) -> None:
    world.broker.delete_subscription(LETTERS)
    world.publish(b"a")
    fail(world, 5)

    world.subscribe(LETTERS, DEAD)

    assert (world.pull().bodies, letters(world).bodies) == ([], [])


class TestOwnTopic:
    @pytest.fixture
    def world(self, world: World) -> World:
        world.subscription().update(settings(dead_letter=5, dead_topic=TOPIC))
        world.subscribe(OTHER)
        return world

    @pytest.mark.rule("S10.10", "S10.11")
    def test_brings_it_back_as_a_new_message(self, world: World) -> None:
        (number,) = world.publish(b"a")
        first = fail(world, 5)

        (again,) = world.pull().deliveries

        assert (first, again.attempt, again.body) == ([1, 2, 3, 4, 5], 1, b"a")
        assert again.number > number
        assert again.message.attributes[COUNT] == "5"

    @pytest.mark.rule("S10.10")
    def test_goes_to_its_other_subscriptions_too(self, world: World) -> None:
        world.publish(b"a")

        fail(world, 5)

        assert world.pull(name=OTHER).bodies == [b"a", b"a"]

    @pytest.mark.rule("S10.10")
    def test_goes_round_for_ever(self, world: World) -> None:
        world.publish(b"a")
        reader = Reader(world, messages=1)

        for _ in range(50):
            reader.read()
            world.nack(*reader.ack_ids[-1:])

        assert [one.attempt for one in reader.deliveries] == [1, 2, 3, 4, 5] * 10
        assert len({one.number for one in reader.deliveries}) == 10

    @pytest.mark.rule("S10.10", "S9.7")
    def test_puts_it_behind_the_rest_of_its_key(self, world: World) -> None:
        world.broker.delete_subscription(SUBSCRIPTION)
        world.subscribe(to=settings(ordered=True, dead_letter=5, dead_topic=TOPIC))
        world.publish(b"a1", b"a2", key="a")

        for _ in range(5):
            world.nack(*world.pull().of(b"a1"))

        again = world.pull()
        assert (again.bodies, again.attempts) == ([b"a2", b"a1"], [1, 1])


class TestChain:
    """The dead-letter topic's own subscription has a dead-letter topic."""

    LAST = "projects/other/topics/last"
    ENDS = "projects/other/subscriptions/ends"

    @pytest.fixture
    def world(self, world: World) -> World:
        world.create_topic(self.LAST)
        world.subscribe(self.ENDS, self.LAST)
        world.subscription(LETTERS).update(settings(dead_letter=6, dead_topic=self.LAST))
        return world

    @pytest.mark.rule("S10.4", "S10.5", "S10.11")
    def test_hands_a_message_on_with_the_attributes_of_the_last_step(self, world: World) -> None:
        world.publish(b"a", attributes={"own": "kept"})
        fail(world, 5)
        world.advance(2)

        attempts = fail(world, 6, LETTERS)

        (end,) = world.pull(name=self.ENDS).deliveries
        assert attempts == [1, 2, 3, 4, 5, 6]
        assert end.message.attributes == {
            "own": "kept",
            COUNT: "6",
            SOURCE: "letters",
            PROJECT: "p",
            PUBLISHED: "2023-11-14T22:13:20Z",
        }

    @pytest.mark.rule("S10.4")
    def test_that_is_a_circle_goes_on(self, world: World) -> None:
        world.subscription(LETTERS).update(settings(dead_letter=5, dead_topic=TOPIC))
        world.publish(b"a")

        for _ in range(3):
            fail(world, 5)
            fail(world, 5, LETTERS)

        assert world.pull().attempts == [1]

    @pytest.mark.rule("S10.5")
    def test_into_another_project_names_the_project_it_came_from(self, world: World) -> None:
        world.subscribe("projects/third/subscriptions/far", to=settings(dead_letter=5, dead_topic=self.LAST))
        world.publish(b"a")

        fail(world, 5, "projects/third/subscriptions/far")

        (end,) = world.pull(name=self.ENDS).deliveries
        assert (end.message.attributes[SOURCE], end.message.attributes[PROJECT]) == ("far", "third")


@pytest.mark.rule("S10.3", "B071")
@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_stream_of_one_at_a_time_with_back_off_goes_on_to_the_end(world: World, exactly_once: bool) -> None:
    world.subscription().update(replace(settings(dead_letter=5, backoff=(1, 1)), exactly_once=exactly_once))
    reader = Reader(world, messages=1)
    world.publish(b"a", b"b", b"c")

    for _ in range(15):
        reader.read()
        world.nack(*reader.ack_ids[-1:])
        world.advance(1)

    assert reader.bodies.count(b"a") == reader.bodies.count(b"b") == reader.bodies.count(b"c") == 5
    assert sorted(letters(world).bodies) == [b"a", b"b", b"c"]
