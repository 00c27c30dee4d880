"""Short words for what tests do with a broker on a clock that stands still."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from emulator.clock import NS_PER_S, FakeClock
from emulator.engine.broker import Broker
from emulator.engine.entries import Lease
from emulator.engine.pulls import Pull
from emulator.engine.subscription import COUNTED, Subscription
from emulator.engine.topic import Topic
from emulator.engine.values import (
    DeadLetterPolicy,
    DeliveryKind,
    Draft,
    Message,
    RetryPolicy,
    SubscriptionSettings,
    TopicSettings,
)
from emulator.errors import Code, PubsubError
from emulator.limits import STRICT, Limits

TOPIC = "projects/p/topics/news"
SUBSCRIPTION = "projects/p/subscriptions/readers"
OTHER = "projects/p/subscriptions/others"
DEAD = "projects/p/topics/dead"

NOTHING_HELD = dict.fromkeys(COUNTED, 0)

# What else a broker counts.
NOTHING_AT_ALL = {
    **NOTHING_HELD,
    **dict.fromkeys(("topics", "subscriptions", "snapshots", "in_snapshots", "in_topics"), 0),
}

_WEEK_S = 604_800


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message as a consumer got it; `attempt` as a dead-letter policy has it shown."""

    ack_id: str
    number: int
    body: bytes
    publish_time: int
    lease: Lease
    message: Message
    attempt: int


@dataclass(slots=True)
class Answer:
    """What a Pull came to; `times` counts how often it was told that it is done."""

    pull: Pull
    deliveries: list[Delivery] = field(default_factory=list)
    times: int = 0

    @property
    def bodies(self) -> list[bytes]:
        return [delivery.body for delivery in self.deliveries]

    @property
    def ack_ids(self) -> list[str]:
        return [delivery.ack_id for delivery in self.deliveries]

    @property
    def leases(self) -> list[Lease]:
        return [delivery.lease for delivery in self.deliveries]

    @property
    def attempts(self) -> list[int]:
        return [delivery.attempt for delivery in self.deliveries]

    def of(self, *bodies: bytes) -> list[str]:
        """The ack ids of these messages, in this order."""
        return [delivery.ack_id for body in bodies for delivery in self.deliveries if delivery.body == body]


def settings(
    ack_deadline: float = 10,
    retention: float = _WEEK_S,
    ttl: float | None = None,
    delivery: DeliveryKind = DeliveryKind.PULL,
    *,
    ordered: bool = False,
    backoff: tuple[float, float] | None = None,
    dead_letter: int | None = None,
    dead_topic: str = DEAD,
) -> SubscriptionSettings:
    """Settings with times in seconds.

    `backoff`: the least and the most. `dead_letter`: after how many attempts a message goes to `dead_topic`.
    """
    return SubscriptionSettings(
        ack_deadline=round(ack_deadline * NS_PER_S),
        retention=round(retention * NS_PER_S),
        expiration_ttl=None if ttl is None else round(ttl * NS_PER_S),
        delivery=delivery,
        ordered=ordered,
        retry=None if backoff is None else RetryPolicy(*(round(seconds * NS_PER_S) for seconds in backoff)),
        dead_letter=None if dead_letter is None else DeadLetterPolicy(dead_topic, dead_letter),
    )


def drafts(*bodies: bytes, key: str = "", attributes: Mapping[str, str] | None = None) -> list[Draft]:
    return [Draft(body, attributes or {}, key, len(body)) for body in bodies]


def message(number: int, *, size: int = 0, publish_time: int = 0) -> Message:
    return Message(number, publish_time, b"", {}, "", size)


class World:
    """One broker, its clock, and calls by their default names; times in seconds."""

    def __init__(self, limits: Limits = STRICT) -> None:
        self.clock = FakeClock()
        self.broker = Broker(self.clock, limits)

    def create_topic(self, name: str = TOPIC) -> Topic:
        return self.broker.create_topic(name, TopicSettings())

    def subscribe(
        self, name: str = SUBSCRIPTION, topic: str = TOPIC, *, to: SubscriptionSettings | None = None
    ) -> Subscription:
        return self.broker.create_subscription(name, self.broker.topics.get(topic), to or settings())

    def subscription(self, name: str = SUBSCRIPTION) -> Subscription:
        return self.broker.subscriptions.get(name)

    def publish(
        self, *bodies: bytes, topic: str = TOPIC, key: str = "", attributes: Mapping[str, str] | None = None
    ) -> list[int]:
        return self.broker.publish(topic, drafts(*bodies, key=key, attributes=attributes))

    def pull(self, most: int = 1_000, name: str = SUBSCRIPTION, *, wait: bool = False) -> Answer:
        """Pull, and take the answer when it comes."""
        subscription = self.subscription(name)
        pull = self.broker.pull(name, most, wait=wait)
        answer = Answer(pull)

        def take() -> None:
            answer.times += 1
            answer.deliveries += [self._received(subscription, lease) for lease in pull.hand_over()]

        if pull.done:
            take()
        else:
            pull.on_done = take
        return answer

    def _received(self, subscription: Subscription, lease: Lease) -> Delivery:
        assert lease.entry is not None
        held = lease.entry.message
        return Delivery(
            ack_id=subscription.ack_id(lease),
            number=held.number,
            body=held.data,
            publish_time=held.publish_time,
            lease=lease,
            message=held,
            attempt=lease.entry.failures + 1,
        )

    def ack(self, *ack_ids: str, name: str = SUBSCRIPTION) -> None:
        self.broker.acknowledge(name, ack_ids)

    def extend(self, seconds: int, *ack_ids: str, name: str = SUBSCRIPTION) -> None:
        self.broker.modify_ack_deadline(name, ack_ids, seconds)

    def nack(self, *ack_ids: str, name: str = SUBSCRIPTION) -> None:
        self.extend(0, *ack_ids, name=name)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def waiting(self, name: str = SUBSCRIPTION) -> int:
        return self.subscription(name).counts()["waiting"]

    def leases(self, name: str = SUBSCRIPTION) -> int:
        return self.subscription(name).counts()["leases"]

    def held(self, name: str = SUBSCRIPTION) -> int:
        """How many messages the subscription still owes to somebody."""
        return self.waiting(name) + self.leases(name)

    def failures(self, name: str = SUBSCRIPTION) -> list[int]:
        """How often each message that is held has come back."""
        return [entry.failures for entry in self.subscription(name)._holdings._entries.values()]


@contextmanager
def refused(world: World, code: Code, *parts: str) -> Iterator[None]:
    """Expect an error with this code whose text holds all parts, and the whole state unchanged by the call."""
    before = world.broker.dump()
    with pytest.raises(PubsubError) as caught:
        yield
    assert caught.value.code is code
    assert [part for part in parts if part not in caught.value.message] == []
    assert world.broker.dump() == before
