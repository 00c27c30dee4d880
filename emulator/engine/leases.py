"""The leases that are out, by deadline."""

import heapq

from emulator.engine.entries import Lease

_SWEEP_FROM = 64


class Deadlines:
    """A heap of deadlines.

    An ended or moved lease leaves its old item behind: skipped when it surfaces, swept when such outnumber the rest.
    """

    __slots__ = ("_heap", "_live")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Lease]] = []
        self._live = 0

    def add(self, lease: Lease) -> None:
        self._live += 1
        heapq.heappush(self._heap, (lease.deadline, lease.number, lease))

    def move(self, lease: Lease, deadline: int) -> None:
        """Give a live lease another deadline."""
        lease.deadline = deadline
        heapq.heappush(self._heap, (deadline, lease.number, lease))
        self._sweep()

    def drop(self, lease: Lease) -> None:
        """The lease has ended."""
        lease.entry = None
        self._live -= 1
        self._sweep()

    def earliest(self) -> int | None:
        """The next deadline, or None when nothing is out."""
        heap = self._heap
        while heap and not _current(heap[0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now: int) -> Lease | None:
        """A live lease whose deadline has come, earliest first, or None. The caller ends it before it asks again."""
        deadline = self.earliest()
        if deadline is None or deadline > now:
            return None
        return heapq.heappop(self._heap)[2]

    def _sweep(self) -> None:
        if len(self._heap) > 2 * self._live + _SWEEP_FROM:
            # A lease that was moved away and back has several equal items; one of them is enough.
            self._heap = list({item[1]: item for item in self._heap if _current(item)}.values())
            heapq.heapify(self._heap)

    def __len__(self) -> int:
        return self._live

    def __repr__(self) -> str:
        return f"<Deadlines live={self._live} items={len(self._heap)}>"


def _current(item: tuple[int, int, Lease]) -> bool:
    deadline, _, lease = item
    return lease.entry is not None and lease.deadline == deadline
