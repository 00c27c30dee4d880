"""Faults in what a subscription's options do: ordering, exactly-once, retry, dead letters, filters."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from emulator.engine import holdings as holdings_module
from emulator.engine.consumers import Consumers
from emulator.engine.entries import Consumer, Entry, Place
from emulator.engine.holdings import Delivery, Holdings
from emulator.engine.lanes import Lane, Lanes
from emulator.engine.subscription import Subscription
from emulator.engine.values import AckFailure, Draft, Message, RetryPolicy, SubscriptionSettings
from tests.engine.faults import Fault, Original

Failures = Mapping[Delivery, AckFailure]


# Ordering


def nacks_go_oldest_first(
    original: Original, holdings: Holdings, deliveries: Sequence[Delivery], seconds: int
) -> Failures:
    failures: dict[Delivery, AckFailure] = {}
    for delivery in sorted(set(deliveries)):
        failures.update(original(holdings, [delivery], seconds))
    return failures


def early_ack_is_final(original: Original, holdings: Holdings, entry: Entry) -> None:
    holdings._finish(entry, acked=True)


def undone_acks_may_be_repeated(original: Original, holdings: Holdings, entry: Entry, *, failed: bool) -> None:
    voids = {other: other.void for other in holdings._entries.values()}
    original(holdings, entry, failed=failed)
    for other, void in voids.items():
        other.void = void


def next_of_a_key_is_for_anybody(original: Original, lanes: Lanes, lane: Lane, entry: Entry) -> None:
    lanes._withdraw(lane)
    lanes._backlog.give_back(entry)


def claim_stays_with_its_first_consumer(original: Original, lanes: Lanes, lane: Lane) -> None:
    if lane.claimant is None or lane.start == len(lane.entries):
        original(lanes, lane)


def overtakes_what_is_delayed(original: Original, lanes: Lanes, lane: Lane) -> None:
    delayed = lane.entries[lane.next].place is Place.DELAYED if lane.next < len(lane.entries) else False
    original(lanes, lane)
    if delayed and lane.next == lane.start and lane.next + 1 < len(lane.entries):
        lanes._backlog.give_back(lane.entries[lane.next + 1])


def own_key_comes_last(
    original: Original, subscription: Subscription, consumer: Consumer, now: int, before: Entry | None = None
) -> bool:
    return before is None and bool(original(subscription, consumer, now))


def goes_back_to_the_stream_that_lost_it(original: Original, consumers: Consumers, entry: Entry) -> Consumer | None:
    entry.previous = 0
    consumer: Consumer | None = original(consumers, entry)
    return consumer


# Exactly-once


def expired_id_counts_until_the_next_delivery(
    original: Original, holdings: Holdings, deliveries: Sequence[Delivery]
) -> Failures:
    late = [one for one in deliveries if (it := holdings._entries.get(one[0])) and it.place is Place.WAITING]
    for number in {number for number, _ in late}:
        holdings._finish(holdings._entries[number], acked=True)
    failures: Failures = original(holdings, [one for one in deliveries if one not in late])
    return failures


def any_id_counts_while_there_is_a_lease(
    original: Original, holdings: Holdings, delivery: Delivery, now: int
) -> Entry | None:
    entry = holdings._entries.get(delivery[0])
    return entry if entry is not None and entry.lease is not None else None


def is_always_first(original: Original, lanes: Lanes, entry: Entry) -> bool:
    return True


def exactly_once_never_changes(original: Original, subscription: Subscription, settings: SubscriptionSettings) -> None:
    original(subscription, replace(settings, exactly_once=subscription.settings.exactly_once))


# Retry policies and dead letters


def unwritten_deliveries_count(original: Original, holdings: Holdings, entry: Entry, *, failed: bool) -> None:
    if entry.lease is not None and failed:
        entry.lease.written = True
    original(holdings, entry, failed=failed)


def backoff_is_one_step_ahead(original: Original, policy: RetryPolicy, failures: int) -> int:
    wait: int = original(policy, failures + 1)
    return wait


def backoff_has_no_maximum(original: Original, policy: RetryPolicy, failures: int) -> int:
    return policy.minimum_backoff << failures - 1


def one_attempt_too_many(original: Original, holdings: Holdings, entry: Entry) -> bool:
    policy = holdings.settings.dead_letter
    return policy is not None and entry.failures > policy.max_attempts and bool(original(holdings, entry))


def dies_without_a_topic(original: Original, holdings: Holdings, entry: Entry) -> bool:
    policy = holdings.settings.dead_letter
    if policy is None or entry.failures < policy.max_attempts or holdings._office.takes(policy.topic):
        return bool(original(holdings, entry))
    holdings._forget(entry)
    return True


def dead_letter_has_no_key(original: Original, subscription: str, message: Message, attempts: int) -> Draft:
    draft: Draft = original(subscription, message, attempts)
    draft.ordering_key = ""
    return draft


def dead_letters_go_newest_first(original: Original, holdings: Holdings) -> None:
    holdings._dead = [(-number, topic, draft) for number, topic, draft in holdings._dead]
    original(holdings)


# Filters


def filter_is_ignored(original: Original, subscription: Subscription, messages: Sequence[Message]) -> None:
    kept = subscription.settings
    subscription._holdings.settings = replace(kept, filter=None)
    original(subscription, messages)
    subscription._holdings.settings = kept


OPTION_FAULTS = [
    Fault(
        "a nack takes the later nacks of its request with it", Holdings, "modify_ack_deadline", nacks_go_oldest_first
    ),
    Fault("an ack before an earlier message is acked is final", Holdings, "_ack", early_ack_is_final),
    Fault("an ack that was undone may be repeated", Holdings, "_end", undone_acks_may_be_repeated),
    Fault("a key's next message is for anybody", Lanes, "_offer", next_of_a_key_is_for_anybody),
    Fault("a claim outlives what it was for", Lanes, "advance", claim_stays_with_its_first_consumer),
    Fault("a delayed message is overtaken by one of its key", Lanes, "advance", overtakes_what_is_delayed),
    Fault("a consumer's own keys come last", Subscription, "_serve_own", own_key_comes_last),
    Fault(
        "a message goes back to the stream that lost it", Consumers, "next_for", goes_back_to_the_stream_that_lost_it
    ),
    Fault(
        "exactly-once: an expired id counts until the next delivery",
        Holdings,
        "_acknowledge_exactly",
        expired_id_counts_until_the_next_delivery,
    ),
    Fault("exactly-once: an old id counts", Holdings, "_valid", any_id_counts_while_there_is_a_lease),
    Fault("exactly-once: an ack before an earlier message is accepted", Lanes, "is_first", is_always_first),
    Fault("exactly-once is not switched", Subscription, "update", exactly_once_never_changes),
    Fault("a delivery that was never written counts as an attempt", Holdings, "_return", unwritten_deliveries_count),
    Fault("back-off is one step ahead", RetryPolicy, "backoff", backoff_is_one_step_ahead),
    Fault("back-off has no maximum", RetryPolicy, "backoff", backoff_has_no_maximum),
    Fault("a dead letter has one attempt too many", Holdings, "_dies", one_attempt_too_many),
    Fault("what should be a dead letter is lost without its topic", Holdings, "_dies", dies_without_a_topic),
    Fault("a dead letter loses its ordering key", holdings_module, "dead_letter", dead_letter_has_no_key),
    Fault("dead letters are published newest first", Holdings, "forward", dead_letters_go_newest_first),
    Fault("a filter is ignored", Subscription, "offer", filter_is_ignored),
]
