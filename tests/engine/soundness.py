"""What holds inside the engine between any two calls, whatever was called: looks at its private parts."""

from collections import Counter
from collections.abc import Iterable

from emulator.clock import FakeClock
from emulator.engine.broker import Broker
from emulator.engine.entries import Consumer, Entry, Lease, Place
from emulator.engine.pulls import Pull
from emulator.engine.streams import Stream
from emulator.engine.subscription import Subscription
from tests.engine import lanes


class CountingPull(Pull):
    """A Pull that counts what it takes and what is released, as a consumer with credit does."""

    __slots__ = ("released", "taken")

    def __init__(self, most: int, max_bytes: int, deadline: int) -> None:
        super().__init__(most, max_bytes, deadline)
        self.taken = 0
        self.released = 0

    def take(self, lease: Lease) -> None:
        self.taken += 1
        super().take(lease)

    def release(self, lease: Lease) -> None:
        self.released += 1
        super().release(lease)


def check(broker: Broker, clock: FakeClock, pulls: Iterable[CountingPull]) -> None:
    """Raise AssertionError unless all is sound; `pulls` are all that were ever begun."""
    subscriptions = list(broker.subscriptions)
    for subscription in subscriptions:
        check_subscription(subscription)
    the_credit_taken_is_the_leases_out(subscriptions, pulls)
    assert clock.timer_count() <= len(subscriptions), "more timers than subscriptions"


def check_subscription(subscription: Subscription) -> None:
    """The same for what concerns one subscription alone."""
    a_message_is_in_exactly_one_place(subscription)
    counts_and_dump_agree(subscription)
    who_is_ready_still_wants_something(subscription)
    who_stands_in_line_belongs_here(subscription)
    nothing_waits_that_somebody_has_room_for(subscription)
    a_streams_credit_is_its_leases(subscription)
    if subscription._holdings.lanes is not None:
        lanes.check(subscription._holdings, subscription._holdings.lanes)


def a_message_is_in_exactly_one_place(subscription: Subscription) -> None:
    """Invariant 1: it waits in the backlog or behind others, is delayed, has one lease, or is acked before its time."""
    holdings = subscription._holdings
    waiting: list[Entry] = [entry for entry in holdings.backlog._fresh if entry.place is Place.WAITING]
    waiting += [entry for _, entry in holdings.backlog._returned if entry.place is Place.WAITING]
    leases = {lease for due, _, lease in holdings.deadlines._heap if lease.due == due}
    delayed = {id(entry) for due, _, entry in holdings._delays._heap if entry.due == due}
    entries = list(holdings._entries.values())
    in_lanes = (Place.BEHIND, Place.ACKED)

    assert sorted(map(id, waiting)) == sorted(id(entry) for entry in entries if entry.place is Place.WAITING)
    assert len(holdings.backlog) == len(waiting)
    assert leases == {entry.lease for entry in entries if entry.place is Place.LEASED}
    assert len(holdings.deadlines) == len(leases)
    assert all(lease.entry is not None and lease.entry.lease is lease for lease in leases)
    assert all((entry.lease is not None) is (entry.place is Place.LEASED) for entry in entries)
    assert delayed == {id(entry) for entry in entries if entry.place is Place.DELAYED}
    assert len(holdings._delays) == len(delayed)
    assert holdings.lanes is not None or not any(entry.place in in_lanes for entry in entries)
    assert list(holdings._entries) == sorted(entry.message.number for entry in entries)
    assert not holdings._dead, "a dead letter was left lying"


def counts_and_dump_agree(subscription: Subscription) -> None:
    messages = subscription.dump()["messages"]
    assert isinstance(messages, list)
    places = Counter(place for _, place, _, _ in messages)
    counts = subscription.counts()

    assert counts["waiting"] == places["waiting"] + places["behind"]
    assert (counts["leases"], counts["delayed"]) == (places["leased"], places["delayed"])


def who_is_ready_still_wants_something(subscription: Subscription) -> None:
    pulls = [consumer for consumer in subscription._consumers.line if isinstance(consumer, Pull)]

    assert not any(pull.done for pull in pulls)
    assert pulls == list(subscription._consumers._waits.values())


def who_stands_in_line_belongs_here(subscription: Subscription) -> None:
    consumers = subscription._consumers
    line = list(consumers.line)

    assert len(line) == len(set(line)), "somebody stands in line twice"
    assert all(consumer.in_line for consumer in line)
    assert all(consumer in consumers._streams or consumer in consumers._waits for consumer in line)
    assert [stream for stream in consumers.streams() if stream.in_line and stream not in line] == []


def nothing_waits_that_somebody_has_room_for(subscription: Subscription) -> None:
    """Whatever gives a stream room has to pump: no time does it later."""
    consumers, holdings = subscription._consumers, subscription._holdings
    idle: list[Consumer] = [stream for stream in consumers.streams() if stream.room(0)]
    assert all(stream.in_line for stream in idle)
    idle += consumers.waiting()

    assert not idle or not len(holdings.backlog), f"{idle} have room for what waits"
    if holdings.lanes is not None:
        claimants = [lane.claimant for lane in holdings.lanes._by_key.values()]
        assert not any(consumer in claimants for consumer in idle), f"{idle} have room for what waits for them"


def a_streams_credit_is_its_leases(subscription: Subscription) -> None:
    """Invariant 3 for streams, in messages and bytes, and the same for what waits in their outboxes."""
    out: dict[Stream, list[Lease]] = {stream: [] for stream in subscription._consumers.streams()}
    for entry in subscription._holdings._entries.values():
        if entry.lease is not None and isinstance(entry.lease.consumer, Stream):
            out.setdefault(entry.lease.consumer, []).append(entry.lease)

    for stream, leases in out.items():
        queued = [lease for lease in leases if lease.queued]
        assert (stream._messages, stream._bytes) == (len(leases), _bytes(leases))
        assert (stream._pile.count, stream._pile.bytes) == (len(queued), _bytes(queued))
        assert {lease for lease in stream._pile._leases if lease.entry is not None} == set(queued)


def _bytes(leases: Iterable[Lease]) -> int:
    return sum(lease.entry.message.size for lease in leases if lease.entry is not None)


def the_credit_taken_is_the_leases_out(subscriptions: Iterable[Subscription], pulls: Iterable[CountingPull]) -> None:
    """Invariant 3, per consumer; a message that is acked, nacked, expired or dropped returns its credit once."""
    out = Counter(
        entry.lease.consumer
        for subscription in subscriptions
        for entry in subscription._holdings._entries.values()
        if entry.lease is not None and not isinstance(entry.lease.consumer, Stream)
    )

    assert {pull: pull.taken - pull.released for pull in pulls if pull.taken != pull.released} == out
