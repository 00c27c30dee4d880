"""gcloud-aio-pubsub: every public method of its two clients, over the connection a user's program would have."""

import asyncio
import inspect
from collections.abc import AsyncIterator

import aiohttp
import pytest
from gcloud.aio.pubsub import PublisherClient, PubsubMessage, SubscriberClient

from compat_tests.rest import Project

CLIENT = "gcloud-aio-pubsub"


@pytest.fixture
async def publisher(project: Project, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PublisherClient]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", project.rest.target.host_port)
    async with PublisherClient() as client:
        yield client


@pytest.fixture
async def subscriber(project: Project, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SubscriberClient]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", project.rest.target.host_port)
    async with SubscriberClient() as client:
        yield client


class TestPublisherClient:
    async def test_project_path(self, project: Project) -> None:
        assert PublisherClient.project_path(project.id) == project.name

    async def test_topic_path(self, project: Project) -> None:
        assert PublisherClient.topic_path(project.id, "topic") == project.topic_name()

    async def test_subscription_path(self, project: Project) -> None:
        assert PublisherClient.subscription_path(project.id, "sub") == project.subscription_name()

    @pytest.mark.rule("S1", "S1.7.6")
    async def test_create_topic(self, publisher: PublisherClient, project: Project) -> None:
        created = await publisher.create_topic(project.topic_name())

        assert created["name"] == project.topic_name()

    @pytest.mark.rule("S1.5")
    async def test_create_topic_with_a_body(self, publisher: PublisherClient, project: Project) -> None:
        created = await publisher.create_topic(project.topic_name(), {"labels": {"a": "b"}})

        assert created["labels"] == {"a": "b"}

    @pytest.mark.rule("S1", "B095")
    async def test_create_topic_twice(self, publisher: PublisherClient, project: Project) -> None:
        project.topic()

        with pytest.raises(aiohttp.ClientResponseError, match="409"):
            await publisher.create_topic(project.topic_name())

    @pytest.mark.rule("S1")
    async def test_list_topics(self, publisher: PublisherClient, project: Project) -> None:
        names = [project.topic("aaa"), project.topic("bbb")]

        first = await publisher.list_topics(project.name, {"pageSize": "1"})
        second = await publisher.list_topics(project.name, {"pageToken": first["nextPageToken"]})

        assert [topic["name"] for page in (first, second) for topic in page["topics"]] == names

    @pytest.mark.rule("S1.7.1")
    async def test_list_topics_of_an_empty_project(self, publisher: PublisherClient, project: Project) -> None:
        assert await publisher.list_topics(project.name) == {}

    @pytest.mark.rule("S1")
    async def test_delete_topic(self, publisher: PublisherClient, project: Project) -> None:
        topic = project.topic()

        await publisher.delete_topic(topic)

        with pytest.raises(aiohttp.ClientResponseError, match="404"):
            await publisher.delete_topic(topic)

    @pytest.mark.rule("S1", "S5.9")
    async def test_publish(self, publisher: PublisherClient, project: Project) -> None:
        topic, subscription = project.pair()
        messages = [PubsubMessage(b"\x00\xff", kind="bytes"), PubsubMessage("text", ordering_key="")]

        reply = await publisher.publish(topic, messages)

        received = project.pull(subscription)
        assert [one.message["messageId"] for one in received] == reply["messageIds"]
        assert [one.data for one in received] == [b"\x00\xff", b"text"]
        assert received[0].message["attributes"] == {"kind": "bytes"}

    @pytest.mark.rule("B037")
    async def test_publish_with_an_ordering_key(self, publisher: PublisherClient, project: Project) -> None:
        topic, subscription = project.pair()

        await publisher.publish(topic, [PubsubMessage(b"x", ordering_key="key")])

        assert project.pull_one(subscription).message["orderingKey"] == "key"

    @pytest.mark.rule("S5.4")
    async def test_publish_of_an_empty_message(self, publisher: PublisherClient, project: Project) -> None:
        topic = project.topic()

        with pytest.raises(aiohttp.ClientResponseError, match="400"):
            await publisher.publish(topic, [PubsubMessage(b"")])

    async def test_close(self, publisher: PublisherClient, project: Project) -> None:
        await publisher.create_topic(project.topic_name())

        await publisher.close()

        assert publisher.session.session.closed


class TestSubscriberClient:
    async def test_project_path(self, project: Project) -> None:
        assert SubscriberClient.project_path(project.id) == project.name

    async def test_topic_path(self, project: Project) -> None:
        assert SubscriberClient.topic_path(project.id, "topic") == project.topic_name()

    async def test_subscription_path(self, project: Project) -> None:
        assert SubscriberClient.subscription_path(project.id, "sub") == project.subscription_name()

    async def test_snapshot_path(self, project: Project) -> None:
        assert SubscriberClient.snapshot_path(project.id, "snap") == f"{project.name}/snapshots/snap"

    @pytest.mark.rule("S1")
    async def test_create_subscription(self, subscriber: SubscriberClient, project: Project) -> None:
        topic = project.topic()

        created = await subscriber.create_subscription(project.subscription_name(), topic, {"ackDeadlineSeconds": 33})

        assert created["name"] == project.subscription_name()
        assert created["topic"] == topic
        assert created["ackDeadlineSeconds"] == 33

    @pytest.mark.rule("B124")
    async def test_create_subscription_without_topic(self, subscriber: SubscriberClient, project: Project) -> None:
        with pytest.raises(aiohttp.ClientResponseError, match="404"):
            await subscriber.create_subscription(project.subscription_name(), project.topic_name())

    @pytest.mark.rule("S1", "S1.7.7", "K10")
    async def test_patch_subscription(self, subscriber: SubscriberClient, project: Project) -> None:
        _, subscription = project.pair()
        body = {"subscription": {"ackDeadlineSeconds": 44}, "updateMask": "ackDeadlineSeconds"}

        changed = await subscriber.patch_subscription(subscription, body)

        assert changed["ackDeadlineSeconds"] == 44

    @pytest.mark.rule("S1", "S4.subscription.ack_deadline_seconds")
    async def test_get_subscription(self, subscriber: SubscriberClient, project: Project) -> None:
        _, subscription = project.pair()

        resource = await subscriber.get_subscription(subscription)

        assert resource["ackDeadlineSeconds"] == 10  # subscribe() reads it without asking whether it is there

    @pytest.mark.rule("S1", "S1.9.4")
    async def test_list_subscriptions(self, subscriber: SubscriberClient, project: Project) -> None:
        topic = project.topic()
        names = [project.subscription(topic, identifier) for identifier in ("aaa", "bbb", "ccc")]

        listed = await subscriber.list_subscriptions(project.name, {"pageSize": "2"})

        assert [subscription["name"] for subscription in listed["subscriptions"]] == names

    @pytest.mark.rule("S1.7.1")
    async def test_list_subscriptions_of_an_empty_project(self, subscriber: SubscriberClient, project: Project) -> None:
        """An empty list is `{}` as in production; that the library stumbles over it is its own fault."""
        with pytest.raises(KeyError, match="subscriptions"):
            await subscriber.list_subscriptions(project.name)

    @pytest.mark.rule("S1")
    async def test_delete_subscription(self, subscriber: SubscriberClient, project: Project) -> None:
        _, subscription = project.pair()

        await subscriber.delete_subscription(subscription)

        with pytest.raises(aiohttp.ClientResponseError, match="404"):
            await subscriber.get_subscription(subscription)

    @pytest.mark.rule("S1", "S5.10")
    async def test_pull(self, subscriber: SubscriberClient, project: Project) -> None:
        topic, subscription = project.pair()
        (identifier,) = project.publish(topic, {"data": "AP8=", "attributes": {"k": "v"}})

        (message,) = await subscriber.pull(subscription, 10)

        assert message.data == b"\x00\xff"
        assert message.attributes == {"k": "v"}
        assert message.message_id == identifier
        assert message.publish_time.tzinfo is not None
        assert message.delivery_attempt is None

    @pytest.mark.rule("K11")
    async def test_pull_from_nothing(self, subscriber: SubscriberClient, project: Project) -> None:
        with pytest.raises(aiohttp.ClientResponseError, match="404"):
            await subscriber.pull(project.subscription_name(), 1)

    @pytest.mark.rule("S7.2.4")
    async def test_pull_that_is_given_up_holds_no_message(self, subscriber: SubscriberClient, project: Project) -> None:
        topic, subscription = project.pair(ackDeadlineSeconds=600)
        abandoned = asyncio.ensure_future(subscriber.pull(subscription, 1))
        answered, _ = await asyncio.wait({abandoned}, timeout=0.2)
        abandoned.cancel()
        await asyncio.wait({abandoned})

        project.publish(topic, b"x")

        assert not answered
        (message,) = await subscriber.pull(subscription, 1)
        assert message.data == b"x"

    @pytest.mark.rule("S1", "S7.1.6")
    async def test_acknowledge(self, subscriber: SubscriberClient, project: Project) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"x")
        (message,) = await subscriber.pull(subscription, 1)

        await subscriber.acknowledge(subscription, [message.ack_id])

        project.modify(subscription, [message.ack_id], 0).ok()
        assert project.pull(subscription) == []

    @pytest.mark.rule("S7.1.8")
    async def test_acknowledge_of_nonsense(self, subscriber: SubscriberClient, project: Project) -> None:
        _, subscription = project.pair()

        with pytest.raises(aiohttp.ClientResponseError, match="400"):
            await subscriber.acknowledge(subscription, ["nonsense"])

    @pytest.mark.rule("S1", "S7.1.4")
    async def test_modify_ack_deadline(self, subscriber: SubscriberClient, project: Project) -> None:
        topic, subscription = project.pair(ackDeadlineSeconds=600)
        project.publish(topic, b"x")
        (first,) = await subscriber.pull(subscription, 1)

        await subscriber.modify_ack_deadline(subscription, [first.ack_id], 0)

        (again,) = await subscriber.pull(subscription, 1)
        assert (again.message_id, again.data) == (first.message_id, b"x")
        assert again.ack_id != first.ack_id

    async def test_close(self, subscriber: SubscriberClient, project: Project) -> None:
        _, subscription = project.pair()
        await subscriber.get_subscription(subscription)

        await subscriber.close()

        assert subscriber.session.session.closed


class TestReplay:
    """Snapshots and seek."""

    @pytest.mark.rule("S1", "S12.2", "B073")
    async def test_seek(self, subscriber: SubscriberClient, project: Project) -> None:
        topic, subscription = project.pair(retainAckedMessages=True)
        project.publish(topic, b"x")
        (message,) = await subscriber.pull(subscription, 10)
        await subscriber.acknowledge(subscription, [message.ack_id])
        before = message.publish_time.isoformat()

        await subscriber.seek(subscription, {"time": before})

        (again,) = await subscriber.pull(subscription, 10)
        assert (again.message_id, again.data) == (message.message_id, b"x")

    @pytest.mark.rule("S12.7", "B080")
    async def test_seek_to_a_snapshot(self, subscriber: SubscriberClient, project: Project) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"x")
        snapshot = project.snapshot(subscription)
        assert project.take(subscription) == [b"x"]

        await subscriber.seek(subscription, {"snapshot": snapshot})

        assert [message.data for message in await subscriber.pull(subscription, 10)] == [b"x"]

    @pytest.mark.rule("S12.6")
    async def test_seek_to_nowhere(self, subscriber: SubscriberClient, project: Project) -> None:
        _, subscription = project.pair()

        with pytest.raises(aiohttp.ClientResponseError, match="400"):
            await subscriber.seek(subscription, {})

    @pytest.mark.rule("S1", "S12.8", "B076")
    async def test_create_snapshot(self, subscriber: SubscriberClient, project: Project) -> None:
        topic, subscription = project.pair()

        created = await subscriber.create_snapshot(project.snapshot_name(), subscription, {"labels": {"a": "b"}})

        assert (created["name"], created["topic"]) == (project.snapshot_name(), topic)
        assert created["labels"] == {"a": "b"}
        assert created["expireTime"].endswith("Z")

    @pytest.mark.rule("S1")
    async def test_create_snapshot_twice(self, subscriber: SubscriberClient, project: Project) -> None:
        _, subscription = project.pair()
        snapshot = project.snapshot(subscription)

        with pytest.raises(aiohttp.ClientResponseError, match="409"):
            await subscriber.create_snapshot(snapshot, subscription)

    @pytest.mark.rule("S1")
    async def test_get_snapshot(self, subscriber: SubscriberClient, project: Project) -> None:
        topic, subscription = project.pair()
        snapshot = project.snapshot(subscription)

        assert (await subscriber.get_snapshot(snapshot))["topic"] == topic

    @pytest.mark.rule("S1", "S1.9.4")
    async def test_list_snapshots(self, subscriber: SubscriberClient, project: Project) -> None:
        _, subscription = project.pair()
        names = [project.snapshot(subscription, identifier) for identifier in ("aaa", "bbb", "ccc")]

        listed = await subscriber.list_snapshots(project.name, {"pageSize": "2"})

        assert [snapshot["name"] for snapshot in listed["snapshots"]] == names

    @pytest.mark.rule("S1.7.1")
    async def test_list_snapshots_of_an_empty_project(self, subscriber: SubscriberClient, project: Project) -> None:
        """As with subscriptions: an empty list is `{}`, and the library stumbles over it."""
        with pytest.raises(KeyError, match="snapshots"):
            await subscriber.list_snapshots(project.name)

    @pytest.mark.rule("S1", "S12.9")
    async def test_delete_snapshot(self, subscriber: SubscriberClient, project: Project) -> None:
        _, subscription = project.pair()
        snapshot = project.snapshot(subscription)

        await subscriber.delete_snapshot(snapshot)

        with pytest.raises(aiohttp.ClientResponseError, match="404"):
            await subscriber.get_snapshot(snapshot)


@pytest.mark.parametrize(
    ("client", "tests"),
    [(PublisherClient, (TestPublisherClient,)), (SubscriberClient, (TestSubscriberClient, TestReplay))],
)
def test_every_public_method_is_tested(client: type, tests: tuple[type, ...]) -> None:
    methods = [name for name, _ in inspect.getmembers(client, callable) if not name.startswith("_")]

    untested = [
        name for name in methods if not any(_calls(getattr(test, f"test_{name}", None), name) for test in tests)
    ]

    assert methods
    assert untested == []


def _calls(test: object, name: str) -> bool:
    return inspect.isfunction(test) and f".{name}(" in inspect.getsource(test)
