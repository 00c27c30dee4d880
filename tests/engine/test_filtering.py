"""Filtered subscriptions: what doesn't match is done the moment it is published."""

from dataclasses import replace

import pytest

from emulator.engine.filters import parse
from emulator.engine.values import DeadLetterPolicy, Draft
from tests.engine.helpers import DEAD, NOTHING_HELD, SUBSCRIPTION, TOPIC, World, settings

OTHER = "projects/p/subscriptions/others"
LETTERS = "projects/p/subscriptions/letters"


@pytest.fixture
def filtered() -> World:
    """A topic with a subscription that wants large things, and one that wants everything."""
    world = World()
    world.create_topic()
    world.subscribe(to=replace(settings(), filter=parse('attributes.size = "large"', 256), ordered=True))
    world.subscribe(OTHER)
    return world


def publish(world: World, *sizes: str, key: str = "") -> None:
    world.broker.publish(TOPIC, [Draft(size.encode(), {"size": size}, key) for size in sizes])


@pytest.mark.rule("S11.6", "B055", "B056")
def test_what_does_not_match_is_never_delivered(filtered: World) -> None:
    publish(filtered, "small", "large", "huge", "large")

    assert filtered.pull().bodies == [b"large", b"large"]
    assert filtered.pull(name=OTHER).bodies == [b"small", b"large", b"huge", b"large"]


@pytest.mark.rule("S11.6")
def test_what_does_not_match_is_not_held_and_wakes_nobody(filtered: World) -> None:
    waiting = filtered.pull(wait=True)

    publish(filtered, "small", "huge")

    assert (filtered.held(), waiting.times) == (0, 0)
    publish(filtered, "large")
    assert waiting.bodies == [b"large"]


@pytest.mark.rule("S11.6")
def test_a_publish_of_nothing_that_matches_leaves_no_timer(filtered: World) -> None:
    filtered.broker.delete_subscription(OTHER)
    before = filtered.clock.timer_count()

    publish(filtered, "small")

    assert filtered.clock.timer_count() == before
    assert filtered.subscription(SUBSCRIPTION).counts() == {
        key: value for key, value in NOTHING_HELD.items() if key in filtered.subscription().counts()
    }


@pytest.mark.rule("S11.6", "S9.2")
def test_a_message_that_does_not_match_is_no_gap_in_its_key(filtered: World) -> None:
    publish(filtered, "large", "small", "large", key="k")

    first = filtered.pull()
    assert first.bodies == [b"large", b"large"]
    filtered.ack(*first.ack_ids)
    assert filtered.held() == 0


@pytest.mark.rule("S11.6", "S9.4")
def test_nor_is_it_one_when_its_key_starts_again(filtered: World) -> None:
    publish(filtered, "small", "large", "small", "large", key="k")

    filtered.nack(filtered.pull().ack_ids[0])

    assert filtered.pull().attempts == [2, 1]


@pytest.mark.rule("S11.6", "B058")
def test_what_does_not_match_is_never_a_dead_letter(filtered: World) -> None:
    filtered.create_topic(DEAD)
    filtered.subscribe(LETTERS, DEAD)
    subscription = filtered.subscription()
    subscription.update(replace(subscription.settings, dead_letter=DeadLetterPolicy(DEAD, 5)))
    publish(filtered, "small", "large")

    for _ in range(5):
        filtered.nack(*filtered.pull().ack_ids)
    filtered.advance(600)

    assert filtered.pull(name=LETTERS).bodies == [b"large"]


@pytest.mark.rule("S11.6", "S10.7")
def test_a_dead_letter_is_filtered_by_its_own_subscription(filtered: World) -> None:
    filtered.create_topic(DEAD)
    parsed = parse('hasPrefix(attributes.CloudPubSubDeadLetterSourceSubscription, "other")', 256)
    filtered.subscribe(LETTERS, DEAD, to=replace(settings(), filter=parsed))
    for name in (SUBSCRIPTION, OTHER):
        subscription = filtered.subscription(name)
        subscription.update(replace(subscription.settings, dead_letter=DeadLetterPolicy(DEAD, 5)))
    publish(filtered, "large")

    for name in (SUBSCRIPTION, OTHER):
        for _ in range(5):
            filtered.nack(*filtered.pull(name=name).ack_ids, name=name)

    (letter,) = filtered.pull(name=LETTERS).deliveries
    assert letter.message.attributes["CloudPubSubDeadLetterSourceSubscription"] == "others"
