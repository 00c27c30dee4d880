"""Resource names: check, split and build `projects/{project}/{collection}/{id}` (service.md §3)."""

import re

from emulator import errors
from emulator.limits import STRICT

DELETED_TOPIC = "_deleted-topic_"
DELETED_SCHEMA = "_deleted-schema_"

TOPICS = "topics"
SUBSCRIPTIONS = "subscriptions"
SNAPSHOTS = "snapshots"
SCHEMAS = "schemas"

_ID = re.compile(r"[A-Za-z][A-Za-z0-9\-_.~+%]*")
_ID_RULE = (
    f"an id has {STRICT.id_min_characters} to {STRICT.id_max_characters} characters, starts with a letter, "
    "holds only letters, digits and -_.~+%, and does not start with goog"
)


def build(project: str, collection: str, identifier: str) -> str:
    return f"projects/{project}/{collection}/{identifier}"


def check(value: str, collection: str, argument: str) -> None:
    """Raise INVALID_ARGUMENT unless `value` is a full name in `collection` (service.md §3.1 to §3.4)."""
    parts = value.split("/")
    if len(parts) != 4 or parts[0] != "projects" or not parts[1] or parts[2] != collection:
        raise errors.malformed_name(argument, value, f"projects/{{project}}/{collection}/{{id}}")
    identifier = parts[3]
    if (
        not STRICT.id_min_characters <= len(identifier) <= STRICT.id_max_characters
        or not _ID.fullmatch(identifier)
        or identifier.startswith("goog")
    ):
        raise errors.malformed_id(argument, value, identifier, _ID_RULE)


def check_project(value: str, argument: str) -> None:
    """Raise INVALID_ARGUMENT unless `value` is `projects/{project}` (service.md §1.9.6)."""
    parts = value.split("/")
    if len(parts) != 2 or parts[0] != "projects" or not parts[1]:
        raise errors.malformed_name(argument, value, "projects/{project}")


def project_of(name: str) -> str:
    """The project id of a well-formed name."""
    return name.split("/", 2)[1]


def id_of(name: str) -> str:
    """The last segment of a well-formed name."""
    return name.rpartition("/")[2]
