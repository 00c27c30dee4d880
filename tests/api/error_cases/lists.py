"""Pages that are refused (service.md §1.9)."""

from collections.abc import Iterator
from typing import Any

from emulator.errors import Code
from tests.api.error_cases.case import Case, GrpcCase
from tests.api.world import (
    DEAD,
    ORDERS,
    SNAPSHOTS_TOKEN,
    SUBSCRIPTIONS_TOKEN,
    TOPIC_SNAPSHOTS_TOKEN,
    TOPIC_SUBSCRIPTIONS_TOKEN,
    TOPICS_TOKEN,
)

LISTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ListTopics", {"project": "projects/acme"}),
    ("ListSubscriptions", {"project": "projects/acme"}),
    ("ListTopicSubscriptions", {"topic": ORDERS}),
    ("ListSnapshots", {"project": "projects/acme"}),
    ("ListTopicSnapshots", {"topic": ORDERS}),
)

# Each is good for another list than the one it is given to.
FOREIGN_TOKENS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("ListTopics", {"project": "projects/acme"}, SUBSCRIPTIONS_TOKEN),
    ("ListTopics", {"project": "projects/acm"}, TOPICS_TOKEN),
    ("ListTopics", {"project": "projects/other"}, TOPICS_TOKEN),
    ("ListSubscriptions", {"project": "projects/acme"}, TOPICS_TOKEN),
    ("ListSubscriptions", {"project": "projects/other"}, SUBSCRIPTIONS_TOKEN),
    ("ListTopicSubscriptions", {"topic": ORDERS}, SUBSCRIPTIONS_TOKEN),
    ("ListTopicSubscriptions", {"topic": DEAD}, TOPIC_SUBSCRIPTIONS_TOKEN),
    ("ListSnapshots", {"project": "projects/acme"}, TOPICS_TOKEN),
    ("ListSnapshots", {"project": "projects/other"}, SNAPSHOTS_TOKEN),
    ("ListTopicSnapshots", {"topic": ORDERS}, TOPIC_SUBSCRIPTIONS_TOKEN),
    ("ListTopicSnapshots", {"topic": DEAD}, TOPIC_SNAPSHOTS_TOKEN),
)


def refused(method: str, request: dict[str, Any], rules: tuple[str, ...], name: str, *says: str) -> Case:
    return Case(f"{method}: {name}", rules, method, request, Code.INVALID_ARGUMENT, says)


def pages() -> Iterator[Case]:
    for method, request in LISTS:
        for size in (-1, -(2**31)):
            yield refused(method, {**request, "pageSize": size}, ("S1.9.2",), f"size {size}", "page_size", f"{size};")
        for token in ("x", "====", "garbage!", "projects/acme/topics/orders", "b3JkZXJz", "é", " "):
            asked = {**request, "pageToken": token}
            yield refused(method, asked, ("S1.9.3",), f"token {token!a}", "page_token", token)
    for method, request, token in FOREIGN_TOKENS:
        yield refused(
            method, {**request, "pageToken": token}, ("S1.9.3",), f"{token} in {request}", "page_token", token
        )


BAD_PROJECTS = ("", "acme", "projects", "projects/", "/acme", "projects/acme/", "projects/acme/topics", "folders/acme")

PROJECTS = tuple(
    GrpcCase(
        f"{method}: project {project!r}",
        ("S1.9.6", "B098"),
        method,
        {"project": project},
        Code.INVALID_ARGUMENT,
        ("(argument=project)", f"(name={project})", "projects/{project}"),
    )
    for method in ("ListTopics", "ListSubscriptions", "ListSnapshots")
    for project in BAD_PROJECTS
)

CASES = (*pages(), *PROJECTS)
