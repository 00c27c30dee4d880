"""A subscription: its messages, who takes them, and the pump where the two meet."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from emulator import errors
from emulator.clock import NS_PER_S, Clock
from emulator.engine.ackids import AckIds
from emulator.engine.alarm import Alarm
from emulator.engine.consumers import Consumers
from emulator.engine.dead_letters import DeadLetterOffice
from emulator.engine.entries import Consumer, Entry, Lease, Leases
from emulator.engine.holdings import AckFailures, Delivery, Holdings
from emulator.engine.outbox import Pile
from emulator.engine.pulls import Pull
from emulator.engine.snapshot import Snapshot
from emulator.engine.streams import Owner, Stream
from emulator.engine.values import DeliveryKind, Message, SubscriptionSettings
from emulator.limits import Limits

if TYPE_CHECKING:
    from emulator.engine.topic import Topic

# How much one ring of the alarm ends before others get their turn: a heap of expiries must not stall anyone.
_SLICE = 500

COUNTED = ("waiting", "delayed", "leases", "retained", "waiting_pulls", "pull_streams", "unwritten")


class Subscription:
    """Holds every message it still owes to somebody. Nothing here waits: time comes in through one alarm.

    `number` tells this incarnation of the name from every other one of this run, and stands in its ack ids.
    """

    __slots__ = (
        "_alarm",
        "_clock",
        "_closed",
        "_consumers",
        "_holdings",
        "_last_active",
        "_limits",
        "_on_expired",
        "_restored",
        "_since",
        "_stream_count",
        "ack_ids",
        "detached",
        "incarnation",
        "name",
        "number",
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
        office: DeadLetterOffice,
    ) -> None:
        self.name = name
        self.number = number
        self.topic: Topic | None = topic
        # Which incarnation of its topic's name it belongs to, also when that is deleted.
        self.incarnation = topic.number
        self.detached = False
        self._clock = clock
        self._limits = limits
        self.ack_ids = ack_ids.of(number)
        self._on_expired = on_expired
        self._stream_count = 0
        self._consumers = Consumers()
        self._holdings = Holdings(name, settings, clock, limits, self._consumers, office)
        self._closed = False
        # Up to which message a seek has restored older ones than are retained, and how long these are kept.
        self._restored = (0, 0)
        # While such are held: number and publish time of what is newer, and so leaves before them; some may be gone.
        self._since: deque[tuple[int, int]] = deque()
        self._alarm = Alarm(clock, self._ring)
        self._last_active = clock.now()
        self._aim_expiration()

    @property
    def settings(self) -> SubscriptionSettings:
        return self._holdings.settings

    # Messages come in

    def offer(self, messages: Sequence[Message]) -> None:
        """Take newly published messages, oldest first, and hand out what somebody has room for."""
        messages = self._matching(messages)
        if messages:
            if self._restored[0]:
                self._note(messages)
            elif self._holdings.oldest() is None:
                self._alarm.aim(self._retained_until(messages[0]))
            self._holdings.add(messages)
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
        self._holdings.forward()
        for consumer in self._assign():
            consumer.flush()

    def _assign(self) -> Iterable[Consumer]:
        # Nothing here calls out, so that whatever an answer leads to finds the subscription at rest.
        consumers, holdings = self._consumers, self._holdings
        backlog, lanes = holdings.backlog, holdings.lanes
        served: dict[Consumer, None] = {}
        now = self._clock.now()
        while consumers.line and (entry := backlog.head()) is not None:
            consumer = consumers.next_for(entry)
            if consumer is None:
                break
            if lanes is None or not self._serve_own(consumer, now, before=entry):
                backlog.take(entry)
                consumer.take(holdings.grant(entry, consumer, now))
            served[consumer] = None
        if lanes is not None:
            for consumer in lanes.claimants():
                while self._serve_own(consumer, now):
                    served[consumer] = None
        self._aim_next_event()
        for consumer in served:
            if consumer.takes_all and consumers.leave(consumer):
                self.touch()
        return served

    def _serve_own(self, consumer: Consumer, now: int, before: Entry | None = None) -> bool:
        """Give a consumer what only it may have (service.md §9.3), if that is older than `before`; whether it did."""
        lanes = self._holdings.lanes
        assert lanes is not None
        entry = lanes.oldest_for(consumer) if consumer.in_line else None
        if entry is None or (before is not None and before.message.number < entry.message.number):
            return False
        if not consumer.room(entry.message.size):
            return False
        consumer.take(self._holdings.grant(entry, consumer, now))
        return True

    # Leases end

    def acknowledge(self, deliveries: Sequence[Delivery]) -> AckFailures:
        """Messages are done; what was refused (`Holdings.acknowledge`)."""
        failures = self._holdings.acknowledge(deliveries)
        self._pump()
        return failures

    def modify_ack_deadline(self, deliveries: Sequence[Delivery], seconds: int) -> AckFailures:
        """Deadlines are moved to `seconds` from now, 0 is a nack; what was refused."""
        failures = self._holdings.modify_ack_deadline(deliveries, seconds)
        self._pump()
        return failures

    def give_back(self, leases: Leases) -> None:
        """Deliveries that were never written: their messages wait again, and no attempt counts (outbox.md O16)."""
        self.take_back(leases)
        self._pump()

    def take_back(self, leases: Leases) -> None:
        """The same, with more to come before they are handed out again, which `give_back` has happen."""
        self._holdings.take_back(leases)

    # Seeking (service.md §12)

    def seek_to_time(self, time: int) -> None:
        """What is retained and was published at `time` or later is unacked, the rest acked; nanoseconds on the clock.

        Raises FAILED_PRECONDITION when detached.
        """
        self._require_attached()
        topic_retention = self.topic.settings.retention if self.topic is not None else None
        self._restore(
            [message for message in self._restorable() if message.publish_time >= time],
            max(self.settings.retention, topic_retention or 0),
        )

    def _restorable(self) -> Iterable[Message]:
        """What it holds, acked or not, and what its topic retains, oldest first."""
        held = self._holdings.messages()
        if self.topic is None or not self.topic.retained():
            return held
        known = {message.number: message for message in (*held, *self._matching(self.topic.retained()))}
        return [known[number] for number in sorted(known)]

    def seek_to_snapshot(self, snapshot: Snapshot) -> None:
        """What the snapshot holds is unacked, the rest acked.

        Raises FAILED_PRECONDITION when detached, and for a snapshot of another topic.
        """
        self._require_attached()
        if snapshot.incarnation != self.incarnation:
            raise errors.snapshot_of_another_topic(snapshot.name, self.name)
        lifetime = self._limits.snapshot_lifetime_s * NS_PER_S
        self._restore(self._matching(snapshot.messages), max(self.settings.retention, lifetime))

    def _restore(self, unacked: Sequence[Message], retention: int) -> None:
        """`retention`: how long messages are kept that this brings back from beyond the subscription's own."""
        now = self._clock.now()
        if any(self._retained_until(message) <= now for message in unacked):
            self._restored = (unacked[-1].number, retention)
        self._holdings.replace(unacked)
        self._since.clear()
        if self._restored[0]:
            self._note(message for message in self._holdings.messages() if message.number > self._restored[0])
        self._aim_all()
        self._pump()

    def _note(self, messages: Iterable[Message]) -> None:
        """These came after what a seek has restored."""
        since, holds = self._since, self._holdings.holds
        while since and not holds(since[0][0]):
            since.popleft()
        waited = bool(since)
        since += [(message.number, message.publish_time) for message in messages]
        if since and not waited:
            self._alarm.aim(since[0][1] + self.settings.retention + 1)

    def unacked(self) -> Sequence[Message]:
        """For a snapshot; raises FAILED_PRECONDITION when detached."""
        self._require_attached()
        return self._holdings.unacked()

    def _matching(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those that its filter lets through; the others count as acked at once (service.md §11.6)."""
        wanted = self.settings.filter
        if wanted is None:
            return messages
        matches = wanted.matches
        return [message for message in messages if matches(message.attributes)]

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
        self._holdings.expire(now, _SLICE)
        self._holdings.end_delays(now, _SLICE)
        self._drop_outlived(now)
        for pull in self._consumers.waiting(until=now):
            self.hurry(pull)
        self._pump()
        self._aim_all()

    def _drop_outlived(self, now: int) -> None:
        """Retention: a message leaves when it is too old, leased or not (service.md §6.5)."""
        holdings, since = self._holdings, self._since
        for _ in range(_SLICE):
            oldest = holdings.oldest()
            if oldest is None or self._retained_until(oldest) > now:
                break
            holdings.drop(oldest.number)
        if oldest is None or oldest.number > self._restored[0]:
            self._restored = (0, 0)
            since.clear()
        for _ in range(_SLICE):
            if not since or since[0][1] + self.settings.retention + 1 > now:
                break
            holdings.drop(since.popleft()[0])

    def _retained_until(self, message: Message) -> int:
        number, retention = self._restored
        if message.number > number:
            retention = self.settings.retention
        return message.publish_time + retention + 1

    def _aim_all(self) -> None:
        oldest = self._holdings.oldest()
        if oldest is not None:
            self._alarm.aim(self._retained_until(oldest))
        if self._since:
            self._alarm.aim(self._since[0][1] + self.settings.retention + 1)
        first_wait_ends = self._consumers.first_wait_ends
        if first_wait_ends is not None:
            self._alarm.aim(first_wait_ends)
        self._aim_expiration()

    def _aim_next_event(self) -> None:
        when = self._holdings.next_event()
        if when is not None:
            self._alarm.aim(when)

    def _aim_expiration(self) -> None:
        ttl = self.settings.expiration_ttl
        if ttl is not None:
            self._alarm.aim(self._last_active + ttl)

    # Its own life

    def update(self, settings: SubscriptionSettings) -> None:
        """Other settings, for later deliveries; leases that are out keep their deadlines (service.md §4)."""
        self._holdings.settings = settings
        if not settings.retain_acked:
            self._holdings.drop_acked()
        for stream in self._consumers.streams():
            stream.tell_change()
        if settings.delivery is not DeliveryKind.PULL:
            self._end_consumers(errors.not_a_pull_subscription(self.name, settings.delivery.value))
        self.touch()
        self._ring()

    def detach(self) -> None:
        """Drop every message and take no more (service.md §6.2)."""
        self.detached = True
        self._holdings.drop_all()
        self._end_consumers(errors.detached(self.name))

    def delete(self) -> None:
        """Drop every message and stop the alarm (service.md §6.3)."""
        self._holdings.drop_all()
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
        self._require_attached()
        if self.settings.delivery is not DeliveryKind.PULL:
            raise errors.not_a_pull_subscription(self.name, self.settings.delivery.value)

    def _require_attached(self) -> None:
        if self.detached:
            raise errors.detached(self.name)

    def _end_consumers(self, error: errors.PubsubError) -> None:
        for consumer in self._consumers.clear():
            consumer.end(error)

    # What others may see

    def counts(self) -> dict[str, int]:
        return {**self._holdings.counts(), **self._consumers.counts()}

    def dump(self) -> dict[str, object]:
        """Everything that a call may change, as plain values, for comparison."""
        return {
            "settings": self.settings,
            "topic": self.topic.name if self.topic else None,
            "detached": self.detached,
            "messages": self._holdings.dump(),
        }

    def __repr__(self) -> str:
        counts = "".join(f" {key}={value}" for key, value in self.counts().items() if value)
        return f"<Subscription {self.name}{counts}{' detached' if self.detached else ''}>"
