"""What every target has to do with pulls and leases; where Google's emulator doesn't: differences.toml."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from compat_tests.rest import INVALID, Project

CLIENT = "plain REST"


# Pulling


@pytest.mark.rule("S7.2.3", "S1.7.1")
def test_there_may_be_nothing_to_pull(project: Project) -> None:
    _, subscription = project.pair()

    answer = project.rest.call("POST", f"{subscription}:pull", {"maxMessages": 1, "returnImmediately": True})

    assert answer.ok() == {}


@pytest.mark.rule("S7.2.1")
@pytest.mark.parametrize("most", [0, -1])
def test_max_messages_has_to_be_positive(project: Project, most: int) -> None:
    _, subscription = project.pair()

    answer = project.rest.call("POST", f"{subscription}:pull", {"maxMessages": most, "returnImmediately": True})

    assert answer.refusal == INVALID
    assert "max_messages" in answer.error["message"]


@pytest.mark.rule("S7.2.2", "V1")
def test_a_pull_takes_at_most_what_it_asked_for(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"a", b"b", b"c")

    first, second, third = (project.pull(subscription, 2) for _ in range(3))

    assert len(first) == 2
    assert len(second) == 1
    assert third == []
    assert sorted(one.data for one in [*first, *second]) == [b"a", b"b", b"c"]


@pytest.mark.rule("S7.2.3")
def test_a_waiting_pull_gets_what_is_published(project: Project) -> None:
    topic, subscription = project.pair()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(project.pull, subscription, 1, wait=True)

        project.publish(topic, b"at last")

        assert [one.data for one in waiting.result()] == [b"at last"]


@pytest.mark.rule("C12", "S7.1.4")
def test_a_waiting_pull_gets_what_is_nacked(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"x")
    held = project.pull_one(subscription)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(project.pull, subscription, 1, wait=True)

        project.modify(subscription, [held.ack_id], 0).ok()

        assert [one.data for one in waiting.result()] == [b"x"]


# Leases


@pytest.mark.rule("S7.1.6", "C13")
def test_an_acknowledged_message_is_gone(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"x")
    received = project.pull_one(subscription)

    assert project.acknowledge(subscription, [received.ack_id]).ok() == {}

    project.modify(subscription, [received.ack_id], 0).ok()
    assert project.pull(subscription) == []


@pytest.mark.rule("S7.1.6")
def test_acknowledging_twice_is_ok(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"x")
    received = project.pull_one(subscription)

    assert project.acknowledge(subscription, [received.ack_id]).ok() == {}
    assert project.acknowledge(subscription, [received.ack_id]).ok() == {}


@pytest.mark.rule("S7.1.4", "S7.1.1", "V3", "B016", "B017", "B019", "B022", "B068")
def test_a_nacked_message_comes_back_at_once_under_a_new_ack_id(project: Project) -> None:
    topic, subscription = project.pair(ackDeadlineSeconds=600)
    project.publish(topic, b"x")
    first = project.pull_one(subscription)

    assert project.modify(subscription, [first.ack_id], 0).ok() == {}

    (again,) = project.pull(subscription)
    assert again.message == first.message
    assert again.ack_id != first.ack_id
    assert "deliveryAttempt" not in again.document
    project.acknowledge(subscription, [again.ack_id]).ok()
    project.modify(subscription, [again.ack_id], 0).ok()
    assert project.pull(subscription) == []


@pytest.mark.rule("S7.1.3", "S7.1.5", "V2", "V4", "B020")
def test_a_deadline_that_passed_brings_the_message_back(project: Project) -> None:
    topic, subscription = project.pair(ackDeadlineSeconds=600)
    project.publish(topic, b"x")
    first = project.pull_one(subscription)

    project.modify(subscription, [first.ack_id], 1).ok()

    assert project.pull(subscription) == []
    again = project.pull_one(subscription)
    assert again.message == first.message
    assert again.ack_id != first.ack_id


@pytest.mark.rule("V5", "C18", "C19", "S7.1.7", "B022")
@pytest.mark.parametrize("handed_out_again", [True, False], ids=["out-again", "waiting-again"])
def test_a_late_ack_is_ok_and_finishes_the_message(project: Project, handed_out_again: bool) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"a", b"b")
    first = {one.data: one for one in project.pull(subscription, 2)}
    project.modify(subscription, [one.ack_id for one in first.values()], 1).ok()
    again = project.pull_one(subscription)  # once one of the two is back, the other one is free as well
    (other,) = first.keys() - {again.data}
    late = first[again.data if handed_out_again else other]

    assert project.acknowledge(subscription, [late.ack_id]).ok() == {}

    project.modify(subscription, [again.ack_id], 0).ok()
    assert project.data(subscription) == [other if handed_out_again else again.data]
    assert project.acknowledge(subscription, [again.ack_id]).ok() == {}


@pytest.mark.rule("S7.1.7")
def test_a_late_nack_leaves_the_newer_lease_alone(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"x")
    first = project.pull_one(subscription)
    project.modify(subscription, [first.ack_id], 0).ok()
    project.pull_one(subscription)

    assert project.modify(subscription, [first.ack_id], 0).ok() == {}

    assert project.pull(subscription) == []


@pytest.mark.rule("S7.1.1")
def test_an_ack_id_is_short_and_printable(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"x")

    assert re.fullmatch(r"[!-~]{1,24}", project.pull_one(subscription).ack_id)


@pytest.mark.rule("S7.1.8")
@pytest.mark.parametrize("verb", ["acknowledge", "modifyAckDeadline"])
@pytest.mark.parametrize("ack_ids", [[], ["nonsense"], [""]], ids=["none", "malformed", "empty"])
def test_what_is_no_ack_id_is_refused(project: Project, verb: str, ack_ids: list[str]) -> None:
    _, subscription = project.pair()
    body: dict[str, Any] = {"ackIds": ack_ids}
    if verb == "modifyAckDeadline":
        body["ackDeadlineSeconds"] = 10

    assert project.rest.call("POST", f"{subscription}:{verb}", body).refusal == INVALID


@pytest.mark.rule("S7.1.8", "S7.1.1")
def test_an_ack_id_of_another_subscription_is_refused(project: Project) -> None:
    topic, subscription = project.pair()
    other = project.subscription(topic, "other")
    project.publish(topic, b"x")
    received = project.pull_one(subscription)

    assert project.acknowledge(other, [received.ack_id]).refusal == INVALID


@pytest.mark.rule("S7.1.8")
def test_one_bad_ack_id_leaves_the_whole_request_undone(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"x")
    received = project.pull_one(subscription)

    assert project.acknowledge(subscription, [received.ack_id, "nonsense"]).refusal == INVALID

    project.modify(subscription, [received.ack_id], 0).ok()
    assert project.data(subscription) == [b"x"]


@pytest.mark.rule("S7.1.8")
def test_an_ack_id_of_a_deleted_subscription_is_unknown_and_ok(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"x")
    received = project.pull_one(subscription)
    project.rest.call("DELETE", subscription).ok()
    project.subscription(topic)

    assert project.acknowledge(subscription, [received.ack_id]).ok() == {}


@pytest.mark.rule("S7.1.3", "B025")
@pytest.mark.parametrize("seconds", [-1, 601, 715])
def test_a_deadline_out_of_range_is_refused(project: Project, seconds: int) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"x")
    received = project.pull_one(subscription)

    assert project.modify(subscription, [received.ack_id], seconds).refusal == INVALID


@pytest.mark.rule("S7.1.9", "B026")
@pytest.mark.parametrize("verb", ["acknowledge", "modifyAckDeadline"])
def test_a_huge_ack_request_is_refused(project: Project, verb: str) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"x")
    received = project.pull_one(subscription)
    count = 524_288 // (len(received.ack_id) + 2) + 1
    body: dict[str, Any] = {"ackIds": [received.ack_id] * count}
    if verb == "modifyAckDeadline":
        body["ackDeadlineSeconds"] = 10

    assert project.rest.call("POST", f"{subscription}:{verb}", body).refusal == INVALID


@pytest.mark.rule("V12")
def test_three_thousand_messages_are_acknowledged_in_one_request(project: Project) -> None:
    topic, subscription = project.pair()
    for _ in range(3):
        project.publish(topic, *[b"x"] * 1_000)
    ack_ids: list[str] = []
    while batch := project.pull(subscription, 1_000):
        ack_ids += [one.ack_id for one in batch]

    assert project.acknowledge(subscription, ack_ids).ok() == {}

    assert len(ack_ids) == 3_000
    project.modify(subscription, ack_ids, 0).ok()
    assert project.pull(subscription) == []


@pytest.mark.rule("S7.1.10")
def test_what_came_back_goes_out_before_newer_messages(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"old")
    held = project.pull_one(subscription)
    project.publish(topic, b"new")

    project.modify(subscription, [held.ack_id], 0).ok()

    assert project.data(subscription) == [b"old", b"new"]


@pytest.mark.rule("S7.1.11")
def test_attempts_are_counted_when_there_is_a_dead_letter_policy(project: Project) -> None:
    topic = project.topic()
    policy = {"deadLetterTopic": project.topic("dead"), "maxDeliveryAttempts": 5}
    subscription = project.subscription(topic, deadLetterPolicy=policy)
    project.publish(topic, b"x")

    first = project.pull_one(subscription)
    project.modify(subscription, [first.ack_id], 0).ok()
    second = project.pull_one(subscription)

    assert (first.document["deliveryAttempt"], second.document["deliveryAttempt"]) == (1, 2)


@pytest.mark.rule("S6.3")
def test_a_recreated_subscription_is_empty(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"x")

    project.rest.call("DELETE", subscription).ok()
    project.subscription(topic)

    assert project.pull(subscription) == []


@pytest.mark.rule("B130", "S3.6")
def test_the_same_names_can_be_deleted_and_created_again_and_again(project: Project) -> None:
    for turn in range(40):
        topic, subscription = project.pair()
        project.publish(topic, str(turn).encode())
        assert project.pull_one(subscription).data == str(turn).encode()
        project.rest.call("DELETE", topic).ok()
        project.rest.call("DELETE", subscription).ok()
