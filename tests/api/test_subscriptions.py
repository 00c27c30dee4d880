"""The fields of a subscription: defaults, edges, what can change (service.md §4)."""

import logging
from typing import Any

import pytest
from google.protobuf import json_format

from tests.api.world import DEAD, ORDERS, PULLED, World

NEW = "projects/acme/subscriptions/new-one"
PUSH = {"pushEndpoint": "https://example.com/push"}

DEFAULTS: dict[str, Any] = {
    "name": NEW,
    "topic": ORDERS,
    "pushConfig": {},
    "ackDeadlineSeconds": 10,
    "messageRetentionDuration": "604800s",
    "expirationPolicy": {"ttl": "2678400s"},
    "state": "ACTIVE",
}


def shown(resource: Any) -> dict[str, Any]:
    return json_format.MessageToDict(resource)


def create(world: World, **fields: Any) -> dict[str, Any]:
    """What CreateSubscription answers, which has to be what GetSubscription answers."""
    created = world.call("CreateSubscription", **{"name": NEW, "topic": ORDERS, **fields})
    assert created == world.call("GetSubscription", subscription=NEW)
    return shown(created)


def update(world: World, mask: str, **fields: Any) -> dict[str, Any]:
    """What UpdateSubscription answers, which has to be what GetSubscription answers."""
    changed = world.update_subscription(NEW, mask, **fields)
    assert changed == world.call("GetSubscription", subscription=NEW)
    return shown(changed)


@pytest.mark.rule(
    "S1.5",
    "S4.subscription.ack_deadline_seconds",
    "S4.subscription.enable_exactly_once_delivery",
    "S4.subscription.enable_message_ordering",
    "S4.subscription.expiration_policy",
    "S4.subscription.filter",
    "S4.subscription.message_retention_duration",
    "S4.subscription.name",
    "S4.subscription.push_config",
    "S4.subscription.retain_acked_messages",
    "S4.subscription.retry_policy",
    "S4.subscription.dead_letter_policy",
    "S4.subscription.state",
)
def test_a_new_subscription_is_completed_with_every_default(world: World) -> None:
    assert create(world) == DEFAULTS


@pytest.mark.rule(
    "S4.subscription.detached", "S4.subscription.state", "S4.subscription.topic_message_retention_duration"
)
@pytest.mark.parametrize(
    "fields",
    [
        {"detached": True},
        {"state": "RESOURCE_ERROR"},
        {"topicMessageRetentionDuration": "1s"},
        {"analyticsHubSubscriptionInfo": {"listing": "l", "subscription": "s"}},
    ],
)
def test_output_only_fields_are_ignored_at_creation(world: World, fields: dict[str, Any]) -> None:
    assert create(world, **fields) == DEFAULTS

    world.publish(ORDERS, "hello")

    assert len(world.pull(NEW)) == 1


@pytest.mark.rule("S4.subscription.ack_deadline_seconds")
@pytest.mark.parametrize("seconds", [10, 11, 599, 600])
def test_an_ack_deadline_is_kept(world: World, seconds: int) -> None:
    assert create(world, ackDeadlineSeconds=seconds)["ackDeadlineSeconds"] == seconds


# The last two: max_duration follows an ack deadline that is given, the ack deadline follows a max_duration.
@pytest.mark.rule("S4.subscription.ack_deadline_seconds")
@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"ackDeadlineSeconds": 0}, 10),
        ({"enableExactlyOnceDelivery": True}, 60),
        ({"enableExactlyOnceDelivery": True, "ackDeadlineSeconds": 10}, 10),
        ({"pushConfig": PUSH}, 10),
        ({"bigqueryConfig": {"table": "p.d.t"}}, 10),
        ({"cloudStorageConfig": {"bucket": "b"}}, 300),
        ({"cloudStorageConfig": {"bucket": "b", "maxDuration": "60s"}}, 60),
        ({"cloudStorageConfig": {"bucket": "b", "maxDuration": "600s"}}, 600),
        ({"cloudStorageConfig": {"bucket": "b", "maxBytes": "1000", "maxMessages": "1000"}}, 300),
        ({"cloudStorageConfig": {"bucket": "b", "maxBytes": "10737418240"}}, 300),
        ({"cloudStorageConfig": {"bucket": "b"}, "ackDeadlineSeconds": 100}, 100),
    ],
)
def test_the_default_ack_deadline_depends_on_the_kind(world: World, fields: dict[str, Any], seconds: int) -> None:
    assert create(world, **fields)["ackDeadlineSeconds"] == seconds


@pytest.mark.rule("S4.subscription.ack_deadline_seconds")
def test_a_cleared_ack_deadline_is_10_seconds_also_with_exactly_once(world: World) -> None:
    create(world, enableExactlyOnceDelivery=True)

    assert update(world, "ackDeadlineSeconds")["ackDeadlineSeconds"] == 10


@pytest.mark.rule("S4.subscription.ack_deadline_seconds", "S4.subscription.enable_exactly_once_delivery")
def test_switching_exactly_once_leaves_the_ack_deadline(world: World) -> None:
    create(world)

    on = update(world, "enableExactlyOnceDelivery", enableExactlyOnceDelivery=True)
    off = update(world, "enableExactlyOnceDelivery")

    assert on == {**DEFAULTS, "enableExactlyOnceDelivery": True}
    assert off == DEFAULTS


@pytest.mark.rule("S4.subscription.retain_acked_messages")
def test_retaining_acked_messages_can_be_switched(world: World) -> None:
    assert create(world, retainAckedMessages=True)["retainAckedMessages"] is True
    assert "retainAckedMessages" not in update(world, "retainAckedMessages")
    assert update(world, "retainAckedMessages", retainAckedMessages=True)["retainAckedMessages"] is True


@pytest.mark.rule("S4.subscription.message_retention_duration")
@pytest.mark.parametrize("value", ["600s", "600.000000001s", "2678399.999999999s", "2678400s"])
def test_retention_is_kept_to_the_nanosecond_and_can_be_cleared(world: World, value: str) -> None:
    assert create(world, messageRetentionDuration=value)["messageRetentionDuration"] == value
    assert update(world, "messageRetentionDuration")["messageRetentionDuration"] == "604800s"


@pytest.mark.rule("S4.subscription.labels", "B091")
def test_labels_can_be_changed_and_cleared(world: World) -> None:
    assert create(world, labels={"a": "1"})["labels"] == {"a": "1"}
    assert update(world, "labels", labels={"b": "2"})["labels"] == {"b": "2"}
    assert "labels" not in update(world, "labels")


@pytest.mark.rule("S4.subscription.enable_message_ordering", "S4.subscription.filter")
def test_ordering_and_filter_are_chosen_at_creation(world: World) -> None:
    chosen = {"enableMessageOrdering": True, "filter": 'attributes.k = "é" OR NOT attributes:x'}

    assert create(world, **chosen) == {**DEFAULTS, **chosen}


@pytest.mark.rule("S4.subscription.filter")
def test_a_filter_of_256_bytes_is_kept(world: World) -> None:
    text = f'attributes:"{"é" * 121}a"'

    assert len(text.encode()) == 256
    assert create(world, filter=text)["filter"] == text


@pytest.mark.rule("S4.subscription.filter", "S11.1")
@pytest.mark.parametrize("source", ["", " attributes:k ", r'hasPrefix(attributes."\x6b", "v")'])
def test_the_engine_is_told_what_a_filter_says(world: World, source: str) -> None:
    create(world, filter=source)
    update(world, "labels", labels={"a": "1"})

    settings = world.broker.subscriptions.get(NEW).settings

    assert (settings.filter and settings.filter.source) == (source or None)
    assert settings.filter is None or [settings.filter.matches(a) for a in ({"k": "v"}, {"x": "v"})] == [True, False]


@pytest.mark.rule("S4.subscription.expiration_policy")
@pytest.mark.parametrize(
    ("policy", "retention"),
    [
        ({"ttl": "86400s"}, "600s"),
        ({"ttl": "86400s"}, "86400s"),
        ({"ttl": "315360000s"}, "600s"),
        ({"ttl": "315576000000s"}, "600s"),
        ({"ttl": "604800.000000001s"}, "604800.000000001s"),
        ({}, "2678400s"),
    ],
)
def test_an_expiration_policy_is_kept(world: World, policy: dict[str, str], retention: str) -> None:
    created = create(world, expirationPolicy=policy, messageRetentionDuration=retention)

    assert created["expirationPolicy"] == policy


@pytest.mark.rule("S4.subscription.expiration_policy", "S1.8.3")
def test_an_expiration_policy_can_be_changed_to_never_and_cleared(world: World) -> None:
    create(world)

    assert update(world, "expirationPolicy", expirationPolicy={"ttl": "700000s"})["expirationPolicy"] == {
        "ttl": "700000s"
    }
    assert update(world, "expirationPolicy", expirationPolicy={})["expirationPolicy"] == {}
    assert update(world, "expirationPolicy")["expirationPolicy"] == {"ttl": "2678400s"}


@pytest.mark.rule("S4.subscription.dead_letter_policy")
@pytest.mark.parametrize(
    ("given", "kept"),
    [({}, 5), ({"maxDeliveryAttempts": 0}, 5), *(({"maxDeliveryAttempts": n}, n) for n in (5, 6, 100))],
)
def test_a_dead_letter_policy_is_completed(world: World, given: dict[str, int], kept: int) -> None:
    created = create(world, deadLetterPolicy={"deadLetterTopic": DEAD, **given})

    assert created["deadLetterPolicy"] == {"deadLetterTopic": DEAD, "maxDeliveryAttempts": kept}


@pytest.mark.rule("S4.subscription.dead_letter_policy")
def test_a_dead_letter_policy_can_be_set_changed_and_cleared(world: World) -> None:
    create(world)

    for policy in (
        {"deadLetterTopic": DEAD, "maxDeliveryAttempts": 7},
        {"deadLetterTopic": ORDERS, "maxDeliveryAttempts": 8},
    ):
        assert update(world, "deadLetterPolicy", deadLetterPolicy=policy)["deadLetterPolicy"] == policy
    assert update(world, "deadLetterPolicy") == DEFAULTS


@pytest.mark.rule("S4.subscription.retry_policy")
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, ("10s", "600s")),
        ({"minimumBackoff": "0s"}, ("0s", "600s")),
        ({"minimumBackoff": "600s"}, ("600s", "600s")),
        ({"maximumBackoff": "10s"}, ("10s", "10s")),
        ({"minimumBackoff": "0s", "maximumBackoff": "0s"}, ("0s", "0s")),
        ({"minimumBackoff": "0.000000001s", "maximumBackoff": "599.999999999s"}, ("0.000000001s", "599.999999999s")),
    ],
)
def test_a_retry_policy_is_completed(world: World, given: dict[str, str], kept: tuple[str, str]) -> None:
    expected = {"minimumBackoff": kept[0], "maximumBackoff": kept[1]}

    assert create(world, retryPolicy=given)["retryPolicy"] == expected


@pytest.mark.rule("S4.subscription.retry_policy")
def test_a_retry_policy_can_be_set_changed_and_cleared(world: World) -> None:
    create(world)

    for policy in ({"minimumBackoff": "1s", "maximumBackoff": "2s"}, {"minimumBackoff": "3s", "maximumBackoff": "4s"}):
        assert update(world, "retryPolicy", retryPolicy=policy)["retryPolicy"] == policy
    assert update(world, "retryPolicy") == DEFAULTS


@pytest.mark.rule("S4.subscription.message_transforms")
def test_transforms_are_kept_in_order_changed_and_cleared(world: World) -> None:
    transforms = [{"javascriptUdf": {"functionName": "f", "code": "c"}}, {"disabled": True}]

    assert create(world, messageTransforms=transforms)["messageTransforms"] == transforms
    assert update(world, "messageTransforms", messageTransforms=transforms[:1])["messageTransforms"] == transforms[:1]
    assert update(world, "messageTransforms") == DEFAULTS


@pytest.mark.rule("S4.subscription.topic_message_retention_duration")
def test_the_topics_retention_is_shown_as_it_is_now(world: World) -> None:
    create(world)
    world.update_topic(ORDERS, "messageRetentionDuration", messageRetentionDuration="1000.5s")

    assert shown(world.call("GetSubscription", subscription=NEW)) == {
        **DEFAULTS,
        "topicMessageRetentionDuration": "1000.500s",
    }
    world.call("DeleteTopic", topic=ORDERS)
    assert "topicMessageRetentionDuration" not in shown(world.call("GetSubscription", subscription=NEW))


EXPORTS = (
    {"bigqueryConfig": {"table": "p.d.t", "writeMetadata": True}},
    {"cloudStorageConfig": {"bucket": "b", "filenameSuffix": ".x", "maxDuration": "300s", "avroConfig": {}}},
    {"bigtableConfig": {"table": "projects/p/instances/i/tables/t", "appProfileId": "a"}},
)


@pytest.mark.rule("S4.subscription.push_config", "B094")
@pytest.mark.parametrize("export", EXPORTS, ids=lambda export: next(iter(export)))
def test_an_export_configuration_is_kept_with_a_state_of_the_servers_own(world: World, export: dict[str, Any]) -> None:
    ((kind, config),) = export.items()
    given = {kind: {**config, "state": 2}}
    expected = {**config, "state": "ACTIVE"}

    assert create(world, **given)[kind] == expected
    assert update(world, kind, **given)[kind] == expected
    assert kind not in update(world, kind)


@pytest.mark.rule("S4.subscription.push_config")
def test_kinds_of_delivery_can_be_changed_in_one_update(world: World) -> None:
    create(world, pushConfig=PUSH)

    exported = update(world, "pushConfig,bigqueryConfig", bigqueryConfig={"table": "p.d.t"})
    pushed = update(world, "pushConfig,bigqueryConfig", pushConfig=PUSH)

    assert (exported["pushConfig"], exported["bigqueryConfig"]) == ({}, {"table": "p.d.t", "state": "ACTIVE"})
    assert pushed == {**DEFAULTS, "pushConfig": PUSH}


@pytest.mark.rule("S4.subscription.push_config")
def test_an_empty_push_configuration_goes_with_an_export(world: World) -> None:
    assert create(world, pushConfig={}, bigqueryConfig={"table": "p.d.t"})["pushConfig"] == {}


PUSH_CONFIGS: tuple[dict[str, Any], ...] = (
    PUSH,
    {"pushEndpoint": "http://localhost:8080/push?token=x#y", "noWrapper": {"writeMetadata": True}},
    {**PUSH, "attributes": {"x-goog-version": "v1"}, "pubsubWrapper": {}},
    {**PUSH, "oidcToken": {"serviceAccountEmail": "a@b", "audience": "x"}},
    {},
)


@pytest.mark.rule("S4.subscription.push_config", "S1.5")
@pytest.mark.parametrize("config", PUSH_CONFIGS)
def test_a_push_configuration_is_kept_whole_whichever_way_it_is_set(world: World, config: dict[str, Any]) -> None:
    create(world, pushConfig={"pushEndpoint": "http://before/", "attributes": {"x-goog-version": "v1beta1"}})

    reply = world.call("ModifyPushConfig", subscription=NEW, pushConfig=config)
    modified = world.call("GetSubscription", subscription=NEW)
    updated = world.update_subscription(PULLED, "pushConfig", pushConfig=config)

    assert not reply.ListFields()
    assert shown(modified) == {**DEFAULTS, "pushConfig": config}
    assert shown(updated) == {**DEFAULTS, "name": PULLED, "pushConfig": config}


@pytest.mark.rule("S4.subscription.push_config")
def test_modify_push_config_without_a_config_makes_a_pull_subscription(world: World) -> None:
    create(world, pushConfig=PUSH)

    world.call("ModifyPushConfig", subscription=NEW)

    assert shown(world.call("GetSubscription", subscription=NEW)) == DEFAULTS


@pytest.mark.rule("S4.update")
def test_leases_that_are_out_keep_their_deadlines(world: World) -> None:
    world.publish(ORDERS, "first", "second")
    world.pull(PULLED, 1)
    world.update_subscription(PULLED, "ackDeadlineSeconds", ackDeadlineSeconds=100)
    world.pull(PULLED, 1)

    world.clock.advance(10)
    again = world.pull(PULLED)

    assert [each.message.attributes["text"] for each in again] == ["first"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"pushConfig": PUSH}, ["push_config.push_endpoint"]),
        ({"filter": "attributes:k", "enableMessageOrdering": True, "retryPolicy": {}, "retainAckedMessages": True}, []),
        ({"messageTransforms": [{"disabled": True}]}, ["message_transforms"]),
        ({"bigqueryConfig": {"table": "p.d.t"}}, ["bigquery_config"]),
        ({"pushConfig": {}, "labels": {"a": "1"}, "ackDeadlineSeconds": 20}, []),
    ],
)
def test_what_has_no_effect_yet_is_named_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture, fields: dict[str, Any], named: list[str]
) -> None:
    with caplog.at_level(logging.WARNING):
        create(world, **fields)

    assert [record.getMessage() for record in caplog.records] == [
        f"resource={NEW} field={field} is kept but has no effect yet" for field in named
    ]
