"""The clocks: the heap of timers, the hand that turns it, and the motor."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from emulator.clock import LAST_NS, NS_PER_S, FakeClock, LoopClock, Timer, TimerHeap


class Diary:
    """Notes in the order in which they were made."""

    def __init__(self) -> None:
        self.notes: list[object] = []

    def note(self, what: object) -> Callable[[], None]:
        """A callback that writes `what` down."""
        return lambda: self.notes.append(what)


@pytest.fixture
def diary() -> Diary:
    return Diary()


class TestTimerHeap:
    def test_earliest_comes_first_whatever_the_order_of_pushing(self) -> None:
        heap = TimerHeap()
        for when in (30, 10, 20):
            heap.push(when, lambda: None)

        assert [timer.when for timer in taken(heap, 100)] == [10, 20, 30]

    def test_timers_of_one_moment_come_by_age(self, diary: Diary) -> None:
        heap = TimerHeap()
        for name in "abc":
            heap.push(5, diary.note(name))

        for timer in taken(heap, 5):
            timer.fire()

        assert diary.notes == ["a", "b", "c"]

    @pytest.mark.parametrize(("now", "found"), [(9, 0), (10, 1), (11, 1)])
    def test_only_what_is_due_is_taken(self, now: int, found: int) -> None:
        heap = TimerHeap()
        heap.push(10, lambda: None)

        assert len(list(taken(heap, now))) == found

    def test_an_empty_heap_has_nothing_due(self) -> None:
        heap = TimerHeap()

        assert heap.next_due() is None
        assert heap.pop_due(100) is None
        assert len(heap) == 0

    def test_a_cancelled_timer_is_skipped_and_not_counted(self) -> None:
        heap = TimerHeap()
        first = heap.push(10, lambda: None)
        heap.push(20, lambda: None)

        first.cancel()

        assert len(heap) == 1
        assert heap.next_due() == 20

    def test_cancelling_twice_counts_once(self) -> None:
        heap = TimerHeap()
        first = heap.push(10, lambda: None)
        heap.push(20, lambda: None)

        first.cancel()
        first.cancel()

        assert len(heap) == 1

    def test_cancelling_what_was_taken_counts_nothing(self) -> None:
        heap = TimerHeap()
        heap.push(10, lambda: None)
        heap.push(20, lambda: None)
        timer = heap.pop_due(10)
        assert timer is not None

        timer.cancel()

        assert len(heap) == 1

    def test_many_cancelled_timers_are_swept(self) -> None:
        heap = TimerHeap()
        kept = heap.push(10_000, lambda: None)

        for when in range(1_000):
            heap.push(when, lambda: None).cancel()

        assert len(heap) == 1
        assert len(heap._heap) <= 130
        assert heap.pop_due(10_000) is kept

    def test_a_sweep_keeps_the_order(self) -> None:
        heap = TimerHeap()
        timers = [heap.push(when, lambda: None) for when in range(300, 0, -1)]

        for timer in timers[::2] + timers[1:200:2]:
            timer.cancel()

        whens = [timer.when for timer in taken(heap, 1_000)]
        assert whens == sorted(whens)
        assert len(whens) == 50

    def test_shows_how_many_wait(self) -> None:
        heap = TimerHeap()
        heap.push(1, lambda: None)

        assert repr(heap) == "<TimerHeap timers=1>"


class TestTimer:
    def test_fires_once(self, diary: Diary) -> None:
        timer = TimerHeap().push(0, diary.note("x"))

        timer.fire()
        timer.fire()

        assert diary.notes == ["x"]

    def test_is_live_until_it_has_fired(self) -> None:
        timer = TimerHeap().push(0, lambda: None)
        before = timer.live

        timer.fire()

        assert (before, timer.live) == (True, False)

    def test_cancelled_does_not_fire(self, diary: Diary) -> None:
        timer = TimerHeap().push(0, diary.note("x"))

        timer.cancel()
        timer.fire()

        assert diary.notes == []
        assert not timer.live

    def test_shows_when_and_whether_done(self) -> None:
        timer = TimerHeap().push(1_500_000_000, lambda: None)
        before = repr(timer)

        timer.cancel()

        assert (before, repr(timer)) == ("<Timer 1.500>", "<Timer 1.500 done>")


class TestFakeClock:
    def test_stands_still(self) -> None:
        clock = FakeClock()

        assert clock.now() == clock.now()

    def test_starts_where_it_is_told(self) -> None:
        assert FakeClock(start_ns=42).now() == 42

    @pytest.mark.parametrize(
        ("seconds", "nanoseconds"), [(0, 0), (1, NS_PER_S), (0.5, 500_000_000), (0.1, 100_000_000), (1e-9, 1)]
    )
    def test_advances_by_seconds(self, seconds: float, nanoseconds: int) -> None:
        clock = FakeClock(0)

        clock.advance(seconds)

        assert clock.now() == nanoseconds

    @pytest.mark.parametrize("seconds", [-1, -1e-9, float("nan"), float("inf"), float("-inf")])
    def test_refuses_to_go_back_or_to_infinity(self, seconds: float) -> None:
        clock = FakeClock(0)

        with pytest.raises(ValueError, match=r"only advances; got .* seconds"):
            clock.advance(seconds)

        assert clock.now() == 0

    def test_refuses_negative_nanoseconds(self) -> None:
        clock = FakeClock(0)

        with pytest.raises(ValueError, match="only advances; got -1 nanoseconds"):
            clock.advance_ns(-1)

        assert clock.now() == 0

    def test_fires_what_is_due_in_order_each_at_its_time(self, diary: Diary) -> None:
        clock = FakeClock(0)
        for when in (30, 10, 20, 31):
            clock.call_at(when, lambda when=when: diary.notes.append((when, clock.now())))  # type: ignore[misc]  # mypy can't infer a lambda with a default

        clock.advance_ns(30)

        assert diary.notes == [(10, 10), (20, 20), (30, 30)]
        assert clock.now() == 30

    def test_never_fires_inside_call_at(self, diary: Diary) -> None:
        clock = FakeClock(100)

        clock.call_at(50, diary.note("late"))
        during = list(diary.notes)
        clock.advance(0)

        assert (during, diary.notes) == ([], ["late"])

    def test_a_time_that_has_passed_does_not_turn_the_clock_back(self) -> None:
        clock = FakeClock(100)
        seen: list[int] = []
        clock.call_at(50, lambda: seen.append(clock.now()))

        clock.advance_ns(1)

        assert seen == [100]

    def test_what_a_callback_schedules_within_the_span_fires_too(self, diary: Diary) -> None:
        clock = FakeClock(0)
        clock.call_at(10, lambda: void(clock.call_at(20, diary.note("inner"))))

        clock.advance_ns(20)

        assert diary.notes == ["inner"]

    def test_a_callback_may_cancel_another_of_the_same_moment(self, diary: Diary) -> None:
        clock = FakeClock(0)
        timers: list[Timer] = []
        clock.call_at(10, lambda: timers[0].cancel())
        timers.append(clock.call_at(10, diary.note("cancelled")))

        clock.advance_ns(10)

        assert diary.notes == []

    @pytest.mark.parametrize("amount", [1, 10**30])
    def test_it_does_not_leave_the_calendar(self, amount: int, diary: Diary) -> None:
        clock = FakeClock(LAST_NS)
        clock.call_at(LAST_NS + 1, diary.note("beyond"))

        with pytest.raises(ValueError, match="9999"):
            clock.advance_ns(amount)

        assert (clock.now(), diary.notes) == (LAST_NS, [])

    def test_seconds_do_not_leave_the_calendar_either(self) -> None:
        with pytest.raises(ValueError, match="9999"):
            FakeClock().advance(1e300)

    @pytest.mark.parametrize("start", [LAST_NS + 1, -62_135_596_800 * NS_PER_S - 1])
    def test_it_does_not_start_outside_of_the_calendar(self, start: int) -> None:
        with pytest.raises(ValueError, match="9999"):
            FakeClock(start)

    def test_the_last_moment_can_be_shown(self) -> None:
        clock = FakeClock(LAST_NS - 1)
        clock.advance_ns(1)

        shown = Timestamp()
        shown.FromNanoseconds(clock.now())
        assert shown.ToJsonString() == "9999-12-31T23:59:59.999999999Z"

    def test_a_callback_may_advance_further(self) -> None:
        clock = FakeClock(0)
        clock.call_at(10, lambda: clock.advance_ns(100))

        clock.advance_ns(20)

        assert clock.now() == 110

    def test_a_callbacks_error_reaches_who_advances_and_the_rest_stays_due(self, diary: Diary) -> None:
        clock = FakeClock(0)
        clock.call_at(10, fail)
        clock.call_at(20, diary.note("later"))

        with pytest.raises(RuntimeError, match="on purpose"):
            clock.advance_ns(30)
        clock.advance_ns(20)

        assert diary.notes == ["later"]

    def test_counts_its_timers_and_knows_the_next(self) -> None:
        clock = FakeClock(0)
        clock.call_at(20, lambda: None)
        clock.call_at(10, lambda: None).cancel()

        assert (clock.timer_count(), clock.next_due()) == (1, 20)

    def test_shows_time_and_timers(self) -> None:
        clock = FakeClock(1_500_000_000)
        clock.call_at(0, lambda: None)

        assert repr(clock) == "<FakeClock now=1.500 timers=1>"


class TestFakeClockOfAnEmulator:
    def test_callbacks_run_where_the_emulator_says(self) -> None:
        clock = FakeClock(0)
        threads: list[str] = []
        clock.call_at(10, lambda: threads.append(threading.current_thread().name))
        clock.attach(in_a_thread_named("loop"))

        clock.advance_ns(10)

        assert threads == ["loop"]
        assert clock.now() == 10

    def test_detached_callbacks_run_in_the_caller_again(self) -> None:
        clock = FakeClock(0)
        threads: list[str] = []
        clock.call_at(10, lambda: threads.append(threading.current_thread().name))
        clock.attach(in_a_thread_named("loop"))
        clock.detach()

        clock.advance_ns(10)

        assert threads == [threading.current_thread().name]

    def test_one_clock_drives_one_emulator(self) -> None:
        clock = FakeClock()
        clock.attach(lambda function: function())

        with pytest.raises(RuntimeError, match="already drives a running emulator"):
            clock.attach(lambda function: function())

    def test_may_be_attached_again_after_detaching(self, diary: Diary) -> None:
        clock = FakeClock(0)
        clock.attach(lambda function: function())
        clock.detach()

        clock.attach(lambda _function: bool(diary.note("run")()))
        clock.advance_ns(1)

        assert diary.notes == ["run"]


class FakeLoop:
    """Records what a clock asks of its loop, and lets a test be the motor."""

    def __init__(self) -> None:
        self.scheduled: list[FakeHandle] = []
        self.problems: list[dict[str, Any]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> "FakeHandle":
        handle = FakeHandle(delay, callback)
        self.scheduled.append(handle)
        return handle

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.problems.append(context)

    def armed(self) -> "list[FakeHandle]":
        return [handle for handle in self.scheduled if not handle.done]


class FakeHandle:
    def __init__(self, delay: float, callback: Callable[[], None]) -> None:
        self.delay = delay
        self._callback = callback
        self.done = False

    def cancel(self) -> None:
        self.done = True

    def fire(self) -> None:
        self.done = True
        self._callback()


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def clock(loop: FakeLoop) -> LoopClock:
    return LoopClock(loop)  # type: ignore[arg-type]  # the fake has the two methods that a clock uses


class TestLoopClock:
    def test_never_goes_back(self, clock: LoopClock) -> None:
        times = [clock.now() for _ in range(100)]

        assert times == sorted(times)

    def test_an_idle_clock_asks_nothing_of_its_loop(self, loop: FakeLoop, clock: LoopClock) -> None:
        clock.now()

        assert loop.scheduled == []

    def test_aims_at_the_earliest_with_one_loop_timer(self, loop: FakeLoop, clock: LoopClock) -> None:
        now = clock.now()

        for seconds in (30, 10, 20):
            clock.call_at(now + seconds * NS_PER_S, lambda: None)

        (armed,) = loop.armed()
        assert armed.delay == pytest.approx(10, abs=1)

    def test_fires_what_is_due_and_aims_at_the_next(self, loop: FakeLoop, clock: LoopClock, diary: Diary) -> None:
        clock.call_at(clock.now() + 60 * NS_PER_S, diary.note("later"))
        clock.call_at(clock.now(), diary.note("first"))
        clock.call_at(clock.now(), diary.note("second"))

        loop.armed()[0].fire()

        assert diary.notes == ["first", "second"]
        (armed,) = loop.armed()
        assert armed.delay > 50

    def test_woken_early_it_fires_nothing_and_aims_again(self, loop: FakeLoop, clock: LoopClock, diary: Diary) -> None:
        clock.call_at(clock.now() + 60 * NS_PER_S, diary.note("later"))

        loop.armed()[0].fire()

        assert diary.notes == []
        assert len(loop.armed()) == 1

    def test_a_past_time_is_due_on_the_next_turn_not_inside_the_call(
        self, loop: FakeLoop, clock: LoopClock, diary: Diary
    ) -> None:
        clock.call_at(0, diary.note("late"))
        during = list(diary.notes)

        (armed,) = loop.armed()
        armed.fire()

        assert (during, armed.delay, diary.notes) == ([], 0, ["late"])

    def test_what_a_callback_schedules_for_now_waits_for_the_next_turn(
        self, loop: FakeLoop, clock: LoopClock, diary: Diary
    ) -> None:
        clock.call_at(0, lambda: void(clock.call_at(0, diary.note("inner"))))

        loop.armed()[0].fire()
        during = list(diary.notes)
        loop.armed()[0].fire()

        assert (during, diary.notes) == ([], ["inner"])

    def test_a_callback_may_cancel_another_of_the_same_turn(
        self, loop: FakeLoop, clock: LoopClock, diary: Diary
    ) -> None:
        timers: list[Timer] = []
        clock.call_at(0, lambda: timers[0].cancel())
        timers.append(clock.call_at(0, diary.note("cancelled")))

        loop.armed()[0].fire()

        assert diary.notes == []
        assert clock.timer_count() == 0

    def test_a_broken_callback_stops_nobody(self, loop: FakeLoop, clock: LoopClock, diary: Diary) -> None:
        clock.call_at(0, fail)
        clock.call_at(0, diary.note("next"))

        loop.armed()[0].fire()

        assert diary.notes == ["next"]
        assert [type(problem["exception"]) for problem in loop.problems] == [RuntimeError]

    def test_nothing_fires_after_closing(self, loop: FakeLoop, clock: LoopClock) -> None:
        clock.call_at(0, lambda: None)

        clock.close()
        clock.close()

        assert loop.armed() == []

    def test_what_is_scheduled_after_closing_is_not_armed(self, loop: FakeLoop, clock: LoopClock) -> None:
        clock.close()

        clock.call_at(0, lambda: None)

        assert loop.scheduled == []

    def test_closing_from_a_callback_ends_the_motor(self, loop: FakeLoop, clock: LoopClock) -> None:
        clock.call_at(clock.now() + NS_PER_S, lambda: None)
        clock.call_at(0, clock.close)

        loop.armed()[0].fire()

        assert loop.armed() == []

    def test_counts_its_timers(self, clock: LoopClock) -> None:
        clock.call_at(0, lambda: None)
        clock.call_at(1, lambda: None).cancel()

        assert clock.timer_count() == 1
        assert repr(clock) == "<LoopClock timers=1>"

    async def test_runs_on_a_real_loop(self) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        done = asyncio.Event()
        due = clock.now() + 5_000_000
        fired_at: list[int] = []
        clock.call_at(due, lambda: fired_at.append(clock.now()))
        clock.call_at(due, done.set)

        await done.wait()

        assert fired_at[0] >= due
        clock.close()


def taken(heap: TimerHeap, now: int) -> Iterator[Timer]:
    while (timer := heap.pop_due(now)) is not None:
        yield timer


def void(_value: object) -> None:
    """Drop a value, so that a lambda fits where nothing is returned."""


def fail() -> None:
    raise RuntimeError("on purpose")


def in_a_thread_named(name: str) -> Callable[[Callable[[], bool]], bool]:
    def run(function: Callable[[], bool]) -> bool:
        results: list[bool] = []
        thread = threading.Thread(target=lambda: results.append(function()), name=name)
        thread.start()
        thread.join()
        return results[0]

    return run
