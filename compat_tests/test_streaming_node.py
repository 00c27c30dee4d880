"""@google-cloud/pubsub, the high-level subscriber for Node."""

import json
import os
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest

from compat_tests import subscribers
from compat_tests.rest import Project
from compat_tests.subscribers import ACKNOWLEDGE, STREAMING_PULL, Launcher
from compat_tests.targets import Target

CLIENT = "Node"

HERE = Path(__file__).parent / "node_pubsub"

# What the library opens for a subscription unless it is told otherwise.
STREAMS = 5


@pytest.fixture
def launch(server: Target, project: Project, tmp_path: Path) -> Launcher:
    node = shutil.which("node")
    if node is None:
        pytest.fail("Node is not installed")
    if not (HERE / "node_modules/@google-cloud/pubsub").is_dir():
        pytest.fail("@google-cloud/pubsub is not installed: make installs it, where there is npm")
    return Launcher([node, HERE / "subscriber.js"], server, project, tmp_path)


@pytest.mark.rule("T9", "V1", "V11", "V12", "S7.3.7", "S7.3.11")
def test_five_streams_bring_each_of_a_thousand_messages_once(launch: Launcher, project: Project) -> None:
    relay = subscribers.check_that_a_thousand_come_once_and_are_acked(launch, project)

    assert [stream.requests[0].max_outstanding_messages for stream in relay.streams()] == [1_000] * STREAMS
    assert relay.calls(ACKNOWLEDGE), "the library acks by calls of their own"


@pytest.mark.rule("S7.3.11")
def test_five_streams_take_turns(launch: Launcher, project: Project) -> None:
    topic, subscription = project.pair()

    with launch(subscription, 2 * STREAMS) as subscriber:
        relay = subscriber.relay
        assert relay.wait(lambda: sum(call.begun for call in relay.calls(STREAMING_PULL)) == STREAMS)
        project.publish(topic, *(b"message %d" % number for number in range(2 * STREAMS)))
        subscriber.closed()
        subscriber.leave()

    assert [len(stream.ack_ids) for stream in relay.streams()] == [2] * STREAMS


@pytest.mark.rule("V3", "C12")
def test_a_nacked_message_comes_again(launch: Launcher, project: Project) -> None:
    subscribers.check_that_a_nacked_message_comes_again(launch, project)


@pytest.mark.rule("O9", "V8", "C15", "B010", "B011")
def test_a_limit_of_one_message_leaves_the_rest_to_others(launch: Launcher, project: Project) -> None:
    subscribers.check_that_a_limit_of_one_leaves_the_rest_to_others(launch, project)


@pytest.mark.rule("S7.3.7", "O16")
def test_a_closed_subscriber_gets_nothing_more(launch: Launcher, project: Project) -> None:
    subscribers.check_that_a_closed_one_gets_nothing_more(launch, project)


@pytest.mark.rule("S9.2", "S9.3", "B029", "B038")
def test_five_streams_bring_each_key_in_order(launch: Launcher, project: Project) -> None:
    topic, subscription = project.pair(enableMessageOrdering=True)
    for number in range(30):
        for key in "abcdefghij":
            project.publish(topic, ordered(key, f"{key} {number}"))

    with launch(subscription, 300) as subscriber:
        report = subscriber.closed()
        subscriber.leave()

    for key in "abcdefghij":
        assert [text for text in report.received if text[0] == key] == [f"{key} {number}" for number in range(30)]
    subscribers.check_that_nothing_is_left(project, subscription, subscriber.relay)


@pytest.mark.rule("S9.4")
def test_a_key_goes_on_from_what_was_nacked(launch: Launcher, project: Project) -> None:
    topic, subscription = project.pair(enableMessageOrdering=True)
    project.publish(topic, *(ordered("a", text) for text in ("a1", "a2", "a3")))

    with launch(subscription, 3, "nack", most=1) as subscriber:
        report = subscriber.closed()
        subscriber.leave()

    assert report.received == ["a1", "a1", "a2", "a2", "a3", "a3"]


@pytest.mark.rule("S7.1.11", "S10.3", "S10.11", "B061")
def test_five_nacks_lead_to_the_dead_letter_topic(launch: Launcher, project: Project) -> None:
    letters = project.subscription(project.topic("dead"), "letters")
    policy = {"deadLetterTopic": project.topic_name("dead"), "maxDeliveryAttempts": 5}
    topic, subscription = project.pair(deadLetterPolicy=policy)
    project.publish(topic, b"poison")

    with launch(subscription, 5, "reject") as subscriber:
        report = subscriber.closed()
        subscriber.leave()
    with launch(letters, 1) as subscriber:
        letter = subscriber.closed()
        subscriber.leave()

    assert (report.received, report.attempts) == (["poison"] * 5, [1, 2, 3, 4, 5])
    assert (letter.received, letter.attempts) == (["poison"], [0])
    assert project.data(subscription) == []


def ordered(key: str, text: str) -> dict[str, str]:
    return {"data": b64encode(text.encode()).decode(), "orderingKey": key}


@pytest.mark.rule("S12.2", "S12.7", "B073", "B076", "B080")
def test_messages_are_replayed(server: Target, project: Project) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.fail("Node is not installed")
    topic, subscription = project.pair(retainAckedMessages=True, enableExactlyOnceDelivery=True)
    project.publish(topic, b"x")

    done = subprocess.run(
        [node, HERE / "replay.js", project.id, "sub", "snap"],
        env={**os.environ, "PUBSUB_EMULATOR_HOST": server.host_port},
        capture_output=True,
        text=True,
        timeout=subscribers.PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told == {"received": ["x"] * 3, "snapshots": [project.snapshot_name()], "left": 0}
    assert project.pull(subscription) == []
