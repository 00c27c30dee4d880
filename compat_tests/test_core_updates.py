"""What every target has to do with field masks; where Google's emulator doesn't: differences.toml."""

from collections.abc import Mapping
from typing import Any

import pytest

from compat_tests.rest import INVALID, Project

CLIENT = "plain REST"


def update(project: Project, name: str, mask: str | None, **fields: object) -> Any:
    """PATCH a resource with the mask in the body, which is the form that every target knows."""
    kind = "topic" if "/topics/" in name else "subscription"
    body: dict[str, object] = {kind: {"name": name, **fields}}
    if mask is not None:
        body["updateMask"] = mask
    return project.rest.call("PATCH", name, body)


@pytest.mark.rule("S1.7.7", "K10", "B088", "B091")
@pytest.mark.parametrize("mask", ["ackDeadlineSeconds", "ack_deadline_seconds"])
@pytest.mark.parametrize("place", ["body", "query"])
def test_a_mask_comes_in_body_or_query_in_either_spelling(project: Project, place: str, mask: str) -> None:
    _, subscription = project.pair()
    body: dict[str, Any] = {"subscription": {"name": subscription, "ackDeadlineSeconds": 30}}
    query = {"updateMask": mask} if place == "query" else None
    if place == "body":
        body["updateMask"] = mask

    answer = project.rest.call("PATCH", subscription, body, query=query)

    assert answer.ok()["ackDeadlineSeconds"] == 30
    assert project.rest.call("GET", subscription).ok() == answer.json


@pytest.mark.rule("S1.8.1", "B097")
@pytest.mark.parametrize("mask", [None, ""], ids=["absent", "empty"])
def test_an_update_needs_a_mask(project: Project, mask: str | None) -> None:
    _, subscription = project.pair()

    assert update(project, subscription, mask, ackDeadlineSeconds=30).refusal == INVALID


REFUSED_PATHS = [
    pytest.param(collection, path, id=f"{collection}-{path}", marks=marks)
    for collection, path, marks in [
        ("topics", "name", pytest.mark.rule("S4.topic.name")),
        ("topics", "noSuchField", pytest.mark.rule("S1.8.1")),
        ("topics", "state", pytest.mark.rule("S4.topic.satisfies_pzs")),
        ("subscriptions", "name", pytest.mark.rule("S4.subscription.name")),
        ("subscriptions", "topic", pytest.mark.rule("S4.subscription.name")),
        ("subscriptions", "filter", pytest.mark.rule("S4.subscription.filter")),
        ("subscriptions", "enableMessageOrdering", pytest.mark.rule("S4.subscription.enable_message_ordering")),
        ("subscriptions", "detached", pytest.mark.rule("S4.subscription.detached")),
        ("subscriptions", "state", pytest.mark.rule("S4.subscription.state")),
        ("subscriptions", "noSuchField", pytest.mark.rule("S1.8.1")),
        ("subscriptions", "ackDeadlineSeconds,noSuchField", pytest.mark.rule("S1.8.5")),
        ("subscriptions", "labels,*", pytest.mark.rule("S1.8.6")),
    ]
]


@pytest.mark.parametrize(("collection", "path"), REFUSED_PATHS)
def test_a_path_that_cannot_be_changed_is_refused(project: Project, collection: str, path: str) -> None:
    topic, subscription = project.pair()
    name = topic if collection == "topics" else subscription
    before = project.rest.call("GET", name).ok()

    answer = update(project, name, path)

    assert answer.refusal == INVALID
    assert project.rest.call("GET", name).ok() == before


@pytest.mark.rule("S1.8.5")
def test_a_failing_update_changes_nothing(project: Project) -> None:
    _, subscription = project.pair()

    answer = update(
        project,
        subscription,
        "ackDeadlineSeconds,messageRetentionDuration",
        ackDeadlineSeconds=30,
        messageRetentionDuration="1s",
    )

    assert answer.refusal == INVALID
    assert project.rest.call("GET", subscription).ok()["ackDeadlineSeconds"] == 10


@pytest.mark.rule("S1.8.4")
def test_fields_outside_the_mask_are_ignored(project: Project) -> None:
    _, subscription = project.pair()

    answer = update(project, subscription, "ackDeadlineSeconds", ackDeadlineSeconds=30, retainAckedMessages=True)

    assert answer.ok()["ackDeadlineSeconds"] == 30
    assert "retainAckedMessages" not in answer.json


CHANGES = [
    pytest.param({name: value}, id=f"{name}{'' if value else '-empty'}", marks=marks)
    for name, value, marks in [
        ("ackDeadlineSeconds", 60, pytest.mark.rule("S4.subscription.ack_deadline_seconds")),
        ("retainAckedMessages", True, pytest.mark.rule("S4.subscription.retain_acked_messages")),
        ("messageRetentionDuration", "600s", pytest.mark.rule("S4.subscription.message_retention_duration")),
        ("labels", {"new": "labels"}, pytest.mark.rule("S4.subscription.labels")),
        ("expirationPolicy", {"ttl": "864000s"}, pytest.mark.rule("S4.subscription.expiration_policy")),
        ("expirationPolicy", {}, pytest.mark.rule("S4.subscription.expiration_policy")),
        (
            "retryPolicy",
            {"minimumBackoff": "1s", "maximumBackoff": "2s"},
            pytest.mark.rule("S4.subscription.retry_policy", "B091"),
        ),
        ("enableExactlyOnceDelivery", True, pytest.mark.rule("S4.subscription.enable_exactly_once_delivery")),
    ]
]


@pytest.mark.rule("S1.5")
@pytest.mark.parametrize("fields", CHANGES)
def test_a_field_of_a_subscription_can_be_changed(project: Project, fields: Mapping[str, object]) -> None:
    _, subscription = project.pair(labels={"old": "labels"})

    changed = update(project, subscription, ",".join(fields), **fields).ok()

    assert {name: changed[name] for name in fields} == fields
    assert project.rest.call("GET", subscription).ok() == changed


@pytest.mark.rule("S4.subscription.push_config")
def test_a_subscription_becomes_push_and_pull_again(project: Project) -> None:
    _, subscription = project.pair()

    pushing = update(project, subscription, "pushConfig", pushConfig={"pushEndpoint": "http://localhost:9/"}).ok()
    pulled = update(project, subscription, "pushConfig", pushConfig={}).ok()

    assert pushing["pushConfig"]["pushEndpoint"] == "http://localhost:9/"
    assert pulled["pushConfig"] == {}


@pytest.mark.rule("S4.subscription.dead_letter_policy")
def test_a_dead_letter_policy_is_set_and_cleared(project: Project) -> None:
    topic, subscription = project.pair()
    policy = {"deadLetterTopic": topic, "maxDeliveryAttempts": 9}

    assert update(project, subscription, "deadLetterPolicy", deadLetterPolicy=policy).ok()["deadLetterPolicy"] == policy
    assert "deadLetterPolicy" not in update(project, subscription, "deadLetterPolicy").ok()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("labels", {"new": "labels"}, marks=pytest.mark.rule("S4.topic.labels", "B091"), id="labels"),
        pytest.param("messageRetentionDuration", "601s", marks=pytest.mark.rule("S4.topic.message_retention_duration")),
        pytest.param(
            "messageStoragePolicy",
            {"allowedPersistenceRegions": ["europe-west1"]},
            marks=pytest.mark.rule("S4.topic.message_storage_policy"),
            id="storage-policy",
        ),
        pytest.param(
            "kmsKeyName",
            "projects/p/locations/l/keyRings/r/cryptoKeys/k",
            marks=pytest.mark.rule("S4.topic.kms_key_name"),
            id="kms-key",
        ),
    ],
)
def test_a_field_of_a_topic_can_be_changed(project: Project, name: str, value: object) -> None:
    topic = project.topic(messageRetentionDuration="600s")

    changed = update(project, topic, name, **{name: value}).ok()

    assert changed[name] == value
    assert project.rest.call("GET", topic).ok() == changed


@pytest.mark.rule("S1.8.3")
@pytest.mark.parametrize(
    ("name", "value", "default"),
    [("messageRetentionDuration", "600s", "604800s"), ("ackDeadlineSeconds", 60, 10)],
)
def test_a_masked_field_that_is_absent_falls_back_to_its_default(
    project: Project, name: str, value: object, default: object
) -> None:
    _, subscription = project.pair(**{name: value})

    assert update(project, subscription, name).ok()[name] == default


@pytest.mark.rule("S1.8.3")
def test_labels_are_replaced_whole(project: Project) -> None:
    _, subscription = project.pair(labels={"a": "1", "b": "2"})

    assert update(project, subscription, "labels", labels={"c": "3"}).ok()["labels"] == {"c": "3"}


@pytest.mark.rule("S1.8.2")
@pytest.mark.parametrize(
    ("mask", "fields", "expected"),
    [
        ("labels.a", {"labels": {"a": "9"}}, {"labels": {"a": "9", "b": "2"}}),
        ("labels.a", {}, {"labels": {"b": "2"}}),
        (
            "retryPolicy.minimumBackoff",
            {"retryPolicy": {"minimumBackoff": "5s"}},
            {"retryPolicy": {"minimumBackoff": "5s", "maximumBackoff": "600s"}},
        ),
        ("expiration_policy.ttl", {"expirationPolicy": {"ttl": "999999s"}}, {"expirationPolicy": {"ttl": "999999s"}}),
    ],
    ids=["label", "label-away", "back-off", "ttl"],
)
def test_a_mask_may_name_a_part(
    project: Project, mask: str, fields: Mapping[str, object], expected: Mapping[str, object]
) -> None:
    _, subscription = project.pair(labels={"a": "1", "b": "2"}, retryPolicy={})

    changed = update(project, subscription, mask, **fields).ok()

    assert {name: changed[name] for name in expected} == expected


@pytest.mark.rule("S1.8.6")
def test_an_asterisk_stands_for_all_that_can_change(project: Project) -> None:
    topic, subscription = project.pair(ackDeadlineSeconds=60, labels={"a": "1"})

    changed = update(project, subscription, "*", retainAckedMessages=True).ok()

    assert changed["retainAckedMessages"] is True
    assert changed["ackDeadlineSeconds"] == 10
    assert "labels" not in changed
    assert changed["topic"] == topic
