"""The messages of one subscription that wait for a consumer, oldest publish first (service.md §7.1.10)."""

import heapq
from collections import deque

from emulator.engine.entries import Entry, Place

_SWEEP_FROM = 64


class Backlog:
    """A FIFO of what was never handed out, and a heap of what came back or had to wait for others.

    An entry that leaves without being taken stays behind as a stale reference: skipped when it surfaces, and swept when
    such references outnumber the waiting entries.
    """

    __slots__ = ("_fresh", "_returned", "_waiting")

    def __init__(self) -> None:
        self._fresh: deque[Entry] = deque()
        self._returned: list[tuple[int, Entry]] = []
        self._waiting = 0

    def append(self, entry: Entry) -> None:
        """Add an entry newer than every other."""
        entry.place = Place.WAITING
        self._fresh.append(entry)
        self._waiting += 1

    def give_back(self, entry: Entry) -> None:
        """An entry that is not the newest waits, at its place in the order."""
        entry.place = Place.WAITING
        heapq.heappush(self._returned, (entry.message.number, entry))
        self._waiting += 1

    def head(self) -> Entry | None:
        """The entry that is next, or None."""
        fresh, returned = self._fresh, self._returned
        while fresh and fresh[0].place is not Place.WAITING:
            fresh.popleft()
        while returned and returned[0][1].place is not Place.WAITING:
            heapq.heappop(returned)
        if returned and not (fresh and fresh[0].message.number < returned[0][0]):
            return returned[0][1]
        return fresh[0] if fresh else None

    def take(self, entry: Entry) -> None:
        """Take the entry that `head` just returned; the caller changes its place."""
        if self._fresh and self._fresh[0] is entry:
            self._fresh.popleft()
        else:
            heapq.heappop(self._returned)
        self._waiting -= 1

    def discard(self, entry: Entry) -> None:
        """A waiting entry is gone; the caller has changed its place."""
        self._waiting -= 1
        if len(self._fresh) + len(self._returned) > 2 * self._waiting + _SWEEP_FROM:
            self._fresh = deque(kept for kept in self._fresh if kept.place is Place.WAITING)
            self._returned = [item for item in self._returned if item[1].place is Place.WAITING]
            heapq.heapify(self._returned)

    def __len__(self) -> int:
        return self._waiting

    def __repr__(self) -> str:
        return f"<Backlog waiting={self._waiting} returned={len(self._returned)}>"
