"""Ordering keys over REST and gRPC. What Google's emulator does otherwise: differences.toml."""

from collections.abc import Sequence

import pytest

from compat_tests.deliveries import Delivery, Wire, data_of
from compat_tests.rest import Project

CLIENT = "plain REST and gRPC"

A1, A2, A3 = b"a1", b"a2", b"a3"

FIVE = 5


def publish(project: Project, *bodies: bytes, key: str = "a") -> None:
    """Messages of one key in one request."""
    documents = [{"attributes": {"text": body.decode()}, "orderingKey": key} for body in bodies]
    project.publish(project.topic_name(), *documents)


def bodies(deliveries: Sequence[Delivery]) -> list[bytes]:
    """What `publish` was given."""
    return [one.attributes["text"].encode() for one in deliveries]


@pytest.fixture
def subscription(project: Project) -> str:
    """An ordered one, with an ack deadline that no test outlasts."""
    return project.pair(enableMessageOrdering=True, ackDeadlineSeconds=600)[1]


@pytest.mark.rule("S9.2", "S9.1", "B029")
def test_a_reply_holds_several_of_a_key_in_publish_order(project: Project, wire: Wire, subscription: str) -> None:
    for number in range(12):
        publish(project, b"%d" % number)

    received = wire.pull(subscription)

    assert bodies(received) == [b"%d" % number for number in range(12)]
    assert {one.key for one in received} == {"a"}


@pytest.mark.rule("S9.2", "B038", "B031")
def test_a_backlog_keeps_its_order_from_reply_to_reply(project: Project, wire: Wire, subscription: str) -> None:
    for number in range(50):
        publish(project, b"%d" % number)

    came: list[bytes] = []
    while received := wire.pull(subscription, 7):
        came += bodies(received)
        wire.acknowledge(subscription, received)

    assert came == [b"%d" % number for number in range(50)]


@pytest.mark.rule("S9.3", "B034")
def test_a_key_that_is_out_goes_to_no_other_pull(project: Project, wire: Wire, subscription: str) -> None:
    publish(project, A1, A2, A3)
    publish(project, b"b1", key="b")
    held = wire.pull(subscription, 1)

    others = wire.pull(subscription)

    assert bodies(held) == [A1]
    assert bodies(others) == [b"b1"]
    wire.acknowledge(subscription, held)
    assert bodies(wire.pull(subscription)) == [A2, A3]


@pytest.mark.rule("S9.1")
def test_messages_without_a_key_are_each_for_themselves(project: Project, wire: Wire, subscription: str) -> None:
    publish(project, b"x", b"y", key="")
    first = wire.pull(subscription, 1)
    second = wire.pull(subscription, 1)

    wire.modify(subscription, first, 0)

    assert sorted(bodies([*first, *second])) == [b"x", b"y"]
    assert bodies(wire.pull(subscription)) == bodies(first)


@pytest.mark.rule("S9.4", "S9.5", "S9.6", "B034")
@pytest.mark.parametrize("acked", [[], [A2], [A3, A2]], ids=["nothing", "the next", "all later"])
def test_a_nack_brings_back_everything_from_there_on(
    project: Project, wire: Wire, subscription: str, acked: list[bytes]
) -> None:
    publish(project, A1, A2, A3)
    held = wire.pull(subscription)
    for body in acked:
        wire.acknowledge(subscription, [one for one in held if bodies([one]) == [body]])

    wire.modify(subscription, held[:1], 0)

    assert bodies(wire.pull(subscription)) == [A1, A2, A3]


@pytest.mark.rule("S9.4", "S9.6")
def test_a_deadline_that_passed_brings_back_everything_from_there_on(
    project: Project, wire: Wire, subscription: str
) -> None:
    publish(project, A1, A2, A3)
    held = wire.pull(subscription)
    wire.acknowledge(subscription, held[1:2])

    wire.modify(subscription, held[:1], 1)

    assert bodies(wire.pull(subscription, wait=True)) == [A1, A2, A3]


@pytest.mark.rule("S9.4")
def test_what_is_acked_up_to_a_failure_stays_acked(project: Project, wire: Wire, subscription: str) -> None:
    publish(project, A1, A2, A3)
    held = wire.pull(subscription)
    wire.acknowledge(subscription, held[:1])

    wire.modify(subscription, held[1:2], 0)

    assert bodies(wire.pull(subscription)) == [A2, A3]


@pytest.mark.rule("S9.4")
def test_acks_of_what_a_failure_took_along_are_ok_and_settle_nothing(
    project: Project, wire: Wire, subscription: str
) -> None:
    publish(project, A1, A2, A3)
    held = wire.pull(subscription)
    wire.modify(subscription, held[:1], 0)

    wire.acknowledge(subscription, held[1:])

    assert bodies(wire.pull(subscription)) == [A1, A2, A3]


@pytest.mark.rule("S9.6")
def test_acks_out_of_order_are_remembered(project: Project, wire: Wire, subscription: str) -> None:
    publish(project, A1, A2, A3)
    held = wire.pull(subscription)

    wire.acknowledge(subscription, held[1:2])
    wire.acknowledge(subscription, held[:1])
    wire.modify(subscription, held[2:], 0)

    assert bodies(wire.pull(subscription)) == [A3]


@pytest.mark.rule("S9.7", "S10.1")
def test_a_key_waits_while_its_head_backs_off(project: Project, wire: Wire) -> None:
    retry = {"minimumBackoff": "2s", "maximumBackoff": "2s"}
    _, subscription = project.pair(enableMessageOrdering=True, ackDeadlineSeconds=600, retryPolicy=retry)
    publish(project, A1, A2)
    wire.modify(subscription, wire.pull(subscription)[:1], 0)
    publish(project, b"b1", key="b")

    now = wire.pull(subscription)
    later = wire.pull(subscription, wait=True)

    assert bodies(now) == [b"b1"]
    assert bodies(later) == [A1, A2]


@pytest.mark.rule("S9.7", "B035")
def test_a_dead_letter_sets_its_key_free(project: Project, wire: Wire) -> None:
    dead = project.topic("dead")
    letters = project.subscription(dead, "letters")
    _, subscription = project.pair(
        enableMessageOrdering=True, deadLetterPolicy={"deadLetterTopic": dead, "maxDeliveryAttempts": FIVE}
    )
    publish(project, A1)
    for _ in range(FIVE):
        held = wire.pull(subscription, wait=True)
        assert bodies(held) == [A1]
        wire.modify(subscription, held, 0)

    publish(project, A2)

    assert bodies(wire.pull(subscription)) == [A2]
    assert bodies(wire.pull(letters)) == [A1]


@pytest.mark.rule("S9.1")
def test_keys_do_not_matter_to_a_subscription_without_the_option(project: Project, wire: Wire) -> None:
    _, subscription = project.pair(ackDeadlineSeconds=600)
    publish(project, A1, A2)

    first = wire.pull(subscription, 1)

    assert bodies([*first, *wire.pull(subscription, 1)]) == [A1, A2]
    assert data_of(wire.pull(subscription)) == []
