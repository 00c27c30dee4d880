"""The one timeline, in integer nanoseconds since the Unix epoch, and the heap of what is due on it.

`FakeClock` is the heap and a hand that turns it; `LoopClock` is the same heap with an event loop as its motor.
"""

import asyncio
import heapq
import threading
import time
from collections.abc import Callable
from typing import Protocol

NS_PER_S = 1_000_000_000

# What a Timestamp can show, from the start of year 1 to the end of year 9999: beyond, no answer could hold the time.
FIRST_NS = -62_135_596_800 * NS_PER_S
LAST_NS = 253_402_300_800 * NS_PER_S - 1

_FAKE_START = 1_700_000_000 * NS_PER_S


class Timer:
    """One callback on a clock; `cancel` is idempotent."""

    __slots__ = ("_callback", "_heap", "when")

    def __init__(self, when: int, callback: Callable[[], None], heap: "TimerHeap") -> None:
        self.when = when
        self._callback: Callable[[], None] | None = callback
        self._heap: TimerHeap | None = heap

    @property
    def live(self) -> bool:
        """Whether the callback has neither run nor been cancelled."""
        return self._callback is not None

    def cancel(self) -> None:
        if self._callback is not None:
            self._callback = None
            if self._heap is not None:
                self._heap.note_cancelled()

    def leave_heap(self) -> None:
        self._heap = None

    def fire(self) -> None:
        """Run the callback unless it was cancelled."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def __repr__(self) -> str:
        return f"<Timer {self.when / NS_PER_S:.3f}{'' if self.live else ' done'}>"


class TimerHeap:
    """Timers by due time, then by age. Cancelled ones are skipped when they surface, and swept when they outnumber."""

    __slots__ = ("_cancelled", "_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0
        self._cancelled = 0

    def push(self, when: int, callback: Callable[[], None]) -> Timer:
        timer = Timer(when, callback, self)
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, timer))
        return timer

    def note_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].live]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next_due(self) -> int | None:
        """When the earliest live timer is due, or None."""
        heap = self._heap
        while heap and not heap[0][2].live:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def pop_due(self, now: int) -> Timer | None:
        """Take the earliest live timer due at `now` or before, or None; the caller fires it."""
        due = self.next_due()
        if due is None or due > now:
            return None
        timer = heapq.heappop(self._heap)[2]
        timer.leave_heap()
        return timer

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def __repr__(self) -> str:
        return f"<TimerHeap timers={len(self)}>"


class Clock(Protocol):
    """What everything that asks for the time is given."""

    def now(self) -> int:
        """Nanoseconds since the Unix epoch; never goes backwards."""
        ...

    def call_at(self, when: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` once `now()` has reached `when`, never before this call has returned."""
        ...

    def timer_count(self) -> int:
        """How many timers wait."""
        ...


class FakeClock:
    """A clock that stands still until it is told to `advance`.

    While an emulator runs on it, callbacks run on that emulator's event loop, whichever thread calls `advance`.
    A callback's error reaches the caller of `advance`; what was due after it stays due.
    """

    __slots__ = ("_heap", "_lock", "_now", "_run")

    def __init__(self, start_ns: int = _FAKE_START) -> None:
        """Raises ValueError for a start outside of the years 1 to 9999."""
        _check_moment(start_ns)
        self._now = start_ns
        self._heap = TimerHeap()
        self._lock = threading.Lock()
        self._run: Callable[[Callable[[], bool]], bool] | None = None

    def now(self) -> int:
        return self._now

    def call_at(self, when: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` in the first `advance` that reaches `when`; `advance(0)` does for what is due already."""
        return self._heap.push(when, callback)

    def timer_count(self) -> int:
        return len(self._heap)

    def next_due(self) -> int | None:
        """When the next timer is due, in nanoseconds, or None."""
        return self._heap.next_due()

    def advance(self, seconds: float) -> None:
        """Move time forward and return after everything due has run, in order.

        Called from another thread than the emulator's, what one moment leads to leaves before the next one comes: a
        stream gets its redelivery before that expires in its turn. On the emulator's own loop nothing leaves meanwhile.

        Raises ValueError for a negative or non-finite amount, and for one that leads past the year 9999.
        """
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"a clock only advances; got {seconds!r} seconds")
        _check_moment(self._now + int(seconds) * NS_PER_S)
        self.advance_ns(round(seconds * NS_PER_S))

    def advance_ns(self, amount: int) -> None:
        """`advance` in integer nanoseconds."""
        if amount < 0:
            raise ValueError(f"a clock only advances; got {amount!r} nanoseconds")
        _check_moment(self._now + amount)
        target = self._now + amount
        run = self._run
        if run is None:
            while self._step(target):
                pass
        else:
            while run(lambda: self._step(target)):
                pass

    def _step(self, target: int) -> bool:
        """Run what is due at the next moment; whether there may be more until `target`."""
        moment = self._heap.next_due()
        if moment is None or moment > target:
            self._now = max(self._now, target)
            return False
        while (timer := self._heap.pop_due(moment)) is not None:
            self._now = max(self._now, timer.when)
            timer.fire()
        return True

    def attach(self, run: Callable[[Callable[[], bool]], bool]) -> None:
        """Have callbacks run through `run`, which returns when they are done.

        Raises RuntimeError if another emulator runs on this clock already: one clock drives one emulator.
        """
        with self._lock:
            if self._run is not None:
                raise RuntimeError("this FakeClock already drives a running emulator; give each its own")
            self._run = run

    def detach(self) -> None:
        """The emulator has stopped; `advance` runs callbacks in the caller again."""
        self._run = None

    def __repr__(self) -> str:
        return f"<FakeClock now={self._now / NS_PER_S:.3f} timers={len(self._heap)}>"


def _check_moment(moment: int) -> None:
    if not FIRST_NS <= moment <= LAST_NS:
        raise ValueError("the time must stay within the years 1 to 9999, which are all that a Timestamp can show")


class LoopClock:
    """Real time: anchored at the wall clock once, then driven by the monotonic one.

    One loop timer at a time, aimed at the earliest wake-up.
    """

    __slots__ = ("_anchor", "_armed", "_closed", "_heap", "_loop", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap = TimerHeap()
        self._anchor = time.time_ns() - time.monotonic_ns()
        self._wake: asyncio.TimerHandle | None = None
        self._armed = 0
        self._closed = False

    def now(self) -> int:
        return self._anchor + time.monotonic_ns()

    def call_at(self, when: int, callback: Callable[[], None]) -> Timer:
        timer = self._heap.push(when, callback)
        if self._wake is None or when < self._armed:
            self._arm()
        return timer

    def timer_count(self) -> int:
        return len(self._heap)

    def _arm(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        due = self._heap.next_due()
        if due is not None and not self._closed:
            self._armed = due
            self._wake = self._loop.call_later(max(0, due - self.now()) / NS_PER_S, self._fire)

    def _fire(self) -> None:
        # What these callbacks schedule for "now" waits for the next turn, so that a long chain lets others in.
        self._wake = None
        self._armed = 0
        now = self.now()
        due: list[Timer] = []
        while (timer := self._heap.pop_due(now)) is not None:
            due.append(timer)
        for timer in due:
            try:
                timer.fire()
            except Exception as problem:  # one broken callback must not stop time for everyone
                self._loop.call_exception_handler({"message": "a clock callback failed", "exception": problem})
        self._arm()

    def close(self) -> None:
        """Stop the motor; nothing fires any more, whatever is scheduled later."""
        self._closed = True
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def __repr__(self) -> str:
        return f"<LoopClock timers={len(self._heap)}>"
