"""Streams as engine tests use them: a reader with a window of its own, over an outbox that is drained by hand."""

import sys
from collections.abc import Iterable

from emulator.clock import NS_PER_S
from emulator.engine.entries import RECEIVED_BYTES, Entry, Lease, Leases
from emulator.engine.outbox import Letter, Outbox, Parcel, Pile
from emulator.errors import PubsubError
from emulator.limits import STRICT
from tests.engine.helpers import SUBSCRIPTION, Delivery, World, message

# Where an event holds its number.
KEY = "n"

# What the server adds to a message that is published: a body of so many bytes less has a given serialized size.
ENVELOPE = 32


def body(size: int, letter: bytes = b"x") -> bytes:
    """What to publish for a message of `size` serialized bytes."""
    return letter * (size - ENVELOPE)


def bodies(count: int) -> list[bytes]:
    """Different ones, to publish."""
    return [b"%d" % number for number in range(count)]


def outbox(max_bytes: int = STRICT.reply_max_bytes) -> Outbox:
    """One that nobody is woken by: tests take from it."""
    return Outbox(lambda: None, max_bytes)


def drain(box: Outbox) -> list[Parcel | Letter]:
    """Write all that can be written; what it was, in order."""
    written: list[Parcel | Letter] = []
    while (item := box.take()) is not None:
        written.append(item)
        if isinstance(item, Parcel):
            item.recipient.deliver(item.leases)
    return written


def send(box: Outbox, name: str, numbers: Iterable[int]) -> None:
    """An event per number."""
    for number in numbers:
        box.send_event(name, {KEY: number})


def letters(box: Outbox) -> list[Letter]:
    return [item for item in drain(box) if isinstance(item, Letter)]


def seen(items: Iterable[Parcel | Letter]) -> list[object]:
    """Lease numbers of a parcel as a list, an event as its subscription and its number."""
    return [
        [lease.number for lease in item.leases] if isinstance(item, Parcel) else (item.subscription, item.event[KEY])
        for item in items
    ]


class Shelf:
    """A recipient that notes what it was given. `space`: how many bytes it has room for; none by itself."""

    def __init__(self, box: Outbox, *, space: int = sys.maxsize) -> None:
        self.space = space
        self.written: list[list[int]] = []
        self.given_back: list[int] = []
        self.pile: Pile = box.add_recipient(self)
        self._consumer = _Bystander()

    def put(self, *numbers: int, size: int = 10) -> list[Lease]:
        """Queue a delivery per number."""
        leases = [Lease(number, Entry(message(number, size=size)), self._consumer) for number in numbers]
        for lease in leases:
            self.pile.put(lease, size)
        return leases

    def end(self, lease: Lease) -> None:
        """What becomes of a lease that ends while it may be queued still."""
        assert lease.entry is not None
        if lease.queued:
            lease.queued = False
            self.pile.forget(lease.entry.message.size)
        lease.entry = None

    def room(self) -> int:
        return self.space

    def deliver(self, leases: Leases) -> None:
        self.written.append([lease.number for lease in leases])

    def take_back(self, leases: Leases) -> None:
        self.given_back += [lease.number for lease in leases]

    def give_back(self, leases: Leases) -> None:
        self.given_back += [lease.number for lease in leases]

    def __repr__(self) -> str:
        return f"<Shelf space={self.space} written={self.written}>"


class _Bystander:
    """A consumer that takes no part."""

    in_line = False
    number = 0
    ack_deadline = None
    takes_all = False

    def room(self, size: int) -> bool:
        return False

    def take(self, lease: Lease) -> None: ...

    def flush(self) -> None: ...

    def release(self, lease: Lease) -> None: ...

    def end(self, error: PubsubError) -> None: ...

    def __repr__(self) -> str:
        return "<_Bystander>"


class Reader:
    """A client with one open stream: `responses` is what it got, `errors` what its stream ended with.

    `space` is its window in bytes. Times in seconds; limits of 0 are none.
    """

    def __init__(
        self,
        world: World,
        box: Outbox | None = None,
        *,
        messages: int = 0,
        max_bytes: int = 0,
        deadline: float = 10,
        name: str = SUBSCRIPTION,
        space: int = sys.maxsize,
    ) -> None:
        self._world = world
        self._subscription = world.subscription(name)
        self.outbox = box or outbox()
        self.space = space
        self.responses: list[list[Delivery]] = []
        self.errors: list[PubsubError] = []
        self.changes = 0
        self.pile = self.outbox.add_recipient(self)
        self.stream = self._subscription.open_stream(self.pile, round(deadline * NS_PER_S), messages, max_bytes, self)

    # As its recipient

    def room(self) -> int:
        return self.space

    def deliver(self, leases: Leases) -> None:
        deliveries = [self._world._received(self._subscription, lease) for lease in leases]
        self.responses.append(deliveries)
        if self.space < sys.maxsize:
            self.space = max(0, self.space - sum(cost(lease) for lease in leases))
            self.pile.shut = not self.space
        self._subscription.resume(self.stream)

    def take_back(self, leases: Leases) -> None:
        self._subscription.take_back(leases)

    def give_back(self, leases: Leases) -> None:
        self._subscription.give_back(leases)

    # As its owner

    def ended(self, error: PubsubError) -> None:
        self.errors.append(error)
        self.give_back(self.stream.close())

    def changed(self) -> None:
        self.changes += 1

    # What tests do with it

    def read(self) -> list[bytes]:
        """Let everything leave that can; the bodies that came."""
        before = len(self.deliveries)
        drain(self.outbox)
        return [delivery.body for delivery in self.deliveries[before:]]

    def grow(self, space: int = sys.maxsize) -> None:
        """Its window opens."""
        self.space = space
        self.pile.resume()
        self._subscription.resume(self.stream)

    def close(self) -> None:
        """It goes away."""
        self._subscription.stop_stream(self.stream)
        self.give_back(self.stream.close())

    @property
    def deliveries(self) -> list[Delivery]:
        return [delivery for response in self.responses for delivery in response]

    @property
    def bodies(self) -> list[bytes]:
        return [delivery.body for delivery in self.deliveries]

    @property
    def ack_ids(self) -> list[str]:
        return [delivery.ack_id for delivery in self.deliveries]

    @property
    def outstanding(self) -> tuple[int, int]:
        """What it holds, in messages and bytes."""
        return self.stream._messages, self.stream._bytes

    def __repr__(self) -> str:
        return f"<Reader responses={len(self.responses)} {self.stream!r}>"


def cost(lease: Lease) -> int:
    """The bytes of a response that a delivery is reckoned to need."""
    assert lease.entry is not None
    return lease.entry.message.size + RECEIVED_BYTES
