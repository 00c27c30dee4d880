"""The heap of timers under any use, and the alarm that keeps a subscription at one of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.clock import FakeClock, Timer, TimerHeap
from emulator.engine.alarm import Alarm
from tests.engine.helpers import OTHER, World, settings

# What is done to the heap: push a timer, cancel one (whatever became of it), take what is due.
Step = tuple[str, int]
steps = st.lists(st.tuples(st.sampled_from(["push", "push", "cancel", "due"]), st.integers(0, 30)), max_size=300)


@given(steps=steps)
def test_whatever_is_done_the_earliest_and_then_the_oldest_live_timer_is_next(steps: list[Step]) -> None:
    heap = TimerHeap()
    timers: list[Timer] = []
    fired: list[int] = []
    waiting: dict[int, int] = {}

    for action, amount in steps:
        if action == "push":
            number = len(timers)
            timers.append(heap.push(amount, lambda number=number: fired.append(number)))  # type: ignore[misc]  # mypy can't infer a lambda with a default
            waiting[number] = amount
        elif action == "cancel" and timers:
            number = amount % len(timers)
            timers[number].cancel()
            waiting.pop(number, None)
        elif action == "due":
            due = sorted((when, number) for number, when in waiting.items() if when <= amount)
            fired.clear()
            while (timer := heap.pop_due(amount)) is not None:
                timer.fire()
            assert fired == [number for _, number in due]
            for _, number in due:
                del waiting[number]
        assert len(heap) == len(waiting)
        assert heap.next_due() == min(waiting.values(), default=None)


class TestAlarm:
    def test_rings_at_the_earliest_time_it_was_aimed_at(self) -> None:
        clock, rung = FakeClock(0), []
        alarm = Alarm(clock, lambda: rung.append(clock.now()))

        for when in (30, 10, 20):
            alarm.aim(when)
        clock.advance_ns(100)

        assert rung == [10]

    def test_uses_one_timer_at_most(self) -> None:
        clock = FakeClock(0)
        alarm = Alarm(clock, lambda: None)

        counts = []
        for when in (30, 10, 20):
            alarm.aim(when)
            counts.append(clock.timer_count())
        clock.advance_ns(100)

        assert (counts, clock.timer_count()) == ([1, 1, 1], 0)

    def test_may_be_aimed_again_while_it_rings(self) -> None:
        clock, rung = FakeClock(0), []

        def ring() -> None:
            rung.append(clock.now())
            if len(rung) < 3:
                alarm.aim(clock.now() + 10)

        alarm = Alarm(clock, ring)
        alarm.aim(5)
        clock.advance_ns(100)

        assert rung == [5, 15, 25]

    def test_stopped_it_does_not_ring_and_may_be_aimed_again(self) -> None:
        clock, rung = FakeClock(0), []
        alarm = Alarm(clock, lambda: rung.append(clock.now()))
        alarm.aim(10)

        alarm.stop()
        alarm.stop()
        between = clock.timer_count()
        alarm.aim(20)
        clock.advance_ns(100)

        assert (between, rung) == (0, [20])

    def test_shows_its_timer(self) -> None:
        alarm = Alarm(FakeClock(0), lambda: None)
        before = repr(alarm)

        alarm.aim(1_500_000_000)

        assert (before, repr(alarm)) == ("<Alarm None>", "<Alarm <Timer 1.500>>")


@pytest.mark.rule("B146")
class TestOneTimerPerSubscription:
    def test_however_many_leases_waits_and_messages_there_are(self, world: World) -> None:
        world.subscribe(OTHER, to=settings(ttl=86_400))

        for _ in range(50):
            world.publish(b"a", b"b", b"c")
            world.extend(30, *world.pull(2).ack_ids)
            world.pull(5, name=OTHER)
            world.pull(name=OTHER, wait=True)
            world.advance(1)

        assert world.clock.timer_count() == 2

    def test_none_when_there_is_nothing_to_wait_for(self, world: World) -> None:
        assert world.clock.timer_count() == 0

    def test_none_once_the_last_message_is_gone_and_its_times_have_passed(self, world: World) -> None:
        world.publish(b"a")
        world.ack(*world.pull().ack_ids)

        world.advance(60)
        week = world.clock.timer_count()
        world.advance(604_800)

        assert (week, world.clock.timer_count()) == (0, 0)

    def test_an_early_ring_finds_nothing_and_is_aimed_again(self, world: World) -> None:
        world.publish(b"a", b"b")
        first, second = world.pull().ack_ids
        world.extend(60, second)
        world.ack(first)

        world.advance(10)

        assert world.clock.next_due() == world.clock.now() + 50_000_000_000
