"""CreateSnapshot, UpdateSnapshot and Seek where they are refused, and in which order it is looked (service.md §12)."""

from typing import Any

from emulator.errors import Code
from tests.api.error_cases.case import Case, GrpcCase
from tests.api.world import AGED, DETACHED, KEPT, ORPHAN, ORPHANS, PULLED

NEW = "projects/acme/snapshots/new-one"
NOBODY = "projects/acme/subscriptions/absent"
NOTHING = "projects/acme/snapshots/absent"


def create(what: str, rules: tuple[str, ...], code: Code, *says: str, **fields: Any) -> Case:
    request = {"name": NEW, "subscription": PULLED, **fields}
    return Case(f"CreateSnapshot: {what}", rules, "CreateSnapshot", request, code, says)


def seek(what: str, rules: tuple[str, ...], code: Code, *says: str, **fields: Any) -> Case:
    request = {"subscription": PULLED, **fields}
    return Case(f"Seek: {what}", rules, "Seek", request, code, says)


def moment(shown: str, **time: int) -> GrpcCase:
    """A time that JSON has no form for."""
    says = ("(argument=time)", shown, "a valid Timestamp")
    request = {"subscription": PULLED, "time": time}
    return GrpcCase(f"Seek: {time}", ("S12.2",), "Seek", request, Code.INVALID_ARGUMENT, says)


CREATIONS = (
    create("taken", ("S1", "S3.6"), Code.ALREADY_EXISTS, f"(resource={KEPT})", name=KEPT),
    create("of a detached one", ("S6.2",), Code.FAILED_PRECONDITION, f"(resource={DETACHED})", subscription=DETACHED),
    create(
        "which would last for half an hour",
        ("S12.8",),
        Code.FAILED_PRECONDITION,
        "1799s",
        "3600s",
        f"(resource={NEW})",
        subscription=AGED,
    ),
    create(
        "the form of both names comes before anything's existence",
        ("S1.5a",),
        Code.INVALID_ARGUMENT,
        "(argument=name)",
        name="projects/acme/snapshots/x",
        subscription=NOBODY,
    ),
    create(
        "the subscription's existence comes before the snapshot's",
        ("S1.5a",),
        Code.NOT_FOUND,
        f"(resource={NOBODY})",
        name=KEPT,
        subscription=NOBODY,
    ),
    create(
        "existence comes before the labels",
        ("S1.5a",),
        Code.ALREADY_EXISTS,
        f"(resource={KEPT})",
        name=KEPT,
        labels={"BAD": ""},
    ),
    create(
        "the labels come before the subscription's state",
        ("S1.5a", "S3.7"),
        Code.INVALID_ARGUMENT,
        "'BAD'",
        subscription=DETACHED,
        labels={"BAD": ""},
    ),
)

UPDATES = (
    Case(
        "UpdateSnapshot: existence comes before the mask",
        ("S1.5a",),
        "UpdateSnapshot",
        {"snapshot": {"name": NOTHING}, "updateMask": "nope"},
        Code.NOT_FOUND,
        (f"(resource={NOTHING})",),
    ),
    Case(
        "UpdateSnapshot: the name's form comes before the mask",
        ("S1.5a",),
        "UpdateSnapshot",
        {"snapshot": {"name": "projects/acme/snapshots/x"}, "updateMask": "nope"},
        Code.INVALID_ARGUMENT,
        ("(argument=snapshot.name)",),
    ),
    Case(
        "UpdateSnapshot: a bad label",
        ("S3.7",),
        "UpdateSnapshot",
        {"snapshot": {"name": KEPT, "labels": {"team": "Sales"}}, "updateMask": "labels"},
        Code.INVALID_ARGUMENT,
        ("labels", "'Sales'"),
    ),
    GrpcCase(
        "UpdateSnapshot: no snapshot at all",
        ("S3.2",),
        "UpdateSnapshot",
        {"update_mask": {"paths": ["labels"]}},
        Code.INVALID_ARGUMENT,
        ("(argument=snapshot)",),
    ),
)

SEEKS = (
    seek("no target", ("S12.6",), Code.INVALID_ARGUMENT, "(argument=time or snapshot)"),
    seek("an empty snapshot", ("S12.6",), Code.INVALID_ARGUMENT, "(argument=snapshot)", snapshot=""),
    seek(
        "a detached one to a time",
        ("S6.2",),
        Code.FAILED_PRECONDITION,
        f"(resource={DETACHED})",
        subscription=DETACHED,
        time="2020-01-01T00:00:00Z",
    ),
    seek(
        "a detached one to a snapshot",
        ("S6.2",),
        Code.FAILED_PRECONDITION,
        f"(resource={DETACHED})",
        subscription=DETACHED,
        snapshot=KEPT,
    ),
    seek(
        "a snapshot of a deleted topic", ("S12.10", "S6.1"), Code.FAILED_PRECONDITION, ORPHANS, PULLED, snapshot=ORPHANS
    ),
    seek(
        "an orphan to a snapshot of another topic",
        ("S12.10", "S6.1"),
        Code.FAILED_PRECONDITION,
        KEPT,
        ORPHAN,
        subscription=ORPHAN,
        snapshot=KEPT,
    ),
    seek(
        "the form of both names comes before anything's existence",
        ("S1.5a",),
        Code.INVALID_ARGUMENT,
        "(argument=snapshot)",
        subscription=NOBODY,
        snapshot="kept",
    ),
    seek("existence comes before the target", ("S1.5a",), Code.NOT_FOUND, f"(resource={NOBODY})", subscription=NOBODY),
    seek(
        "the subscription's existence comes before the snapshot's",
        ("S1.5a",),
        Code.NOT_FOUND,
        f"(resource={NOBODY})",
        subscription=NOBODY,
        snapshot=NOTHING,
    ),
    seek(
        "the snapshot's existence comes before the subscription's state",
        ("S1.5a",),
        Code.NOT_FOUND,
        f"(resource={NOTHING})",
        subscription=DETACHED,
        snapshot=NOTHING,
    ),
)

MOMENTS = (
    moment("nanos: -1", seconds=1, nanos=-1),
    moment("nanos: 1000000000", nanos=1_000_000_000),
    moment("seconds: -62135596801", seconds=-62_135_596_801),
    moment("seconds: 253402300800", seconds=253_402_300_800),
    moment(f"seconds: {2**63 - 1}", seconds=2**63 - 1),
    moment(f"seconds: {-(2**63)}", seconds=-(2**63)),
)

CASES = (*CREATIONS, *UPDATES, *SEEKS, *MOMENTS)
