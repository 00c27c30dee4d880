"""Snapshots and seek as every target has to have them; where Google's emulator doesn't: differences.toml."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from compat_tests.rest import EXISTS, INVALID, MISSING, PRECONDITION, Fields, Project

CLIENT = "plain REST"

WEEK = timedelta(days=7)
SLACK = timedelta(minutes=1)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def ago(**span: float) -> str:
    """A time as a request has it, so long before now by this machine's clock."""
    return (datetime.now(UTC) - timedelta(**span)).isoformat()


def publish_time(project: Project, subscription: str) -> str:
    """Of the one message there is; it is put back."""
    received = project.pull_one(subscription)
    project.modify(subscription, [received.ack_id], 0).ok()
    time: str = received.message["publishTime"]
    return time


class TestSnapshots:
    @pytest.mark.rule("S1", "S1.5", "S12.8", "B076")
    def test_creation_answers_the_resource(self, project: Project) -> None:
        topic, subscription = project.pair()
        name = project.snapshot_name()

        created = project.rest.call("PUT", name, {"subscription": subscription, "labels": {"a": "b"}}).ok()

        assert (created["name"], created["topic"], created["labels"]) == (name, topic, {"a": "b"})
        assert abs(moment(created["expireTime"]) - datetime.now(UTC) - WEEK) < SLACK
        assert project.rest.call("GET", name).ok() == created
        assert project.rest.call("GET", f"{project.name}/snapshots").ok() == {"snapshots": [created]}
        assert project.rest.call("GET", f"{topic}/snapshots").ok() == {"snapshots": [name]}

    @pytest.mark.rule("S12.8")
    def test_the_oldest_unacked_message_says_when_it_expires(self, project: Project) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"x")
        published = moment(publish_time(project, subscription))

        name = project.snapshot(subscription)

        expires = moment(project.rest.call("GET", name).ok()["expireTime"])
        assert expires - published == WEEK

    @pytest.mark.rule("S1")
    def test_a_name_can_be_taken_once(self, project: Project) -> None:
        _, subscription = project.pair()
        name = project.snapshot(subscription)

        assert project.rest.call("PUT", name, {"subscription": subscription}).refusal == EXISTS

    @pytest.mark.rule("S1", "S1.5a")
    @pytest.mark.parametrize(
        ("body", "refusal"),
        [
            ({}, INVALID),
            ({"subscription": "sub"}, INVALID),
            ({"subscription": "projects/p/topics/topic"}, INVALID),
            ({"subscription": "projects/p/subscriptions/nobody"}, MISSING),
        ],
        ids=["none", "no name", "a topic", "missing"],
    )
    def test_a_subscription_is_needed(self, project: Project, body: Fields, refusal: tuple[int, str]) -> None:
        assert project.rest.call("PUT", project.snapshot_name(), body).refusal == refusal

    @pytest.mark.rule("S3.1", "B152")
    @pytest.mark.parametrize("identifier", ["ab", "1abc", "goog-x"])
    def test_a_bad_name_is_refused(self, project: Project, identifier: str) -> None:
        _, subscription = project.pair()

        answer = project.rest.call("PUT", project.snapshot_name(identifier), {"subscription": subscription})

        assert answer.refusal == INVALID

    @pytest.mark.rule("S3.7")
    def test_a_bad_label_is_refused(self, project: Project) -> None:
        _, subscription = project.pair()
        body = {"subscription": subscription, "labels": {"Bad": "x"}}

        assert project.rest.call("PUT", project.snapshot_name(), body).refusal == INVALID

    @pytest.mark.rule("S6.2")
    def test_a_detached_subscription_has_none(self, project: Project) -> None:
        _, subscription = project.pair()
        project.rest.call("POST", f"{subscription}:detach").ok()

        answer = project.rest.call("PUT", project.snapshot_name(), {"subscription": subscription})

        assert answer.refusal == PRECONDITION

    @pytest.mark.rule("S1", "S12.11", "B077", "S1.7.7")
    @pytest.mark.parametrize("place", ["body", "query"])
    def test_labels_can_be_changed(self, project: Project, place: str) -> None:
        _, subscription = project.pair()
        name = project.snapshot(subscription, labels={"old": "label"})
        mask = {"updateMask": "labels"}
        body = {"snapshot": {"labels": {"new": "label"}}}

        changed = (
            project.rest.call("PATCH", name, {**body, **mask})
            if place == "body"
            else project.rest.call("PATCH", name, body, query=mask)
        )

        assert changed.ok()["labels"] == {"new": "label"}
        assert project.rest.call("GET", name).ok() == changed.json

    @pytest.mark.rule("S12.11")
    @pytest.mark.parametrize("mask", ["", "nope", "topic", "expireTime"])
    def test_nothing_else_can(self, project: Project, mask: str) -> None:
        _, subscription = project.pair()
        name = project.snapshot(subscription)

        answer = project.rest.call("PATCH", name, {"snapshot": {"topic": project.topic_name("x")}, "updateMask": mask})

        assert answer.refusal == INVALID

    @pytest.mark.rule("S1", "S12.9")
    def test_a_deleted_one_is_gone(self, project: Project) -> None:
        topic, subscription = project.pair()
        name = project.snapshot(subscription)

        assert project.rest.call("DELETE", name).ok() == {}

        assert project.rest.call("GET", name).refusal == MISSING
        assert project.rest.call("DELETE", name).refusal == MISSING
        assert project.rest.call("GET", f"{topic}/snapshots").ok() == {}

    @pytest.mark.rule("S1")
    def test_a_topic_that_is_missing_lists_none(self, project: Project) -> None:
        assert project.rest.call("GET", f"{project.topic_name()}/snapshots").refusal == MISSING

    @pytest.mark.rule("S6.1")
    def test_those_of_a_deleted_topic_stay(self, project: Project) -> None:
        topic, subscription = project.pair()
        name = project.snapshot(subscription)

        project.rest.call("DELETE", topic).ok()

        assert project.rest.call("GET", name).ok()["topic"] == "_deleted-topic_"

    @pytest.mark.rule("S6.3")
    def test_they_outlive_their_subscription(self, project: Project) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"x")
        name = project.snapshot(subscription)
        project.rest.call("DELETE", subscription).ok()
        other = project.subscription(topic, "other")

        project.seek(other, snapshot=name).ok()

        assert project.pull_one(other).data == b"x"


class TestSeekToASnapshot:
    @pytest.mark.rule("S1", "S12.7", "B080")
    def test_brings_what_was_unacked_then_and_what_came_later(self, project: Project) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"acked")
        assert project.take(subscription) == [b"acked"]
        project.publish(topic, b"unacked")
        name = project.snapshot(subscription)
        project.publish(topic, b"later")
        assert sorted(drain(project, subscription, 2)) == [b"later", b"unacked"]

        assert project.seek(subscription, snapshot=name).ok() == {}

        assert sorted(drain(project, subscription, 2)) == [b"later", b"unacked"]
        assert project.pull(subscription) == []

    @pytest.mark.rule("S12.10")
    def test_another_subscription_of_the_topic_may_use_it(self, project: Project) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"x")
        name = project.snapshot(subscription)
        other = project.subscription(topic, "other")
        assert project.pull(other) == []

        project.seek(other, snapshot=name).ok()

        assert project.pull_one(other).data == b"x"

    @pytest.mark.rule("S12.10", "S6.1")
    @pytest.mark.parametrize("recreated", [False, True], ids=["another name", "the name again"])
    def test_of_another_topic_it_may_not(self, project: Project, recreated: bool) -> None:
        topic, subscription = project.pair()
        name = project.snapshot(subscription)
        if recreated:
            project.rest.call("DELETE", topic).ok()
        other = project.subscription(project.topic("topic" if recreated else "other"), "other")

        assert project.seek(other, snapshot=name).refusal == PRECONDITION

    @pytest.mark.rule("S11.7", "S12.11")
    def test_a_filter_is_changed_and_nothing_lost(self, project: Project) -> None:
        """As Google documents it: a snapshot, a subscription with the new filter, and a seek of that one."""
        topic = project.topic()
        old = project.subscription(topic, "old", filter='attributes.kind = "a"')
        messages = [{"data": "YQ==", "attributes": {"kind": kind}} for kind in ("a", "b")]
        wide = project.subscription(topic, "wide")
        project.publish(topic, *messages)
        name = project.snapshot(wide)
        project.publish(topic, *messages)
        new = project.subscription(topic, "new", filter='attributes.kind = "b"')
        project.publish(topic, *messages)

        project.seek(new, snapshot=name).ok()
        project.publish(topic, *messages)

        assert [kind_of(project, new) for _ in range(4)] == ["b"] * 4
        assert project.pull(new) == []
        assert [kind_of(project, old) for _ in range(4)] == ["a"] * 4


class TestSeekToATime:
    @pytest.mark.rule("S1", "S12.1", "S12.2", "B073")
    def test_in_the_past_it_brings_back_what_was_acked(self, project: Project) -> None:
        topic, subscription = project.pair(retainAckedMessages=True)
        project.publish(topic, b"x")
        (received,) = project.pull(subscription)
        project.acknowledge(subscription, [received.ack_id]).ok()

        assert project.seek(subscription, time=ago(hours=1)).ok() == {}

        again = project.pull_one(subscription)
        assert (again.data, again.message["messageId"]) == (b"x", received.message["messageId"])

    @pytest.mark.rule("S12.2")
    def test_a_message_of_that_very_time_comes_back(self, project: Project) -> None:
        topic, subscription = project.pair(retainAckedMessages=True)
        project.publish(topic, b"x")
        (received,) = project.pull(subscription)
        project.acknowledge(subscription, [received.ack_id]).ok()

        project.seek(subscription, time=received.message["publishTime"]).ok()

        assert project.pull_one(subscription).data == b"x"

    @pytest.mark.rule("S12.1")
    def test_without_retention_it_brings_back_nothing(self, project: Project) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"x")
        assert project.take(subscription) == [b"x"]

        project.seek(subscription, time=ago(hours=1)).ok()

        assert project.pull(subscription) == []

    @pytest.mark.rule("S12.1", "S12.3", "S5.12")
    def test_a_topic_that_retains_serves_a_subscription_from_before_its_creation(self, project: Project) -> None:
        topic = project.topic(messageRetentionDuration="3600s")
        project.publish(topic, b"x")
        subscription = project.subscription(topic)
        assert project.pull(subscription) == []

        project.seek(subscription, time=ago(hours=1)).ok()

        assert project.pull_one(subscription).data == b"x"

    @pytest.mark.rule("S12.2", "B074")
    @pytest.mark.parametrize("ahead_s", [1, 3_600])
    def test_in_the_future_it_drops_what_is_there_and_nothing_that_comes(self, project: Project, ahead_s: int) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"dropped")

        project.seek(subscription, time=ago(seconds=-ahead_s)).ok()
        project.publish(topic, b"kept")

        assert project.pull_one(subscription).data == b"kept"
        assert project.pull(subscription) == []

    @pytest.mark.rule("S12.4")
    def test_what_is_leased_comes_again_at_once(self, project: Project) -> None:
        topic, subscription = project.pair(ackDeadlineSeconds=600)
        project.publish(topic, b"x")
        leased = project.pull_one(subscription)
        assert project.pull(subscription) == []

        project.seek(subscription, time=ago(hours=1)).ok()

        again = project.pull_one(subscription)
        assert (again.data, again.ack_id == leased.ack_id) == (b"x", False)

    @pytest.mark.rule("S9.9")
    def test_keys_come_in_their_order_again(self, project: Project) -> None:
        topic, subscription = project.pair(enableMessageOrdering=True, retainAckedMessages=True)
        for data in ("MQ==", "Mg==", "Mw=="):
            project.publish(topic, {"data": data, "orderingKey": "k"})
        assert project.take(subscription) == [b"1", b"2", b"3"]

        project.seek(subscription, time=ago(hours=1)).ok()

        assert project.data(subscription) == [b"1", b"2", b"3"]


class TestRefusals:
    @pytest.mark.rule("S12.6", "S1.7.4")
    @pytest.mark.parametrize(
        "target",
        [
            {},
            {"time": None},
            {"time": "yesterday"},
            {"time": "2024-01-01"},
            {"time": 5},
            {"time": "10000-01-01T00:00:00Z"},
            {"snapshot": ""},
            {"snapshot": "snap"},
            {"snapshot": "projects/p/topics/topic"},
            {"time": "2024-01-01T00:00:00Z", "snapshot": "projects/p/snapshots/snap"},
            {"times": "2024-01-01T00:00:00Z"},
        ],
        ids=["none", "null", "words", "a date", "a number", "too late", "empty", "an id", "a topic", "both", "unknown"],
    )
    def test_a_target_that_is_none(self, project: Project, target: Mapping[str, Any]) -> None:
        _, subscription = project.pair()

        assert project.seek(subscription, **target).refusal == INVALID

    @pytest.mark.rule("S1", "S1.5a")
    def test_what_is_missing(self, project: Project) -> None:
        _, subscription = project.pair()

        assert project.seek(project.subscription_name("nobody"), time=ago(hours=1)).refusal == MISSING
        assert project.seek(subscription, snapshot=project.snapshot_name()).refusal == MISSING

    @pytest.mark.rule("S6.2")
    def test_a_detached_subscription(self, project: Project) -> None:
        _, subscription = project.pair()
        project.rest.call("POST", f"{subscription}:detach").ok()

        assert project.seek(subscription, time=ago(hours=1)).refusal == PRECONDITION


def drain(project: Project, subscription: str, count: int) -> list[bytes]:
    """Pull and ack so many messages, which have to be there or to come soon."""
    found = []
    for _ in range(count):
        received = project.pull_one(subscription)
        project.acknowledge(subscription, [received.ack_id]).ok()
        found.append(received.data)
    return found


def kind_of(project: Project, subscription: str) -> str:
    """The attribute `kind` of the next message, which is acked."""
    received = project.pull_one(subscription)
    project.acknowledge(subscription, [received.ack_id]).ok()
    kind: str = received.message["attributes"]["kind"]
    return kind
