"""One message as one subscription holds it, and the lease that is out on it."""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from emulator.engine.schedule import NEVER
from emulator.engine.values import Message
from emulator.errors import PubsubError

# What a response adds to each message it carries: ack id, delivery attempt, tags and lengths at their longest.
RECEIVED_BYTES = 40

# No lease has this number.
_NONE = -1

# What an entry holds once its message is gone, so that a stale reference to the entry keeps no body alive.
_NO_MESSAGE = Message(0, 0, b"", {}, "", 0)


class Place(Enum):
    """Where a message is: for one subscription always in exactly one place.

    WAITING: anybody may take it. BEHIND: it waits for others of its ordering key, or for whoever has them (service.md
    §9.3). DELAYED: its back-off lasts (§10.1). ACKED: done, unless one before it of its ordering key fails (§9.6).
    RETAINED: done, and kept for a seek (§12.1).
    """

    WAITING = "waiting"
    BEHIND = "behind"
    DELAYED = "delayed"
    LEASED = "leased"
    ACKED = "acked"
    RETAINED = "retained"
    GONE = "gone"


class Entry:
    """A message in a subscription.

    `failures` counts nacks and expiries of written deliveries (service.md §7.1.11); `previous` is the
    number of the stream that had it last and lost it, 0 for none. `due`: the end of its back-off. An ack of the lease
    with the number `void`, or an earlier one, has no effect (§9.4).
    """

    __slots__ = ("due", "failures", "lease", "message", "place", "previous", "void")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.place = Place.WAITING
        self.failures = 0
        self.lease: Lease | None = None
        self.previous = 0
        self.due = NEVER
        self.void = _NONE

    def forget(self) -> None:
        """The subscription is done with this message."""
        self.place = Place.GONE
        self.message = _NO_MESSAGE

    def __repr__(self) -> str:
        return f"<Entry {self.message.number} {self.place.value} failures={self.failures}>"


class Consumer(Protocol):
    """Whoever takes messages: a waiting Pull, a stream, a push worker. It never blocks and is never awaited.

    `in_line` belongs to the subscription's `Consumers`. `number` tells a stream from others of its subscription; 0 is
    no stream.
    """

    in_line: bool
    number: int

    @property
    def ack_deadline(self) -> int | None:
        """Nanoseconds, for messages it takes now; None for the subscription's."""
        ...

    @property
    def takes_all(self) -> bool:
        """Whether its turn lasts as long as it has room, instead of one message."""
        ...

    def room(self, size: int) -> bool:
        """Whether it takes a message of `size` bytes now."""
        ...

    def take(self, lease: "Lease") -> None:
        """It gets a message; the lease is granted already."""
        ...

    def flush(self) -> None:
        """No more is coming in this turn."""
        ...

    def release(self, lease: "Lease") -> None:
        """A lease it took is ending, however; `lease.entry` is still there."""
        ...

    def end(self, error: PubsubError) -> None:
        """The subscription gives it nothing any more."""
        ...


class Lease:
    """A message handed to one consumer until `due`, its ack deadline, in nanoseconds on the clock.

    `number` is never reused within a subscription; `entry` is None once the lease has ended. `queued`: it waits in an
    outbox; `written`: its bytes have left. `limit`: its deadline can't be moved beyond, NEVER for no limit.
    """

    __slots__ = ("consumer", "due", "entry", "limit", "number", "queued", "written")

    def __init__(self, number: int, entry: Entry, consumer: Consumer) -> None:
        self.number = number
        self.entry: Entry | None = entry
        self.due = NEVER
        self.limit = NEVER
        self.consumer = consumer
        self.queued = False
        self.written = False

    def __repr__(self) -> str:
        return f"<Lease {self.number} {self.entry!r} until={self.due}>"


Leases = Sequence[Lease]
