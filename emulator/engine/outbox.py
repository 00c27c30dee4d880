"""The outbox of one connection: what waits to be written to it, and whose turn is next (outbox.md)."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from emulator import errors
from emulator.engine.entries import RECEIVED_BYTES, Lease, Leases
from emulator.limits import MAX_PENDING_DEFAULT

Event = Mapping[str, Any]


class Recipient(Protocol):
    """Whoever a pile of deliveries is for."""

    def room(self) -> int:
        """How many bytes of a response would leave now; 0 for none, until `Pile.resume`."""
        ...

    def deliver(self, leases: Leases) -> None:
        """Write these; none when it asked for its turn with `Pile.note`."""
        ...

    def take_back(self, leases: Leases) -> None:
        """These were never written, or have left in part only (outbox.md O16). A `give_back` follows."""
        ...

    def give_back(self, leases: Leases) -> None:
        """These were never written: others may have them, and what was taken back."""
        ...


@dataclass(frozen=True, slots=True)
class Parcel:
    """Deliveries for one response, in the order they were queued."""

    recipient: Recipient
    leases: Leases


@dataclass(frozen=True, slots=True)
class Letter:
    """An event for one event subscription.

    `seq` counts every event of it from 1 on, dropped ones too; `dropped` how many were dropped so far (O11).
    """

    subscription: str
    seq: int
    dropped: int
    event: Event


class _Nobody:
    """Whom the pile of a connection that is gone is for, so that a lease which outlives it keeps nothing alive."""

    __slots__ = ()

    def room(self) -> int:
        return 0

    def deliver(self, leases: Leases) -> None: ...

    def take_back(self, leases: Leases) -> None: ...

    def give_back(self, leases: Leases) -> None: ...

    def __repr__(self) -> str:
        return "<_Nobody>"


_NOBODY: Final = _Nobody()


class Pile:
    """The deliveries of one recipient that are not written yet.

    `shut`: the recipient had no room when it was last asked. `count` and `bytes` are of what is alive: a lease may end
    while it waits here (O15). `incomplete` is a delivery that has left in part only.
    """

    __slots__ = ("_in_ring", "_leases", "_noted", "_outbox", "bytes", "count", "incomplete", "recipient", "shut")

    def __init__(self, outbox: "Outbox", recipient: Recipient) -> None:
        self._outbox: Outbox | None = outbox
        self._leases: deque[Lease] = deque()
        self._noted = False
        self._in_ring = False
        self.incomplete: Lease | None = None
        self.recipient: Recipient = recipient
        self.shut = False
        self.count = 0
        self.bytes = 0

    def put(self, lease: Lease, size: int) -> None:
        """Queue a delivery; the message has `size` bytes."""
        lease.queued = True
        self._leases.append(lease)
        self.count += 1
        self.bytes += size
        self._line_up()

    def forget(self, size: int) -> None:
        """A lease has ended that was still queued."""
        self.count -= 1
        self.bytes -= size

    def note(self) -> None:
        """The recipient has something to say that is no delivery; asking twice before its turn is as once (O19)."""
        self._noted = True
        self._line_up()

    def hold_back(self, lease: Lease) -> None:
        """A message larger than the window: it is written once the rest of it has left, before `resume`."""
        lease.written = False
        self.incomplete = lease
        self.shut = True

    def resume(self) -> None:
        """The recipient has room again."""
        if self.incomplete is not None:
            self.incomplete.written = True
            self.incomplete = None
        if self._outbox is not None:
            self.shut = False
            if self.count or self._noted:
                self._line_up()

    def _line_up(self) -> None:
        if not self._in_ring and not self.shut and self._outbox is not None:
            self._in_ring = True
            self._outbox.line_up(self)

    def next(self, max_bytes: int) -> Parcel | None:
        """What leaves in this pile's turn, which it then leaves the line for unless there is more."""
        self._in_ring = False
        room = self.recipient.room()
        if room <= 0:
            self.shut = True
            return None
        if self._noted:
            self._noted = False
            leases: list[Lease] = []
        else:
            leases = self._pop(min(room, max_bytes))
            if not leases:
                return None
        if self.count:
            self._line_up()
        return Parcel(self.recipient, leases)

    def _pop(self, room: int) -> list[Lease]:
        waiting, taken = self._leases, list[Lease]()
        while waiting:
            lease = waiting[0]
            if lease.entry is not None:
                size = lease.entry.message.size
                room -= size + RECEIVED_BYTES
                if room < 0 and taken:
                    break
                lease.queued = False
                lease.written = True
                self.forget(size)
                taken.append(lease)
            waiting.popleft()
        return taken

    def close(self) -> Leases:
        """Take no more; what was never written, in its order. Again: nothing."""
        self.shut = True
        self._noted = False
        waiting, self._leases = self._leases, deque()
        if self._outbox is not None:
            self._outbox.forget(self)
            self._outbox, self.recipient = None, _NOBODY
        incomplete, self.incomplete = self.incomplete, None
        unwritten = [lease for lease in (incomplete, *waiting) if lease is not None and lease.entry is not None]
        for lease in unwritten:
            lease.queued = False
        self.count = self.bytes = 0
        return unwritten

    def __repr__(self) -> str:
        return f"<Pile waiting={self.count} bytes={self.bytes}{' shut' if self.shut else ''}>"


class _Letters:
    """The events of one event subscription that wait, the newest `max_pending` of them."""

    __slots__ = ("_pending", "dropped", "name", "seq")

    def __init__(self, name: str, max_pending: int) -> None:
        self.name = name
        self._pending: deque[tuple[int, Event]] = deque(maxlen=max_pending)
        self.seq = 0
        self.dropped = 0

    def put(self, event: Event) -> bool:
        """Queue an event; whether it pushed out the oldest."""
        self.seq += 1
        full = len(self._pending) == self._pending.maxlen
        self.dropped += full
        self._pending.append((self.seq, event))
        return full

    def next(self) -> Letter:
        seq, event = self._pending.popleft()
        return Letter(self.name, seq, self.dropped, event)

    def clear(self) -> None:
        self._pending.clear()

    def __len__(self) -> int:
        return len(self._pending)

    def __repr__(self) -> str:
        return f"<_Letters {self.name!r} waiting={len(self)} dropped={self.dropped}>"


class Outbox:
    """A queue that nobody waits for: whoever puts something in walks away (O1).

    `wake` is called when something came in that `take` may return. Responses hold at most `max_bytes`.
    """

    __slots__ = ("_letters", "_letters_in_turn", "_max_bytes", "_piles", "_ring", "_wake", "closed", "event_drops")

    def __init__(self, wake: Callable[[], None], max_bytes: int) -> None:
        self._wake = wake
        self._max_bytes = max_bytes
        self._piles: dict[Pile, None] = {}
        self._ring: deque[Pile] = deque()
        self._letters: dict[str, _Letters] = {}
        self._letters_in_turn: deque[_Letters] = deque()
        self.closed = False
        # Events dropped on this connection, those of ended event subscriptions included (O10).
        self.event_drops = 0

    # Deliveries

    def add_recipient(self, recipient: Recipient) -> Pile:
        """A pile for somebody who gets deliveries over this connection."""
        pile = Pile(self, recipient)
        self._piles[pile] = None
        return pile

    def line_up(self, pile: Pile) -> None:
        """Called by a pile that has something to write."""
        self._ring.append(pile)
        self._wake()

    def forget(self, pile: Pile) -> None:
        """Called by a pile that was closed."""
        self._piles.pop(pile, None)

    # Events

    def add_subscription(self, name: str, max_pending: int = MAX_PENDING_DEFAULT) -> None:
        """Open an event subscription. Raises INVALID_ARGUMENT for a `max_pending` below 1 and for a name in use."""
        if max_pending < 1:
            raise errors.too_small("max_pending", max_pending, 1)
        if name in self._letters:
            raise errors.event_subscription_exists(name)
        self._letters[name] = _Letters(name, max_pending)

    def remove_subscription(self, name: str) -> None:
        """End one; its waiting events are discarded, which is no drop."""
        letters = self._letters.pop(name, None)
        if letters is not None:
            letters.clear()

    def send_event(self, name: str, event: Event) -> None:
        """Queue an event; a full pile drops its oldest. Does nothing once closed (O12)."""
        if self.closed:
            return
        letters = self._letters[name]
        if letters.put(event):
            self.event_drops += 1
        elif len(letters) == 1:
            self._letters_in_turn.append(letters)
            self._wake()

    def dropped(self, name: str) -> int:
        """How many events of a subscription were dropped so far."""
        return self._letters[name].dropped

    # The way out

    def take(self) -> Parcel | Letter | None:
        """The next to be written: deliveries before events, each kind in turn (O6, O7); None when nothing can be."""
        ring = self._ring
        while ring:
            parcel = ring.popleft().next(self._max_bytes)
            if parcel is not None:
                return parcel
        while self._letters_in_turn:
            letters = self._letters_in_turn.popleft()
            if letters:
                letter = letters.next()
                if letters:
                    self._letters_in_turn.append(letters)
                return letter
        return None

    def close(self) -> Sequence[Parcel]:
        """Take nothing any more; the deliveries that were never written. Again: nothing (O12)."""
        self.closed = True
        self._ring.clear()
        self._letters_in_turn.clear()
        for letters in self._letters.values():
            letters.clear()
        # All before any is handed over: what one gives back must not be queued for another.
        unwritten = [Parcel(pile.recipient, pile.close()) for pile in list(self._piles)]
        return [parcel for parcel in unwritten if parcel.leases]

    @property
    def deliveries(self) -> int:
        """How many deliveries wait."""
        return sum(pile.count for pile in self._piles)

    def __repr__(self) -> str:
        return f"<Outbox deliveries={self.deliveries} feeds={len(self._letters)}{' closed' if self.closed else ''}>"
