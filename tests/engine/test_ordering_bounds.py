"""Ordering keys with a great many messages: nothing takes longer the more there are."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from emulator.engine.values import Draft
from emulator.limits import Limits
from tests.engine.helpers import TOPIC, World, settings


def publish(world: World, count: int, key: str = "k") -> None:
    world.broker.publish(TOPIC, [Draft(b"%d" % number, {}, key) for number in range(count)])


def numbers(*parts: range | int) -> Iterator[bytes]:
    for part in parts:
        yield from (b"%d" % number for number in (part if isinstance(part, range) else [part]))


@pytest.fixture
def ordered() -> World:
    """With at most three messages of a key out."""
    world = World(Limits(ordering_key_max_outstanding=3))
    world.create_topic()
    world.subscribe(to=replace(settings(), ordered=True))
    return world


def test_no_more_of_a_key_are_out_than_may_be(ordered: World) -> None:
    publish(ordered, 5)
    publish(ordered, 2, "other")

    first = ordered.pull()

    assert first.bodies == [*numbers(range(3), range(2))]
    ordered.ack(first.ack_ids[0])
    assert ordered.pull().bodies == []
    ordered.ack(*first.ack_ids)
    assert ordered.pull().bodies == [*numbers(3, 4)]


def test_acked_ones_that_wait_for_an_earlier_one_count(ordered: World) -> None:
    publish(ordered, 5)
    first, second, third = ordered.pull().ack_ids
    ordered.ack(second, third)

    assert ordered.pull().bodies == []
    ordered.nack(first)
    assert ordered.pull().bodies == [*numbers(range(3))]


@pytest.mark.rule("S9.4")
def test_a_long_lane_keeps_its_order_through_failures() -> None:
    world = World()
    world.create_topic()
    world.subscribe(to=replace(settings(), ordered=True))
    publish(world, 1_000)
    seen: list[bytes] = []

    while held := world.pull(100).deliveries:
        world.ack(*[delivery.ack_id for delivery in held[:70]])
        seen += [delivery.body for delivery in held[:70]]
        if len(held) > 70:
            world.nack(held[70].ack_id)

    assert seen == [*numbers(range(1_000))]
    assert (world.held(), len(world.subscription()._holdings._entries)) == (0, 0)
