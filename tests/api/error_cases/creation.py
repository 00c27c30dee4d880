"""Values of fields that CreateTopic and CreateSubscription refuse (service.md §4)."""

from dataclasses import replace
from typing import Any

from emulator.errors import Code
from tests.api.error_cases.case import Case, GrpcCase
from tests.api.world import ORDERS

DAY_S = 86_400
MAX_S = 31 * DAY_S


def topic(rule: str, *says: str, code: Code = Code.INVALID_ARGUMENT, **fields: Any) -> Case:
    request = {"name": "projects/acme/topics/new-one", **fields}
    return Case(f"CreateTopic: {fields}"[:160], (f"S4.topic.{rule}",), "CreateTopic", request, code, says)


def subscription(rule: str, *says: str, code: Code = Code.INVALID_ARGUMENT, **fields: Any) -> Case:
    rules = (f"S4.subscription.{rule}", *(("B155",) if fields.get("ackDeadlineSeconds") == 1 else ()))
    request = {"name": "projects/acme/subscriptions/new-one", "topic": ORDERS, **fields}
    return Case(f"CreateSubscription: {fields}"[:160], rules, "CreateSubscription", request, code, says)


def filtered(source: str, position: int, expectation: str, *rules: str) -> Case:
    says = ("filter", f"at character {position}, expected", expectation)
    case = subscription("filter", *says, filter=source)
    return replace(case, rules=(*case.rules, *rules))


def grpc(method: str, rule: str, *says: str, **fields: Any) -> GrpcCase:
    """What only gRPC can carry: numbers and parts that have no JSON form."""
    request = {"name": "projects/acme/subscriptions/new-one", "topic": ORDERS, **fields}
    if method == "CreateTopic":
        request = {"name": "projects/acme/topics/new-one", **fields}
    return GrpcCase(f"{method}: {fields}"[:160], (rule,), method, request, Code.INVALID_ARGUMENT, says)


def retention(value: str) -> Case:
    says = ("message_retention_duration", f" {value};", "600")
    return topic("message_retention_duration", *says, messageRetentionDuration=value)


def kept(value: str) -> Case:
    says = ("message_retention_duration", f" {value};", "600")
    return subscription("message_retention_duration", *says, messageRetentionDuration=value)


def deadline(value: int) -> Case:
    says = ("ack_deadline_seconds", f" {value};", "600")
    return subscription("ack_deadline_seconds", *says, ackDeadlineSeconds=value)


def attempts(value: int) -> Case:
    policy = {"deadLetterTopic": ORDERS, "maxDeliveryAttempts": value}
    says = ("dead_letter_policy.max_delivery_attempts", f" {value};", "100")
    return subscription("dead_letter_policy", *says, deadLetterPolicy=policy)


def expiration(value: str, retained: str, *says: str) -> Case:
    says = ("expiration_policy.ttl", f" {value};", *says)
    policy = {"ttl": value}
    return subscription("expiration_policy", *says, expirationPolicy=policy, messageRetentionDuration=retained)


def backoff(argument: str, value: str, **policy: str) -> Case:
    return subscription("retry_policy", f"retry_policy.{argument}", f" {value};", retryPolicy=policy)


def endpoint(value: str) -> Case:
    says = ("push_config.push_endpoint", value)
    return subscription("push_config", *says, pushConfig={"pushEndpoint": value})


def schema(*says: str, code: Code = Code.INVALID_ARGUMENT, **settings: Any) -> Case:
    return topic("schema_settings", *says, code=code, schemaSettings=settings)


PUSH = {"pushEndpoint": "https://example.com/"}
EXPORTS: dict[str, Any] = {
    "bigqueryConfig": {"table": "p.d.t"},
    "cloudStorageConfig": {"bucket": "b"},
    "bigtableConfig": {"table": "projects/p/instances/i/tables/t"},
}

TOPICS = (
    *map(retention, ("0s", "-600s", "599s", "599.999999999s", f"{MAX_S}.000000001s", f"{MAX_S + 1}s", "315576000000s")),
    topic("message_storage_policy", "message_storage_policy.allowed_persistence_regions", messageStoragePolicy={}),
    topic(
        "message_storage_policy",
        "message_storage_policy.allowed_persistence_regions",
        messageStoragePolicy={"enforceInTransit": True},
    ),
    *(
        topic("kms_key_name", "kms_key_name", name, kmsKeyName=name)
        for name in (
            "key",
            "projects/p/locations/l/keyRings/r",
            "projects/p/locations/l/keyRings/r/cryptoKeys/",
            "projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1",
            "projects//locations/l/keyRings/r/cryptoKeys/k",
        )
    ),
    schema("schema_settings.schema", "(empty)"),
    schema("schema_settings.schema", "(empty)", encoding="JSON"),
    schema("schema_settings.schema", "orders", schema="orders", encoding="JSON"),
    schema("schema_settings.schema", "_deleted-schema_", schema="_deleted-schema_", encoding="JSON"),
    schema("schema_settings.schema", "topics/orders", schema="projects/acme/topics/orders", encoding="BINARY"),
    schema("schema_settings.encoding", "ENCODING_UNSPECIFIED", schema="projects/acme/schemas/absent"),
    schema("schema_settings.encoding", "7", schema="projects/acme/schemas/absent", encoding=7),
    schema(
        "(resource=projects/acme/schemas/absent)",
        schema="projects/acme/schemas/absent",
        encoding="BINARY",
        code=Code.NOT_FOUND,
    ),
)

SUBSCRIPTIONS = (
    subscription("name", "Missing", "(argument=topic)", topic=""),
    *map(deadline, (-1, 1, 9, 601, 2**31 - 1, -(2**31))),
    *map(kept, ("0s", "-1s", "599.999999999s", f"{MAX_S}.000000001s", f"{MAX_S + 1}s")),
    *map(attempts, (-1, 1, 4, 101, 2**31 - 1)),
    subscription(
        "dead_letter_policy",
        "dead_letter_policy.dead_letter_topic",
        "(empty)",
        deadLetterPolicy={"maxDeliveryAttempts": 5},
    ),
    subscription("dead_letter_policy", "dead_letter_policy.dead_letter_topic", "(empty)", deadLetterPolicy={}),
    expiration(f"{DAY_S - 1}.999999999s", "600s", str(DAY_S)),
    expiration("0s", "600s", str(DAY_S)),
    expiration(f"-{DAY_S}s", "600s", str(DAY_S)),
    expiration(f"{7 * DAY_S - 1}s", f"{7 * DAY_S}s", "message_retention_duration", f"{7 * DAY_S}s"),
    expiration(f"{2 * DAY_S}s", f"{2 * DAY_S}.000000001s", "message_retention_duration"),
    backoff("minimum_backoff", "-0.000000001s", minimumBackoff="-0.000000001s"),
    backoff("minimum_backoff", "600.000000001s", minimumBackoff="600.000000001s"),
    backoff("maximum_backoff", "601s", maximumBackoff="601s"),
    backoff("maximum_backoff", "-1s", minimumBackoff="0s", maximumBackoff="-1s"),
    backoff("maximum_backoff", "9.999s", maximumBackoff="9.999s"),
    backoff("maximum_backoff", "20s", minimumBackoff="20.000000001s", maximumBackoff="20s"),
    *map(endpoint, ("example.com/push", "HTTPS://example.com/", "ftp://example.com/", "http://", "https:///push", " ")),
    *(
        subscription("push_config", "push_config", snake, pushConfig=PUSH, **{name: EXPORTS[name]})
        for name, snake in (
            ("bigqueryConfig", "bigquery_config"),
            ("cloudStorageConfig", "cloud_storage_config"),
            ("bigtableConfig", "bigtable_config"),
        )
    ),
    subscription(
        "push_config",
        "bigquery_config",
        "cloud_storage_config",
        bigqueryConfig=EXPORTS["bigqueryConfig"],
        cloudStorageConfig=EXPORTS["cloudStorageConfig"],
    ),
    subscription("push_config", "cloud_storage_config.max_duration", "59s", cloudStorageConfig={"maxDuration": "59s"}),
    subscription(
        "push_config", "cloud_storage_config.max_duration", "601s", cloudStorageConfig={"maxDuration": "601s"}
    ),
    *(
        subscription("push_config", f"cloud_storage_config.{snake}", value, cloudStorageConfig={name: value})
        for name, snake, values in (
            ("maxBytes", "max_bytes", ("-1", "1", "999", "10737418241")),
            ("maxMessages", "max_messages", ("-1", "1", "999")),
        )
        for value in values
    ),
    subscription(
        "enable_exactly_once_delivery",
        "enable_exactly_once_delivery",
        "push_config",
        pushConfig=PUSH,
        enableExactlyOnceDelivery=True,
    ),
    *(
        subscription(
            "enable_exactly_once_delivery",
            "enable_exactly_once_delivery",
            enableExactlyOnceDelivery=True,
            **{name: config},
        )
        for name, config in EXPORTS.items()
    ),
    subscription("filter", "filter", "257", "256", filter=f"attributes:{'k' * 246}"),
    subscription("filter", "filter", "258", "256", filter=f'attributes:"{"é" * 122}a"'),
    filtered("bogus (", 1, "hasPrefix, the only function", "S11.1", "S11.5", "B055"),
    filtered(" ", 2, "a condition", "S11.1"),
    filtered("attributes:a and attributes:b", 14, "AND, in upper case", "S11.2"),
    filtered("attributes:a AND attributes:b OR attributes:c", 31, "parentheses", "S11.2"),
    filtered(r"attributes:\u307F", 12, "any text in double quotes", "S11.4"),
    filtered('data = "x"', 1, "attributes", "S11.4"),
    filtered("attributes.k = v", 16, "a value in double quotes", "S11.5"),
    filtered('attributes.k < "v"', 14, "values have no order", "S11.5"),
    filtered('attributes.é = "v"', 12, "a key", "S11.4"),
    filtered('attributes.k = "é" AND attributes.k = "\\ud800"', 40, "no surrogate", "S11.1"),
)

GRPC = (
    grpc("CreateTopic", "S1.2", "(argument=name)", "(empty)", name=""),
    grpc(
        "CreateTopic",
        "S4.topic.message_retention_duration",
        "message_retention_duration",
        "seconds: 601 nanos: -1",
        message_retention_duration={"seconds": 601, "nanos": -1},
    ),
    grpc(
        "CreateTopic",
        "S4.topic.message_retention_duration",
        "message_retention_duration",
        "nanos: 2000000000",
        message_retention_duration={"seconds": 600, "nanos": 2_000_000_000},
    ),
    grpc(
        "CreateTopic",
        "S4.topic.ingestion_data_source_settings",
        "ingestion_data_source_settings.cloud_storage.minimum_object_create_time",
        "nanos: -5",
        ingestion_data_source_settings={"cloud_storage": {"bucket": "b", "minimum_object_create_time": {"nanos": -5}}},
    ),
    grpc(
        "CreateTopic",
        "S4.topic.message_transforms",
        "message_transforms[1].ai_inference.unstructured_inference.parameters",
        "nan",
        message_transforms=[
            {"disabled": True},
            {"ai_inference": {"unstructured_inference": {"parameters": {"p": float("nan")}}}},
        ],
    ),
    grpc(
        "CreateSubscription",
        "S4.subscription.expiration_policy",
        "expiration_policy.ttl",
        str(2**62),
        expiration_policy={"ttl": {"seconds": 2**62}},
    ),
    grpc(
        "CreateSubscription",
        "S4.subscription.message_retention_duration",
        "message_retention_duration",
        str(-(2**63)),
        message_retention_duration={"seconds": -(2**63)},
    ),
    grpc(
        "CreateSubscription",
        "S4.subscription.retry_policy",
        "retry_policy.minimum_backoff",
        "nanos: 1000000000",
        retry_policy={"minimum_backoff": {"nanos": 1_000_000_000}},
    ),
)

CASES = (*TOPICS, *SUBSCRIPTIONS, *GRPC)
