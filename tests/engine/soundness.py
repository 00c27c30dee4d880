"""What holds inside the engine between any two calls, whatever was called: looks at its private parts."""

from collections import Counter
from collections.abc import Iterable

from emulator.clock import FakeClock
from emulator.engine.broker import Broker
from emulator.engine.entries import Entry, Lease, Place
from emulator.engine.pulls import Pull
from emulator.engine.subscription import Subscription


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
        a_message_is_in_exactly_one_place(subscription)
        counts_and_dump_agree(subscription)
        who_is_ready_still_wants_something(subscription)
    the_credit_taken_is_the_leases_out(subscriptions, pulls)
    assert clock.timer_count() <= len(subscriptions), "more timers than subscriptions"


def a_message_is_in_exactly_one_place(subscription: Subscription) -> None:
    """Invariant 1: it waits in the backlog, or it has one lease among the deadlines."""
    waiting: list[Entry] = [entry for entry in subscription._backlog._fresh if entry.place is Place.WAITING]
    waiting += [entry for _, entry in subscription._backlog._returned if entry.place is Place.WAITING]
    heap = subscription._deadlines._heap
    leases = {lease for deadline, _, lease in heap if lease.entry is not None and lease.deadline == deadline}
    entries = list(subscription._entries.values())

    assert sorted(map(id, waiting)) == sorted(id(entry) for entry in entries if entry.place is Place.WAITING)
    assert leases == {entry.lease for entry in entries if entry.place is Place.LEASED}
    assert all(lease.entry is not None and lease.entry.lease is lease for lease in leases)
    assert all((entry.lease is None) is (entry.place is Place.WAITING) for entry in entries)
    assert list(subscription._entries) == sorted(entry.message.number for entry in entries)


def counts_and_dump_agree(subscription: Subscription) -> None:
    messages = subscription.dump()["messages"]
    assert isinstance(messages, list)
    places = Counter(place for _, place, _, _ in messages)
    counts = subscription.counts()

    assert (counts["waiting"], counts["leases"]) == (places["waiting"], places["leased"])
    assert len(messages) == counts["waiting"] + counts["leases"]


def who_is_ready_still_wants_something(subscription: Subscription) -> None:
    pulls = [consumer for consumer in subscription._consumers._line if isinstance(consumer, Pull)]

    assert not any(pull.done for pull in pulls)
    assert pulls == list(subscription._consumers._waits.values())


def the_credit_taken_is_the_leases_out(subscriptions: Iterable[Subscription], pulls: Iterable[CountingPull]) -> None:
    """Invariant 3, per consumer; a message that is acked, nacked, expired or dropped returns its credit once."""
    out = Counter(
        entry.lease.consumer
        for subscription in subscriptions
        for entry in subscription._entries.values()
        if entry.lease is not None
    )

    assert {pull: pull.taken - pull.released for pull in pulls if pull.taken != pull.released} == out
