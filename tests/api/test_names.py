"""Names, projects, labels and tags as they are accepted (service.md §1.2, §3)."""

import re

import pytest

from emulator import names
from emulator.errors import PubsubError
from tests.api.world import ORDERS, PULLED, World, texts

GOOD_IDS = (
    "abc",
    "a" * 255,
    "Z" * 255,
    "a-_.~+%",
    "Goog1",
    "GOOGLE",
    "good",
    "a%20c",
    "a%2Fc",
    "a++",
    "A1.",
    "xgoog",
)


@pytest.mark.rule("S3.1", "S3.2")
@pytest.mark.parametrize("identifier", GOOD_IDS)
def test_an_id_is_taken_as_it_is(world: World, identifier: str) -> None:
    topic, subscription = f"projects/acme/topics/{identifier}", f"projects/acme/subscriptions/{identifier}"

    world.call("CreateTopic", name=topic)
    world.call("CreateSubscription", name=subscription, topic=topic)

    assert world.call("GetTopic", topic=topic).name == topic
    assert world.call("GetSubscription", subscription=subscription).name == subscription


@pytest.mark.rule("S3.2")
def test_percent_escapes_in_ids_are_not_decoded(world: World) -> None:
    world.call("CreateTopic", name="projects/acme/topics/a%62c")

    with pytest.raises(PubsubError, match="Resource not found"):
        world.call("GetTopic", topic="projects/acme/topics/abc")


@pytest.mark.rule("S3.3")
@pytest.mark.parametrize(
    "project", ["-", "p", "ACME", "example.com:acme", "1234567890", "a b", "é", "%2F", "goog", "x" * 999]
)
def test_any_project_exists(world: World, project: str) -> None:
    name = f"projects/{project}/topics/orders"

    world.call("CreateTopic", name=name)

    assert [topic.name for topic in world.call("ListTopics", project=f"projects/{project}").topics] == [name]


@pytest.mark.rule("S3.3")
def test_a_projects_id_and_number_are_two_projects(world: World) -> None:
    world.call("CreateTopic", name="projects/1234/topics/orders")

    assert not world.call("ListTopics", project="projects/01234").topics
    assert [topic.name for topic in world.call("ListTopics", project="projects/acme").topics] == [
        "projects/acme/topics/dead",
        ORDERS,
    ]


@pytest.mark.rule("S3.5")
def test_a_subscription_may_live_in_another_project(world: World) -> None:
    world.call("CreateSubscription", name="projects/other/subscriptions/far-off", topic=ORDERS)

    world.publish(ORDERS, "hello")

    assert texts(world.pull("projects/other/subscriptions/far-off")) == ["hello"]


@pytest.mark.rule("S3.5", "S4.subscription.dead_letter_policy")
def test_a_dead_letter_topic_may_live_in_another_project(world: World) -> None:
    world.call("CreateTopic", name="projects/other/topics/dead")
    policy = {"deadLetterTopic": "projects/other/topics/dead"}

    created = world.call("CreateSubscription", name=f"{PULLED}2", topic=ORDERS, deadLetterPolicy=policy)

    assert created.dead_letter_policy.dead_letter_topic == "projects/other/topics/dead"


@pytest.mark.rule("S3.6")
def test_a_topic_and_a_subscription_may_share_an_id(world: World) -> None:
    world.call("CreateTopic", name="projects/acme/topics/same")
    world.call("CreateSubscription", name="projects/acme/subscriptions/same", topic="projects/acme/topics/same")

    world.call("DeleteTopic", topic="projects/acme/topics/same")

    assert world.call("GetSubscription", subscription="projects/acme/subscriptions/same").topic == names.DELETED_TOPIC


@pytest.mark.rule("S3.6", "B130", "B095")
def test_a_deleted_name_is_free_at_once(world: World) -> None:
    for _ in range(3):
        assert not world.call("DeleteSubscription", subscription=PULLED).ListFields()
        assert not world.call("DeleteTopic", topic=ORDERS).ListFields()
        world.call("CreateTopic", name=ORDERS)
        world.call("CreateSubscription", name=PULLED, topic=ORDERS)
        world.publish(ORDERS, "hello")

        assert texts(world.pull(PULLED)) == ["hello"]


@pytest.mark.rule("S3.6")
def test_a_recreated_subscription_knows_nothing_of_the_old_one(world: World) -> None:
    world.publish(ORDERS, "old")
    (old,) = world.pull(PULLED)
    world.call("DeleteSubscription", subscription=PULLED)
    world.call("CreateSubscription", name=PULLED, topic=ORDERS)

    world.call("Acknowledge", subscription=PULLED, ackIds=[old.ack_id])
    world.publish(ORDERS, "new")

    assert texts(world.pull(PULLED)) == ["new"]


@pytest.mark.rule("S1.2")
def test_a_subscription_without_a_name_gets_one_in_its_topics_project(world: World) -> None:
    created = [world.call("CreateSubscription", topic=ORDERS) for _ in range(3)]

    assert len({subscription.name for subscription in created}) == 3
    for subscription in created:
        assert re.fullmatch(r"projects/acme/subscriptions/[a-z][a-z0-9-]{2,254}", subscription.name)
        assert world.call("GetSubscription", subscription=subscription.name) == subscription


@pytest.mark.rule("S1.2")
def test_an_assigned_name_is_never_one_that_is_taken(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter([1, 1, 1, 2])
    monkeypatch.setattr("random.getrandbits", lambda _bits: next(draws))

    first, second = (world.call("CreateSubscription", topic=ORDERS).name for _ in range(2))

    assert first != second


LABELS: tuple[dict[str, str], ...] = (
    {},
    {"a": ""},
    {"k" * 63: "v" * 63},
    {"a-_1": "-_1"},
    {"ärger": "größe"},
    {"日本": "東京"},
    {"ключ": "значение"},
    {"हिन्दी": "१२"},
    {"a": "1"},
    {f"k{number}": "x" for number in range(64)},
)


@pytest.mark.rule("S3.7", "S4.topic.labels", "S4.subscription.labels")
@pytest.mark.parametrize("labels", LABELS, ids=lambda labels: f"{len(labels)} {next(iter(labels), '')[:9]!a}")
def test_labels_are_kept(world: World, labels: dict[str, str]) -> None:
    topic, subscription = f"{ORDERS}2", f"{PULLED}2"

    assert world.call("CreateTopic", name=topic, labels=labels).labels == labels
    assert world.call("CreateSubscription", name=subscription, topic=topic, labels=labels).labels == labels
    assert world.call("GetTopic", topic=topic).labels == labels
    assert world.call("GetSubscription", subscription=subscription).labels == labels


@pytest.mark.rule("S3.8", "S4.topic.tags")
def test_tags_are_taken_and_never_shown(world: World) -> None:
    tags = {"123/environment": "production"}

    topic = world.call("CreateTopic", name=f"{ORDERS}2", tags=tags)
    subscription = world.call("CreateSubscription", name=f"{PULLED}2", topic=ORDERS, tags=tags)

    assert not topic.tags
    assert not world.call("GetTopic", topic=f"{ORDERS}2").tags
    assert not subscription.tags
    assert not world.call("GetSubscription", subscription=f"{PULLED}2").tags
