"""The gcloud command with its endpoint override and without credentials (K12)."""

import json
import os
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from compat_tests.rest import Project

CLIENT = "gcloud"

# Each call takes a second or two of a Python start alone.
pytestmark = [pytest.mark.timeout(180), pytest.mark.rule("B121", "K12")]

Gcloud: TypeAlias = Callable[..., Any]


@pytest.fixture
def environment(project: Project, tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB": f"{project.rest.target.url}/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CONFIG": str(tmp_path),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_CORE_PROJECT": project.id,
    }


@pytest.fixture
def gcloud(environment: dict[str, str]) -> Gcloud:
    """Run `gcloud pubsub` with these words and return what it printed as JSON."""
    command = shutil.which("gcloud")
    if command is None:
        pytest.skip("gcloud is not installed")

    def run(*words: str) -> Any:
        done = subprocess.run(
            [command, "pubsub", *words, "--format=json"], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"gcloud {' '.join(words)}\n{done.stderr}"
        return json.loads(done.stdout or "null")

    return run


def test_topics(gcloud: Gcloud, project: Project) -> None:
    (created,) = gcloud("topics", "create", "top", "--labels=team=red", "--message-retention-duration=1h")
    listed = gcloud("topics", "list")
    updated = gcloud("topics", "update", "top", "--update-labels=team=blue", "--clear-message-retention-duration")
    described = gcloud("topics", "describe", "top")
    published = gcloud("topics", "publish", "top", "--message=hello", "--attribute=a=b,c=d")
    gcloud("topics", "delete", "top")

    assert created["name"] == project.topic_name("top")
    assert created["messageRetentionDuration"] == "3600s"
    assert listed == [created]
    assert updated["labels"] == {"team": "blue"}
    assert described == updated
    assert "messageRetentionDuration" not in described
    assert len(published["messageIds"]) == 1
    assert gcloud("topics", "list") == []


def test_subscriptions(gcloud: Gcloud, project: Project) -> None:
    topic = project.topic("top")

    (created,) = gcloud(
        *("subscriptions", "create", "sub", "--topic=top", "--ack-deadline=30", "--labels=team=red"),
        *('--message-filter=attributes.a = "b"', "--expiration-period=never", "--message-retention-duration=1d"),
        *("--min-retry-delay=1s", "--max-retry-delay=20s", "--retain-acked-messages", "--enable-message-ordering"),
    )
    updated = gcloud(
        *("subscriptions", "update", "sub", "--ack-deadline=40", "--clear-labels", "--expiration-period=2d"),
        *("--clear-retry-policy", "--no-retain-acked-messages", "--enable-exactly-once-delivery"),
    )
    described = gcloud("subscriptions", "describe", "sub")
    listed = gcloud("subscriptions", "list")
    of_the_topic = gcloud("topics", "list-subscriptions", "top")

    assert created["name"] == project.subscription_name("sub")
    assert created["topic"] == topic
    assert created["ackDeadlineSeconds"] == 30
    assert created["filter"] == 'attributes.a = "b"'
    assert created["expirationPolicy"] == {}
    assert created["messageRetentionDuration"] == "86400s"
    assert created["retryPolicy"] == {"minimumBackoff": "1s", "maximumBackoff": "20s"}
    assert updated["ackDeadlineSeconds"] == 40
    assert updated["expirationPolicy"] == {"ttl": "172800s"}
    assert updated["enableExactlyOnceDelivery"] is True
    assert not updated.keys() & {"labels", "retryPolicy", "retainAckedMessages"}
    assert described == updated
    assert listed == [updated]
    assert of_the_topic == [created["name"]]


def test_messages(gcloud: Gcloud, project: Project) -> None:
    project.topic("top")
    subscription = project.subscription(project.topic_name("top"), "sub", ackDeadlineSeconds=600)
    gcloud("topics", "publish", "top", "--message=first", "--attribute=a=b")

    (first,) = gcloud("subscriptions", "pull", "sub")
    gcloud("subscriptions", "modify-message-ack-deadline", "sub", f"--ack-ids={first['ackId']}", "--ack-deadline=0")
    (second,) = gcloud("subscriptions", "pull", "sub")
    gcloud("subscriptions", "ack", "sub", f"--ack-ids={second['ackId']}")
    project.publish(project.topic_name("top"), b"second")
    (third,) = gcloud("subscriptions", "pull", "sub", "--auto-ack", "--limit=10")

    assert b64decode(first["message"]["data"]) == b"first"
    assert first["message"]["attributes"] == {"a": "b"}
    assert second["message"] == first["message"]
    assert b64decode(third["message"]["data"]) == b"second"
    project.modify(subscription, [second["ackId"], third["ackId"]], 0).ok()
    assert project.pull(subscription) == []


@pytest.mark.rule("S12.7", "S12.8", "B076")
def test_snapshots(gcloud: Gcloud, project: Project) -> None:
    topic = project.topic("top")
    subscription = project.subscription(topic, "sub")
    project.publish(topic, b"x")

    (created,) = gcloud("snapshots", "create", "snap", "--subscription=sub", "--labels=team=red")
    described = gcloud("snapshots", "describe", "snap")
    listed = gcloud("snapshots", "list")
    assert project.take(subscription) == [b"x"]
    sought = gcloud("subscriptions", "seek", "sub", "--snapshot=snap")
    gcloud("snapshots", "delete", "snap")

    assert created["snapshotId"] == project.snapshot_name("snap")
    assert (described["topic"], described["labels"]) == (topic, {"team": "red"})
    assert [one["snapshotId"] for one in listed] == ["snap"]
    assert sought["subscriptionId"] == subscription
    assert project.data(subscription) == [b"x"]
    assert gcloud("snapshots", "list") == []


@pytest.mark.rule("S12.2", "B073")
def test_seek_to_a_time(gcloud: Gcloud, project: Project) -> None:
    topic = project.topic("top")
    subscription = project.subscription(topic, "sub", retainAckedMessages=True)
    project.publish(topic, b"x")
    assert project.take(subscription) == [b"x"]

    sought = gcloud("subscriptions", "seek", "sub", "--time=2020-01-01T00:00:00Z")

    assert sought["time"] == "2020-01-01T00:00:00.000000Z"
    assert project.data(subscription) == [b"x"]


def test_ends(gcloud: Gcloud, project: Project) -> None:
    project.topic("top")
    for identifier in ("pushed", "detached", "deleted"):
        project.subscription(project.topic_name("top"), identifier)

    gcloud("subscriptions", "modify-push-config", "pushed", "--push-endpoint=https://localhost/push")
    gcloud("topics", "detach-subscription", "detached")
    gcloud("subscriptions", "delete", "deleted")

    pushed = project.rest.call("GET", project.subscription_name("pushed")).ok()
    assert pushed["pushConfig"]["pushEndpoint"] == "https://localhost/push"
    assert project.rest.call("GET", project.subscription_name("detached")).ok()["detached"] is True
    assert project.rest.call("GET", project.subscription_name("deleted")).status == 404


@pytest.mark.rule("S1.6")
def test_an_error_is_shown(environment: dict[str, str], gcloud: Gcloud, project: Project) -> None:
    done = subprocess.run(
        ["gcloud", "pubsub", "topics", "describe", "nobody"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert f"Resource not found (resource={project.topic_name('nobody')})" in done.stderr
