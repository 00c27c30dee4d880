"""What a subscription's filter does not match (service.md §11.6)."""

from collections.abc import Mapping

import pytest

from tests.engine.helpers import DEAD, OTHER, SUBSCRIPTION, World, settings
from tests.engine.streams import Reader

LETTERS = "projects/p/subscriptions/letters"


class Red:
    """A filter."""

    def matches(self, attributes: Mapping[str, str]) -> bool:
        return attributes.get("colour") == "red"


@pytest.fixture
def world(empty: World) -> World:
    empty.create_topic()
    empty.create_topic(DEAD)
    empty.subscribe(to=settings(dead_letter=5, matching=Red()))
    empty.subscribe(LETTERS, DEAD)
    return empty


@pytest.mark.rule("S11.6")
def test_it_is_acked_at_publish(world: World) -> None:
    world.publish(b"red", attributes={"colour": "red"})
    world.publish(b"blue", attributes={"colour": "blue"})
    world.publish(b"plain")

    assert (world.held(), world.pull().bodies) == (1, [b"red"])


@pytest.mark.rule("S11.6")
def test_it_reaches_who_has_no_filter(world: World) -> None:
    world.subscribe(OTHER)

    world.publish(b"blue", attributes={"colour": "blue"})

    assert (world.pull().bodies, world.pull(name=OTHER).bodies) == ([], [b"blue"])


@pytest.mark.rule("S11.6")
def test_it_answers_no_pull_that_waits(world: World) -> None:
    waiting, reader = world.pull(wait=True), Reader(world)

    world.publish(b"blue", attributes={"colour": "blue"})

    assert (waiting.pull.done, reader.read()) == (False, [])


@pytest.mark.rule("S11.6", "B058")
def test_it_is_never_a_dead_letter(world: World) -> None:
    world.publish(b"blue", attributes={"colour": "blue"})

    world.advance(600)

    assert (world.pull().bodies, world.pull(name=LETTERS).bodies) == ([], [])


@pytest.mark.rule("S11.6", "S9.2")
def test_it_is_no_gap_in_the_order_of_a_key(world: World) -> None:
    world.broker.delete_subscription(SUBSCRIPTION)
    world.subscribe(to=settings(ordered=True, matching=Red()))
    for number in range(6):
        world.publish(b"%d" % number, key="a", attributes={"colour": "red"} if number % 2 else {})

    held = world.pull()
    world.nack(*held.ack_ids[:1])

    assert held.bodies == [b"1", b"3", b"5"]
    assert world.pull().bodies == [b"1", b"3", b"5"]


@pytest.mark.rule("S11.6")
def test_it_is_what_a_filtered_dead_letter_topic_s_subscription_leaves(world: World) -> None:
    world.subscribe(OTHER, DEAD, to=settings(matching=Red()))
    world.publish(b"red", attributes={"colour": "red"})

    for _ in range(5):
        world.nack(*world.pull().ack_ids)

    assert world.pull(name=OTHER).bodies == [b"red"]
