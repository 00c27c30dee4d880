"""What one subscription holds: every message it still owes to somebody, and each way from one place to another."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from emulator.clock import NS_PER_S, Clock
from emulator.engine.backlog import Backlog
from emulator.engine.consumers import Consumers
from emulator.engine.dead_letters import DeadLetterOffice, dead_letter
from emulator.engine.entries import Consumer, Entry, Lease, Leases, Place
from emulator.engine.lanes import Lanes
from emulator.engine.schedule import NEVER, Schedule
from emulator.engine.values import AckFailure, Draft, Message, SubscriptionSettings
from emulator.limits import Limits

# What an ack id names: a message's number and a lease's.
Delivery: TypeAlias = tuple[int, int]
AckFailures: TypeAlias = Mapping[Delivery, AckFailure]

# Of what nothing here remembers; no message has this number.
UNKNOWN: Final[Delivery] = (0, 0)

_NO_FAILURES: Final[AckFailures] = MappingProxyType({})


class Holdings:
    """The messages of one subscription. Leases are granted and ended here, and nowhere else.

    `consumers` hear of leases that end; whoever has more room then stands in their line.
    """

    __slots__ = (
        "_clock",
        "_consumers",
        "_dead",
        "_delays",
        "_entries",
        "_lease_count",
        "_lease_max",
        "_most_of_a_key",
        "_name",
        "_office",
        "backlog",
        "deadlines",
        "lanes",
        "retained",
        "settings",
    )

    def __init__(
        self,
        name: str,
        settings: SubscriptionSettings,
        clock: Clock,
        limits: Limits,
        consumers: Consumers,
        office: DeadLetterOffice,
    ) -> None:
        self._name = name
        self.settings = settings
        self._clock = clock
        self._consumers = consumers
        self._office = office
        self._lease_max = None if limits.lease_max_s is None else limits.lease_max_s * NS_PER_S
        self._most_of_a_key = limits.ordering_key_max_outstanding
        self._lease_count = 0
        self._start_empty()
        # Dead letters that are not forwarded yet, each with its message's number and its topic.
        self._dead: list[tuple[int, str, Draft]] = []

    def _start_empty(self) -> None:
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self.backlog = Backlog()
        self.lanes: Lanes | None = None
        if self.settings.ordered:
            self.lanes = Lanes(self.backlog, self._most_of_a_key, self._done)
        self.deadlines: Schedule[Lease] = Schedule()
        self._delays: Schedule[Entry] = Schedule()
        # How many are acked and kept for a seek.
        self.retained = 0

    # Messages come in

    def add(self, messages: Iterable[Message]) -> None:
        """Newly published messages, oldest first."""
        entries, backlog, lanes = self._entries, self.backlog, self.lanes
        for message in messages:
            entry = Entry(message)
            entries[message.number] = entry
            if lanes is not None and message.ordering_key:
                lanes.append(entry)
            else:
                backlog.append(entry)

    def replace(self, unacked: Iterable[Message]) -> None:
        """A seek: these are to be delivered, as if they never had been; all others are acked (service.md §12.4)."""
        wanted = {message.number: message for message in unacked}
        kept = self.messages() if self.settings.retain_acked else []
        acked = {message.number: message for message in kept if message.number not in wanted}
        self.drop_all()
        for number in sorted(wanted.keys() | acked.keys()):
            if number in wanted:
                self.add((wanted[number],))
            else:
                entry = self._entries[number] = Entry(acked[number])
                entry.place = Place.RETAINED
                self.retained += 1

    def messages(self) -> list[Message]:
        """All that are held, acked or not, oldest first."""
        return [entry.message for entry in self._entries.values()]

    def unacked(self) -> list[Message]:
        """Those that are not done, oldest first."""
        done = (Place.ACKED, Place.RETAINED)
        return [entry.message for entry in self._entries.values() if entry.place not in done]

    # They are handed out

    def grant(self, entry: Entry, consumer: Consumer, now: int) -> Lease:
        """Lease a waiting message, which has left the backlog already."""
        self._lease_count += 1
        lease = Lease(self._lease_count, entry, consumer)
        entry.place = Place.LEASED
        entry.lease = lease
        due = now + (consumer.ack_deadline or self.settings.ack_deadline)
        if self._lease_max is not None:
            lease.limit = now + self._lease_max
            due = min(due, lease.limit)
        self.deadlines.add(lease, due, lease.number)
        if self.lanes is not None and (lane := self.lanes.of(entry)) is not None:
            self.lanes.went_out(lane)
        return lease

    # Leases end

    def acknowledge(self, deliveries: Sequence[Delivery]) -> AckFailures:
        """Messages are done; what was refused, which only happens under exactly-once (service.md §8.2).

        Without it a late ack counts too, even when the message has been handed out again (lease-policy.md V5), unless
        an earlier one of its ordering key failed (service.md §9.4). Unknown messages are ignored (§7.1.8).
        """
        if self.settings.exactly_once:
            return self._acknowledge_exactly(deliveries)
        entries = self._entries
        for number, lease_number in deliveries:
            entry = entries.get(number)
            if entry is not None and lease_number > entry.void:
                self._ack(entry)
        return _NO_FAILURES

    def _acknowledge_exactly(self, deliveries: Sequence[Delivery]) -> AckFailures:
        failures: dict[Delivery, AckFailure] = {}
        now = self._clock.now()
        # By publish time: what comes in one request is acked in order, whatever its order there (service.md §8.8).
        for delivery in sorted(set(deliveries)):
            entry = self._valid(delivery, now)
            if entry is None:
                failures[delivery] = AckFailure.INVALID
            elif self.lanes is not None and not self.lanes.is_first(entry):
                failures[delivery] = AckFailure.UNORDERED
            else:
                self._finish(entry, acked=True)
        return failures

    def _valid(self, delivery: Delivery, now: int) -> Entry | None:
        """The message, if this is its latest delivery and its deadline has not come (service.md §8.2, §8.3)."""
        entry = self._entries.get(delivery[0])
        if entry is None or entry.lease is None or entry.lease.number != delivery[1] or entry.lease.due <= now:
            return None
        return entry

    def _ack(self, entry: Entry) -> None:
        if entry.place is Place.RETAINED:
            return
        lane = self.lanes.of(entry) if self.lanes is not None else None
        if lane is None or entry.place is Place.WAITING:
            self._finish(entry, acked=True)
            return
        if entry.lease is not None:
            self._release(entry)
        elif entry.place is Place.DELAYED:
            self._delays.drop(entry)
        assert self.lanes is not None
        self.lanes.ack(lane, entry)

    def modify_ack_deadline(self, deliveries: Sequence[Delivery], seconds: int) -> AckFailures:
        """Move deadlines to `seconds` from now, or nack with 0; what was refused, as in `acknowledge`.

        Without exactly-once ended leases are left alone (service.md §7.1.7).
        """
        failures: dict[Delivery, AckFailure] = {}
        now = self._clock.now()
        # The newest first: a nack takes the leases of all later messages of its key with it (service.md §9.4), and
        # these would not count as nacked.
        for delivery in deliveries if seconds else sorted(set(deliveries), reverse=True):
            entry = self._valid(delivery, now)
            if entry is None:
                failures[delivery] = AckFailure.INVALID
            elif seconds:
                assert entry.lease is not None
                self._extend(entry.lease, now + seconds * NS_PER_S)
            else:
                self._end(entry, failed=True)
        return failures if self.settings.exactly_once else _NO_FAILURES

    def _extend(self, lease: Lease, until: int) -> None:
        self.deadlines.move(lease, until if lease.limit == NEVER else min(until, lease.limit), lease.number)

    def take_back(self, leases: Leases) -> None:
        """Deliveries that were never written: their messages wait again, and no attempt counts (outbox.md O16)."""
        for lease in leases:
            if lease.entry is not None:
                self._end(lease.entry, failed=False)

    def expire(self, now: int, most: int) -> None:
        """End leases whose deadline has come."""
        for _ in range(most):
            lease = self.deadlines.pop_due(now)
            if lease is None:
                return
            assert lease.entry is not None
            self._end(lease.entry, failed=True)

    def _end(self, entry: Entry, *, failed: bool) -> None:
        """A lease ends and its message is to be handed out again, with it all later ones of its key (§9.4)."""
        lane = self.lanes.of(entry) if self.lanes is not None else None
        if lane is None:
            self._return(entry, failed=failed)
            return
        assert self.lanes is not None
        now = self._clock.now()
        for each in self.lanes.rewind(lane, entry):
            if each is entry:
                self._return(each, failed=failed)
            elif each.lease is not None and each.lease.due <= now:
                self._return(each, failed=True)
            else:
                each.void = self._lease_count
                if each.lease is not None:
                    each.previous = each.lease.consumer.number
                    self._release(each)
        self.lanes.advance(lane)

    def _return(self, entry: Entry, *, failed: bool) -> None:
        """Once its lease has ended: it waits again, is delayed or becomes a dead letter."""
        lease = entry.lease
        assert lease is not None
        if failed:
            entry.previous = lease.consumer.number
        self._release(entry)
        # One that was never written has not failed (outbox.md O15).
        if failed and lease.written:
            entry.failures += 1
            if self._dies(entry):
                return
            retry = self.settings.retry
            if retry is not None and (wait := retry.backoff(entry.failures)):
                entry.place = Place.DELAYED
                self._delays.add(entry, self._clock.now() + wait, entry.message.number)
                return
        if entry.place is not Place.BEHIND:
            self.backlog.give_back(entry)

    def _dies(self, entry: Entry) -> bool:
        policy = self.settings.dead_letter
        if policy is None or entry.failures < policy.max_attempts or not self._office.takes(policy.topic):
            return False
        draft = dead_letter(self._name, entry.message, entry.failures)
        self._dead.append((entry.message.number, policy.topic, draft))
        # Whoever ended its lease goes on with its lane.
        self._done(entry)
        return True

    def end_delays(self, now: int, most: int) -> None:
        """What has waited long enough may be handed out."""
        for _ in range(most):
            entry = self._delays.pop_due(now)
            if entry is None:
                return
            self._delays.drop(entry)
            lane = self.lanes.of(entry) if self.lanes is not None else None
            if lane is None:
                self.backlog.give_back(entry)
            else:
                assert self.lanes is not None
                entry.place = Place.BEHIND
                self.lanes.advance(lane)

    def forward(self) -> None:
        """Publish the dead letters, oldest message first. This calls out: nothing else may be half done."""
        while self._dead:
            dead, self._dead = self._dead, []
            by_topic: dict[str, list[Draft]] = {}
            for _, topic, draft in sorted(dead):
                by_topic.setdefault(topic, []).append(draft)
            for topic, drafts in by_topic.items():
                self._office.forward(topic, drafts)

    # Messages leave

    def drop(self, number: int) -> None:
        """That message leaves, leased or not, if it is there."""
        entry = self._entries.get(number)
        if entry is not None:
            self._finish(entry, acked=False)

    def holds(self, number: int) -> bool:
        return number in self._entries

    def drop_acked(self) -> None:
        """What is kept for a seek alone leaves."""
        for entry in [entry for entry in self._entries.values() if entry.place is Place.RETAINED]:
            self._forget(entry)
        self.retained = 0

    def drop_all(self) -> None:
        """Every message leaves, leased or not."""
        for entry in self._entries.values():
            if entry.lease is not None:
                self._release(entry)
            entry.forget()
        self._start_empty()

    def oldest(self) -> Message | None:
        """The oldest message that is held."""
        return next((entry.message for entry in self._entries.values()), None)

    def _finish(self, entry: Entry, *, acked: bool) -> None:
        """The subscription has nothing more to do with this message, wherever it is; or keeps it for a seek only."""
        lane = self.lanes.of(entry) if self.lanes is not None else None
        place = entry.place
        if entry.lease is not None:
            self._release(entry)
        elif place is Place.DELAYED:
            self._delays.drop(entry)
        if acked:
            self._done(entry)
        else:
            self.retained -= place is Place.RETAINED
            self._forget(entry)
        if place is Place.WAITING:
            self.backlog.discard(entry)
        if lane is not None:
            assert self.lanes is not None
            self.lanes.advance(lane)

    def _done(self, entry: Entry) -> None:
        """A message is acked for good. Its place is not WAITING for the backlog any more."""
        if self.settings.retain_acked:
            entry.place = Place.RETAINED
            entry.failures = 0
            self.retained += 1
        else:
            self._forget(entry)

    def _forget(self, entry: Entry) -> None:
        del self._entries[entry.message.number]
        entry.forget()

    def _release(self, entry: Entry) -> None:
        lease = entry.lease
        assert lease is not None
        consumer = lease.consumer
        consumer.release(lease)
        entry.lease = lease.entry = None
        self.deadlines.drop(lease)
        self._consumers.line_up(consumer)

    # What others may see

    def next_event(self) -> int | None:
        """When the next lease or back-off ends, or None."""
        return min(
            (when for when in (self.deadlines.earliest(), self._delays.earliest()) if when is not None), default=None
        )

    def counts(self) -> dict[str, int]:
        leases, delayed = len(self.deadlines), len(self._delays)
        acked = self.lanes.acked if self.lanes is not None else 0
        return {
            "waiting": len(self._entries) - leases - delayed - acked - self.retained,
            "delayed": delayed,
            "leases": leases,
            "retained": self.retained,
        }

    def dump(self) -> list[tuple[int, str, int, tuple[int, int] | None]]:
        """Of every message: its number, place and failures, and number and deadline of its lease."""
        return [
            (
                number,
                entry.place.value,
                entry.failures,
                (entry.lease.number, entry.lease.due) if entry.lease else None,
            )
            for number, entry in self._entries.items()
        ]

    def __repr__(self) -> str:
        counts = "".join(f" {key}={value}" for key, value in self.counts().items() if value)
        return f"<Holdings {self._name}{counts}>"
