"""What others may see of the engine: counts, the dump, and one line of each thing that has state."""

from collections.abc import Callable

import pytest

from emulator.engine.entries import Entry
from emulator.engine.values import TopicSettings
from tests.engine.helpers import NOTHING_AT_ALL, OTHER, SUBSCRIPTION, TOPIC, World, message, settings


def test_counts_add_up_over_all_subscriptions(world: World) -> None:
    world.subscribe(OTHER)
    world.publish(b"a", b"b", b"c")
    world.pull(2)
    world.pull(name=OTHER)
    world.pull(name=OTHER, wait=True)

    assert world.broker.counts() == {
        **NOTHING_AT_ALL,
        "topics": 1,
        "subscriptions": 2,
        "waiting": 1,
        "leases": 5,
        "waiting_pulls": 1,
    }


def test_the_dump_tells_the_whole_state(world: World) -> None:
    world.publish(b"a", b"b")
    world.nack(*world.pull(1).ack_ids)
    world.pull(1)

    assert world.broker.dump() == {
        "messages": 2,
        "topics": {TOPIC: (TopicSettings(), [SUBSCRIPTION])},
        "subscriptions": {
            SUBSCRIPTION: {
                "settings": settings(),
                "topic": TOPIC,
                "detached": False,
                "messages": [
                    (1, "leased", 1, (2, world.clock.now() + 10_000_000_000)),
                    (2, "waiting", 0, None),
                ],
            }
        },
        "snapshots": {},
    }


CHANGES = [
    pytest.param(lambda world: world.create_topic("projects/p/topics/new"), id="create topic"),
    pytest.param(lambda world: world.broker.delete_topic(TOPIC), id="delete topic"),
    pytest.param(lambda world: world.subscribe(OTHER), id="create subscription"),
    pytest.param(lambda world: world.broker.delete_subscription(SUBSCRIPTION), id="delete subscription"),
    pytest.param(lambda world: world.broker.detach_subscription(SUBSCRIPTION), id="detach"),
    pytest.param(lambda world: world.subscription().update(settings(ack_deadline=20)), id="update"),
    pytest.param(lambda world: world.publish(b"x"), id="publish"),
    pytest.param(lambda world: world.pull(1), id="pull"),
    pytest.param(lambda world: world.ack(first_lease(world)), id="ack"),
    pytest.param(lambda world: world.nack(first_lease(world)), id="nack"),
    pytest.param(lambda world: world.extend(99, first_lease(world)), id="extend"),
    pytest.param(lambda world: world.advance(10), id="expiry"),
]


def first_lease(world: World) -> str:
    return world.broker._ack_ids.encode(1, 1, 1)


@pytest.mark.parametrize("change", CHANGES)
def test_the_dump_tells_of_every_change(world: World, change: Callable[[World], object]) -> None:
    world.publish(b"a", b"b")
    world.pull(1)
    before = world.broker.dump()

    change(world)

    assert world.broker.dump() != before


def test_each_thing_shows_itself_in_a_line(world: World) -> None:
    world.publish(b"a", b"b")
    answer = world.pull(1)

    shown = [
        repr(thing)
        for thing in (world.broker, world.broker.topics.get(TOPIC), world.subscription(), answer.pull, answer.leases[0])
    ]

    assert shown == [
        "<Broker topics=1 subscriptions=1>",
        f"<Topic {TOPIC} subscriptions=1>",
        f"<Subscription {SUBSCRIPTION} waiting=1 leases=1>",
        "<Pull most=1 leases=0 done>",
        f"<Lease 1 <Entry 1 leased failures=0> until={world.clock.now() + 10_000_000_000}>",
    ]


def test_a_detached_subscription_shows_that(world: World) -> None:
    world.broker.detach_subscription(SUBSCRIPTION)

    assert repr(world.subscription()).endswith(" detached>")


def test_a_pull_that_waits_does_not_show_as_done(world: World) -> None:
    assert repr(world.pull(3, wait=True).pull) == "<Pull most=3 leases=0>"


def test_an_entry_shows_its_place() -> None:
    entry = Entry(message(7))

    entry.forget()

    assert repr(entry) == "<Entry 0 gone failures=0>"


def test_an_ordered_subscription_shows_its_keys(empty: World) -> None:
    empty.create_topic()
    empty.subscribe(to=settings(ordered=True))
    empty.publish(b"a1", b"a2", b"a3", key="a")
    empty.ack(*empty.pull(2).of(b"a2"))

    holdings = empty.subscription()._holdings
    lanes = holdings.lanes
    assert lanes is not None
    (lane,), (claims,) = lanes._by_key.values(), lanes._claims.values()
    assert repr(lanes) == "<Lanes 1 acked=1>"
    assert repr(lane) == "<Lane 'a' out=2 waiting=1>"
    assert repr(claims) == "<_Claims live=1 items=1>"
    assert repr(holdings) == f"<Holdings {SUBSCRIPTION} waiting=1 leases=1>"
