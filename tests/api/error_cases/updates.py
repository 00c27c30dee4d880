"""Masks that are refused, and updates that must not leave half a change behind (service.md §1.5a, §1.8)."""

from collections.abc import Iterator
from typing import Any

from emulator.errors import Code
from tests.api.error_cases.case import Case, GrpcCase
from tests.api.world import DEAD, ELSEWHERE, EXPORTED, KEPT, ORDERS, PULLED, PUSHED, snake

NEW = {"labels": {"new": "one"}}


def of_topic(mask: str, rules: tuple[str, ...], *says: str, **fields: Any) -> Case:
    """An UpdateTopic of ORDERS that changes its labels too; `mask` in JSON's spelling."""
    request = {"topic": {"name": ORDERS, **NEW, **fields}, "updateMask": mask}
    return Case(f"UpdateTopic: {mask or 'no mask'}", rules, "UpdateTopic", request, Code.INVALID_ARGUMENT, says)


def of_subscription(
    mask: str, rules: tuple[str, ...], *says: str, name: str = PULLED, code: Code = Code.INVALID_ARGUMENT, **fields: Any
) -> Case:
    """An UpdateSubscription that changes its labels too; `mask` in JSON's spelling."""
    request = {"subscription": {"name": name, **NEW, **fields}, "updateMask": mask}
    return Case(f"UpdateSubscription: {mask or 'no mask'}", rules, "UpdateSubscription", request, code, says)


def of_snapshot(mask: str, rules: tuple[str, ...], *says: str, **fields: Any) -> Case:
    """An UpdateSnapshot of KEPT that changes its labels too; `mask` in JSON's spelling."""
    request = {"snapshot": {"name": KEPT, **NEW, **fields}, "updateMask": mask}
    return Case(f"UpdateSnapshot: {mask or 'no mask'}", rules, "UpdateSnapshot", request, Code.INVALID_ARGUMENT, says)


def masks() -> Iterator[Case]:
    """All resources refuse the same kinds of mask; what the message names is the path in snake case."""
    for of in (of_topic, of_subscription, of_snapshot):
        yield of("", ("S1.8.1", "B097"), "update_mask")
        for mask, path in (
            ("nope", "nope"),
            ("labels,nope", "nope"),
            ("nope,labels", "nope"),
            ("labels,", "(empty)"),
            ("pushconfig", "pushconfig"),
        ):
            yield of(mask, ("S1.8.1", "S1.8.5"), "update_mask", path)
        for mask in ("labels.", "labels.a.b", "name.x"):
            yield of(mask, ("S1.8.1", "S1.8.2"), "update_mask", mask)
        for mask in ("*,labels", "labels,*"):
            yield of(mask, ("S1.8.6",), "update_mask", "*")
    for mask, path in (
        ("kmsKeyName.x", "kms_key_name.x"),
        ("messageStoragePolicy.nope", "message_storage_policy.nope"),
        ("messageRetentionDuration.seconds", "message_retention_duration.seconds"),
        ("messageTransforms.disabled", "message_transforms.disabled"),
        ("filter", "filter"),
    ):
        yield of_topic(mask, ("S1.8.1", "S1.8.2"), "update_mask", path)
    for mask, path in (
        ("pushConfig.nope", "push_config.nope"),
        ("pushConfig.oidcToken.nope", "push_config.oidc_token.nope"),
        ("expirationPolicy.ttl.seconds", "expiration_policy.ttl.seconds"),
        ("deadLetterPolicy.", "dead_letter_policy."),
    ):
        yield of_subscription(mask, ("S1.8.1", "S1.8.2"), "update_mask", path)


def fixed_fields() -> Iterator[Case]:
    """Immutable and output-only fields, alone and behind one that could change."""
    for field, rule in (
        ("name", "S4.topic.name"),
        ("tags", "S4.topic.tags"),
        ("tags.key", "S3.8"),
        ("state", "S4.topic.satisfies_pzs"),
        ("satisfiesPzs", "S4.topic.satisfies_pzs"),
        ("ingestionDataSourceSettings.awsKinesis.state", "S4.topic.ingestion_data_source_settings"),
    ):
        yield of_topic(field, (rule,), "update_mask", snake(field))
        yield of_topic(f"labels,{field}", (rule, "S1.8.5"), "update_mask", snake(field))
    for field, rule in (
        ("name", "S4.subscription.name"),
        ("topic", "S4.subscription.name"),
        ("tags", "S3.8"),
        ("filter", "S4.subscription.filter"),
        ("enableMessageOrdering", "S4.subscription.enable_message_ordering"),
        ("detached", "S4.subscription.detached"),
        ("state", "S4.subscription.state"),
        ("analyticsHubSubscriptionInfo", "S4.subscription.state"),
        ("analyticsHubSubscriptionInfo.listing", "S4.subscription.state"),
        ("bigqueryConfig.state", "S4.subscription.push_config"),
        ("topicMessageRetentionDuration", "S4.subscription.topic_message_retention_duration"),
    ):
        yield of_subscription(field, (rule,), "update_mask", snake(field))
        yield of_subscription(f"labels,{field}", (rule, "S1.8.5"), "update_mask", snake(field))


def fixed_fields_of_snapshots() -> Iterator[Case]:
    """All but the labels."""
    for field in ("name", "topic", "expireTime"):
        yield of_snapshot(field, ("S12.11",), "update_mask", snake(field))
        yield of_snapshot(f"labels,{field}", ("S12.11", "S1.8.5"), "update_mask", snake(field))
    yield of_snapshot("labels.Bad,labels.new", ("S1.8.2", "S3.7"), "labels", "Bad", labels={"Bad": "x", "new": "one"})


def bad_values() -> Iterator[Case]:
    """Good masks with a value that is refused, always behind a change of labels that must not happen."""
    half = ("S1.8.5",)
    yield of_topic(
        "labels,messageRetentionDuration",
        (*half, "S4.topic.message_retention_duration"),
        "message_retention_duration",
        "599s",
        messageRetentionDuration="599s",
    )
    yield of_topic("labels,kmsKeyName", (*half, "S4.topic.kms_key_name"), "kms_key_name", "my-key", kmsKeyName="my-key")
    yield of_topic(
        "labels,messageStoragePolicy.enforceInTransit",
        (*half, "S4.topic.message_storage_policy"),
        "message_storage_policy.allowed_persistence_regions",
        messageStoragePolicy={"enforceInTransit": True},
    )
    yield of_topic("labels.Bad,labels.new", ("S1.8.2", "S3.7"), "labels", "Bad", labels={"Bad": "x", "new": "one"})
    yield of_subscription(
        "labels,ackDeadlineSeconds",
        (*half, "S4.subscription.ack_deadline_seconds"),
        "ack_deadline_seconds",
        "601",
        ackDeadlineSeconds=601,
    )
    yield of_subscription(
        "labels,messageRetentionDuration",
        (*half, "S4.subscription.message_retention_duration"),
        "message_retention_duration",
        "2678400.000000001s",
        messageRetentionDuration="2678400.000000001s",
    )
    yield of_subscription(
        "labels,expirationPolicy.ttl",
        (*half, "S4.subscription.expiration_policy"),
        "expiration_policy.ttl",
        "604799s",
        "604800s",
        expirationPolicy={"ttl": "604799s"},
    )
    yield of_subscription(
        "labels,retryPolicy.maximumBackoff",
        (*half, "S4.subscription.retry_policy"),
        "retry_policy.maximum_backoff",
        "0.5s",
        "1s",
        retryPolicy={"maximumBackoff": "0.5s"},
    )
    yield of_subscription(
        "labels,deadLetterPolicy.maxDeliveryAttempts",
        (*half, "S4.subscription.dead_letter_policy"),
        "dead_letter_policy.max_delivery_attempts",
        "101",
        deadLetterPolicy={"maxDeliveryAttempts": 101},
    )
    yield of_subscription(
        "labels,deadLetterPolicy",
        (*half, "S4.subscription.dead_letter_policy"),
        "(resource=projects/acme/topics/absent)",
        deadLetterPolicy={"deadLetterTopic": "projects/acme/topics/absent"},
        code=Code.NOT_FOUND,
    )
    yield of_subscription(
        "labels,pushConfig",
        (*half, "S4.subscription.enable_exactly_once_delivery"),
        "enable_exactly_once_delivery",
        "push_config",
        name=ELSEWHERE,
        pushConfig={"pushEndpoint": "https://example.com/"},
    )
    yield of_subscription(
        "labels,enableExactlyOnceDelivery",
        (*half, "S4.subscription.enable_exactly_once_delivery"),
        "enable_exactly_once_delivery",
        "bigquery_config",
        name=EXPORTED,
        enableExactlyOnceDelivery=True,
    )
    yield of_subscription(
        "labels,cloudStorageConfig",
        (*half, "S4.subscription.push_config"),
        "push_config",
        "cloud_storage_config",
        name=PUSHED,
        cloudStorageConfig={"bucket": "b"},
    )


def of_grpc(method: str, holder: str, name: str, *paths: str) -> GrpcCase:
    return GrpcCase(
        name=f"{method}: gRPC mask {' '.join(paths) or 'without paths'}",
        rules=("S1.8.1",),
        method=method,
        request={holder: {"name": name, "labels": {"new": "one"}}, "update_mask": {"paths": paths}},
        code=Code.INVALID_ARGUMENT,
        says=("update_mask", paths[-1] if paths else "at least one"),
    )


GRPC_MASKS = (
    of_grpc("UpdateTopic", "topic", ORDERS),
    of_grpc("UpdateTopic", "topic", ORDERS, "kmsKeyName"),
    of_grpc("UpdateTopic", "topic", ORDERS, "labels", "messageStoragePolicy"),
    of_grpc("UpdateTopic", "topic", ORDERS, "labels,kms_key_name"),
    of_grpc("UpdateTopic", "topic", ORDERS, " labels"),
    of_grpc("UpdateSubscription", "subscription", PULLED),
    of_grpc("UpdateSubscription", "subscription", PULLED, "ackDeadlineSeconds"),
    of_grpc("UpdateSubscription", "subscription", PULLED, "push_config.pushEndpoint"),
    of_grpc("UpdateSubscription", "subscription", PULLED, "Labels"),
    of_grpc("UpdateSnapshot", "snapshot", KEPT),
    of_grpc("UpdateSnapshot", "snapshot", KEPT, "labels", "expireTime"),
)

ORDER = (
    Case(
        "CreateTopic: existence comes before the fields",
        ("S1.5a",),
        "CreateTopic",
        {"name": ORDERS, "labels": {"BAD": ""}},
        Code.ALREADY_EXISTS,
        (f"(resource={ORDERS})",),
    ),
    Case(
        "CreateSubscription: existence comes before the fields",
        ("S1.5a",),
        "CreateSubscription",
        {"name": PULLED, "topic": ORDERS, "ackDeadlineSeconds": 1},
        Code.ALREADY_EXISTS,
        (f"(resource={PULLED})",),
    ),
    Case(
        "UpdateTopic: the name's form comes before the mask",
        ("S1.5a",),
        "UpdateTopic",
        {"topic": {"name": "projects/acme/topics/x"}, "updateMask": "nope"},
        Code.INVALID_ARGUMENT,
        ("topic.name", "projects/acme/topics/x"),
    ),
    Case(
        "UpdateTopic: existence comes before the mask",
        ("S1.5a",),
        "UpdateTopic",
        {"topic": {"name": "projects/acme/topics/absent"}, "updateMask": "nope"},
        Code.NOT_FOUND,
        ("(resource=projects/acme/topics/absent)",),
    ),
    Case(
        "UpdateSubscription: existence comes before mask and value",
        ("S1.5a",),
        "UpdateSubscription",
        {
            "subscription": {"name": "projects/acme/subscriptions/absent", "ackDeadlineSeconds": 1},
            "updateMask": "nope,ackDeadlineSeconds",
        },
        Code.NOT_FOUND,
        ("(resource=projects/acme/subscriptions/absent)",),
    ),
    Case(
        "CreateSubscription: the topic's form comes before its existence and the fields",
        ("S1.5a",),
        "CreateSubscription",
        {"name": "projects/acme/subscriptions/new-one", "topic": "orders", "ackDeadlineSeconds": 1},
        Code.INVALID_ARGUMENT,
        ("(argument=topic)", "orders"),
    ),
    Case(
        "CreateSubscription: the topic's existence comes before the fields",
        ("S1.5a",),
        "CreateSubscription",
        {
            "name": "projects/acme/subscriptions/new-one",
            "topic": "projects/acme/topics/absent",
            "ackDeadlineSeconds": 1,
            "deadLetterPolicy": {"deadLetterTopic": DEAD},
        },
        Code.NOT_FOUND,
        ("(resource=projects/acme/topics/absent)",),
    ),
)

CASES = (*masks(), *fixed_fields(), *fixed_fields_of_snapshots(), *bad_values(), *GRPC_MASKS, *ORDER)
