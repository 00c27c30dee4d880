"""Publish, Pull, Acknowledge and ModifyAckDeadline where they are refused (service.md §5, §6.2, §7.1, §7.2)."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from emulator.errors import Code
from tests.api.error_cases.case import Case
from tests.api.world import (
    ACK_ID,
    DETACHED,
    ELSEWHERE,
    EXPORTED,
    FOREIGN_ACK_ID,
    ORDERS,
    PULLED,
    PUSHED,
)

GOOD: dict[str, Any] = {"data": "eA=="}
TEN_MILLION_BYTES = b64encode(bytes(10_000_000)).decode()


def publish(
    name: str,
    rules: tuple[str, ...],
    *says: str,
    messages: Any,
    code: Code = Code.INVALID_ARGUMENT,
    topic: str = ORDERS,
) -> Case:
    return Case(f"Publish: {name}", rules, "Publish", {"topic": topic, "messages": messages}, code, says)


def attributes(name: str, *says: str, **given: str) -> Case:
    """A good message, and one with bad attributes."""
    says = ("messages[1].attributes", *says)
    return publish(name, ("S5.5", "S5.1"), *says, messages=[GOOD, {"attributes": given}])


PUBLISHES = (
    publish("no messages", ("S5.2",), "messages", "0 messages", messages=[]),
    publish("1,001 messages", ("S5.2",), "messages", "1001", "1000", messages=[GOOD] * 1001),
    publish("an empty message", ("S5.4", "S5.1"), "messages[1]", messages=[GOOD, {}]),
    publish("an ordering key alone", ("S5.4",), "messages[0]", messages=[{"orderingKey": "k"}]),
    publish("no data, no attributes", ("S5.4",), "messages[0]", messages=[{"data": "", "attributes": {}}]),
    attributes("101 attributes", "101", "100", **{f"k{number}": "" for number in range(101)}),
    attributes("empty key", "''", **{"": "x"}),
    attributes("reserved key", "'goog'", goog="x"),
    attributes("reserved prefix", "'googclient_x'", googclient_x="x"),
    attributes("key of 257 bytes", "k" * 100, "257", "256", **{"k" * 257: "x"}),
    attributes("key of 129 two-byte letters", "é" * 100, "258", "256", **{"é" * 129: "x"}),
    attributes("value of 1,025 bytes", "'k'", "1025", "1024", k="v" * 1025),
    attributes("value of 257 four-byte letters", "'k'", "1028", "1024", k="😀" * 257),
    publish(
        "key of 1,025 bytes",
        ("S5.6",),
        "messages[1].ordering_key",
        "1025",
        "1024",
        messages=[GOOD, {**GOOD, "orderingKey": "k" * 1025}],
    ),
    publish(
        "key of 513 two-byte letters",
        ("S5.6",),
        "messages[0].ordering_key",
        "1026",
        "1024",
        messages=[{**GOOD, "orderingKey": "é" * 513}],
    ),
    publish(
        "two keys",
        ("S5.7", "S5.1"),
        "messages[1]",
        "'a'",
        "'b'",
        messages=[{**GOOD, "orderingKey": "a"}, {**GOOD, "orderingKey": "b"}],
        code=Code.FAILED_PRECONDITION,
    ),
    publish(
        "a key and none",
        ("S5.7",),
        "messages[2]",
        "'a'",
        "''",
        messages=[{**GOOD, "orderingKey": "a"}, {**GOOD, "orderingKey": "a"}, GOOD],
        code=Code.FAILED_PRECONDITION,
    ),
    publish(
        "more than 10,000,000 bytes",
        ("S5.3", "B151"),
        "messages",
        "10000000",
        messages=[{"data": TEN_MILLION_BYTES}],
    ),
    publish(
        "existence comes before the size",
        ("S5.1", "S1.5a"),
        "(resource=projects/acme/topics/absent)",
        messages=[{"data": TEN_MILLION_BYTES}],
        topic="projects/acme/topics/absent",
        code=Code.NOT_FOUND,
    ),
    publish(
        "existence comes before the count",
        ("S5.1", "S1.5a"),
        "(resource=projects/acme/topics/absent)",
        messages=[],
        topic="projects/acme/topics/absent",
        code=Code.NOT_FOUND,
    ),
    publish("the count comes before the messages", ("S5.1",), "1001", messages=[{}] * 1001),
    publish(
        "the messages come before the keys",
        ("S5.1",),
        "messages[2]",
        messages=[{**GOOD, "orderingKey": "a"}, {**GOOD, "orderingKey": "b"}, {}],
    ),
)


def pull(name: str, rules: tuple[str, ...], *says: str, code: Code, subscription: str = PULLED, most: int = 1) -> Case:
    # It would wait, if it were not refused.
    return Case(f"Pull: {name}", rules, "Pull", {"subscription": subscription, "maxMessages": most}, code, says)


PULLS = (
    *(
        pull(f"max_messages {most}", ("S7.2.1",), "max_messages", f"{most};", code=Code.INVALID_ARGUMENT, most=most)
        for most in (0, -1, -(2**31))
    ),
    pull(
        "push subscription",
        ("S7.2.5",),
        "push_config",
        f"(resource={PUSHED})",
        code=Code.FAILED_PRECONDITION,
        subscription=PUSHED,
    ),
    pull(
        "export subscription",
        ("S7.2.5",),
        "bigquery_config",
        f"(resource={EXPORTED})",
        code=Code.FAILED_PRECONDITION,
        subscription=EXPORTED,
    ),
    pull(
        "detached subscription",
        ("S7.2.6", "S6.2"),
        "detached",
        f"(resource={DETACHED})",
        code=Code.FAILED_PRECONDITION,
        subscription=DETACHED,
    ),
)

MALFORMED_ACK_IDS = ("", "x", "projects/acme/subscriptions/pulled:1", "A" * 24, "A" * 25, "é" * 24, "A" * 23 + "\n")


def ack_calls(name: str, rules: tuple[str, ...], ack_ids: list[str], *says: str) -> Iterator[Case]:
    """The same ids to both calls that take some; a good id before them must not be processed."""
    for method, more in (("Acknowledge", {}), ("ModifyAckDeadline", {"ackDeadlineSeconds": 0})):
        request = {"subscription": PULLED, "ackIds": ack_ids, **more}
        yield Case(f"{method}: {name}", rules, method, request, Code.INVALID_ARGUMENT, ("ack_ids", *says))


def bad_ack_ids() -> Iterator[Case]:
    yield from ack_calls("no ids", ("S7.1.8",), [], "0 ack ids")
    for ack_id in MALFORMED_ACK_IDS:
        says = ack_id.replace("\n", "\\n") or "(empty)"
        yield from ack_calls(f"malformed {ack_id!a}", ("S7.1.8",), [ACK_ID, ack_id], says)
    yield from ack_calls("foreign id", ("S7.1.8",), [ACK_ID, FOREIGN_ACK_ID], FOREIGN_ACK_ID)
    yield from ack_calls("524,289 bytes", ("S7.1.9", "B026"), [ACK_ID, "A" * 524_300], "524288")


def modify(seconds: int, *rules: str) -> Case:
    request = {"subscription": PULLED, "ackIds": [ACK_ID], "ackDeadlineSeconds": seconds}
    says = ("ack_deadline_seconds", f"{seconds};", "600")
    return Case(f"ModifyAckDeadline: {seconds} s", rules, "ModifyAckDeadline", request, Code.INVALID_ARGUMENT, says)


def on_absent(method: str, **fields: Any) -> Case:
    name = "projects/acme/subscriptions/absent"
    says = (f"(resource={name})",)
    return Case(
        f"{method}: existence comes before {fields}",
        ("S1.5a",),
        method,
        {"subscription": name, **fields},
        Code.NOT_FOUND,
        says,
    )


ACKS = (
    *bad_ack_ids(),
    modify(-1, "S7.1.3"),
    modify(601, "S7.1.3"),
    modify(715, "S7.1.3", "B025"),
    modify(-(2**31), "S7.1.3"),
    on_absent("Acknowledge", ackIds=["malformed"]),
    on_absent("Acknowledge", ackIds=[ACK_ID]),
    on_absent("ModifyAckDeadline", ackIds=["malformed"], ackDeadlineSeconds=-1),
    on_absent("Pull", maxMessages=-1),
    on_absent("ModifyPushConfig", pushConfig={"pushEndpoint": "nonsense"}),
)


def push(name: str, rules: tuple[str, ...], *says: str, subscription: str, endpoint: str) -> Case:
    request = {"subscription": subscription, "pushConfig": {"pushEndpoint": endpoint}}
    return Case(f"ModifyPushConfig: {name}", rules, "ModifyPushConfig", request, Code.INVALID_ARGUMENT, says)


PUSHES = (
    push(
        "no URL",
        ("S4.subscription.push_config",),
        "push_config.push_endpoint",
        "nonsense",
        subscription=PULLED,
        endpoint="nonsense",
    ),
    push(
        "exactly-once",
        ("S4.subscription.enable_exactly_once_delivery",),
        "enable_exactly_once_delivery",
        "push_config",
        subscription=ELSEWHERE,
        endpoint="http://localhost/",
    ),
    push(
        "export subscription",
        ("S4.subscription.push_config",),
        "push_config",
        "bigquery_config",
        subscription=EXPORTED,
        endpoint="http://localhost/",
    ),
)

CASES = (*PUBLISHES, *PULLS, *ACKS, *PUSHES)
