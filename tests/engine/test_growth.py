"""Nothing grows that need not: sizes after much traffic, work per turn, bodies that are freed; counted, never timed."""

import sys
from collections.abc import Callable

import pytest

from emulator.clock import NS_PER_S
from emulator.engine import subscription as subscription_module
from emulator.engine.entries import Place
from emulator.engine.subscription import Subscription
from emulator.engine.values import DeliveryKind
from tests.engine.helpers import OTHER, SUBSCRIPTION, TOPIC, World, settings

SLICE = subscription_module._SLICE

# What the engine may keep beside what is live before it sweeps; see `_SWEEP_FROM` and the clock's heap.
SPARE = 64


def kept(world: World) -> tuple[int, int, int]:
    """How many items the backlog, the deadlines and the clock hold, live ones and stale ones."""
    subscription = world.subscription()
    backlog = subscription._holdings.backlog
    return (
        len(backlog._fresh) + len(backlog._returned),
        len(subscription._holdings.deadlines._heap),
        len(world.clock._heap._heap),
    )


def fill(world: World, thousands: int) -> None:
    for _ in range(thousands):
        world.publish(*[b"x"] * 1_000)


@pytest.mark.no_cover  # only because that takes three times as long
@pytest.mark.rule("B146")
class TestSizesAfterMuchTraffic:
    def test_a_hundred_thousand_messages_acked_leave_nothing(self, world: World) -> None:
        peaks = (0, 0, 0)
        for turn in range(1_000):
            world.publish(*[b"x"] * 100)
            ack_ids = world.pull(100).ack_ids
            if turn % 10 == 0:
                world.extend(30, *ack_ids)
                world.nack(*ack_ids[:50])
                ack_ids += world.pull(100).ack_ids
            world.ack(*ack_ids)
            peaks = tuple(map(max, peaks, kept(world)))  # type: ignore[assignment]  # three numbers stay three
            world.clock.advance_ns(NS_PER_S // 10)

        assert world.held() == 0
        assert max(peaks) <= 2 * SPARE + 2

    def test_one_message_that_is_never_done_does_not_keep_the_others(self, world: World) -> None:
        world.publish(b"stuck")
        (stuck,) = world.pull().ack_ids

        for _ in range(2_000):
            world.publish(b"x")
            world.ack(*world.pull().ack_ids)
            world.extend(600, stuck)

        assert world.held() == 1
        assert max(kept(world)) <= SPARE + 4

    def test_leases_that_end_and_begin_for_ever_take_no_more_room(self, world: World) -> None:
        world.publish(*[b"x"] * 10)

        for _ in range(1_000):
            world.pull()
            world.advance(10)

        assert (world.waiting(), world.failures()) == (10, [1_000] * 10)
        assert max(kept(world)) <= 2 * 10 + SPARE

    def test_backlogs_acked_out_of_order_are_swept(self, world: World) -> None:
        fill(world, 10)
        ack_ids = [ack_id for _ in range(10) for ack_id in world.pull().ack_ids]
        world.advance(10)

        world.ack(*ack_ids[::-1][:9_900])

        assert world.waiting() == 100
        assert kept(world)[0] <= 2 * 100 + SPARE

    def test_pulls_in_vain_leave_nothing(self, world: World) -> None:
        subscription = world.subscription()

        for _ in range(1_000):
            world.pull(wait=False)
            subscription.cancel(world.pull(wait=True).pull)
            subscription.hurry(world.pull(wait=True).pull)

        assert (len(subscription._consumers.line), len(subscription._consumers._waits)) == (0, 0)
        assert kept(world)[2] <= 2 * SPARE

    def test_pulls_that_were_ended_leave_nothing(self, world: World) -> None:
        subscription = world.subscription()

        for _ in range(100):
            world.pull(wait=True)
            subscription.update(settings(delivery=DeliveryKind.PUSH))
            subscription.update(settings())

        assert (len(subscription._consumers.line), len(subscription._consumers._waits)) == (0, 0)

    @pytest.mark.rule("B130")
    def test_subscriptions_made_and_deleted_leave_nothing(self, world: World) -> None:
        for _ in range(2_000):
            world.subscribe(OTHER, to=settings(ttl=86_400))
            world.publish(b"x")
            world.pull(name=OTHER)
            world.ack(*world.pull().ack_ids)
            world.broker.delete_subscription(OTHER)

        assert len(world.broker._by_number) == len(world.broker.topics.get(TOPIC)._attached) == 1
        assert kept(world)[2] <= 2 * SPARE

    def test_a_detached_subscription_is_forgotten_by_its_topic_when_it_is_deleted(self, world: World) -> None:
        world.broker.detach_subscription(SUBSCRIPTION)
        before = len(world.broker.topics.get(TOPIC)._detached)

        world.broker.delete_subscription(SUBSCRIPTION)

        assert (before, len(world.broker.topics.get(TOPIC)._detached)) == (1, 0)


class TestManyThingsAtOneMoment:
    """100,000 of them end in slices, so that others get their turn in between."""

    @pytest.fixture
    def ended(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """How many leases or messages each ring of the big subscription ended; filled as it rings."""
        ended: list[int] = []
        ring = Subscription._ring

        def counting(subscription: Subscription) -> None:
            if subscription.name != SUBSCRIPTION:
                ring(subscription)
                return
            before = len(subscription._holdings.deadlines), len(subscription._holdings._entries)
            ring(subscription)
            after = len(subscription._holdings.deadlines), len(subscription._holdings._entries)
            ended.append(max(before[0] - after[0], before[1] - after[1]))

        monkeypatch.setattr(Subscription, "_ring", counting)
        return ended

    @pytest.mark.no_cover
    @pytest.mark.rule("S7.1.5")
    def test_leases(self, empty: World, ended: list[int]) -> None:
        empty.create_topic()
        empty.subscribe()
        fill(empty, 100)
        for _ in range(100):
            empty.pull()

        empty.advance(10)

        assert empty.waiting() == 100_000
        assert (max(ended), sum(ended)) == (SLICE, 100_000)

    @pytest.mark.no_cover
    @pytest.mark.rule("S6.5")
    def test_messages_that_outlive_their_retention(self, empty: World, ended: list[int]) -> None:
        empty.create_topic()
        empty.subscribe(to=settings(retention=600))
        fill(empty, 100)

        empty.advance(601)

        assert empty.held() == 0
        assert (max(ended), sum(ended)) == (SLICE, 100_000)

    def test_another_subscription_does_not_wait_for_the_end(self, world: World) -> None:
        fill(world, 3)
        for _ in range(3):
            world.pull()
        world.subscribe(OTHER)
        world.publish(b"x")
        world.pull(name=OTHER)
        world.advance(8)
        seen: list[int] = []
        world.pull(name=OTHER, wait=True).pull.on_done = lambda: seen.append(world.leases())

        world.advance(2)

        assert seen == [3_000 - SLICE]


ENDS = [
    pytest.param(lambda world, ack_ids: world.ack(*ack_ids), id="ack"),
    pytest.param(lambda world, ack_ids: (world.nack(*ack_ids), world.ack(*ack_ids)), id="late ack"),
    pytest.param(lambda world, ack_ids: world.advance(601), id="retention"),
    pytest.param(lambda world, ack_ids: world.broker.detach_subscription(SUBSCRIPTION), id="detach"),
    pytest.param(lambda world, ack_ids: world.broker.delete_subscription(SUBSCRIPTION), id="delete"),
    pytest.param(lambda world, ack_ids: world.broker.reset(), id="reset"),
]


@pytest.mark.rule("B146")
class TestBodiesAreFreed:
    """By reference counts alone, so that no body waits for the garbage collector."""

    @pytest.fixture
    def world(self, empty: World) -> World:
        empty.create_topic()
        empty.subscribe(to=settings(retention=600))
        return empty

    @pytest.mark.parametrize("end", ENDS)
    def test_once_the_message_is_done_though_its_leases_are_remembered(
        self, world: World, end: Callable[[World, list[str]], object]
    ) -> None:
        body = bytes(1_000)
        before = sys.getrefcount(body)
        subscription = world.subscription()
        world.publish(body)
        pull = world.broker.pull(SUBSCRIPTION, 1, wait=False)
        (lease,) = pull.hand_over()
        during = sys.getrefcount(body)

        end(world, [subscription.ack_id(lease)])

        assert during > before
        assert sys.getrefcount(body) == before
        assert lease.entry is None

    @pytest.mark.parametrize("returned", [False, True])
    def test_though_the_backlog_still_has_a_stale_reference(self, world: World, returned: bool) -> None:
        body = bytes(1_000)
        before = sys.getrefcount(body)
        backlog = world.subscription()._holdings.backlog
        world.publish(body)
        if returned:
            world.subscription().give_back(world.broker.pull(SUBSCRIPTION, 1, wait=False).hand_over())

        world.advance(601)

        assert len(backlog._fresh) + len(backlog._returned) == 1
        assert sys.getrefcount(body) == before

    def test_though_somebody_holds_on_to_its_entry(self, world: World) -> None:
        body = bytes(1_000)
        before = sys.getrefcount(body)
        world.publish(body)
        pull = world.broker.pull(SUBSCRIPTION, 1, wait=False)
        (lease,) = pull.hand_over()
        entry = lease.entry

        world.ack(world.subscription().ack_id(lease))

        assert entry is not None
        assert entry.place is Place.GONE
        assert sys.getrefcount(body) == before

    def test_once_the_last_of_several_subscriptions_is_done_with_it(self, world: World) -> None:
        world.subscribe(OTHER)
        body = bytes(1_000)
        before = sys.getrefcount(body)
        world.publish(body)

        world.broker.delete_subscription(SUBSCRIPTION)
        between = sys.getrefcount(body)
        world.broker.delete_subscription(OTHER)

        assert between > before
        assert sys.getrefcount(body) == before

    def test_at_once_when_nobody_is_subscribed(self, world: World) -> None:
        world.broker.delete_subscription(SUBSCRIPTION)
        body = bytes(1_000)
        before = sys.getrefcount(body)

        world.publish(body)

        assert sys.getrefcount(body) == before
