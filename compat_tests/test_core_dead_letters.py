"""Retry policies and dead letters over REST and gRPC. What Google's emulator does otherwise: differences.toml."""

import uuid

import pytest

from compat_tests.deliveries import Delivery, Wire, data_of
from compat_tests.rest import Project

CLIENT = "plain REST and gRPC"

PREFIX = "CloudPubSubDeadLetterSource"
FIVE = 5


@pytest.fixture
def letters(project: Project) -> str:
    """The subscription of the dead-letter topic."""
    return project.subscription(project.topic("dead"), "letters")


@pytest.fixture
def subscription(project: Project, letters: str) -> str:
    """One that forwards after five attempts."""
    policy = {"deadLetterTopic": project.topic_name("dead"), "maxDeliveryAttempts": FIVE}
    return project.pair(deadLetterPolicy=policy)[1]


def fail(wire: Wire, subscription: str, times: int = FIVE) -> list[Delivery]:
    """Take the one message and nack it, so often; its deliveries."""
    deliveries: list[Delivery] = []
    for _ in range(times):
        (one,) = wire.pull(subscription, wait=True)
        wire.modify(subscription, [one], 0)
        deliveries.append(one)
    return deliveries


def letter(wire: Wire, subscription: str, letters: str) -> Delivery:
    """What was forwarded: Google's emulator does that when somebody pulls next."""
    assert wire.pull(subscription) == []
    (one,) = wire.pull(letters, wait=True)
    return one


@pytest.mark.rule("S10.3", "S7.1.11", "B061", "B161")
def test_five_attempts_are_counted_and_then_it_is_forwarded(
    project: Project, wire: Wire, subscription: str, letters: str
) -> None:
    project.publish(project.topic_name(), b"x")

    deliveries = fail(wire, subscription)

    assert [one.attempt for one in deliveries] == [1, 2, 3, 4, 5]
    assert letter(wire, subscription, letters).data == b"x"


@pytest.mark.rule("S10.3")
def test_an_ack_of_the_fifth_delivery_forwards_nothing(
    project: Project, wire: Wire, subscription: str, letters: str
) -> None:
    project.publish(project.topic_name(), b"x")
    fail(wire, subscription, 4)

    wire.acknowledge(subscription, wire.pull(subscription, wait=True))

    assert wire.pull(subscription) == []
    assert wire.pull(letters) == []


@pytest.mark.rule("S10.3", "V4")
def test_a_deadline_that_passes_is_an_attempt(project: Project, wire: Wire, subscription: str, letters: str) -> None:
    project.publish(project.topic_name(), b"x")
    fail(wire, subscription, 4)

    wire.modify(subscription, wire.pull(subscription, wait=True), 1)

    assert letter(wire, subscription, letters).attributes[f"{PREFIX}DeliveryCount"] == "5"


@pytest.mark.rule("S10.4", "S10.5", "B067")
def test_a_letter_is_a_new_message_that_says_where_it_comes_from(
    project: Project, wire: Wire, subscription: str, letters: str
) -> None:
    project.publish(project.topic_name(), {"data": "aGk=", "attributes": {"own": "kept"}})

    first, *_ = fail(wire, subscription)

    found = letter(wire, subscription, letters)
    assert found.data == b"hi"
    assert found.attributes == {
        "own": "kept",
        f"{PREFIX}DeliveryCount": "5",
        f"{PREFIX}Subscription": "sub",
        f"{PREFIX}SubscriptionProject": project.id,
        f"{PREFIX}TopicPublishTime": first.publish_time,
    }
    assert found.identifier != first.identifier
    assert found.attempt == 0


@pytest.mark.rule("S10.4")
def test_a_letter_keeps_its_ordering_key(project: Project, wire: Wire, subscription: str, letters: str) -> None:
    project.publish(project.topic_name(), {"data": "aGk=", "orderingKey": "key"})

    fail(wire, subscription)

    assert letter(wire, subscription, letters).key == "key"


@pytest.mark.rule("S10.6")
def test_a_deleted_topic_has_messages_stay_and_gets_them_when_it_is_back(
    project: Project, wire: Wire, subscription: str
) -> None:
    dead = project.topic_name("dead")
    project.rest.call("DELETE", dead).ok()
    project.publish(project.topic_name(), b"x")

    deliveries = fail(wire, subscription, 7)
    policy = project.rest.call("GET", subscription).ok()["deadLetterPolicy"]
    project.topic("dead")
    again = project.subscription(dead, "again")
    deliveries += fail(wire, subscription, 1)

    assert [one.attempt for one in deliveries] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert policy == {"deadLetterTopic": dead, "maxDeliveryAttempts": FIVE}
    assert letter(wire, subscription, again).attributes[f"{PREFIX}DeliveryCount"] == "8"


@pytest.mark.rule("S10.7")
def test_a_topic_without_subscriptions_loses_them(
    project: Project, wire: Wire, subscription: str, letters: str
) -> None:
    project.rest.call("DELETE", letters).ok()
    project.publish(project.topic_name(), b"x")

    fail(wire, subscription)
    assert wire.pull(subscription) == []

    again = project.subscription(project.topic_name("dead"), "again")
    assert wire.pull(again) == []


@pytest.mark.rule("S10.4", "S10.5", "S10.11")
def test_a_letter_may_fail_and_be_forwarded_to_another_project(
    project: Project, wire: Wire, subscription: str, letters: str
) -> None:
    other = Project(project.rest, f"test-{uuid.uuid4().hex[:12]}")
    last = other.topic("last")
    ends = other.subscription(last, "ends")
    project.rest.call("DELETE", letters).ok()
    project.subscription(
        project.topic_name("dead"), "letters", deadLetterPolicy={"deadLetterTopic": last, "maxDeliveryAttempts": 6}
    )
    project.publish(project.topic_name(), {"attributes": {"own": "kept"}})
    fail(wire, subscription)
    assert wire.pull(subscription) == []

    deliveries = fail(wire, letters, 6)

    assert [one.attempt for one in deliveries] == [1, 2, 3, 4, 5, 6]
    assert letter(wire, letters, ends).attributes == {
        "own": "kept",
        f"{PREFIX}DeliveryCount": "6",
        f"{PREFIX}Subscription": "letters",
        f"{PREFIX}SubscriptionProject": project.id,
        f"{PREFIX}TopicPublishTime": deliveries[0].publish_time,
    }


@pytest.mark.rule("S10.10", "S10.11")
def test_a_topic_may_be_its_own_dead_letter_topic(project: Project, wire: Wire) -> None:
    policy = {"deadLetterTopic": project.topic_name(), "maxDeliveryAttempts": FIVE}
    topic, subscription = project.pair(deadLetterPolicy=policy)
    project.publish(topic, b"x")

    first, *_ = fail(wire, subscription)

    (again,) = wire.pull(subscription)
    assert (again.data, again.attempt) == (b"x", 1)
    assert again.identifier != first.identifier


@pytest.mark.rule("S7.1.11", "B068", "B166")
def test_attempts_are_not_shown_without_a_policy(project: Project, wire: Wire) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"x")

    assert [one.attempt for one in fail(wire, subscription, 3)] == [0, 0, 0]


# A wait that is far longer than a call takes, and shorter than a Pull waits.
BACKOFF = {"minimumBackoff": "2s", "maximumBackoff": "2s"}


@pytest.mark.rule("S10.1", "B064", "B065")
@pytest.mark.parametrize("how", ["create", "update"])
def test_what_was_nacked_waits_for_its_back_off(project: Project, wire: Wire, how: str) -> None:
    topic, subscription = project.pair(**({"retryPolicy": BACKOFF} if how == "create" else {}))
    if how == "update":
        body = {"subscription": {"name": subscription, "retryPolicy": BACKOFF}, "updateMask": "retryPolicy"}
        assert project.rest.call("PATCH", subscription, body).ok()["retryPolicy"] == BACKOFF
    project.publish(topic, b"x", b"y")
    (held,) = wire.pull(subscription, 1)

    wire.modify(subscription, [held], 0)

    others = wire.pull(subscription)
    again = wire.pull(subscription, wait=True)
    assert data_of([held, *others]) == [b"x", b"y"]
    assert data_of(again) == [b"x"]


@pytest.mark.rule("S10.1", "B017")
def test_what_was_nacked_comes_at_once_without_a_policy(project: Project, wire: Wire) -> None:
    topic, subscription = project.pair(ackDeadlineSeconds=600)
    project.publish(topic, b"x")

    for _ in range(10):
        (held,) = wire.pull(subscription, wait=True)
        wire.modify(subscription, [held], 0)


@pytest.mark.rule("S10.2")
def test_a_first_delivery_waits_for_nothing(project: Project, wire: Wire) -> None:
    topic, subscription = project.pair(retryPolicy=BACKOFF)
    project.publish(topic, b"x")

    assert data_of(wire.pull(subscription)) == [b"x"]
