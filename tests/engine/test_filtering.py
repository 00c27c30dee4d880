"""Filtered subscriptions: what doesn't match is done the moment it is published."""

from dataclasses import replace

import pytest

from emulator.engine.filters import parse
from emulator.engine.values import Draft
from tests.engine.helpers import NOTHING_HELD, SUBSCRIPTION, TOPIC, World, settings

OTHER = "projects/p/subscriptions/others"


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


@pytest.mark.rule("S11.6", "B055")
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
