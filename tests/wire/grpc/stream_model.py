"""What streams should do, told a second time: a ledger of what crossed the wires, and what follows from that alone.

Times are nanoseconds. Nothing here looks into the server. What waits in its outboxes can't be seen from outside, so
when a lease began is known only within bounds: not before its stream was last seen without anything held back, and not
after its first byte left. Hence every lease has an earliest and a latest end.
"""

import itertools
from dataclasses import dataclass, field
from typing import Final

from emulator.api import pb

S: Final = 1_000_000_000
MS: Final = 1_000_000

OK, INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE = 0, 3, 5, 14

RESPONSE_MAX_BYTES: Final = 4_000_000
RETENTION: Final = 600 * S
PULL_WAIT: Final = 5 * S
# A server may take a message for a little larger than it is: it counts id and time at their longest.
SIZE_SLACK: Final = 32


@dataclass(eq=False, slots=True)
class Message:
    """A message as one subscription owes it. `acked`: the event at which that ended."""

    data: bytes
    published: int
    acked: int | None = None
    deliveries: list["Delivery"] = field(default_factory=list)

    def is_over(self, now: int) -> bool:
        """Whether it was acknowledged or is too old."""
        return self.acked is not None or now > self.published + RETENTION


@dataclass(eq=False, slots=True)
class Delivery:
    """A delivery whose bytes have all left; `event` and `begun` say when the first of them did.

    `counted`: whether its failure raises `delivery_attempt`, as the least and the most that it does.
    """

    message: Message
    ack_id: str
    size: int
    event: int
    begun: int
    earliest_end: int
    latest_end: int
    counted: tuple[int, int]

    def may_be_out(self, now: int) -> bool:
        return self.latest_end > now and not self.message.is_over(now)

    def is_out(self, now: int) -> bool:
        return self.earliest_end > now and not self.message.is_over(now)


@dataclass(eq=False, slots=True)
class Subscription:
    """A subscription from its creation to its deletion. `waits`: until when each waiting Pull does, by its handle."""

    name: str
    topic: int
    term: int
    shows_attempts: bool
    messages: dict[str, Message] = field(default_factory=dict)
    waits: dict[int, int] = field(default_factory=dict)

    def deliveries(self) -> list[Delivery]:
        """Oldest first."""
        found = [delivery for message in self.messages.values() for delivery in message.deliveries]
        return sorted(found, key=lambda delivery: delivery.event)


@dataclass(slots=True)
class Begun:
    """When the first byte of a response left: `since` is the earliest that what it holds can have been leased."""

    at: int
    event: int
    since: int


@dataclass(eq=False, slots=True)
class Reader:
    """A stream. `open`: the windows and the socket let something through; `due`: the status it has to end with."""

    subscription: Subscription
    max_messages: int
    max_bytes: int
    term: int
    heartbeats: bool
    open: bool = True
    held_since: int | None = None
    heartbeat_owed: bool = False
    due: int | None = None
    over: bool = False
    buffer: bytearray = field(default_factory=bytearray)
    begun: Begun = field(default_factory=lambda: Begun(0, 0, 0))
    deliveries: list[Delivery] = field(default_factory=list)

    @property
    def takes(self) -> bool:
        return not self.over and self.due is None

    def has_credit(self, now: int) -> bool:
        """Whether another message may be queued for sure."""
        out = [delivery.size + SIZE_SLACK for delivery in self.deliveries if delivery.may_be_out(now)]
        return (self.max_messages <= 0 or len(out) < self.max_messages) and (
            self.max_bytes <= 0 or sum(out) < self.max_bytes
        )

    def may_hold(self, now: int) -> float:
        """How many messages may wait for it, or be on their way."""
        if self.over or self.open:
            return 0
        if self.max_messages <= 0:
            return float("inf")
        return self.max_messages - sum(delivery.is_out(now) for delivery in self.deliveries)


class Ledger:
    """Raises AssertionError as soon as something crosses a wire, or fails to, that should not."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.subscriptions: dict[str, Subscription] = {}
        self.readers: list[Reader] = []
        self.by_ack_id: dict[str, Delivery] = {}
        self._events = itertools.count(1)

    # What was asked of the server

    def created(self, subscription: Subscription) -> None:
        self.subscriptions[subscription.name] = subscription

    def deleted(self, name: str) -> None:
        """About to be: its streams have to end."""
        subscription = self.subscriptions.pop(name)
        for reader in self.readers:
            if reader.subscription is subscription and reader.takes:
                reader.due = NOT_FOUND

    def publishes(self, topic: int, first: int, bodies: list[bytes]) -> None:
        """About to be published, under message ids from `first` on."""
        for subscription in self.subscriptions.values():
            if subscription.topic == topic:
                for number, data in enumerate(bodies, first):
                    subscription.messages[str(number)] = Message(data, self.now - self.now % MS)

    def opened(self, reader: Reader) -> None:
        self.readers.append(reader)

    def acknowledges(self, ack_ids: list[str]) -> None:
        """About to be acknowledged, late or not (lease-policy.md V5)."""
        for ack_id in ack_ids:
            message = self.by_ack_id[ack_id].message
            if message.acked is None:
                message.acked = next(self._events)

    def moves(self, ack_ids: list[str], seconds: int) -> None:
        """Deadlines are about to be moved, to `seconds` from now; 0 is a nack."""
        until = self.now + seconds * S
        for delivery in (self.by_ack_id[ack_id] for ack_id in ack_ids):
            if not delivery.may_be_out(self.now):
                continue
            if not seconds:
                delivery.earliest_end = min(delivery.earliest_end, self.now)
                delivery.latest_end = self.now
            else:
                if delivery.is_out(self.now):
                    delivery.earliest_end = until
                delivery.latest_end = until

    # What the server wrote

    def wrote(self, reader: Reader, chunk: bytes) -> None:
        """Bytes of responses left."""
        assert not reader.over, "bytes on a stream that is over"
        if not reader.buffer:
            self._begin(reader)
        reader.buffer += chunk
        while len(reader.buffer) >= 5:
            end = 5 + int.from_bytes(reader.buffer[1:5], "big")
            if len(reader.buffer) < end:
                return
            body = bytes(reader.buffer[5:end])
            del reader.buffer[:end]
            self._response(reader, pb.StreamingPullResponse.FromString(body), len(body))
            self._begin(reader)

    def _begin(self, reader: Reader) -> None:
        since = self.now if reader.held_since is None else reader.held_since
        reader.begun = Begun(self.now, next(self._events), since)

    def _response(self, reader: Reader, response: pb.StreamingPullResponse, size: int) -> None:
        assert response.HasField("subscription_properties")
        assert size < RESPONSE_MAX_BYTES or len(response.received_messages) == 1
        if not response.received_messages:
            assert reader.heartbeat_owed, "a response without messages that nobody asked for"
            reader.heartbeat_owed = False
        for received in response.received_messages:
            self._has_credit_for_one_more(reader)
            reader.deliveries.append(self._delivered(reader.subscription, received, reader.begun, reader.term))

    def _has_credit_for_one_more(self, reader: Reader) -> None:
        # Deliveries leave in the order they were queued: what is still out was when this one was queued.
        out = [delivery.size for delivery in reader.deliveries if delivery.is_out(self.now)]
        assert reader.max_messages <= 0 or len(out) < reader.max_messages, "more messages than the stream's limit"
        assert reader.max_bytes <= 0 or sum(out) < reader.max_bytes, "more bytes than the stream's limit"

    def ended(self, reader: Reader, status: int) -> None:
        """Its trailers left."""
        assert not reader.over
        assert status == reader.due, f"ended with {status}"
        assert status != OK or not (reader.buffer or reader.heartbeat_owed), "ended before everything had left"
        reader.over = True

    def pulled(self, subscription: Subscription, handle: int, response: pb.PullResponse) -> None:
        """A Pull was answered."""
        until = subscription.waits.pop(handle, self.now)
        assert response.received_messages or until <= self.now, "a Pull that gave up too early"
        assert response.ByteSize() < RESPONSE_MAX_BYTES or len(response.received_messages) == 1
        for received in response.received_messages:
            self._delivered(subscription, received, Begun(self.now, next(self._events), self.now), subscription.term)

    def _delivered(self, subscription: Subscription, received: pb.ReceivedMessage, begun: Begun, term: int) -> Delivery:
        message = subscription.messages.get(received.message.message_id)
        assert message is not None, "a message that this subscription does not have"
        assert received.message.data == message.data
        assert message.acked is None or message.acked > begun.event, "acknowledged, and came again"
        assert begun.at <= message.published + RETENTION, "too old, and came nevertheless"
        assert received.ack_id not in self.by_ack_id, "an ack id for the second time"
        delivery = Delivery(
            message,
            received.ack_id,
            received.message.ByteSize(),
            begun.event,
            begun.at,
            # It was out when its first byte left.
            max(max(begun.since, message.published) + term, begun.at + 1),
            begun.at + term,
            (1, 1),
        )
        delivery.counted = (delivery.earliest_end > self.now, delivery.latest_end > self.now)
        for other in message.deliveries:
            apart = max(other.begun, delivery.begun) >= min(other.earliest_end, delivery.earliest_end)
            assert apart, "on two leases at once"
        self._shows_its_attempts(subscription, received, delivery)
        message.deliveries.append(delivery)
        self.by_ack_id[delivery.ack_id] = delivery
        return delivery

    @staticmethod
    def _shows_its_attempts(subscription: Subscription, received: pb.ReceivedMessage, delivery: Delivery) -> None:
        if not subscription.shows_attempts:
            assert received.delivery_attempt == 0
            return
        before = [other.counted for other in delivery.message.deliveries if other.event < delivery.event]
        least, most = sum(low for low, _ in before), sum(high for _, high in before)
        assert least <= received.delivery_attempt - 1 <= most, "delivery_attempt is not the number of failures, plus 1"

    # What has to hold whenever the server is at rest

    def rest(self) -> None:
        """Nobody has anything to do any more at this moment."""
        for reader in self.readers:
            if not reader.over:
                self._nothing_is_stuck(reader)
                if reader.open:
                    reader.held_since = None
                elif reader.held_since is None:
                    reader.held_since = self.now
        for subscription in self.subscriptions.values():
            self._whoever_wants_some_has_some(subscription)
        self.readers = [reader for reader in self.readers if not reader.over]

    @staticmethod
    def _nothing_is_stuck(reader: Reader) -> None:
        held_back = bool(reader.buffer) or reader.heartbeat_owed
        if reader.open:
            assert not held_back, "there is room, and something of a response is held back"
        assert reader.due is None or (reader.due == OK and held_back), f"should have ended with {reader.due}"

    def _whoever_wants_some_has_some(self, subscription: Subscription) -> None:
        """While somebody has room, nothing waits but what may wait for streams without."""
        readers = [reader for reader in self.readers if reader.subscription is subscription]
        hungry = any(reader.takes and reader.open and reader.has_credit(self.now) for reader in readers)
        if hungry or subscription.waits:
            waiting = len(self.waiting(subscription))
            assert waiting <= sum(reader.may_hold(self.now) for reader in readers), "somebody wants what waits"

    def waiting(self, subscription: Subscription) -> list[Message]:
        """What is owed and on no lease that could be seen."""
        return [
            message
            for message in subscription.messages.values()
            if not message.is_over(self.now)
            and not any(delivery.may_be_out(self.now) for delivery in message.deliveries)
        ]

    def next_event(self) -> int | None:
        """When something may happen next if nobody calls."""
        times: list[int] = []
        for subscription in self.subscriptions.values():
            times += subscription.waits.values()
            for message in subscription.messages.values():
                if not message.is_over(self.now):
                    times.append(message.published + RETENTION + 1)
                    times += [delivery.earliest_end for delivery in message.deliveries]
                    times += [delivery.latest_end for delivery in message.deliveries]
        return min((time for time in times if time > self.now), default=None)
