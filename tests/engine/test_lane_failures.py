"""What the failure of one message of an ordering key does to the others."""

from dataclasses import replace

import pytest

from emulator.engine.values import DeadLetterPolicy, Draft
from tests.engine.helpers import OTHER, SUBSCRIPTION, TOPIC, World, settings

DEAD = "projects/p/topics/dead"


@pytest.fixture
def ordered(empty: World) -> World:
    """An ordered subscription that keeps no message after its first failure, and one of its dead-letter topic."""
    empty.create_topic()
    empty.create_topic(DEAD)
    empty.subscribe(to=replace(settings(), ordered=True, dead_letter=DeadLetterPolicy(DEAD, 1)))
    empty.subscribe(OTHER, DEAD, to=replace(settings(), ordered=True))
    return empty


def publish(world: World, *bodies: bytes) -> None:
    world.broker.publish(TOPIC, [Draft(body, {}, "k") for body in bodies])


@pytest.mark.rule("S9.2")
def test_nacked_together_they_are_dead_letters_in_their_order(ordered: World) -> None:
    publish(ordered, b"1", b"2", b"3")

    ordered.nack(*ordered.pull().ack_ids)

    assert ordered.pull(name=OTHER).bodies == [b"1", b"2", b"3"]


@pytest.mark.rule("S9.2")
def test_expired_together_they_are_dead_letters_in_their_order(ordered: World) -> None:
    publish(ordered, b"1", b"2", b"3")
    ordered.pull()

    ordered.advance(10)

    assert ordered.pull(name=OTHER).bodies == [b"1", b"2", b"3"]


@pytest.mark.rule("S9.4")
@pytest.mark.parametrize("acked", [["2", "3"], ["3"]])
def test_an_ack_that_was_undone_stays_so_when_it_is_repeated(ordered: World, acked: list[str]) -> None:
    """A client that repeats its ack must not keep the message from coming again, whatever waits before it."""
    ordered.subscription().update(replace(settings(), ordered=True))
    publish(ordered, b"1", b"2", b"3")
    ids = dict(zip(["1", "2", "3"], ordered.pull().ack_ids, strict=True))
    ordered.nack(ids["2"], ids["3"])
    late = [ids[name] for name in acked]
    ordered.ack(*late)
    ordered.nack(ids["1"])

    ordered.ack(*late)

    assert ordered.pull(name=SUBSCRIPTION).bodies == [b"1", b"2", b"3"]
