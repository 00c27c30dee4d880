"""What Terraform's google provider sends and reads back: PUT, GET until it is there, PATCH with a mask in the query."""

from collections.abc import Mapping
from typing import Any

import pytest

from compat_tests.rest import Project

CLIENT = "terraform pattern"

# The provider sends an access token, and takes any.
HEADERS = {"authorization": "Bearer made-up", "user-agent": "Terraform/1.11.4 terraform-provider-google/6.0.0"}

TOPIC: Mapping[str, Any] = {
    "labels": {"team": "red"},
    "messageRetentionDuration": "86600s",
    "messageStoragePolicy": {"allowedPersistenceRegions": ["europe-west3"], "enforceInTransit": True},
    "kmsKeyName": "projects/p/locations/europe-west3/keyRings/ring/cryptoKeys/key",
}

SUBSCRIPTION: Mapping[str, Any] = {
    "labels": {"team": "red"},
    "ackDeadlineSeconds": 20,
    "messageRetentionDuration": "1200s",
    "retainAckedMessages": True,
    "expirationPolicy": {"ttl": "300000.500s"},
    "filter": 'attributes.kind = "a"',
    "retryPolicy": {"minimumBackoff": "10s", "maximumBackoff": "600s"},
    "enableMessageOrdering": True,
    "enableExactlyOnceDelivery": True,
}

EXPORTS: Mapping[str, Mapping[str, Any]] = {
    "bigqueryConfig": {"table": "project.dataset.table", "writeMetadata": True, "dropUnknownFields": True},
    "cloudStorageConfig": {
        "bucket": "bucket",
        "filenamePrefix": "log_events_",
        "filenameSuffix": "-suffix",
        "maxBytes": "1000",
        "maxDuration": "300s",
        "maxMessages": "1000",
        "avroConfig": {"writeMetadata": True},
    },
    "bigtableConfig": {"table": "projects/p/instances/i/tables/t", "writeMetadata": True},
}


def apply(project: Project, name: str, document: Mapping[str, Any]) -> Any:
    """Create the resource and return it as it is read back once it is there."""
    created = project.rest.call("PUT", name, {"name": name, **document}, query={"alt": "json"}, headers=HEADERS)
    assert created.status == 200, created.body
    return project.rest.call("GET", name, query={"alt": "json"}, headers=HEADERS).ok()


def change(project: Project, name: str, mask: str, document: Mapping[str, Any]) -> Any:
    """Change the resource as the provider does and return it as it is read back."""
    kind = "topic" if "/topics/" in name else "subscription"
    changed = project.rest.call("PATCH", name, {kind: document}, query={"updateMask": mask, "alt": "json"})
    assert changed.status == 200, changed.body
    return project.rest.call("GET", name, query={"alt": "json"}).ok()


@pytest.mark.rule("B122", "S1.5")
def test_a_topic_is_read_back_as_it_was_set(project: Project) -> None:
    name = project.topic_name()

    resource = apply(project, name, TOPIC)

    assert resource == {"name": name, **TOPIC, "state": "ACTIVE"}


@pytest.mark.rule("B122", "S1.5")
def test_a_subscription_is_read_back_as_it_was_set(project: Project) -> None:
    name, topic = project.subscription_name(), project.topic()

    resource = apply(project, name, {"topic": topic, **SUBSCRIPTION})

    assert resource == {"name": name, "topic": topic, **SUBSCRIPTION, "pushConfig": {}, "state": "ACTIVE"}


@pytest.mark.rule("B122", "S4.subscription.expiration_policy")
def test_computed_fields_are_there(project: Project) -> None:
    resource = apply(project, project.subscription_name(), {"topic": project.topic()})

    assert resource["ackDeadlineSeconds"] == 10
    assert resource["messageRetentionDuration"] == "604800s"
    assert resource["expirationPolicy"] == {"ttl": "2678400s"}


@pytest.mark.rule("B094", "S4.subscription.push_config")
@pytest.mark.parametrize("kind", EXPORTS)
def test_an_export_is_read_back_as_it_was_set(project: Project, kind: str) -> None:
    resource = apply(project, project.subscription_name(), {"topic": project.topic(), kind: EXPORTS[kind]})

    assert resource[kind] == {**EXPORTS[kind], "state": "ACTIVE"}


@pytest.mark.rule("B122", "B091", "S1.7.7", "K10")
def test_a_topic_is_changed_and_read_back(project: Project) -> None:
    name = project.topic_name()
    before = apply(project, name, TOPIC)
    document = {**TOPIC, "labels": {"team": "blue"}, "messageRetentionDuration": "600s"}

    after = change(project, name, "labels,messageRetentionDuration", document)

    assert after == {**before, "labels": {"team": "blue"}, "messageRetentionDuration": "600s"}


@pytest.mark.rule("B122", "B091", "S1.7.7", "K10")
def test_a_subscription_is_changed_and_read_back(project: Project) -> None:
    name, topic = project.subscription_name(), project.topic()
    before = apply(project, name, {"topic": topic, **SUBSCRIPTION})
    document = {"topic": topic, **SUBSCRIPTION, "ackDeadlineSeconds": 30, "labels": {"team": "blue"}}

    after = change(project, name, "labels,ackDeadlineSeconds", document)

    assert after == {**before, "ackDeadlineSeconds": 30, "labels": {"team": "blue"}}


@pytest.mark.rule("B122", "S1.8.3")
def test_what_was_taken_out_of_the_configuration_is_cleared(project: Project) -> None:
    name = project.subscription_name()
    apply(project, name, {"topic": project.topic(), **SUBSCRIPTION})

    after = change(project, name, "labels,retryPolicy,expirationPolicy,messageRetentionDuration", {})

    assert "labels" not in after
    assert "retryPolicy" not in after
    assert after["messageRetentionDuration"] == "604800s"
    assert after["expirationPolicy"] == {"ttl": "2678400s"}


@pytest.mark.rule("K10", "S1.7.7")
@pytest.mark.parametrize("mask", ["ackDeadlineSeconds,retryPolicy", "ack_deadline_seconds,retry_policy"])
@pytest.mark.parametrize("place", ["body", "query"])
@pytest.mark.parametrize("parameter", ["updateMask", "update_mask"])
def test_a_mask_works_in_every_form(project: Project, place: str, parameter: str, mask: str) -> None:
    _, name = project.pair()
    body: dict[str, Any] = {"subscription": {"ackDeadlineSeconds": 40, "retryPolicy": {"minimumBackoff": "1s"}}}
    query: dict[str, str] = {}
    (body if place == "body" else query)[parameter] = mask

    changed = project.rest.call("PATCH", name, body, query=query).ok()

    assert changed["ackDeadlineSeconds"] == 40
    assert changed["retryPolicy"] == {"minimumBackoff": "1s", "maximumBackoff": "600s"}


@pytest.mark.rule("B122", "S1")
def test_destroying_leaves_nothing(project: Project) -> None:
    topic, subscription = project.pair()

    for name in (subscription, topic):
        assert project.rest.call("DELETE", name, headers=HEADERS).ok() == {}
        assert project.rest.call("GET", name, headers=HEADERS).status == 404
