"""The fields of a topic: defaults, edges, what can change (service.md §4)."""

import logging
from typing import Any

import pytest
from google.protobuf import json_format

from tests.api.world import ORDERS, PULLED, World, row

NEW = "projects/acme/topics/new-one"
KEY = "projects/p/locations/global/keyRings/r/cryptoKeys/k"


def shown(resource: Any) -> dict[str, Any]:
    return json_format.MessageToDict(resource)


def create(world: World, **fields: Any) -> dict[str, Any]:
    """What CreateTopic answers, which has to be what GetTopic answers."""
    created = world.call("CreateTopic", name=NEW, **fields)
    assert created == world.call("GetTopic", topic=NEW)
    return shown(created)


@pytest.mark.rule("S1.5", "S4.topic.name", "S4.topic.satisfies_pzs", "S4.topic.message_retention_duration")
def test_a_new_topic_has_a_name_and_a_state(world: World) -> None:
    assert create(world) == {"name": NEW, "state": "ACTIVE"}


@pytest.mark.rule("S4.topic.satisfies_pzs")
@pytest.mark.parametrize("fields", [{"state": "INGESTION_RESOURCE_ERROR"}, {"satisfiesPzs": True}, {"state": 99}])
def test_output_only_fields_are_ignored_at_creation(world: World, fields: dict[str, Any]) -> None:
    assert create(world, **fields) == {"name": NEW, "state": "ACTIVE"}


@pytest.mark.rule("S4.topic.satisfies_pzs", "S1.8.4")
def test_output_only_fields_are_ignored_in_an_update(world: World) -> None:
    changed = world.update_topic(ORDERS, "labels", labels={"a": "1"}, satisfiesPzs=True, state="STATE_UNSPECIFIED")

    assert shown(changed) == {"name": ORDERS, "labels": {"a": "1"}, "state": "ACTIVE"}


@pytest.mark.rule("S4.topic.labels", "S1.5", "B091")
def test_labels_can_be_changed_and_cleared(world: World) -> None:
    assert world.update_topic(ORDERS, "labels", labels={"a": "1"}).labels == {"a": "1"}
    assert world.update_topic(ORDERS, "labels", labels={"b": "2"}).labels == {"b": "2"}
    assert world.update_topic(ORDERS, "labels").labels == {}
    assert world.call("GetTopic", topic=ORDERS).labels == {}


@pytest.mark.rule("S4.topic.message_retention_duration")
@pytest.mark.parametrize("value", ["600s", "600.000000001s", "3600.500s", "2678399.999999999s", "2678400s"])
def test_retention_is_kept_to_the_nanosecond(world: World, value: str) -> None:
    assert create(world, messageRetentionDuration=value)["messageRetentionDuration"] == value


@pytest.mark.rule("S4.topic.message_retention_duration", "S4.subscription.topic_message_retention_duration")
def test_retention_can_be_changed_and_cleared_and_subscriptions_show_it(world: World) -> None:
    for value in ("600s", "2678400s", None):
        fields = {"messageRetentionDuration": value} if value else {}

        topic = shown(world.update_topic(ORDERS, "messageRetentionDuration", **fields))
        subscription = shown(world.call("GetSubscription", subscription=PULLED))

        assert topic.get("messageRetentionDuration") == value
        assert subscription.get("topicMessageRetentionDuration") == value


@pytest.mark.rule("S4.topic.message_storage_policy")
def test_a_storage_policy_is_kept_changed_and_lifted(world: World) -> None:
    policy = {"allowedPersistenceRegions": ["europe-west1", "europe-north1"], "enforceInTransit": True}
    other = {"allowedPersistenceRegions": ["us-east1"]}

    assert create(world, messageStoragePolicy=policy)["messageStoragePolicy"] == policy
    changed = world.update_topic(NEW, "messageStoragePolicy", messageStoragePolicy=other)
    assert shown(changed)["messageStoragePolicy"] == other
    assert "messageStoragePolicy" not in shown(world.update_topic(NEW, "messageStoragePolicy"))


@pytest.mark.rule("S4.topic.kms_key_name")
def test_a_key_is_kept_changed_and_cleared(world: World) -> None:
    assert create(world, kmsKeyName=KEY)["kmsKeyName"] == KEY
    assert world.update_topic(NEW, "kmsKeyName", kmsKeyName=f"{KEY}2").kms_key_name == f"{KEY}2"
    assert world.update_topic(NEW, "kmsKeyName").kms_key_name == ""


@pytest.mark.rule("S4.topic.schema_settings")
def test_schema_settings_can_be_cleared(world: World) -> None:
    assert not world.update_topic(ORDERS, "schemaSettings").HasField("schema_settings")


SOURCES = (
    {"awsKinesis": {"streamArn": "s", "consumerArn": "c", "awsRoleArn": "r", "gcpServiceAccount": "a@b"}},
    {
        "cloudStorage": {
            "bucket": "b",
            "textFormat": {"delimiter": "\n"},
            "minimumObjectCreateTime": "2025-01-01T00:00:00Z",
        }
    },
    {"azureEventHubs": {"resourceGroup": "g", "namespace": "n", "eventHub": "h"}},
    {"awsMsk": {"clusterArn": "c", "topic": "t"}},
    {"confluentCloud": {"bootstrapServer": "s", "topic": "t"}},
)


@pytest.mark.rule("S4.topic.ingestion_data_source_settings")
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: next(iter(source)))
def test_ingestion_settings_are_kept_with_a_state_of_the_servers_own(world: World, source: dict[str, Any]) -> None:
    ((kind, settings),) = source.items()
    expected = {kind: {**settings, "state": "ACTIVE"}}
    given = {kind: {**settings, "state": 2}}

    created = create(world, ingestionDataSourceSettings=given)
    changed = world.update_topic(ORDERS, "ingestionDataSourceSettings", ingestionDataSourceSettings=given)

    assert created["ingestionDataSourceSettings"] == expected
    assert shown(changed)["ingestionDataSourceSettings"] == expected
    assert "ingestionDataSourceSettings" not in shown(world.update_topic(ORDERS, "ingestionDataSourceSettings"))


@pytest.mark.rule("S4.topic.ingestion_data_source_settings")
def test_platform_logs_settings_alone_have_no_state(world: World) -> None:
    settings = {"platformLogsSettings": {"severity": "WARNING"}}

    assert create(world, ingestionDataSourceSettings=settings)["ingestionDataSourceSettings"] == settings


@pytest.mark.rule("S4.topic.message_transforms")
def test_transforms_are_kept_in_order_changed_and_cleared(world: World) -> None:
    transforms = [
        {"javascriptUdf": {"functionName": "f", "code": "function f(m) { return m; }"}},
        {
            "aiInference": {"endpoint": "e", "unstructuredInference": {"parameters": {"a": [1.5, None, "x"]}}},
            "disabled": True,
        },
    ]

    assert create(world, messageTransforms=transforms)["messageTransforms"] == transforms
    changed = world.update_topic(NEW, "messageTransforms", messageTransforms=transforms[::-1])
    assert shown(changed)["messageTransforms"] == transforms[::-1]
    assert "messageTransforms" not in shown(world.update_topic(NEW, "messageTransforms"))


@pytest.mark.rule("S4.topic.labels")
def test_the_order_of_labels_makes_no_difference(world: World) -> None:
    labels = {f"k{number}": "" for number in range(64)}
    world.update_topic(ORDERS, "labels", labels=labels)
    before = world.state()

    world.update_topic(ORDERS, "labels", labels=dict(reversed(labels.items())))

    assert world.state() == before


@pytest.mark.rule("S1.5")
def test_a_reply_is_not_the_stored_resource(world: World) -> None:
    world.call("GetTopic", topic=ORDERS).labels["a"] = "1"
    request = row("CreateTopic").request(name=NEW)
    created = world.send("CreateTopic", request)
    request.labels["a"] = "1"  # type: ignore[attr-defined]  # the row's type is any message

    assert world.call("GetTopic", topic=ORDERS).labels == {}
    assert world.call("GetTopic", topic=NEW) == created


def test_what_has_no_effect_yet_is_named_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        create(world, labels={"team": "a"}, messageRetentionDuration="600s", messageTransforms=[{"disabled": True}])

    assert [record.getMessage() for record in caplog.records] == [
        f"resource={NEW} field={field} is kept but has no effect yet" for field in ("message_transforms",)
    ]
