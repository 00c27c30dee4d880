"""Names and labels that are refused, and names of nothing (service.md §1, §1.5a, §3)."""

from collections.abc import Iterator
from typing import Any

from emulator.errors import Code
from tests.api.error_cases.case import Case, GrpcCase
from tests.api.world import DEAD, ORDERS, PULLED

# Every place for a name in an implemented RPC: RPC, the field in the request, the collection that belongs there.
IN_PATHS = (
    ("CreateTopic", "name", "topics"),
    ("UpdateTopic", "topic.name", "topics"),
    ("Publish", "topic", "topics"),
    ("GetTopic", "topic", "topics"),
    ("ListTopicSubscriptions", "topic", "topics"),
    ("DeleteTopic", "topic", "topics"),
    ("DetachSubscription", "subscription", "subscriptions"),
    ("CreateSubscription", "name", "subscriptions"),
    ("GetSubscription", "subscription", "subscriptions"),
    ("UpdateSubscription", "subscription.name", "subscriptions"),
    ("DeleteSubscription", "subscription", "subscriptions"),
    ("ModifyAckDeadline", "subscription", "subscriptions"),
    ("Acknowledge", "subscription", "subscriptions"),
    ("Pull", "subscription", "subscriptions"),
    ("ModifyPushConfig", "subscription", "subscriptions"),
    ("CreateSnapshot", "name", "snapshots"),
    ("GetSnapshot", "snapshot", "snapshots"),
    ("UpdateSnapshot", "snapshot.name", "snapshots"),
    ("DeleteSnapshot", "snapshot", "snapshots"),
    ("ListTopicSnapshots", "topic", "topics"),
    ("Seek", "subscription", "subscriptions"),
)
IN_BODIES = (
    ("CreateSubscription", "topic", "topics"),
    ("CreateSubscription", "dead_letter_policy.dead_letter_topic", "topics"),
    ("CreateSnapshot", "subscription", "subscriptions"),
    ("Seek", "snapshot", "snapshots"),
)

# The rest of a request that would succeed if its name did.
COMPANY: dict[str, dict[str, Any]] = {
    "CreateSubscription": {"name": "projects/acme/subscriptions/new-one", "topic": ORDERS},
    "CreateSnapshot": {"name": "projects/acme/snapshots/new-one", "subscription": PULLED},
    "Seek": {"subscription": PULLED},
}

BAD_IDS = (
    "ab",
    "a" * 256,
    "1abc",
    "-abc",
    "_abc",
    "goog",
    "google-topic",
    "abc def",
    "abc\n",
    "abc!",
    "abc@1",
    "abc,d",
    "abcé",
    "abc١",
    "äbc",
    "_deleted-topic_",
)
BAD_FORMS = (
    "orders",
    "topics/orders",
    "_deleted-topic_",
    "_deleted-schema_",
    "projects/acme/{collection}",
    "projects/acme/{collection}/",
    "projects//{collection}/orders",
    "/projects/acme/{collection}/orders",
    "projects/acme/{collection}/orders/",
    "projects/acme/{collection}/or/ders",
    "projects/acme/schemas/orders",
    "projects/acme/X{collection}/orders",
    "Projects/acme/{collection}/orders",
    "//pubsub.googleapis.com/projects/acme/{collection}/orders",
)


def holding(method: str, field: str, value: str) -> dict[str, Any]:
    """A request in which only the name in `field` matters."""
    request = dict(COMPANY.get(method, {}))
    *above, leaf = field.split(".")
    holder = request
    for each in above:
        holder = holder.setdefault(each, {})
    holder[leaf] = value
    return request


def shown(value: str) -> str:
    return value[:100].replace("\n", "\\n")


def bad_id(method: str, field: str, collection: str, identifier: str) -> Case:
    name = f"projects/acme/{collection}/{identifier}"
    return Case(
        name=f"{method}.{field}: id {identifier[:20]!a}",
        rules=("S3.4",) if identifier.startswith("_") else ("S3.1", "B152"),
        method=method,
        request=holding(method, field, name),
        code=Code.INVALID_ARGUMENT,
        says=(f"(argument={field})", shown(name)),
    )


def bad_form(kind: type[Case], method: str, field: str, collection: str, form: str) -> Case:
    name = form.format(collection=collection)
    return kind(
        name=f"{method}.{field}: form {form}",
        rules=("S3.4",) if form.startswith("_") else ("S3.2", "B157"),
        method=method,
        request=holding(method, field, name),
        code=Code.INVALID_ARGUMENT,
        says=(f"(argument={field})", f"(name={name})"),
    )


def bad_names() -> Iterator[Case]:
    for method, field, collection in (*IN_PATHS, *IN_BODIES):
        whole = method.startswith("Create")
        for identifier in BAD_IDS if whole else ("ab", "goog-x", "_deleted-topic_"):
            yield bad_id(method, field, collection, identifier)
        kind = Case if (method, field, collection) in IN_BODIES else GrpcCase
        for form in BAD_FORMS if whole else ("orders", "projects/acme/schemas/orders"):
            yield bad_form(kind, method, field, collection, form)
        if method != "CreateSubscription" and (method, field) != ("CreateSnapshot", "name"):
            yield bad_form(GrpcCase, method, field, collection, "")


# Rules about one place in particular.
ABSENT = {
    ("CreateSubscription", "topic"): ("B124", "S4.subscription.name"),
    ("CreateSubscription", "dead_letter_policy.dead_letter_topic"): ("S4.subscription.dead_letter_policy",),
    ("Pull", "subscription"): ("K11", "S7.2.6"),
}


def absent() -> Iterator[Case]:
    for method, field, collection in (*IN_PATHS, *IN_BODIES):
        if field == "name":
            continue
        name = f"projects/acme/{collection}/absent"
        # Whatever else is wrong comes later: none of these requests names a mask, a message, an ack id or a number.
        yield Case(
            name=f"{method}.{field}: absent",
            rules=("S1.5a", *ABSENT.get((method, field), ())),
            method=method,
            request=holding(method, field, name),
            code=Code.NOT_FOUND,
            says=(f"Resource not found (resource={name}).",),
        )


LABEL_KEYS = ("", "Team", "1team", "-team", "_team", "tEam", "te am", "team.x", "Ärger", "k" * 64)
LABEL_VALUES = ("Sales", "a b", "v1.0", "v" * 64, "É")


def bad_labels() -> Iterator[Case]:
    for method, holder in (
        ("CreateTopic", {"name": "projects/acme/topics/new-one"}),
        ("CreateSubscription", {"name": "projects/acme/subscriptions/new-one", "topic": ORDERS}),
        ("CreateSnapshot", {"name": "projects/acme/snapshots/new-one", "subscription": PULLED}),
    ):
        for key in LABEL_KEYS:
            yield Case(
                name=f"{method}: label key {key[:10]!a}",
                rules=("S3.7",),
                method=method,
                request={**holder, "labels": {key: "x"}},
                code=Code.INVALID_ARGUMENT,
                says=("labels", repr(key)),
            )
        for value in LABEL_VALUES:
            yield Case(
                name=f"{method}: label value {value[:10]!a}",
                rules=("S3.7", "B154"),
                method=method,
                request={**holder, "labels": {"good": value}},
                code=Code.INVALID_ARGUMENT,
                says=("labels", repr(value), "'good'"),
            )
        yield Case(
            name=f"{method}: 65 labels",
            rules=("S3.7",),
            method=method,
            request={**holder, "labels": {f"k{number}": "" for number in range(65)}},
            code=Code.INVALID_ARGUMENT,
            says=("labels", "65", "64"),
        )


OTHERS = (
    Case(
        "CreateTopic: taken",
        ("S3.6", "B095"),
        "CreateTopic",
        {"name": ORDERS},
        Code.ALREADY_EXISTS,
        (f"(resource={ORDERS})",),
    ),
    Case(
        "CreateSubscription: taken",
        ("S3.6",),
        "CreateSubscription",
        {"name": PULLED, "topic": DEAD},
        Code.ALREADY_EXISTS,
        (f"(resource={PULLED})",),
    ),
    GrpcCase(
        "UpdateTopic: no topic at all",
        ("S3.2",),
        "UpdateTopic",
        {"update_mask": {"paths": ["labels"]}},
        Code.INVALID_ARGUMENT,
        ("(argument=topic)",),
    ),
    GrpcCase(
        "UpdateSubscription: no subscription at all",
        ("S3.2",),
        "UpdateSubscription",
        {"update_mask": {"paths": ["labels"]}},
        Code.INVALID_ARGUMENT,
        ("(argument=subscription)",),
    ),
)

CASES = (*bad_names(), *absent(), *bad_labels(), *OTHERS)
