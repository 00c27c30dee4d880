"""What is due at some time: leases at their ack deadlines, messages at the end of their back-off."""

import heapq
from typing import Final, Generic, Protocol, TypeVar

_SWEEP_FROM = 64

NEVER: Final = -1


class Due(Protocol):
    """`due` is in nanoseconds on the clock, NEVER when nothing is to happen; the schedule sets it."""

    due: int


T = TypeVar("T", bound=Due)


class Schedule(Generic[T]):
    """A heap of times.

    What was dropped or moved leaves its old item behind: skipped when it surfaces, swept when such outnumber the rest.
    """

    __slots__ = ("_heap", "_live")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, T]] = []
        self._live = 0

    def add(self, thing: T, when: int, number: int) -> None:
        """`number` orders what is due at the same time, and tells things apart."""
        self._live += 1
        thing.due = when
        heapq.heappush(self._heap, (when, number, thing))

    def move(self, thing: T, when: int, number: int) -> None:
        """Give it another time."""
        thing.due = when
        heapq.heappush(self._heap, (when, number, thing))
        self._sweep()

    def drop(self, thing: T) -> None:
        """Nothing is to happen to it any more."""
        thing.due = NEVER
        self._live -= 1
        self._sweep()

    def earliest(self) -> int | None:
        """When the next is due, or None."""
        heap = self._heap
        while heap and heap[0][2].due != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now: int) -> T | None:
        """What is due by now, earliest first, or None. The caller drops it before it asks again."""
        when = self.earliest()
        if when is None or when > now:
            return None
        return heapq.heappop(self._heap)[2]

    def _sweep(self) -> None:
        if len(self._heap) > 2 * self._live + _SWEEP_FROM:
            # What was moved away and back has several equal items; one of them is enough.
            self._heap = list({item[1]: item for item in self._heap if item[2].due == item[0]}.values())
            heapq.heapify(self._heap)

    def __len__(self) -> int:
        return self._live

    def __repr__(self) -> str:
        return f"<Schedule live={self._live} items={len(self._heap)}>"
