"""The broker: every topic and subscription of one emulator, and the calls on them.

Names are full and well-formed: whoever calls has checked their form (service.md §1.5a).
"""

import random
from collections.abc import Iterable, Mapping, Sequence

from emulator import errors
from emulator.clock import NS_PER_S, Clock
from emulator.engine.ackids import AckIds
from emulator.engine.drafts import Drafts, messages_of
from emulator.engine.holdings import UNKNOWN, AckFailures, Delivery
from emulator.engine.publishing import check_drafts
from emulator.engine.pulls import Pull
from emulator.engine.registry import Registry
from emulator.engine.snapshot import Snapshot
from emulator.engine.subscription import COUNTED, Subscription
from emulator.engine.topic import Topic
from emulator.engine.values import SubscriptionSettings, TopicSettings
from emulator.limits import STRICT, Limits

_NS_PER_MS = 1_000_000


class Broker:
    """Owns everything that is published and everyone who waits for it; all time comes from `clock`."""

    __slots__ = (
        "_ack_ids",
        "_by_number",
        "_message_count",
        "_subscription_count",
        "_topic_count",
        "clock",
        "limits",
        "snapshots",
        "subscriptions",
        "topics",
    )

    def __init__(self, clock: Clock, limits: Limits = STRICT) -> None:
        self.clock = clock
        self.limits = limits
        self.topics: Registry[Topic] = Registry()
        self.subscriptions: Registry[Subscription] = Registry()
        self.snapshots: Registry[Snapshot] = Registry()
        self._by_number: dict[int, Subscription] = {}
        self._ack_ids = AckIds(random.getrandbits(24))
        self._message_count = 0
        self._subscription_count = 0
        self._topic_count = 0

    # Topics

    def create_topic(self, name: str, settings: TopicSettings) -> Topic:
        """Raises ALREADY_EXISTS."""
        self.topics.require_free(name)
        self._topic_count += 1
        topic = Topic(name, self._topic_count, settings, self.clock)
        self.topics.add(name, topic)
        return topic

    def delete_topic(self, name: str) -> None:
        """Raises NOT_FOUND."""
        self.topics.remove(name).delete()

    def publish(self, name: str, drafts: Drafts) -> list[int]:
        """Store messages and hand them to every attached subscription; returns their ids, in order (service.md §5).

        Raises NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION; then nothing is stored.
        """
        topic = self.topics.get(name)
        check_drafts(drafts, self.limits)
        return self._store(topic, drafts)

    def _store(self, topic: Topic, drafts: Drafts) -> list[int]:
        first = self._message_count + 1
        self._message_count += len(drafts)
        if topic.wanted:  # else nobody will ever ask for them
            publish_time = self.clock.now() // _NS_PER_MS * _NS_PER_MS
            topic.publish(messages_of(drafts, first, publish_time))
        return list(range(first, first + len(drafts)))

    # Dead letters (service.md §10)

    def takes(self, topic: str) -> bool:
        return self.topics.find(topic) is not None

    def forward(self, topic: str, drafts: Drafts) -> None:
        # What the service adds may go beyond what a publisher may send.
        self._store(self.topics.get(topic), drafts)

    # Subscriptions

    def create_subscription(self, name: str, topic: Topic, settings: SubscriptionSettings) -> Subscription:
        """Raises ALREADY_EXISTS."""
        self.subscriptions.require_free(name)
        self._subscription_count += 1
        subscription = Subscription(
            name,
            self._subscription_count,
            topic,
            settings,
            self.clock,
            self.limits,
            self._ack_ids,
            self._forget,
            self,
        )
        self.subscriptions.add(name, subscription)
        self._by_number[subscription.number] = subscription
        topic.attach(subscription)
        return subscription

    def detach_subscription(self, name: str) -> None:
        """Raises NOT_FOUND. Detaching again changes nothing."""
        subscription = self.subscriptions.get(name)
        subscription.touch()
        if subscription.topic is not None:
            subscription.topic.detach(subscription)
        subscription.detach()

    def delete_subscription(self, name: str) -> None:
        """Raises NOT_FOUND."""
        self._forget(self.subscriptions.get(name))

    def _forget(self, subscription: Subscription) -> None:
        self.subscriptions.remove(subscription.name)
        del self._by_number[subscription.number]
        if subscription.topic is not None:
            subscription.topic.forget(subscription)
        subscription.delete()

    # Snapshots (service.md §12)

    def create_snapshot(self, name: str, subscription: Subscription, document: bytes) -> Snapshot:
        """Keep what is unacked now and is published from now on. Raises ALREADY_EXISTS, FAILED_PRECONDITION."""
        self.snapshots.require_free(name)
        unacked = subscription.unacked()
        subscription.touch()
        now = self.clock.now()
        expires = (unacked[0].publish_time if unacked else now) + self.limits.snapshot_lifetime_s * NS_PER_S
        least = self.limits.snapshot_lifetime_min_s
        if expires - now < least * NS_PER_S:
            raise errors.snapshot_would_expire(name, f"{(expires - now) / NS_PER_S:g}s", f"{least}s")
        snapshot = Snapshot(name, subscription.topic, subscription.incarnation, unacked, expires, document)
        self.snapshots.add(name, snapshot)
        if subscription.topic is not None:
            subscription.topic.snapshots[name] = snapshot
        snapshot.start(self.clock, self._forget_snapshot)
        return snapshot

    def delete_snapshot(self, name: str) -> None:
        """Raises NOT_FOUND."""
        self._forget_snapshot(self.snapshots.get(name))

    def _forget_snapshot(self, snapshot: Snapshot) -> None:
        self.snapshots.remove(snapshot.name)
        if snapshot.topic is not None:
            del snapshot.topic.snapshots[snapshot.name]
        snapshot.delete()

    # Leases

    def pull(self, name: str, most: int, *, wait: bool) -> Pull:
        """Raises NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION (service.md §7.2)."""
        subscription = self.subscriptions.get(name)
        if most <= 0:
            raise errors.too_small("max_messages", most, 1)
        pull = subscription.pull(most, wait=wait)
        subscription.touch()
        return pull

    def acknowledge(self, name: str, ack_ids: Sequence[str]) -> None:
        """Raises NOT_FOUND, INVALID_ARGUMENT; then no id of the request is processed (service.md §7.1).

        Under exactly-once INVALID_ARGUMENT with an ErrorInfo names those that were not, and the others are (§8).
        """
        subscription = self.subscriptions.get(name)
        if not ack_ids:
            raise errors.no_ack_ids()
        deliveries = self.decode(subscription, ack_ids)
        subscription.touch()
        _raise_if_any(refused(ack_ids, deliveries, subscription.acknowledge(deliveries)))

    def modify_ack_deadline(self, name: str, ack_ids: Sequence[str], seconds: int) -> None:
        """Raises as `acknowledge` does (service.md §7.1.3)."""
        subscription = self.subscriptions.get(name)
        self.check_extension("ack_deadline_seconds", seconds)
        if not ack_ids:
            raise errors.no_ack_ids()
        deliveries = self.decode(subscription, ack_ids)
        subscription.touch()
        _raise_if_any(refused(ack_ids, deliveries, subscription.modify_ack_deadline(deliveries, seconds)))

    def check_extension(self, argument: str, seconds: int) -> None:
        """Raises INVALID_ARGUMENT unless a deadline can be moved by so much (service.md §7.1.3)."""
        if not 0 <= seconds <= self.limits.ack_deadline_max_s:
            raise errors.out_of_range(argument, seconds, 0, self.limits.ack_deadline_max_s, "seconds")

    def decode(self, subscription: Subscription, ack_ids: Iterable[str]) -> list[Delivery]:
        """The deliveries that the ids name, for the subscription's own methods, in their order.

        What nothing here remembers is UNKNOWN (service.md §7.1.8). Raises INVALID_ARGUMENT.
        """
        deliveries: list[Delivery] = []
        own = subscription.ack_ids.decode
        for ack_id in ack_ids:
            delivery = own(ack_id)
            if delivery is None:
                decoded = self._ack_ids.decode(ack_id)
                if decoded.subscription == subscription.number:
                    delivery = (decoded.message, decoded.lease)
                elif decoded.subscription is not None and decoded.subscription in self._by_number:
                    raise errors.foreign_ack_id(ack_id, subscription.name)
                else:
                    delivery = UNKNOWN
            deliveries.append(delivery)
        return deliveries

    # The whole

    def reset(self) -> None:
        """Forget every topic, subscription and message. Ids go on counting, so that old ones stay unknown."""
        for subscription in self.subscriptions:
            self._forget(subscription)
        for topic in self.topics:
            self.delete_topic(topic.name)
        for snapshot in self.snapshots:
            self._forget_snapshot(snapshot)

    def close(self) -> None:
        """The server stops: whoever waits gets an answer, and no timer stays behind."""
        for subscription in self.subscriptions:
            subscription.close()
        for topic in self.topics:
            topic.close()
        for snapshot in self.snapshots:
            snapshot.stop()

    def counts(self) -> Mapping[str, int]:
        """How much there is of what must not leak: topics, subscriptions, and what each subscription counts."""
        total = {
            "topics": len(self.topics),
            "subscriptions": len(self.subscriptions),
            "snapshots": len(self.snapshots),
            "in_snapshots": sum(len(snapshot.messages) for snapshot in self.snapshots),
            "in_topics": sum(len(topic.retained()) for topic in self.topics),
        }
        total.update(dict.fromkeys(COUNTED, 0))
        for subscription in self.subscriptions:
            for key, value in subscription.counts().items():
                total[key] += value
        return total

    def dump(self) -> dict[str, object]:
        """The whole state as plain values: equal before and after a call that changed nothing."""
        return {
            "messages": self._message_count,
            "topics": {topic.name: (topic.settings, [s.name for s in topic.attached()]) for topic in self.topics},
            "subscriptions": {subscription.name: subscription.dump() for subscription in self.subscriptions},
            "snapshots": {
                snapshot.name: (snapshot.document, snapshot.expires, [m.number for m in snapshot.messages])
                for snapshot in self.snapshots
            },
        }

    def __repr__(self) -> str:
        return f"<Broker topics={len(self.topics)} subscriptions={len(self.subscriptions)}>"


def refused(ack_ids: Iterable[str], deliveries: Iterable[Delivery], failures: AckFailures) -> dict[str, str]:
    """Those of the ids whose deliveries were refused, each with its code (service.md §8.5)."""
    if not failures:
        return {}
    pairs = zip(ack_ids, deliveries, strict=True)
    return {ack_id: failures[delivery].value for ack_id, delivery in pairs if delivery in failures}


def _raise_if_any(failures: Mapping[str, str]) -> None:
    if failures:
        raise errors.ack_ids_refused(failures)
