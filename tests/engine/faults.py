"""Faults to put into the engine: each a small wrong turn that somebody could really take."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from emulator.clock import NS_PER_S
from emulator.engine.alarm import Alarm
from emulator.engine.backlog import Backlog
from emulator.engine.broker import Broker
from emulator.engine.entries import Entry, Lease
from emulator.engine.holdings import Holdings
from emulator.engine.pulls import Pull
from emulator.engine.schedule import Schedule
from emulator.engine.subscription import Subscription
from emulator.engine.topic import Topic
from emulator.engine.values import Draft, Message, SubscriptionSettings
from emulator.errors import PubsubError


@dataclass(frozen=True, slots=True)
class Fault:
    """Puts `method` in the place of `owner`'s method `name`; `method` takes the original before its own arguments."""

    title: str
    owner: Any
    name: str
    method: Callable[..., Any]

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        original, method = getattr(self.owner, self.name), self.method
        monkeypatch.setattr(self.owner, self.name, lambda *args, **kwargs: method(original, *args, **kwargs))


Original = Callable[..., Any]


def does_nothing(original: Original, *args: object) -> None:
    pass


def ack_only_of_the_newest_lease(original: Original, holdings: Holdings, deliveries: Iterable[tuple[int, int]]) -> None:
    def is_newest(number: int, lease_number: int) -> bool:
        entry = holdings._entries.get(number)
        return entry is None or entry.lease is None or entry.lease.number == lease_number

    original(holdings, [delivery for delivery in deliveries if is_newest(*delivery)])


def ack_of_a_leased_message_only(original: Original, holdings: Holdings, deliveries: Iterable[tuple[int, int]]) -> None:
    def is_leased(number: int) -> bool:
        return number in holdings._entries and holdings._entries[number].lease is not None

    original(holdings, [delivery for delivery in deliveries if is_leased(delivery[0])])


def nack_keeps_the_lease(
    original: Original, holdings: Holdings, deliveries: Iterable[tuple[int, int]], seconds: int
) -> None:
    original(holdings, deliveries if seconds else [], seconds)


def old_id_moves_the_newer_lease(
    original: Original, holdings: Holdings, deliveries: Iterable[tuple[int, int]], seconds: int
) -> None:
    entries = holdings._entries
    newest = [
        (number, lease.number)
        for number, _ in deliveries
        if number in entries and (lease := entries[number].lease) is not None
    ]
    original(holdings, newest, seconds)


def deadline_is_added_to_the_old_one(
    original: Original, schedule: Schedule[Lease], lease: Lease, when: int, number: int
) -> None:
    original(schedule, lease, lease.due + NS_PER_S, number)


def deadline_never_gets_shorter(
    original: Original, schedule: Schedule[Lease], lease: Lease, when: int, number: int
) -> None:
    original(schedule, lease, max(when, lease.due), number)


def lease_lasts_a_moment_too_long(
    original: Original, schedule: Schedule[Lease], lease: Lease, when: int, number: int
) -> None:
    original(schedule, lease, when + 1, number)


def leased_message_waits_on(original: Original, backlog: Backlog, entry: Entry) -> None:
    original(backlog, entry)
    backlog.give_back(entry)


def what_comes_back_goes_to_the_end(original: Original, backlog: Backlog, entry: Entry) -> None:
    backlog.append(entry)


def what_is_given_back_is_lost(original: Original, subscription: Subscription, leases: Sequence[Lease]) -> None:
    for lease in leases:
        if lease.entry is not None:
            subscription._holdings._finish(lease.entry, acked=False)


def what_is_given_back_counts_as_an_attempt(
    original: Original, subscription: Subscription, leases: Sequence[Lease]
) -> None:
    for lease in leases:
        if lease.entry is not None:
            lease.entry.failures += 1
    original(subscription, leases)


def topic_takes_the_backlog_with_it(original: Original, topic: Topic) -> None:
    for subscription in topic.attached():
        subscription._holdings.drop_all()
    original(topic)


def only_the_first_subscription_is_served(original: Original, topic: Topic) -> list[Subscription]:
    subscriptions: list[Subscription] = original(topic)
    return subscriptions[:1]


def refused_request_uses_ids(original: Original, broker: Broker, *args: Any) -> Any:
    broker._message_count += 1
    numbers = original(broker, *args)
    broker._message_count -= 1
    return numbers


def refused_request_stores_its_first_message(
    original: Original, broker: Broker, name: str, drafts: Sequence[Draft]
) -> Any:
    try:
        return original(broker, name, drafts)
    except PubsubError:
        original(broker, name, drafts[:1])
        raise


def retention_lasts_a_moment_too_long(original: Original, subscription: Subscription, message: Message) -> int:
    until: int = original(subscription, message)
    return until + 1


def retention_never_ends(original: Original, subscription: Subscription, message: Message) -> int:
    return subscription._clock.now() + 1_000_000 * NS_PER_S


def waiting_pull_stays_when_its_caller_left(original: Original, subscription: Subscription, pull: Pull) -> None:
    subscription._consumers._waits.pop(pull, None)


def new_settings_move_old_leases(
    original: Original, subscription: Subscription, settings: SubscriptionSettings
) -> None:
    holdings = subscription._holdings
    for entry in holdings._entries.values():
        if entry.lease is not None:
            due = subscription._clock.now() + settings.ack_deadline
            holdings.deadlines.move(entry.lease, due, entry.lease.number)
    original(subscription, settings)


def credit_is_not_returned(original: Original, holdings: Holdings, entry: Entry) -> None:
    if entry.lease is not None:
        entry.lease.consumer = Pull(1, 1, 0)
    original(holdings, entry)


FAULTS = [
    Fault("an ack is ignored", Holdings, "acknowledge", does_nothing),
    Fault("a late ack of what was handed out again is refused", Holdings, "acknowledge", ack_only_of_the_newest_lease),
    Fault("a late ack of what waits again is refused", Holdings, "acknowledge", ack_of_a_leased_message_only),
    Fault("a nack is ignored", Holdings, "modify_ack_deadline", nack_keeps_the_lease),
    Fault(
        "an old ack id moves the newer lease",
        Holdings,
        "modify_ack_deadline",
        old_id_moves_the_newer_lease,
    ),
    Fault("a deadline is added to the old one", Schedule, "move", deadline_is_added_to_the_old_one),
    Fault("a deadline never gets shorter", Schedule, "move", deadline_never_gets_shorter),
    Fault("a lease lasts a nanosecond too long", Schedule, "add", lease_lasts_a_moment_too_long),
    Fault("a message is leased twice", Backlog, "take", leased_message_waits_on),
    Fault("what comes back goes to the end", Backlog, "give_back", what_comes_back_goes_to_the_end),
    Fault("what is given back is lost", Subscription, "give_back", what_is_given_back_is_lost),
    Fault(
        "what is given back counts as an attempt", Subscription, "give_back", what_is_given_back_counts_as_an_attempt
    ),
    Fault("a deleted topic takes the backlog with it", Topic, "delete", topic_takes_the_backlog_with_it),
    Fault("a deleted topic keeps its subscriptions", Topic, "delete", does_nothing),
    Fault("publishing reaches the first subscription only", Topic, "attached", only_the_first_subscription_is_served),
    Fault("detaching keeps the messages", Holdings, "drop_all", does_nothing),
    Fault("a refused request uses ids up", Broker, "publish", refused_request_uses_ids),
    Fault("a refused request stores its good messages", Broker, "publish", refused_request_stores_its_first_message),
    Fault("retention never ends", Subscription, "_retained_until", retention_never_ends),
    Fault("retention lasts a nanosecond too long", Subscription, "_retained_until", retention_lasts_a_moment_too_long),
    Fault(
        "a waiting pull is served after its caller left",
        Subscription,
        "_stop_waiting",
        waiting_pull_stays_when_its_caller_left,
    ),
    Fault("new settings move the leases that are out", Subscription, "update", new_settings_move_old_leases),
    Fault("use doesn't put expiration off", Subscription, "touch", does_nothing),
    Fault("a cancelled timer stays", Alarm, "stop", does_nothing),
    Fault("a lease's credit isn't returned", Holdings, "_release", credit_is_not_returned),
]
