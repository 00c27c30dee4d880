"""What every target has to do with messages; where Google's emulator doesn't: differences.toml."""

import re
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from compat_tests.rest import INVALID, PRECONDITION, Project

CLIENT = "plain REST"


def datas(project: Project, subscription: str) -> list[bytes]:
    return [one.data for one in project.pull(subscription)]


# Publishing


@pytest.mark.rule("S5.9", "S5.1")
def test_ids_are_decimal_and_distinct(project: Project) -> None:
    topic = project.topic()

    ids = [*project.publish(topic, b"a", b"b"), *project.publish(topic, b"c")]

    assert len(set(ids)) == 3
    assert all(identifier.isdecimal() for identifier in ids)


@pytest.mark.rule("S5.9", "S5.10", "B037")
def test_a_message_arrives_as_it_was_published(project: Project) -> None:
    topic, subscription = project.pair()
    data = bytes(range(256))
    sent = {"data": b64encode(data).decode(), "attributes": {"k": "v", "ключ": "ß"}, "orderingKey": "one"}

    (identifier,) = project.publish(topic, sent)
    received = project.pull_one(subscription)

    assert received.data == data
    assert received.message["attributes"] == sent["attributes"]
    assert received.message["orderingKey"] == "one"
    assert received.message["messageId"] == identifier
    assert received.message["publishTime"].endswith("Z")


@pytest.mark.rule("S5.10")
def test_publish_time_is_in_whole_milliseconds(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"x")

    publish_time = datetime.fromisoformat(project.pull_one(subscription).message["publishTime"])

    assert publish_time.microsecond % 1000 == 0


@pytest.mark.rule("S5.10")
def test_the_messages_of_a_request_share_their_publish_time(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, *[b"x"] * 1_000)

    times = {one.message["publishTime"] for one in project.pull(subscription, 1_000)}

    assert len(times) == 1


@pytest.mark.rule("S5.8")
def test_an_id_and_time_of_the_caller_are_overwritten(project: Project) -> None:
    topic, subscription = project.pair()

    project.publish(topic, {"data": "eA==", "messageId": "mine", "publishTime": "2001-01-01T00:00:00Z"})

    message = project.pull_one(subscription).message
    assert message["messageId"] != "mine"
    assert not message["publishTime"].startswith("2001")


@pytest.mark.rule("S1.7.2")
@pytest.mark.parametrize("data", ["/+8=", "_-8=", "/+8", "_-8"])
def test_base64_comes_in_four_forms(project: Project, data: str) -> None:
    topic, subscription = project.pair()

    project.publish(topic, {"data": data})

    assert project.pull_one(subscription).data == b"\xff\xef"


@pytest.mark.rule("S1.7.2")
@pytest.mark.parametrize("data", ["ab*=", "a", "=====", "a b c", "ab=cd==="])
def test_bad_base64_is_refused(project: Project, data: str) -> None:
    answer = project.rest.call("POST", f"{project.topic()}:publish", {"messages": [{"data": data}]})

    assert answer.refusal == INVALID


ONE = {"data": "eA=="}
MANY = {f"k{n}": "v" for n in range(101)}
HUGE = {"data": b64encode(b"x" * 10_000_001).decode()}
COUNT = pytest.mark.rule("S5.2")
EMPTY = pytest.mark.rule("S5.1", "S5.4")
ATTRIBUTES = pytest.mark.rule("S5.5")

BAD_MESSAGES = [
    pytest.param([], marks=COUNT, id="none"),
    pytest.param([ONE] * 1_001, marks=COUNT, id="1001"),
    pytest.param([{}], marks=EMPTY, id="empty"),
    pytest.param([ONE, {}], marks=EMPTY, id="empty-among-good"),
    pytest.param([{"orderingKey": "k"}], marks=EMPTY, id="key-alone"),
    pytest.param([{"attributes": MANY}], marks=ATTRIBUTES, id="101-attributes"),
    pytest.param([{"attributes": {"k" * 257: "v"}}], marks=ATTRIBUTES, id="long-attribute-key"),
    pytest.param([{"attributes": {"k": "v" * 1_025}}], marks=ATTRIBUTES, id="long-attribute-value"),
    pytest.param([{"attributes": {"": "v"}}], marks=ATTRIBUTES, id="empty-attribute-key"),
    pytest.param([{"attributes": {"google_x": "v"}}], marks=ATTRIBUTES, id="goog-attribute"),
    pytest.param([{**ONE, "orderingKey": "k" * 1_025}], marks=pytest.mark.rule("S5.6"), id="long-ordering-key"),
    pytest.param([HUGE], marks=pytest.mark.rule("S5.3", "B151"), id="10-MB"),
    pytest.param([{**ONE, "colour": "red"}], marks=pytest.mark.rule("S1.7.4"), id="unknown-field"),
]


@pytest.mark.parametrize("messages", BAD_MESSAGES)
def test_a_bad_publish_is_refused_whole(project: Project, messages: list[Any]) -> None:
    topic, subscription = project.pair()

    answer = project.rest.call("POST", f"{topic}:publish", {"messages": messages})

    assert answer.refusal == INVALID
    assert project.pull(subscription) == []


@pytest.mark.rule("S5.7", "S5.1")
def test_mixed_ordering_keys_are_refused(project: Project) -> None:
    topic, subscription = project.pair()

    answer = project.rest.call("POST", f"{topic}:publish", {"messages": [{**ONE, "orderingKey": k} for k in "ab"]})

    assert answer.refusal == PRECONDITION
    assert project.pull(subscription) == []


@pytest.mark.rule("S5.4", "S5.5")
@pytest.mark.parametrize(
    "message",
    [
        {"attributes": {"k": ""}},
        {"attributes": {f"k{n}": "v" for n in range(100)}},
        {"attributes": {"k" * 256: "v" * 1_024}},
    ],
    ids=["empty-value", "100", "longest"],
)
def test_attributes_alone_make_a_message(project: Project, message: dict[str, Any]) -> None:
    topic, subscription = project.pair()

    project.publish(topic, message)

    assert project.pull_one(subscription).message["attributes"] == message["attributes"]


@pytest.mark.rule("S5.11", "S5.12")
def test_a_subscription_gets_what_was_published_after_it_was_created(project: Project) -> None:
    topic = project.topic()
    project.publish(topic, b"before")
    subscription = project.subscription(topic)

    project.publish(topic, b"after")

    assert datas(project, subscription) == [b"after"]


@pytest.mark.rule("B092")
def test_every_subscription_gets_every_message(project: Project) -> None:
    topic = project.topic()
    first, second = project.subscription(topic, "first"), project.subscription(topic, "second")

    project.publish(topic, b"both")

    (one,), (other,) = project.pull(first), project.pull(second)
    assert one.data == b"both"
    assert one.message == other.message
    assert one.message["publishTime"]


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
    assert datas(project, subscription) == [other if handed_out_again else again.data]
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
    assert datas(project, subscription) == [b"x"]


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

    assert datas(project, subscription) == [b"old", b"new"]


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
