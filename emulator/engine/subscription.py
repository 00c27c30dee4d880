"""A subscription: what waits, what is leased, and the pump where the two meet."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from emulator import errors
from emulator.clock import NS_PER_S, Clock
from emulator.engine.ackids import AckIds
from emulator.engine.alarm import Alarm
from emulator.engine.backlog import Backlog
from emulator.engine.consumers import Consumers
from emulator.engine.entries import Consumer, Entry, Lease, Leases, Place
from emulator.engine.leases import Deadlines
from emulator.engine.outbox import Pile
from emulator.engine.pulls import Pull
from emulator.engine.streams import Owner, Stream
from emulator.engine.values import DeliveryKind, Message, SubscriptionSettings
from emulator.limits import Limits

if TYPE_CHECKING:
    from emulator.engine.topic import Topic

# How much one ring of the alarm ends before others get their turn: a heap of expiries must not stall anyone.
_SLICE = 500

COUNTED = ("waiting", "leases", "waiting_pulls", "pull_streams", "unwritten")


class Subscription:
    """Holds every message it still owes to somebody. Nothing here waits: time comes in through one alarm.

    `number` tells this incarnation of the name from every other one of this run, and stands in its ack ids.
    """

    __slots__ = (
        "_alarm",
        "_backlog",
        "_clock",
        "_closed",
        "_consumers",
        "_deadlines",
        "_entries",
        "_last_active",
        "_lease_count",
        "_limits",
        "_on_expired",
        "_stream_count",
        "ack_ids",
        "detached",
        "name",
        "number",
        "settings",
        "topic",
    )

    def __init__(
        self,
        name: str,
        number: int,
        topic: "Topic",
        settings: SubscriptionSettings,
        clock: Clock,
        limits: Limits,
        ack_ids: AckIds,
        on_expired: Callable[["Subscription"], None],
    ) -> None:
        self.name = name
        self.number = number
        self.topic: Topic | None = topic
        self.settings = settings
        self.detached = False
        self._clock = clock
        self._limits = limits
        self.ack_ids = ack_ids.of(number)
        self._on_expired = on_expired
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._backlog = Backlog()
        self._deadlines = Deadlines()
        self._lease_count = 0
        self._stream_count = 0
        self._consumers = Consumers()
        self._closed = False
        self._alarm = Alarm(clock, self._ring)
        self._last_active = clock.now()
        self._aim_expiration()

    # Messages come in

    def offer(self, messages: Sequence[Message]) -> None:
        """Take newly published messages, oldest first, and hand out what somebody has room for."""
        entries, backlog = self._entries, self._backlog
        if not entries:
            self._alarm.aim(self._retained_until(messages[0]))
        for message in messages:
            entry = Entry(message)
            entries[message.number] = entry
            backlog.append(entry)
        self._pump()

    # Consumers take them

    def pull(self, most: int, *, wait: bool) -> Pull:
        """Start a Pull; it is done already when there was something to take or it does not wait (service.md §7.2).

        Raises FAILED_PRECONDITION when detached or not a pull subscription.
        """
        self.require_pullable()
        pull = Pull(
            min(most, self._limits.pull_max_messages),
            self._limits.reply_max_bytes,
            self._clock.now() + self._limits.pull_wait_s * NS_PER_S,
        )
        self._consumers.join(pull)
        self._pump()
        if not pull.done:
            if wait:
                self._consumers.wait(pull)
                self._alarm.aim(pull.deadline)
            else:
                self._consumers.leave(pull)
                pull.finish()
        return pull

    def cancel(self, pull: Pull) -> None:
        """The caller of a waiting Pull went away: nothing may stay leased to it (service.md §7.2.4)."""
        self._stop_waiting(pull)
        self.give_back(pull.hand_over())

    def hurry(self, pull: Pull) -> None:
        """A waiting Pull's real time is up: it answers with nothing."""
        self._stop_waiting(pull)
        pull.finish()

    def _stop_waiting(self, pull: Pull) -> None:
        if self._consumers.leave(pull):
            self.touch()

    def open_stream(
        self,
        pile: Pile,
        ack_deadline: int,
        max_messages: int,
        max_bytes: int,
        owner: Owner,
    ) -> Stream:
        """A consumer that goes on taking messages into `pile` (service.md §7.3); arguments as `Stream` has them.

        Raises FAILED_PRECONDITION when detached or not a pull subscription.
        """
        self.require_pullable()
        self._stream_count += 1
        stream = Stream(self._stream_count, pile, ack_deadline, max_messages, max_bytes, owner, self._limits)
        self._consumers.open(stream)
        self.resume(stream)
        return stream

    def resume(self, stream: Stream) -> None:
        """A stream has room again, or may have."""
        self._consumers.line_up(stream)
        self._pump()

    def stop_stream(self, stream: Stream) -> None:
        """It takes nothing more; what it has is still its own."""
        if self._consumers.drop(stream):
            self.touch()

    def ack_id(self, lease: Lease) -> str:
        """The ack id of a live lease."""
        assert lease.entry is not None
        return self.ack_ids.encode(lease.entry.message.number, lease.number).decode("ascii")

    def _pump(self) -> None:
        """Give waiting messages to consumers with room: the only place where work meets workers."""
        for consumer in self._assign():
            consumer.flush()

    def _assign(self) -> Iterable[Consumer]:
        # Nothing here calls out, so that whatever an answer leads to finds the subscription at rest.
        consumers, backlog = self._consumers, self._backlog
        served: dict[Consumer, None] = {}
        now = self._clock.now()
        while consumers.line and (entry := backlog.head()) is not None:
            consumer = consumers.next_for(entry)
            if consumer is None:
                break
            backlog.take(entry)
            consumer.take(self._grant(entry, consumer, now))
            served[consumer] = None
        if served:
            self._aim_deadline()
        for consumer in served:
            if consumer.takes_all and consumers.leave(consumer):
                self.touch()
        return served

    def _grant(self, entry: Entry, consumer: Consumer, now: int) -> Lease:
        self._lease_count += 1
        lease = Lease(self._lease_count, entry, now + (consumer.ack_deadline or self.settings.ack_deadline), consumer)
        entry.place = Place.LEASED
        entry.lease = lease
        self._deadlines.add(lease)
        return lease

    # Leases end

    def acknowledge(self, deliveries: Iterable[tuple[int, int]]) -> None:
        """Messages are done; each delivery is (message number, lease number).

        A late ack counts too, even when the message has been handed out again (lease-policy.md V5). Unknown messages
        are ignored (service.md §7.1.8).
        """
        entries = self._entries
        for number, _ in deliveries:
            entry = entries.get(number)
            if entry is not None:
                self._finish(entry)
        self._pump()

    def modify_ack_deadline(self, deliveries: Iterable[tuple[int, int]], seconds: int) -> None:
        """Move deadlines to `seconds` from now, or nack with 0; ended leases are left alone (service.md §7.1.7)."""
        deadline = self._clock.now() + seconds * NS_PER_S
        for number, lease_number in deliveries:
            entry = self._entries.get(number)
            if entry is None or entry.lease is None or entry.lease.number != lease_number:
                continue
            if seconds:
                self._deadlines.move(entry.lease, deadline)
                self._alarm.aim(deadline)
            else:
                self._fail(entry)
        self._pump()

    def give_back(self, leases: Leases) -> None:
        """Deliveries that were never written: their messages wait again, and no attempt counts (outbox.md O16)."""
        self.take_back(leases)
        self._pump()

    def take_back(self, leases: Leases) -> None:
        """The same, with more to come before they are handed out again, which `give_back` has happen."""
        for lease in leases:
            entry = lease.entry
            if entry is not None:
                self._release(entry)
                self._backlog.give_back(entry)

    def _fail(self, entry: Entry) -> None:
        """A nack or an expiry: the message is handed out again. One that was never written does not count (O15)."""
        assert entry.lease is not None
        entry.failures += entry.lease.written
        entry.previous = entry.lease.consumer.number
        self._release(entry)
        self._backlog.give_back(entry)

    def _finish(self, entry: Entry) -> None:
        """The subscription has nothing more to do with this message."""
        del self._entries[entry.message.number]
        if entry.lease is not None:
            self._release(entry)
            entry.forget()
        else:
            entry.forget()
            self._backlog.discard(entry)

    def _release(self, entry: Entry) -> None:
        lease = entry.lease
        assert lease is not None
        consumer = lease.consumer
        consumer.release(lease)
        entry.lease = None
        self._deadlines.drop(lease)
        self._consumers.line_up(consumer)

    # Time

    def touch(self) -> None:
        """A call named this subscription, or its wait has ended: expiration starts anew (service.md §6.4)."""
        self._last_active = self._clock.now()

    def _ring(self) -> None:
        now = self._clock.now()
        if self._consumers:
            self.touch()
        ttl = self.settings.expiration_ttl
        if ttl is not None and now >= self._last_active + ttl:
            self._on_expired(self)
            return
        self._expire_leases(now)
        self._drop_outlived(now)
        for pull in self._consumers.waiting(until=now):
            self.hurry(pull)
        self._pump()
        self._aim_all()

    def _expire_leases(self, now: int) -> None:
        for _ in range(_SLICE):
            lease = self._deadlines.pop_due(now)
            if lease is None:
                return
            assert lease.entry is not None
            self._fail(lease.entry)

    def _drop_outlived(self, now: int) -> None:
        """Retention: a message leaves when it is too old, leased or not (service.md §6.5)."""
        for _ in range(_SLICE):
            oldest = self._oldest()
            if oldest is None or self._retained_until(oldest.message) > now:
                return
            self._finish(oldest)

    def _oldest(self) -> Entry | None:
        return next(iter(self._entries.values()), None)

    def _retained_until(self, message: Message) -> int:
        return message.publish_time + self.settings.retention + 1

    def _aim_all(self) -> None:
        self._aim_deadline()
        oldest = self._oldest()
        if oldest is not None:
            self._alarm.aim(self._retained_until(oldest.message))
        first_wait_ends = self._consumers.first_wait_ends
        if first_wait_ends is not None:
            self._alarm.aim(first_wait_ends)
        self._aim_expiration()

    def _aim_deadline(self) -> None:
        deadline = self._deadlines.earliest()
        if deadline is not None:
            self._alarm.aim(deadline)

    def _aim_expiration(self) -> None:
        ttl = self.settings.expiration_ttl
        if ttl is not None:
            self._alarm.aim(self._last_active + ttl)

    # Its own life

    def update(self, settings: SubscriptionSettings) -> None:
        """Other settings, for later deliveries; leases that are out keep their deadlines (service.md §4)."""
        self.settings = settings
        for stream in self._consumers.streams():
            stream.tell_change()
        if settings.delivery is not DeliveryKind.PULL:
            self._end_consumers(errors.not_a_pull_subscription(self.name, settings.delivery.value))
        self.touch()
        self._ring()

    def detach(self) -> None:
        """Drop every message and take no more (service.md §6.2)."""
        self.detached = True
        self._drop_all()
        self._end_consumers(errors.detached(self.name))

    def delete(self) -> None:
        """Drop every message and stop the alarm (service.md §6.3)."""
        self._drop_all()
        self._end_consumers(errors.not_found(self.name))
        self._alarm.stop()

    def close(self) -> None:
        """The server stops: waiting Pulls answer with nothing, streams end, and the alarm is off."""
        self._closed = True
        for pull in self._consumers.waiting():
            self.hurry(pull)
        self._end_consumers(errors.shutting_down())
        self._alarm.stop()

    def require_pullable(self) -> None:
        """Raises FAILED_PRECONDITION when detached or not a pull subscription, UNAVAILABLE when the server stops."""
        if self._closed:
            raise errors.shutting_down()
        if self.detached:
            raise errors.detached(self.name)
        if self.settings.delivery is not DeliveryKind.PULL:
            raise errors.not_a_pull_subscription(self.name, self.settings.delivery.value)

    def _drop_all(self) -> None:
        while (oldest := self._oldest()) is not None:
            self._finish(oldest)

    def _end_consumers(self, error: errors.PubsubError) -> None:
        for consumer in self._consumers.clear():
            consumer.end(error)

    # What others may see

    def counts(self) -> dict[str, int]:
        return {
            "waiting": len(self._backlog),
            "leases": len(self._deadlines),
            **self._consumers.counts(),
        }

    def dump(self) -> dict[str, object]:
        """Everything that a call may change, as plain values, for comparison."""
        return {
            "settings": self.settings,
            "topic": self.topic.name if self.topic else None,
            "detached": self.detached,
            "messages": [
                (
                    number,
                    entry.place.value,
                    entry.failures,
                    (entry.lease.number, entry.lease.deadline) if entry.lease else None,
                )
                for number, entry in self._entries.items()
            ],
        }

    def __repr__(self) -> str:
        counts = "".join(f" {key}={value}" for key, value in self.counts().items() if value)
        return f"<Subscription {self.name}{counts}{' detached' if self.detached else ''}>"
