"""Ordering: the messages of a key go out in publish order, to one consumer at a time (service.md §9)."""

import heapq
from collections.abc import Callable
from typing import Final

from emulator.engine.backlog import Backlog
from emulator.engine.entries import Consumer, Entry, Place

_COMPACT_FROM: Final = 64

_DONE: Final = (Place.ACKED, Place.RETAINED, Place.GONE)


class Lane:
    """The unfinished messages of one ordering key, in publish order: `entries` from `start` on.

    Those before `next` were handed out, all to one consumer, and are leased or acked; `next` is the first that waits.
    `claimant` is the consumer who alone may take it now, `claimed` its number. `early`: how many that wait are acked.
    """

    __slots__ = ("claimant", "claimed", "early", "entries", "key", "next", "start")

    def __init__(self, key: str) -> None:
        self.key = key
        self.entries: list[Entry] = []
        self.start = 0
        self.next = 0
        self.early = 0
        self.claimant: Consumer | None = None
        self.claimed = 0

    @property
    def first(self) -> Entry:
        """The oldest; there is one."""
        return self.entries[self.start]

    def compact(self) -> None:
        if self.start > _COMPACT_FROM and self.start * 2 > len(self.entries):
            del self.entries[: self.start]
            self.next -= self.start
            self.start = 0

    def __repr__(self) -> str:
        waiting = len(self.entries) - self.next
        return f"<Lane {self.key!r} out={self.next - self.start} waiting={waiting}>"


class _Claims:
    """The lanes that wait for one consumer, the one with the oldest message first. Stale items are skipped."""

    __slots__ = ("heap", "live")

    def __init__(self) -> None:
        self.heap: list[tuple[int, Lane]] = []
        self.live = 0

    def __repr__(self) -> str:
        return f"<_Claims live={self.live} items={len(self.heap)}>"


class Lanes:
    """All lanes of one subscription. Of each, one message at most waits in the backlog for whoever comes.

    At most so many are out of one key. `finish` is called with each message that is done at last: acked, and all
    before it too.
    """

    __slots__ = ("_backlog", "_by_key", "_claims", "_finish", "_most", "acked")

    def __init__(self, backlog: Backlog, most: int, finish: Callable[[Entry], None]) -> None:
        self._backlog = backlog
        self._most = most
        self._finish = finish
        self._by_key: dict[str, Lane] = {}
        self._claims: dict[Consumer, _Claims] = {}
        # How many messages are acked and wait for one before them.
        self.acked = 0

    def of(self, entry: Entry) -> Lane | None:
        """Its lane; None for a message without ordering key."""
        return self._by_key.get(entry.message.ordering_key)

    # Messages come, go out and come back

    def append(self, entry: Entry) -> None:
        """A newly published message with an ordering key."""
        key = entry.message.ordering_key
        lane = self._by_key.get(key)
        if lane is None:
            lane = self._by_key[key] = Lane(key)
            lane.entries.append(entry)
            self._backlog.append(entry)
        else:
            entry.place = Place.BEHIND
            lane.entries.append(entry)
            if lane.next == len(lane.entries) - 1:
                self.advance(lane)

    def went_out(self, lane: Lane) -> None:
        """The first of those that waited has been leased."""
        lane.next += 1
        self.advance(lane)

    def rewind(self, lane: Lane, entry: Entry) -> list[Entry]:
        """Everything handed out from `entry` on waits again, and what was acked; newest first (service.md §9.4).

        The caller ends the leases, then calls `advance`.
        """
        back: list[Entry] = []
        if lane.early:
            back += [later for later in reversed(lane.entries[lane.next :]) if later.place is Place.ACKED]
            lane.early = 0
        while not back or back[-1] is not entry:
            lane.next -= 1
            if lane.entries[lane.next].place not in (Place.RETAINED, Place.GONE):
                back.append(lane.entries[lane.next])
        for each in back:
            self._wait_again(each)
        return back

    def _wait_again(self, entry: Entry) -> None:
        if entry.place is Place.ACKED:
            self.acked -= 1
        entry.place = Place.BEHIND

    def ack(self, lane: Lane, entry: Entry) -> None:
        """It is done, as soon as all before it are (service.md §9.6). It has no lease and is not in the backlog."""
        if entry.place is not Place.ACKED:
            lane.early += entry.place is not Place.LEASED
            entry.place = Place.ACKED
            self.acked += 1
            self.advance(lane)

    def advance(self, lane: Lane) -> None:
        """Something has changed: finish what is done, and offer what is next to whoever may have it."""
        entries = lane.entries
        while lane.start < len(entries) and entries[lane.start].place in _DONE:
            self._leave(lane, entries[lane.start])
        while lane.start < lane.next < len(entries) and entries[lane.next].place in _DONE:
            lane.early -= entries[lane.next].place is Place.ACKED
            lane.next += 1
        lane.compact()
        if lane.start == len(entries):
            self._withdraw(lane)
            del self._by_key[lane.key]
        elif (
            lane.next < len(entries)
            and entries[lane.next].place is Place.BEHIND
            and lane.next - lane.start < self._most
        ):
            self._offer(lane, entries[lane.next])
        else:
            self._withdraw(lane)

    def _leave(self, lane: Lane, entry: Entry) -> None:
        if entry.place is Place.ACKED:
            self.acked -= 1
            lane.early -= lane.start >= lane.next
            self._finish(entry)
        lane.start += 1
        lane.next = max(lane.next, lane.start)

    # Who may have what is next

    def _offer(self, lane: Lane, entry: Entry) -> None:
        if lane.next == lane.start:
            self._withdraw(lane)
            self._backlog.give_back(entry)
            return
        lease = lane.first.lease
        assert lease is not None
        number = entry.message.number
        if lane.claimant is not lease.consumer or lane.claimed != number:
            self._withdraw(lane)
            lane.claimant, lane.claimed = lease.consumer, number
            claims = self._claims.setdefault(lease.consumer, _Claims())
            claims.live += 1
            heapq.heappush(claims.heap, (number, lane))

    def _withdraw(self, lane: Lane) -> None:
        if lane.claimant is not None:
            claims = self._claims[lane.claimant]
            claims.live -= 1
            if not claims.live:
                del self._claims[lane.claimant]
            lane.claimant = None

    def claimants(self) -> list[Consumer]:
        """Those for whom a message waits."""
        return list(self._claims)

    def oldest_for(self, consumer: Consumer) -> Entry | None:
        """The oldest message that waits for this consumer alone, or None."""
        claims = self._claims.get(consumer)
        if claims is None:
            return None
        while True:
            number, lane = claims.heap[0]
            if lane.claimant is consumer and lane.claimed == number:
                return lane.entries[lane.next]
            heapq.heappop(claims.heap)

    def is_first(self, entry: Entry) -> bool:
        """Whether no earlier message of its ordering key is unfinished (service.md §8.8)."""
        lane = self.of(entry)
        return lane is None or lane.first is entry

    def __len__(self) -> int:
        return len(self._by_key)

    def __repr__(self) -> str:
        return f"<Lanes {len(self)} acked={self.acked}>"
