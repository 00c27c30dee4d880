"""What an update changes and what it leaves alone (service.md §1.5, §1.8)."""

from typing import Any

import pytest
from google.protobuf import json_format

from emulator.api.topics import MASKABLE
from emulator.errors import PubsubError
from tests.api.world import DEAD, ORDERS, PULLED, World, parse

PUSH = {"pushEndpoint": "https://example.com/push", "attributes": {"x-goog-version": "v1"}}


def shown(resource: Any) -> dict[str, Any]:
    return json_format.MessageToDict(resource)


@pytest.fixture
def full(world: World) -> World:
    """ORDERS and PULLED with a value in every field that can change."""
    world.update_topic(
        ORDERS,
        "*",
        labels={"a": "1", "b": "2"},
        messageRetentionDuration="700s",
        messageStoragePolicy={"allowedPersistenceRegions": ["r1", "r2"], "enforceInTransit": True},
        kmsKeyName="projects/p/locations/l/keyRings/r/cryptoKeys/k",
        messageTransforms=[{"javascriptUdf": {"functionName": "f", "code": "c"}}, {"disabled": True}],
    )
    world.update_subscription(
        PULLED,
        "*",
        labels={"a": "1", "b": "2"},
        ackDeadlineSeconds=33,
        retainAckedMessages=True,
        messageRetentionDuration="700s",
        expirationPolicy={"ttl": "90000s"},
        deadLetterPolicy={"deadLetterTopic": DEAD, "maxDeliveryAttempts": 7},
        retryPolicy={"minimumBackoff": "1s", "maximumBackoff": "2s"},
        pushConfig={**PUSH, "oidcToken": {"serviceAccountEmail": "a@b", "audience": "aud"}, "noWrapper": {}},
    )
    return world


@pytest.mark.rule("S1.8.6", "S1.5")
def test_an_asterisk_sets_every_field_that_can_change(full: World) -> None:
    assert shown(full.call("GetTopic", topic=ORDERS)) == {
        "name": ORDERS,
        "labels": {"a": "1", "b": "2"},
        "messageRetentionDuration": "700s",
        "messageStoragePolicy": {"allowedPersistenceRegions": ["r1", "r2"], "enforceInTransit": True},
        "kmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k",
        "messageTransforms": [{"javascriptUdf": {"functionName": "f", "code": "c"}}, {"disabled": True}],
        "state": "ACTIVE",
    }
    assert shown(full.call("GetSubscription", subscription=PULLED)) == {
        "name": PULLED,
        "topic": ORDERS,
        "labels": {"a": "1", "b": "2"},
        "ackDeadlineSeconds": 33,
        "retainAckedMessages": True,
        "messageRetentionDuration": "700s",
        "topicMessageRetentionDuration": "700s",
        "expirationPolicy": {"ttl": "90000s"},
        "deadLetterPolicy": {"deadLetterTopic": DEAD, "maxDeliveryAttempts": 7},
        "retryPolicy": {"minimumBackoff": "1s", "maximumBackoff": "2s"},
        "pushConfig": {**PUSH, "oidcToken": {"serviceAccountEmail": "a@b", "audience": "aud"}, "noWrapper": {}},
        "state": "ACTIVE",
    }


@pytest.mark.rule("S1.8.6", "S1.8.3")
def test_an_asterisk_clears_what_the_request_leaves_out(full: World) -> None:
    fresh = World.empty()
    for topic in (ORDERS, DEAD):
        fresh.call("CreateTopic", name=topic)
    fresh.call("CreateSubscription", name=PULLED, topic=ORDERS)

    assert full.update_topic(ORDERS, "*") == fresh.call("GetTopic", topic=ORDERS)
    assert full.update_subscription(PULLED, "*") == fresh.call("GetSubscription", subscription=PULLED)


@pytest.mark.rule("S1.8.6", "S1.8.4")
def test_an_asterisk_leaves_what_cannot_change(world: World) -> None:
    name = f"{PULLED}2"
    world.call("CreateSubscription", name=name, topic=ORDERS, filter="attributes:k", enableMessageOrdering=True)

    changed = world.update_subscription(name, "*", topic=DEAD, filter="attributes:x", detached=True, labels={"a": "1"})

    assert (changed.topic, changed.filter, changed.enable_message_ordering) == (ORDERS, "attributes:k", True)
    assert (changed.detached, changed.labels) == (False, {"a": "1"})


FIELDS: tuple[tuple[str, Any, Any], ...] = (
    ("labels", {"c": "3"}, {}),
    ("ackDeadlineSeconds", 44, 10),
    ("messageRetentionDuration", "800s", "604800s"),
    ("expirationPolicy", {"ttl": "86400s"}, {"ttl": "2678400s"}),
    ("deadLetterPolicy", {"deadLetterTopic": DEAD, "maxDeliveryAttempts": 100}, None),
    ("retryPolicy", {"minimumBackoff": "0s", "maximumBackoff": "600s"}, None),
    ("pushConfig", {"pushEndpoint": "http://localhost/", "pubsubWrapper": {}}, {}),
)


# Retention may not pass the time to live, so this one is lengthened before retention falls back to its default.
@pytest.mark.rule("S1.8.3", "S1.8.4", "S1.5", "S4.subscription.labels")
@pytest.mark.parametrize(("field", "value", "default"), FIELDS)
def test_a_masked_field_is_replaced_whole_and_the_others_stay(
    full: World, field: str, value: Any, default: Any
) -> None:
    full.update_subscription(PULLED, "expirationPolicy", expirationPolicy={"ttl": "604800s"})
    before = shown(full.call("GetSubscription", subscription=PULLED))

    changed = shown(full.update_subscription(PULLED, field, **{**unmasked(field), field: value}))
    stored = shown(full.call("GetSubscription", subscription=PULLED))

    assert changed == stored == {**before, field: value}


@pytest.mark.rule("S1.8.3", "S1.8.4")
@pytest.mark.parametrize(("field", "value", "default"), FIELDS)
def test_a_masked_field_without_a_value_falls_back_to_its_default(
    full: World, field: str, value: Any, default: Any
) -> None:
    full.update_subscription(PULLED, "expirationPolicy", expirationPolicy={"ttl": "604800s"})
    before = shown(full.call("GetSubscription", subscription=PULLED))
    expected = {**before, field: default}
    if default in ({}, None) and field != "pushConfig":
        del expected[field]

    assert shown(full.update_subscription(PULLED, field, **unmasked(field))) == expected


def unmasked(field: str) -> dict[str, Any]:
    """Values for other fields, good and bad, that the mask does not name."""
    others = {
        "ackDeadlineSeconds": 9999,
        "labels": {"NOT": "a label"},
        "messageRetentionDuration": "1s",
        "filter": "x" * 999,
        "topic": "nonsense",
        "pushConfig": {"pushEndpoint": "nonsense"},
        "state": "RESOURCE_ERROR",
    }
    others.pop(field, None)
    return others


@pytest.mark.rule("S1.8.3")
def test_lists_and_maps_are_never_added_to(full: World) -> None:
    topic = full.update_topic(
        ORDERS,
        "messageStoragePolicy,messageTransforms,labels",
        messageStoragePolicy={"allowedPersistenceRegions": ["r3"]},
        messageTransforms=[{"disabled": True}],
        labels={"z": "26"},
    )

    assert shown(topic)["messageStoragePolicy"] == {"allowedPersistenceRegions": ["r3"]}
    assert shown(topic)["messageTransforms"] == [{"disabled": True}]
    assert topic.labels == {"z": "26"}


# Mask, what the request holds, the field, and what is in it afterwards.
NESTED: tuple[tuple[str, dict[str, Any], str, Any], ...] = (
    ("labels.a", {"labels": {"a": "9", "c": "3"}}, "labels", {"a": "9", "b": "2"}),
    ("labels.c", {"labels": {"a": "9", "c": "3"}}, "labels", {"a": "1", "b": "2", "c": "3"}),
    ("labels.c", {"labels": {"c": ""}}, "labels", {"a": "1", "b": "2", "c": ""}),
    ("labels.a", {"labels": {"b": "9"}}, "labels", {"b": "2"}),
    ("labels.absent", {}, "labels", {"a": "1", "b": "2"}),
    ("labels.a,labels.b", {}, "labels", None),
    ("deadLetterPolicy.maxDeliveryAttempts", {"deadLetterPolicy": {"maxDeliveryAttempts": 9}}, "deadLetterPolicy",
     {"deadLetterTopic": DEAD, "maxDeliveryAttempts": 9}),
    ("deadLetterPolicy.maxDeliveryAttempts", {}, "deadLetterPolicy",
     {"deadLetterTopic": DEAD, "maxDeliveryAttempts": 5}),
    ("deadLetterPolicy.deadLetterTopic", {"deadLetterPolicy": {"deadLetterTopic": ORDERS}}, "deadLetterPolicy",
     {"deadLetterTopic": ORDERS, "maxDeliveryAttempts": 7}),
    ("retryPolicy.maximumBackoff", {"retryPolicy": {"minimumBackoff": "9s", "maximumBackoff": "3.5s"}}, "retryPolicy",
     {"minimumBackoff": "1s", "maximumBackoff": "3.500s"}),
    ("retryPolicy.maximumBackoff", {}, "retryPolicy", {"minimumBackoff": "1s", "maximumBackoff": "600s"}),
    ("expirationPolicy.ttl", {"expirationPolicy": {"ttl": "100000s"}}, "expirationPolicy", {"ttl": "100000s"}),
    ("expirationPolicy.ttl", {"expirationPolicy": {}}, "expirationPolicy", {}),
    ("pushConfig.pushEndpoint", {"pushConfig": {"pushEndpoint": "http://b/"}}, "pushConfig",
     {"pushEndpoint": "http://b/", "attributes": PUSH["attributes"], "noWrapper": {},
      "oidcToken": {"serviceAccountEmail": "a@b", "audience": "aud"}}),
    ("pushConfig.noWrapper.writeMetadata,pushConfig.oidcToken",
     {"pushConfig": {"noWrapper": {"writeMetadata": True}}}, "pushConfig",
     {**PUSH, "noWrapper": {"writeMetadata": True}}),
    ("pushConfig.noWrapper", {"pushConfig": {"pubsubWrapper": {}}}, "pushConfig",
     {**PUSH, "oidcToken": {"serviceAccountEmail": "a@b", "audience": "aud"}}),
    ("pushConfig.pubsubWrapper", {"pushConfig": {"pubsubWrapper": {}}}, "pushConfig",
     {**PUSH, "pubsubWrapper": {}, "oidcToken": {"serviceAccountEmail": "a@b", "audience": "aud"}}),
    ("pushConfig.oidcToken.audience", {}, "pushConfig",
     {**PUSH, "noWrapper": {}, "oidcToken": {"serviceAccountEmail": "a@b"}}),
    ("pushConfig.attributes.x-goog-version", {"pushConfig": {"attributes": {"x-goog-version": "v1beta1"}}},
     "pushConfig", {"pushEndpoint": PUSH["pushEndpoint"], "attributes": {"x-goog-version": "v1beta1"},
                    "noWrapper": {}, "oidcToken": {"serviceAccountEmail": "a@b", "audience": "aud"}}),
)  # fmt: skip


@pytest.mark.rule("S1.8.2", "S1.8.3", "S1.8.4")
@pytest.mark.parametrize(("mask", "given", "field", "expected"), NESTED)
def test_a_nested_path_changes_a_part(full: World, mask: str, given: dict[str, Any], field: str, expected: Any) -> None:
    before = shown(full.call("GetSubscription", subscription=PULLED))
    before.pop(field)

    after = shown(full.update_subscription(PULLED, mask, **given))

    assert after.pop(field, None) == expected
    assert after == before


@pytest.mark.rule("S1.8.2")
@pytest.mark.parametrize(
    ("mask", "given", "expected"),
    [
        ("messageStoragePolicy.enforceInTransit", {}, {"allowedPersistenceRegions": ["r1", "r2"]}),
        (
            "messageStoragePolicy.allowedPersistenceRegions",
            {"messageStoragePolicy": {"allowedPersistenceRegions": ["r3"]}},
            {"allowedPersistenceRegions": ["r3"], "enforceInTransit": True},
        ),
    ],
)
def test_a_nested_path_changes_a_part_of_a_topic(
    full: World, mask: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = shown(full.call("GetTopic", topic=ORDERS))

    assert shown(full.update_topic(ORDERS, mask, **given)) == {**before, "messageStoragePolicy": expected}


@pytest.mark.rule("S1.8.2", "S4.topic.ingestion_data_source_settings")
def test_a_part_that_can_be_absent_becomes_absent(world: World) -> None:
    source = {"cloudStorage": {"bucket": "b", "textFormat": {"delimiter": ";"}}}
    world.update_topic(ORDERS, "ingestionDataSourceSettings", ingestionDataSourceSettings=source)

    changed = world.update_topic(
        ORDERS,
        "ingestionDataSourceSettings.cloudStorage.textFormat.delimiter",
        ingestionDataSourceSettings={"cloudStorage": {"textFormat": {}}},
    )

    assert shown(changed)["ingestionDataSourceSettings"] == {
        "cloudStorage": {"bucket": "b", "textFormat": {}, "state": "ACTIVE"}
    }


@pytest.mark.rule("S1.8.2")
@pytest.mark.parametrize(
    "mask", ["deadLetterPolicy.maxDeliveryAttempts", "retryPolicy.minimumBackoff", "pushConfig.noWrapper"]
)
def test_clearing_a_part_of_nothing_makes_nothing(world: World, mask: str) -> None:
    before = world.call("GetSubscription", subscription=PULLED)

    assert world.update_subscription(PULLED, mask) == before


@pytest.mark.rule("S1.8.2", "S4.subscription.retry_policy")
@pytest.mark.parametrize(("given", "minimum"), [({"minimumBackoff": "20s"}, "20s"), ({}, "10s")])
def test_a_part_of_nothing_is_completed_with_defaults(world: World, given: dict[str, str], minimum: str) -> None:
    changed = world.update_subscription(PULLED, "retryPolicy.minimumBackoff", retryPolicy=given)

    assert shown(changed)["retryPolicy"] == {"minimumBackoff": minimum, "maximumBackoff": "600s"}


@pytest.mark.rule("S1.8.2")
def test_the_parts_of_schema_settings_have_paths() -> None:
    # Through the merge alone: no topic can have a schema before schemas are served.
    stored = parse("CreateTopic", {"name": ORDERS, "schemaSettings": {"schema": "s", "encoding": "JSON"}})
    given = parse("CreateTopic", {"schemaSettings": {"encoding": "BINARY", "firstRevisionId": "r"}})

    merged = MASKABLE.merge(stored, given, ["schema_settings.encoding", "schema_settings.last_revision_id"])

    assert shown(merged)["schemaSettings"] == {"schema": "s", "encoding": "BINARY"}


@pytest.mark.rule("S1.8.1")
@pytest.mark.parametrize("mask", ["labels,labels", "labels,labels.a", "labels.a,labels", "ackDeadlineSeconds,labels"])
def test_paths_may_repeat_and_overlap_in_any_order(full: World, mask: str) -> None:
    changed = full.update_subscription(PULLED, mask, labels={"a": "9"}, ackDeadlineSeconds=20)

    assert changed.labels == {"a": "9"}


@pytest.mark.rule("S1.8.5", "S1.8.1")
@pytest.mark.parametrize("mask", ["labels,nope", "nope,labels", "labels,state", "labels,name", "labels,*"])
def test_no_path_is_applied_when_one_is_bad(mask: str) -> None:
    stored = parse("CreateTopic", {"name": ORDERS, "labels": {"a": "1"}})
    copy = parse("CreateTopic", {"name": ORDERS, "labels": {"a": "1"}})

    with pytest.raises(PubsubError):
        MASKABLE.merge(stored, parse("CreateTopic", {"labels": {"b": "2"}}), mask.split(","))

    assert stored == copy


@pytest.mark.rule("S1.8.4", "S1.5")
def test_an_update_that_changes_nothing_succeeds(full: World) -> None:
    before = full.call("GetTopic", topic=ORDERS)

    assert full.update_topic(ORDERS, "labels", labels=dict(before.labels)) == before


@pytest.mark.rule("S1.8.4", "S4.subscription.dead_letter_policy")
def test_an_update_does_not_check_what_it_leaves_alone(full: World) -> None:
    full.call("DeleteTopic", topic=DEAD)

    changed = full.update_subscription(PULLED, "labels,ackDeadlineSeconds", labels={"a": "2"}, ackDeadlineSeconds=20)

    assert changed.dead_letter_policy.dead_letter_topic == DEAD


@pytest.mark.rule("S1.5a")
def test_the_masks_paths_are_checked_before_the_values(full: World) -> None:
    with pytest.raises(PubsubError, match="update_mask"):
        full.update_subscription(PULLED, "ackDeadlineSeconds,nope", ackDeadlineSeconds=1)
