"""A StreamingPull stream as a consumer: its credit, and the pile of its connection's outbox (outbox.md O9)."""

import sys
from typing import Protocol

from emulator.engine.entries import Lease, Leases
from emulator.engine.outbox import Pile
from emulator.errors import PubsubError
from emulator.limits import Limits


class Owner(Protocol):
    """Whoever opened a stream."""

    def ended(self, error: PubsubError) -> None:
        """The subscription gives it nothing any more."""
        ...

    def changed(self) -> None:
        """The subscription has other settings."""
        ...


class Stream:
    """Takes messages while its credit lasts: below both limits another one may be queued, whatever its size (V9).

    A limit of 0 or less is none. `ack_deadline`, in nanoseconds, is for messages taken from now on.
    """

    # Streams share a backlog message by message (service.md §7.3.11).
    takes_all = False

    __slots__ = (
        "_bytes",
        "_max_bytes",
        "_max_messages",
        "_max_unwritten",
        "_max_unwritten_bytes",
        "_messages",
        "_owner",
        "_pile",
        "ack_deadline",
        "in_line",
        "number",
    )

    def __init__(
        self,
        number: int,
        pile: Pile,
        ack_deadline: int,
        max_messages: int,
        max_bytes: int,
        owner: Owner,
        limits: Limits,
    ) -> None:
        self.number = number
        self._pile = pile
        self._max_messages = max_messages if max_messages > 0 else sys.maxsize
        self._max_bytes = max_bytes if max_bytes > 0 else sys.maxsize
        self._max_unwritten = limits.unwritten_max_messages
        self._max_unwritten_bytes = limits.unwritten_max_bytes
        self._messages = 0
        self._bytes = 0
        self._owner: Owner | None = owner
        self.ack_deadline: int | None = ack_deadline
        self.in_line = False

    def room(self, size: int) -> bool:
        pile = self._pile
        return (
            not pile.shut
            and self._messages < self._max_messages
            and self._bytes < self._max_bytes
            and pile.count < self._max_unwritten
            and pile.bytes < self._max_unwritten_bytes
        )

    def take(self, lease: Lease) -> None:
        assert lease.entry is not None
        size = lease.entry.message.size
        self._messages += 1
        self._bytes += size
        self._pile.put(lease, size)

    def flush(self) -> None:
        """The outbox knows already."""

    def release(self, lease: Lease) -> None:
        assert lease.entry is not None
        size = lease.entry.message.size
        self._messages -= 1
        self._bytes -= size
        if lease.queued:
            lease.queued = False
            self._pile.forget(size)

    def end(self, error: PubsubError) -> None:
        assert self._owner is not None
        self._owner.ended(error)

    def tell_change(self) -> None:
        """Its owner may want to say what is new."""
        assert self._owner is not None
        self._owner.changed()

    def close(self) -> Leases:
        """Take nothing any more and call nobody; what was never written."""
        self._owner = None
        return self._pile.close()

    @property
    def unwritten(self) -> int:
        """How many deliveries wait in the outbox."""
        return self._pile.count

    def __repr__(self) -> str:
        return f"<Stream {self.number} outstanding={self._messages} bytes={self._bytes} {self._pile!r}>"
