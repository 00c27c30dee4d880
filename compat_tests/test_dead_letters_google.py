"""Dead letters and retry policies with google-cloud-pubsub, end to end; back-off on a clock that the test turns."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient
from google.cloud.pubsub_v1.types import FlowControl

from compat_tests.rest import Project
from compat_tests.targets import Target
from emulator import Emulator, FakeClock

CLIENT = "google-cloud-pubsub"

PATIENCE_S = 50

TOPIC = "projects/acme/topics/orders"
DEAD = "projects/acme/topics/dead"
SUBSCRIPTION = "projects/acme/subscriptions/readers"

PREFIX = "CloudPubSubDeadLetterSource"


class Receiver:
    """A callback that notes what came and then does one and the same with it."""

    def __init__(self, treat: Callable[[Any], Any]) -> None:
        self.messages: list[Any] = []
        self._treat = treat
        self._changed = threading.Condition()

    def __call__(self, message: Any) -> None:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()
        self._treat(message)

    def wait(self, count: int) -> None:
        """Until so many have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.messages) >= count, PATIENCE_S), self

    def __repr__(self) -> str:
        return f"<Receiver messages={len(self.messages)}>"


@contextmanager
def publishing() -> Iterator[Any]:
    publisher = PublisherClient()
    yield publisher
    publisher.stop()
    publisher.transport.close()


@contextmanager
def subscribed(subscription: str, receiver: Receiver, **flow: int) -> Iterator[None]:
    with SubscriberClient() as client:
        future = client.subscribe(subscription, receiver, flow_control=FlowControl(**flow))
        try:
            yield
        finally:
            future.cancel()
            future.result(PATIENCE_S)


@pytest.mark.rule("S10.3", "S10.4", "S10.5", "S10.11", "S7.1.11", "B061", "B067")
def test_five_nacks_lead_to_the_dead_letter_topic(
    server: Target, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.host_port)
    letters = project.subscription(project.topic("dead"), "letters")
    policy = {"deadLetterTopic": project.topic_name("dead"), "maxDeliveryAttempts": 5}
    topic, subscription = project.pair(deadLetterPolicy=policy)
    with publishing() as publisher:
        published = publisher.publish(topic, b"poison", own="kept").result(PATIENCE_S)
    nacking = Receiver(lambda message: message.nack())
    acking = Receiver(lambda message: message.ack())

    with subscribed(subscription, nacking), subscribed(letters, acking):
        acking.wait(1)

    (letter,) = acking.messages
    assert [(one.message_id, one.delivery_attempt) for one in nacking.messages] == [
        (published, attempt) for attempt in (1, 2, 3, 4, 5)
    ]
    assert (letter.data, letter.delivery_attempt) == (b"poison", None)
    assert letter.message_id != published
    attributes = dict(letter.attributes)
    assert datetime.fromisoformat(attributes.pop(f"{PREFIX}TopicPublishTime")) == nacking.messages[0].publish_time
    assert attributes == {
        "own": "kept",
        f"{PREFIX}DeliveryCount": "5",
        f"{PREFIX}Subscription": "sub",
        f"{PREFIX}SubscriptionProject": project.id,
    }
    assert project.data(subscription) == []


@pytest.mark.rule("S9.7", "S10.3", "B035")
def test_a_poisonous_message_holds_its_key_up_for_five_attempts_only(
    server: Target, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.host_port)
    letters = project.subscription(project.topic("dead"), "letters")
    policy = {"deadLetterTopic": project.topic_name("dead"), "maxDeliveryAttempts": 5}
    topic, subscription = project.pair(deadLetterPolicy=policy, enableMessageOrdering=True)
    for text in ("cG9pc29u", "Zm9vZA=="):
        project.publish(topic, {"data": text, "orderingKey": "key"})
    receiver = Receiver(lambda message: message.nack() if message.data == b"poison" else message.ack())

    with subscribed(subscription, receiver, max_messages=1):
        receiver.wait(6)

    assert [(one.data, one.delivery_attempt) for one in receiver.messages] == [
        *((b"poison", attempt) for attempt in (1, 2, 3, 4, 5)),
        (b"food", 1),
    ]
    assert [(one.data, one.message["orderingKey"]) for one in project.pull(letters)] == [(b"poison", "key")]


class Turned:
    """An emulator with its clock in the test's hands, and one subscription with a retry policy."""

    def __init__(self, server: Emulator, clock: FakeClock) -> None:
        self.clock = clock
        self.server = server
        with publishing() as publisher, SubscriberClient() as subscriber:
            publisher.create_topic(name=TOPIC)
            publisher.create_topic(name=DEAD)
            subscriber.create_subscription(
                request={
                    "name": SUBSCRIPTION,
                    "topic": TOPIC,
                    "retry_policy": {"minimum_backoff": {"seconds": 10}, "maximum_backoff": {"seconds": 60}},
                    "dead_letter_policy": {"dead_letter_topic": DEAD, "max_delivery_attempts": 100},
                }
            )
            publisher.publish(TOPIC, b"hello").result(PATIENCE_S)

    @property
    def delayed(self) -> int:
        """How many messages wait for the end of their back-off."""
        return self.server.debug_counts()["delayed"]

    def __repr__(self) -> str:
        return f"<Turned {self.server!r}>"


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> Iterator[Turned]:
    clock = FakeClock()
    with Emulator(clock=clock) as server:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.host_port)
        yield Turned(server, clock)


# 10 s, doubled each time, and 60 s at most.
WAITS_S = [10, 20, 40, 60, 60]


def pull(client: Any) -> list[Any]:
    """What there is now, which the library thinks one should not ask."""
    request = {"subscription": SUBSCRIPTION, "max_messages": 1, "return_immediately": True}
    with pytest.warns(DeprecationWarning, match="return_immediately"):
        return list(client.pull(request=request).received_messages)


@pytest.mark.rule("S10.1", "S10.9", "B064")
def test_a_nacked_message_waits_by_the_emulators_clock_until_it_can_be_pulled(turned: Turned) -> None:
    attempts: list[int] = []
    with SubscriberClient() as client:
        for wait in WAITS_S:
            (received,) = pull(client)
            attempts.append(received.delivery_attempt)
            client.modify_ack_deadline(subscription=SUBSCRIPTION, ack_ids=[received.ack_id], ack_deadline_seconds=0)
            turned.clock.advance(wait - 0.001)
            assert pull(client) == []
            turned.clock.advance(0.001)

    assert attempts == [1, 2, 3, 4, 5]


@pytest.mark.rule("S10.1", "S10.9", "B064", "B071")
def test_a_nacked_message_waits_by_the_emulators_clock_until_a_stream_gets_it(turned: Turned) -> None:
    receiver = Receiver(lambda message: message.nack())

    with subscribed(SUBSCRIPTION, receiver, max_messages=1):
        for count, wait in enumerate(WAITS_S, 1):
            receiver.wait(count)
            wait_until(lambda: turned.delayed == 1)
            turned.clock.advance(wait - 0.001)
            assert turned.delayed == 1
            turned.clock.advance(0.001)
        receiver.wait(len(WAITS_S) + 1)

    assert [one.delivery_attempt for one in receiver.messages] == [1, 2, 3, 4, 5, 6]


def wait_until(condition: Callable[[], bool]) -> None:
    """The library sends its nacks when it likes to."""
    for _ in range(PATIENCE_S * 100):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came to that")
