"""What every target has to do under exactly-once, over REST; where Google's emulator doesn't: differences.toml."""

from typing import Any

import pytest

from compat_tests.rest import INVALID, Answer, Project

CLIENT = "plain REST"

PERMANENT = "PERMANENT_FAILURE_INVALID_ACK_ID"
TRANSIENT = "TRANSIENT_FAILURE_UNORDERED_ACK_ID"


def once(project: Project, **fields: Any) -> tuple[str, str]:
    return project.pair(enableExactlyOnceDelivery=True, **fields)


def failures(answer: Answer) -> dict[str, str]:
    """Which ack ids an answer says were refused, and why."""
    assert answer.refusal == INVALID
    (detail,) = answer.error["details"]
    assert detail["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert (detail["reason"], detail["domain"]) == ("EXACTLY_ONCE_ACKID_FAILURE", "pubsub.googleapis.com")
    metadata: dict[str, str] = detail["metadata"]
    return metadata


@pytest.mark.rule("S8.1", "S4.subscription.ack_deadline_seconds")
def test_the_default_deadline_is_a_minute(project: Project) -> None:
    _, subscription = once(project)

    assert project.rest.call("GET", subscription).ok()["ackDeadlineSeconds"] == 60


@pytest.mark.rule("S8.2", "S8.4", "S8.5")
def test_an_id_that_was_acked_is_refused(project: Project) -> None:
    topic, subscription = once(project)
    project.publish(topic, b"a")
    (message,) = project.pull(subscription, 1)
    project.acknowledge(subscription, [message.ack_id]).ok()

    again = project.acknowledge(subscription, [message.ack_id])

    assert failures(again) == {message.ack_id: PERMANENT}


@pytest.mark.rule("S8.6", "S8.2")
def test_the_good_ids_of_a_request_are_acked(project: Project) -> None:
    topic, subscription = once(project)
    project.publish(topic, b"a", b"b")
    first, second = project.pull(subscription, 2)
    project.acknowledge(subscription, [first.ack_id]).ok()

    mixed = project.acknowledge(subscription, [first.ack_id, second.ack_id])

    assert failures(mixed) == {first.ack_id: PERMANENT}
    assert failures(project.acknowledge(subscription, [second.ack_id])) == {second.ack_id: PERMANENT}


@pytest.mark.rule("S8.9", "S8.2")
@pytest.mark.parametrize("seconds", [0, 20])
def test_a_modack_of_an_id_that_was_acked_is_refused(project: Project, seconds: int) -> None:
    topic, subscription = once(project)
    project.publish(topic, b"a")
    (message,) = project.pull(subscription, 1)
    project.acknowledge(subscription, [message.ack_id]).ok()

    answer = project.modify(subscription, [message.ack_id], seconds)

    assert failures(answer) == {message.ack_id: PERMANENT}


@pytest.mark.rule("S8.12")
def test_a_nack_succeeds_and_ends_its_id(project: Project) -> None:
    topic, subscription = once(project)
    project.publish(topic, b"a")
    (message,) = project.pull(subscription, 1)

    project.modify(subscription, [message.ack_id], 0).ok()

    assert failures(project.acknowledge(subscription, [message.ack_id])) == {message.ack_id: PERMANENT}
    (again,) = project.pull(subscription, 1, wait=True)
    project.acknowledge(subscription, [again.ack_id]).ok()


@pytest.mark.rule("S8.8", "S8.5")
def test_an_ack_before_its_turn_fails_for_the_time_being(project: Project) -> None:
    topic, subscription = once(project, enableMessageOrdering=True)
    messages = [{"data": "YQ==", "orderingKey": "k"}, {"data": "Yg==", "orderingKey": "k"}]
    project.rest.call("POST", f"{topic}:publish", {"messages": messages}).ok()
    first, second = project.pull(subscription, 2)

    early = project.acknowledge(subscription, [second.ack_id])

    assert failures(early) == {second.ack_id: TRANSIENT}
    project.acknowledge(subscription, [first.ack_id]).ok()
    project.acknowledge(subscription, [second.ack_id]).ok()


@pytest.mark.rule("S8.11")
def test_a_malformed_id_has_no_details(project: Project) -> None:
    _, subscription = once(project)

    answer = project.acknowledge(subscription, ["nonsense"])

    assert answer.refusal == INVALID
    assert "details" not in answer.error


@pytest.mark.rule("S8.10")
def test_once_switched_off_an_id_that_was_acked_is_ok(project: Project) -> None:
    topic, subscription = once(project)
    project.publish(topic, b"a")
    (message,) = project.pull(subscription, 1)
    project.acknowledge(subscription, [message.ack_id]).ok()
    change = {"subscription": {"enableExactlyOnceDelivery": False}, "updateMask": "enableExactlyOnceDelivery"}
    project.rest.call("PATCH", subscription, change).ok()

    assert project.acknowledge(subscription, [message.ack_id]).ok() == {}
