"""What every target has to do with what is published; where Google's emulator doesn't: differences.toml."""

from base64 import b64encode
from datetime import datetime
from typing import Any

import pytest

from compat_tests.rest import INVALID, PRECONDITION, Project, Received

CLIENT = "plain REST"


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
    # So many and so large that a server which asks for the time again and again is bound to get several answers.
    large = {"attributes": {f"k{n}": "value" for n in range(90)}}
    project.publish(topic, *[large] * 1_000)

    received: list[Received] = []
    while len(received) < 1_000 and (more := project.pull(subscription, 1_000)):  # some give 100 at a time
        received += more

    assert len(received) == 1_000
    assert len({one.message["publishTime"] for one in received}) == 1


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

    assert project.data(subscription) == [b"after"]


@pytest.mark.rule("B092")
def test_every_subscription_gets_every_message(project: Project) -> None:
    topic = project.topic()
    first, second = project.subscription(topic, "first"), project.subscription(topic, "second")

    project.publish(topic, b"both")

    (one,), (other,) = project.pull(first), project.pull(second)
    assert one.data == b"both"
    assert one.message == other.message
    assert one.message["publishTime"]
