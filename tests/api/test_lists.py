"""Lists: order, pages and what belongs in them (service.md §1.9)."""

from collections.abc import Iterator
from typing import Any

import pytest

from emulator.errors import PubsubError
from tests.api.world import DEAD, ORDERS, PULLED, World

# Code points sort these as written: upper case before lower, "-" and "." before letters, "~" last.
IN_ORDER = ("A-b", "Zed", "a%b", "a+b", "a-b", "a.b", "a0b", "aBc", "a_b", "abc", "abcd", "abd", "a~b")

# RPC, the list in its reply, and what it lists.
LISTS = pytest.mark.parametrize(
    ("method", "listed", "request_fields"),
    [
        ("ListTopics", "topics", {"project": "projects/lists"}),
        ("ListSubscriptions", "subscriptions", {"project": "projects/lists"}),
        ("ListTopicSubscriptions", "subscriptions", {"topic": "projects/lists/topics/abc"}),
        ("ListSnapshots", "snapshots", {"project": "projects/lists"}),
        ("ListTopicSnapshots", "snapshots", {"topic": "projects/lists/topics/abc"}),
    ],
)


def fill(world: World, *identifiers: str) -> None:
    """A topic, a subscription and a snapshot of each name; the latter two belong to the topic `abc`."""
    for identifier in {"abc": None, **dict.fromkeys(reversed(identifiers))}:
        world.call("CreateTopic", name=f"projects/lists/topics/{identifier}")
    for identifier in reversed(identifiers):
        subscribe(world, identifier)


def subscribe(world: World, identifier: str) -> None:
    """A subscription of the topic `abc`, and a snapshot of it."""
    name = f"projects/lists/subscriptions/{identifier}"
    world.call("CreateSubscription", name=name, topic="projects/lists/topics/abc")
    world.call("CreateSnapshot", name=f"projects/lists/snapshots/{identifier}", subscription=name)


def ids(reply: Any, listed: str) -> list[str]:
    return [getattr(item, "name", item).rpartition("/")[2] for item in getattr(reply, listed)]


def pages(world: World, method: str, **request: Any) -> Iterator[Any]:
    """All of them, to the one without a token."""
    token = ""
    while True:
        reply = world.call(method, **request, pageToken=token)
        yield reply
        token = reply.next_page_token
        if not token:
            return


@pytest.mark.rule("S1.9.1")
@LISTS
def test_lists_are_in_code_point_order(world: World, method: str, listed: str, request_fields: dict[str, str]) -> None:
    fill(world, *IN_ORDER)

    assert ids(world.call(method, **request_fields), listed) == list(IN_ORDER)


@pytest.mark.rule("S1.9.4")
@pytest.mark.parametrize("size", [1, 2, 6, 12])
@LISTS
def test_pages_give_everything_once(
    world: World, method: str, listed: str, request_fields: dict[str, str], size: int
) -> None:
    fill(world, *IN_ORDER)

    found = list(pages(world, method, **request_fields, pageSize=size))

    assert [identifier for reply in found for identifier in ids(reply, listed)] == list(IN_ORDER)
    assert {len(ids(reply, listed)) for reply in found[:-1]} == {size}


@pytest.mark.rule("S1.9.4")
@pytest.mark.parametrize("size", [13, 14, 1000, 2**31 - 1])
@LISTS
def test_the_last_page_has_no_token(
    world: World, method: str, listed: str, request_fields: dict[str, str], size: int
) -> None:
    fill(world, *IN_ORDER)

    reply = world.call(method, **request_fields, pageSize=size)

    assert (len(ids(reply, listed)), reply.next_page_token) == (13, "")


@pytest.mark.rule("S1.9.2")
@pytest.mark.parametrize(
    ("asked", "given"), [(0, 100), (100, 100), (101, 101), (1000, 1000), (1001, 1000), (2**31 - 1, 1000)]
)
@LISTS
def test_pages_have_a_default_and_a_greatest_size(
    world: World, method: str, listed: str, request_fields: dict[str, str], asked: int, given: int
) -> None:
    fill(world, "abc", *(f"t{number:04}" for number in range(1000)))

    assert len(ids(world.call(method, **request_fields, pageSize=asked), listed)) == given


@pytest.mark.rule("S1.9.3")
@LISTS
def test_a_token_outlives_what_it_points_at(
    world: World, method: str, listed: str, request_fields: dict[str, str]
) -> None:
    fill(world, "aaa", "abc", "bbb", "ccc")
    token = world.call(method, **request_fields, pageSize=3).next_page_token
    for identifier in ("bbb", "aaa"):
        world.call("DeleteTopic", topic=f"projects/lists/topics/{identifier}")
        world.call("DeleteSubscription", subscription=f"projects/lists/subscriptions/{identifier}")
        world.call("DeleteSnapshot", snapshot=f"projects/lists/snapshots/{identifier}")

    assert ids(world.call(method, **request_fields, pageToken=token), listed) == ["ccc"]


@pytest.mark.rule("S1.9.3")
@LISTS
def test_a_token_takes_in_what_was_created_behind_it(
    world: World, method: str, listed: str, request_fields: dict[str, str]
) -> None:
    fill(world, "abc", "bbb", "ccc")
    token = world.call(method, **request_fields, pageSize=2).next_page_token
    for identifier in ("aaa", "bbc"):
        world.call("CreateTopic", name=f"projects/lists/topics/{identifier}")
        subscribe(world, identifier)

    assert ids(world.call(method, **request_fields, pageToken=token), listed) == ["bbc", "ccc"]


@pytest.mark.rule("S1.9.3")
@LISTS
def test_a_token_says_nothing_and_takes_no_change(
    world: World, method: str, listed: str, request_fields: dict[str, str]
) -> None:
    fill(world, *IN_ORDER)
    token = world.call(method, **request_fields, pageSize=3).next_page_token

    assert token.isascii()
    assert "projects" not in token
    for index in range(len(token)):
        other = "A" if token[index] != "A" else "B"
        changed = token[:index] + other + token[index + 1 :]
        with pytest.raises(PubsubError, match="page_token"):
            world.call(method, **request_fields, pageToken=changed)
    for changed in (f"{token}=", f"{token}A", f"{token}!", token[:-1], f" {token}", f"{token}\n", f"{token}===="):
        with pytest.raises(PubsubError, match="page_token"):
            world.call(method, **request_fields, pageToken=changed)


@pytest.mark.rule("S1.9.3")
def test_tokens_work_in_a_project_of_any_name(world: World) -> None:
    for project in ("a\0b", "é", "a b"):
        names = [f"projects/{project}/topics/{identifier}" for identifier in ("one", "two")]
        for name in names:
            world.call("CreateTopic", name=name)

        found = list(pages(world, "ListTopics", project=f"projects/{project}", pageSize=1))

        assert [topic.name for reply in found for topic in reply.topics] == names


@pytest.mark.rule("S1.9.5", "B158")
def test_lists_hold_what_belongs_to_the_project_named(world: World) -> None:
    for project in ("lists", "lists2", "list"):
        world.call("CreateTopic", name=f"projects/{project}/topics/abc")
        # A subscription is its own project's, wherever its topic lives.
        world.call("CreateSubscription", name=f"projects/{project}/subscriptions/abc", topic=ORDERS)
        # And a snapshot its own, wherever its subscription lives.
        world.call("CreateSnapshot", name=f"projects/{project}/snapshots/abc", subscription=PULLED)

    topics = world.call("ListTopics", project="projects/lists").topics
    subscriptions = world.call("ListSubscriptions", project="projects/lists").subscriptions
    snapshots = world.call("ListSnapshots", project="projects/lists").snapshots

    assert [topic.name for topic in topics] == ["projects/lists/topics/abc"]
    assert [subscription.name for subscription in subscriptions] == ["projects/lists/subscriptions/abc"]
    assert [snapshot.name for snapshot in snapshots] == ["projects/lists/snapshots/abc"]


@pytest.mark.rule("S1.9.5")
def test_a_topic_lists_its_subscriptions_of_any_project(world: World) -> None:
    world.call("CreateSubscription", name="projects/zoo/subscriptions/far-off", topic=ORDERS)
    world.call("CreateSubscription", name="projects/aaa/subscriptions/near-by", topic=ORDERS)
    world.call("CreateSubscription", name="projects/acme/subscriptions/of-another", topic=DEAD)

    listed = world.call("ListTopicSubscriptions", topic=ORDERS).subscriptions

    assert list(listed) == ["projects/aaa/subscriptions/near-by", PULLED, "projects/zoo/subscriptions/far-off"]


@pytest.mark.rule("S1.9.5", "S6.2")
def test_a_detached_subscription_is_listed_by_its_project_alone(world: World) -> None:
    world.call("DetachSubscription", subscription=PULLED)

    assert not world.call("ListTopicSubscriptions", topic=ORDERS).subscriptions
    assert [each.name for each in world.call("ListSubscriptions", project="projects/acme").subscriptions] == [PULLED]


@pytest.mark.rule("S1.9.5")
def test_lists_show_whole_resources(world: World) -> None:
    (listed,) = world.call("ListSubscriptions", project="projects/acme").subscriptions

    assert listed == world.call("GetSubscription", subscription=PULLED)
    assert world.call("ListTopics", project="projects/acme").topics[1] == world.call("GetTopic", topic=ORDERS)


@pytest.mark.rule("S1.9.5")
def test_an_empty_project_lists_nothing(world: World) -> None:
    for method in ("ListTopics", "ListSubscriptions", "ListSnapshots"):
        assert not world.call(method, project="projects/empty").ListFields()
