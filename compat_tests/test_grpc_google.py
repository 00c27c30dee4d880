"""google-cloud-pubsub over gRPC as PUBSUB_EMULATOR_HOST sets it up: every RPC of its clients, sync and asyncio."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pytest
from google.api_core import exceptions
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.pubsub_v1 import (
    PublisherAsyncClient,
    PublisherClient,
    SchemaServiceAsyncClient,
    SchemaServiceClient,
    SubscriberAsyncClient,
    SubscriberClient,
    types,
)

from compat_tests.rest import Project
from compat_tests.targets import Target
from compat_tests.test_google_cloud_rest import NOT_YET

CLIENT = "google-cloud-pubsub"

ASYNC_TWIN: dict[type, type] = {
    PublisherClient: PublisherAsyncClient,
    SubscriberClient: SubscriberAsyncClient,
    SchemaServiceClient: SchemaServiceAsyncClient,
}


class Face:
    """One generated client; its methods are awaited here whether or not they have to be."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: object, **kwargs: object) -> Any:
            return await awaited(getattr(self._client, method)(*args, **kwargs))

        return call

    async def close(self) -> None:
        await awaited(self._client.transport.close())

    def __repr__(self) -> str:
        return f"<Face {type(self._client).__name__}>"


async def awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def pages(pager: Any) -> list[Any]:
    found = pager.pages
    return [page async for page in found] if hasattr(found, "__aiter__") else list(found)


Connect: TypeAlias = Callable[[type], Face]


@pytest.fixture(params=["sync", "asyncio"])
async def connect(
    request: pytest.FixtureRequest, server: Target, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Connect]:
    """Makes clients the way a user does: the variable, and no argument."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.host_port)
    faces: list[Face] = []

    def make(client: type) -> Face:
        faces.append(Face((client if request.param == "sync" else ASYNC_TWIN[client])()))
        return faces[-1]

    yield make
    for face in faces:
        await face.close()


@pytest.fixture
def publisher(connect: Connect) -> Face:
    return connect(PublisherClient)


@pytest.fixture
def subscriber(connect: Connect) -> Face:
    return connect(SubscriberClient)


class TestPublisher:
    @pytest.mark.rule("S1", "T3")
    async def test_create_topic(self, publisher: Face, project: Project) -> None:
        topic = await publisher.create_topic(
            request=types.Topic(
                name=project.topic_name(), labels={"a": "b"}, message_retention_duration=Duration(seconds=600)
            )
        )

        assert topic.name == project.topic_name()
        assert dict(topic.labels) == {"a": "b"}
        assert topic.message_retention_duration.total_seconds() == 600
        assert topic.state == types.Topic.State.ACTIVE

    @pytest.mark.rule("S1", "T31")
    async def test_create_topic_twice(self, publisher: Face, project: Project) -> None:
        topic = project.topic()

        with pytest.raises(exceptions.AlreadyExists, match="already exists"):
            await publisher.create_topic(name=topic)

    @pytest.mark.rule("S1.6", "T30", "T31")
    async def test_create_topic_with_a_bad_name(self, publisher: Face, project: Project) -> None:
        with pytest.raises(exceptions.InvalidArgument, match="100 % ü"):
            await publisher.create_topic(name=project.topic_name("100 % ü"))

    @pytest.mark.rule("S1")
    async def test_get_topic(self, publisher: Face, project: Project) -> None:
        topic = project.topic()

        assert (await publisher.get_topic(topic=topic)).name == topic

    @pytest.mark.rule("S1.6", "T31")
    async def test_get_topic_that_is_missing(self, publisher: Face, project: Project) -> None:
        with pytest.raises(exceptions.NotFound) as failure:
            await publisher.get_topic(topic=project.topic_name())

        assert failure.value.message == f"Resource not found (resource={project.topic_name()})."

    @pytest.mark.rule("S1")
    async def test_update_topic(self, publisher: Face, project: Project) -> None:
        topic = project.topic(messageRetentionDuration="600s")

        changed = await publisher.update_topic(
            topic=types.Topic(name=topic, labels={"a": "b"}),
            update_mask=FieldMask(paths=["labels", "message_retention_duration"]),
        )

        assert dict(changed.labels) == {"a": "b"}
        assert "message_retention_duration" not in changed

    @pytest.mark.rule("S1.8.1")
    async def test_update_topic_with_an_unknown_path(self, publisher: Face, project: Project) -> None:
        topic = project.topic()

        with pytest.raises(exceptions.InvalidArgument, match="no_such_field"):
            await publisher.update_topic(topic=types.Topic(name=topic), update_mask=FieldMask(paths=["no_such_field"]))

    @pytest.mark.rule("S1", "S1.9.4")
    async def test_list_topics(self, publisher: Face, project: Project) -> None:
        names = [project.topic(f"topic-{n}") for n in range(5)]

        listed = await pages(await publisher.list_topics(request={"project": project.name, "page_size": 2}))

        assert [[topic.name for topic in page.topics] for page in listed] == [names[:2], names[2:4], names[4:]]

    @pytest.mark.rule("S1.9.4")
    async def test_list_topics_with_a_bad_token(self, publisher: Face, project: Project) -> None:
        with pytest.raises(exceptions.InvalidArgument, match="page_token"):
            await publisher.list_topics(request={"project": project.name, "page_token": "nonsense"})

    @pytest.mark.rule("S1", "S1.9.5")
    async def test_list_topic_subscriptions(self, publisher: Face, project: Project) -> None:
        topic = project.topic()
        names = [project.subscription(topic, f"sub-{n}") for n in range(3)]

        listed = await pages(await publisher.list_topic_subscriptions(request={"topic": topic, "page_size": 2}))

        assert [list(page.subscriptions) for page in listed] == [names[:2], names[2:]]

    @pytest.mark.rule("S1", "S1.9.5", "B076")
    async def test_list_topic_snapshots(self, publisher: Face, project: Project) -> None:
        topic, subscription = project.pair()
        names = [project.snapshot(subscription, f"snap-{n}") for n in range(3)]

        listed = await pages(await publisher.list_topic_snapshots(request={"topic": topic, "page_size": 2}))

        assert [list(page.snapshots) for page in listed] == [names[:2], names[2:]]

    @pytest.mark.rule("S1", "S5.9")
    async def test_publish(self, publisher: Face, project: Project) -> None:
        topic, subscription = project.pair()
        messages = [
            types.PubsubMessage(data=b"\x00\xff", attributes={"k": "v"}, ordering_key="key"),
            types.PubsubMessage(data=b"second", ordering_key="key"),
        ]

        reply = await publish(publisher, topic, messages)

        received = project.pull(subscription)
        assert [one.message["messageId"] for one in received] == list(reply.message_ids)
        assert [one.data for one in received] == [b"\x00\xff", b"second"]
        assert received[0].message["orderingKey"] == "key"

    @pytest.mark.rule("S5.7")
    async def test_publish_with_two_ordering_keys(self, publisher: Face, project: Project) -> None:
        messages = [types.PubsubMessage(data=b"x", ordering_key=key) for key in ("a", "b")]

        with pytest.raises(exceptions.FailedPrecondition, match="ordering key"):
            await publish(publisher, project.topic(), messages)

    @pytest.mark.rule("K14", "T6")
    async def test_publish_of_too_much_fails_at_once(self, publisher: Face, project: Project) -> None:
        """With the client's own retries, which would go on for 600 s after a code that it takes for transient."""
        with pytest.raises(exceptions.InvalidArgument, match="at most 10000000 bytes"):
            await publish(publisher, project.topic(), [types.PubsubMessage(data=bytes(10_000_001))])

    @pytest.mark.rule("S1")
    async def test_detach_subscription(self, publisher: Face, project: Project) -> None:
        _, subscription = project.pair()

        await publisher.detach_subscription(request={"subscription": subscription})

        assert project.rest.call("GET", subscription).ok()["detached"] is True

    @pytest.mark.rule("S1")
    async def test_delete_topic(self, publisher: Face, project: Project) -> None:
        topic = project.topic()

        assert await publisher.delete_topic(topic=topic) is None

        with pytest.raises(exceptions.NotFound):
            await publisher.delete_topic(topic=topic)


async def publish(publisher: Face, topic: str, messages: Iterable[types.PubsubMessage]) -> Any:
    return await publisher.publish(topic=topic, messages=list(messages))


class TestSubscriber:
    @pytest.mark.rule("S1")
    async def test_create_subscription(self, subscriber: Face, project: Project) -> None:
        topic = project.topic()

        subscription = await subscriber.create_subscription(
            request=types.Subscription(
                name=project.subscription_name(),
                topic=topic,
                ack_deadline_seconds=33,
                retry_policy=types.RetryPolicy(minimum_backoff=Duration(seconds=1, nanos=500_000_000)),
                enable_exactly_once_delivery=True,
            )
        )

        assert subscription.topic == topic
        assert subscription.ack_deadline_seconds == 33
        assert subscription.retry_policy.minimum_backoff.total_seconds() == 1.5
        assert subscription.enable_exactly_once_delivery is True
        assert subscription.state == types.Subscription.State.ACTIVE

    @pytest.mark.rule("S1")
    async def test_create_subscription_without_topic(self, subscriber: Face, project: Project) -> None:
        with pytest.raises(exceptions.NotFound, match="Resource not found"):
            await subscriber.create_subscription(name=project.subscription_name(), topic=project.topic_name())

    @pytest.mark.rule("S1")
    async def test_get_subscription(self, subscriber: Face, project: Project) -> None:
        topic, name = project.pair()

        subscription = await subscriber.get_subscription(subscription=name)

        assert (subscription.name, subscription.topic) == (name, topic)
        assert subscription.message_retention_duration.days == 7

    @pytest.mark.rule("S1")
    async def test_update_subscription(self, subscriber: Face, project: Project) -> None:
        _, name = project.pair(labels={"old": "label"})

        changed = await subscriber.update_subscription(
            subscription=types.Subscription(name=name, ack_deadline_seconds=44),
            update_mask=FieldMask(paths=["ack_deadline_seconds", "labels"]),
        )

        assert changed.ack_deadline_seconds == 44
        assert dict(changed.labels) == {}

    @pytest.mark.rule("S1", "S1.9.4")
    async def test_list_subscriptions(self, subscriber: Face, project: Project) -> None:
        topic = project.topic()
        names = [project.subscription(topic, f"sub-{n}") for n in range(3)]

        listed = await pages(await subscriber.list_subscriptions(request={"project": project.name, "page_size": 2}))

        assert [[one.name for one in page.subscriptions] for page in listed] == [names[:2], names[2:]]

    @pytest.mark.rule("S1")
    async def test_delete_subscription(self, subscriber: Face, project: Project) -> None:
        _, name = project.pair()

        await subscriber.delete_subscription(subscription=name)

        with pytest.raises(exceptions.NotFound):
            await subscriber.get_subscription(subscription=name)

    @pytest.mark.rule("S1")
    async def test_pull(self, subscriber: Face, project: Project) -> None:
        topic, name = project.pair()
        (identifier,) = project.publish(topic, {"data": "AP8=", "attributes": {"k": "v"}})

        (received,) = (await subscriber.pull(subscription=name, max_messages=10)).received_messages

        assert received.message.data == b"\x00\xff"
        assert dict(received.message.attributes) == {"k": "v"}
        assert received.message.message_id == identifier
        assert received.message.publish_time.timestamp() > 0
        assert received.delivery_attempt == 0

    @pytest.mark.rule("S7.2.3", "T4")
    async def test_pull_of_nothing_is_no_error_at_the_client_s_deadline(
        self, subscriber: Face, project: Project
    ) -> None:
        _, name = project.pair()

        assert not (await subscriber.pull(subscription=name, max_messages=1, timeout=0.5)).received_messages

    @pytest.mark.rule("K11")
    async def test_pull_from_nothing(self, subscriber: Face, project: Project) -> None:
        with pytest.raises(exceptions.NotFound):
            await subscriber.pull(subscription=project.subscription_name(), max_messages=1)

    @pytest.mark.rule("S1")
    async def test_acknowledge(self, subscriber: Face, project: Project) -> None:
        topic, name = project.pair()
        project.publish(topic, b"x")
        ack_id = project.pull_one(name).ack_id

        assert await subscriber.acknowledge(subscription=name, ack_ids=[ack_id]) is None

        project.modify(name, [ack_id], 0).ok()
        assert project.pull(name) == []

    @pytest.mark.rule("S7.1.8")
    async def test_acknowledge_of_nonsense(self, subscriber: Face, project: Project) -> None:
        _, name = project.pair()

        with pytest.raises(exceptions.InvalidArgument, match="nonsense"):
            await subscriber.acknowledge(subscription=name, ack_ids=["nonsense"])

    @pytest.mark.rule("S1")
    async def test_modify_ack_deadline(self, subscriber: Face, project: Project) -> None:
        topic, name = project.pair(ackDeadlineSeconds=600)
        project.publish(topic, b"x")
        ack_id = project.pull_one(name).ack_id

        await subscriber.modify_ack_deadline(subscription=name, ack_ids=[ack_id], ack_deadline_seconds=0)

        assert project.data(name) == [b"x"]

    @pytest.mark.rule("S1")
    async def test_modify_push_config(self, subscriber: Face, project: Project) -> None:
        _, name = project.pair()

        await subscriber.modify_push_config(
            subscription=name, push_config=types.PushConfig(push_endpoint="http://localhost:9/")
        )

        assert project.rest.call("GET", name).ok()["pushConfig"]["pushEndpoint"] == "http://localhost:9/"

    @pytest.mark.rule("S1", "S12.8", "B076")
    async def test_create_snapshot(self, subscriber: Face, project: Project) -> None:
        topic, name = project.pair()

        snapshot = await subscriber.create_snapshot(
            request={"name": project.snapshot_name(), "subscription": name, "labels": {"a": "b"}}
        )

        assert (snapshot.name, snapshot.topic, dict(snapshot.labels)) == (project.snapshot_name(), topic, {"a": "b"})
        left = snapshot.expire_time - datetime.now(UTC)
        assert timedelta(days=6, hours=23) < left <= timedelta(days=7)

    @pytest.mark.rule("S1.2", "B077")
    async def test_create_snapshot_without_a_name(self, subscriber: Face, project: Project) -> None:
        """The service chooses one; only gRPC can ask for that."""
        topic, name = project.pair()

        snapshot = await subscriber.create_snapshot(request={"subscription": name})

        assert snapshot.name.startswith(f"{project.name}/snapshots/")
        assert (await subscriber.get_snapshot(snapshot=snapshot.name)).topic == topic

    @pytest.mark.rule("S1", "T31")
    async def test_create_snapshot_of_nothing(self, subscriber: Face, project: Project) -> None:
        with pytest.raises(exceptions.NotFound, match="Resource not found"):
            await subscriber.create_snapshot(name=project.snapshot_name(), subscription=project.subscription_name())

    @pytest.mark.rule("S1", "T31")
    async def test_create_snapshot_twice(self, subscriber: Face, project: Project) -> None:
        _, name = project.pair()
        snapshot = project.snapshot(name)

        with pytest.raises(exceptions.AlreadyExists, match="already exists"):
            await subscriber.create_snapshot(name=snapshot, subscription=name)

    @pytest.mark.rule("S1")
    async def test_get_snapshot(self, subscriber: Face, project: Project) -> None:
        topic, name = project.pair()
        snapshot = project.snapshot(name)

        assert (await subscriber.get_snapshot(snapshot=snapshot)).topic == topic

    @pytest.mark.rule("S1", "S1.9.4")
    async def test_list_snapshots(self, subscriber: Face, project: Project) -> None:
        _, name = project.pair()
        names = [project.snapshot(name, f"snap-{n}") for n in range(3)]

        listed = await pages(await subscriber.list_snapshots(request={"project": project.name, "page_size": 2}))

        assert [[one.name for one in page.snapshots] for page in listed] == [names[:2], names[2:]]

    @pytest.mark.rule("S1", "S12.11", "B077")
    async def test_update_snapshot(self, subscriber: Face, project: Project) -> None:
        _, name = project.pair()
        snapshot = project.snapshot(name, labels={"old": "label"})

        changed = await subscriber.update_snapshot(
            request={
                "snapshot": types.Snapshot(name=snapshot, labels={"new": "label"}),
                "update_mask": FieldMask(paths=["labels"]),
            }
        )

        assert dict(changed.labels) == {"new": "label"}
        assert await subscriber.get_snapshot(snapshot=snapshot) == changed

    @pytest.mark.rule("S1", "S12.9")
    async def test_delete_snapshot(self, subscriber: Face, project: Project) -> None:
        _, name = project.pair()
        snapshot = project.snapshot(name)

        assert await subscriber.delete_snapshot(snapshot=snapshot) is None

        with pytest.raises(exceptions.NotFound):
            await subscriber.get_snapshot(snapshot=snapshot)

    @pytest.mark.rule("S1", "S12.2", "B073")
    async def test_seek(self, subscriber: Face, project: Project) -> None:
        topic, name = project.pair(retainAckedMessages=True)
        project.publish(topic, b"x")
        assert project.take(name) == [b"x"]

        await subscriber.seek(request={"subscription": name, "time": datetime.now(UTC) - timedelta(minutes=1)})

        assert project.data(name) == [b"x"]

    @pytest.mark.rule("S12.7", "B080")
    async def test_seek_to_a_snapshot(self, subscriber: Face, project: Project) -> None:
        topic, name = project.pair()
        project.publish(topic, b"x")
        snapshot = project.snapshot(name)
        project.publish(topic, b"y")
        assert project.take(name) == [b"x", b"y"]

        await subscriber.seek(request={"subscription": name, "snapshot": snapshot})

        assert project.data(name) == [b"x", b"y"]

    @pytest.mark.rule("S12.10", "T31")
    async def test_seek_to_a_snapshot_of_another_topic(self, subscriber: Face, project: Project) -> None:
        _, name = project.pair()
        other = project.subscription(project.topic("other"), "other")

        with pytest.raises(exceptions.FailedPrecondition, match="same topic"):
            await subscriber.seek(request={"subscription": name, "snapshot": project.snapshot(other)})

    @pytest.mark.rule("S12.6")
    async def test_seek_to_nowhere(self, subscriber: Face, project: Project) -> None:
        _, name = project.pair()

        with pytest.raises(exceptions.InvalidArgument, match="time or snapshot"):
            await subscriber.seek(request={"subscription": name})

    @pytest.mark.rule("S7.2.6")
    async def test_pull_from_a_push_subscription(self, subscriber: Face, project: Project) -> None:
        _, name = project.pair(pushConfig={"pushEndpoint": "http://localhost:9/"})

        with pytest.raises(exceptions.FailedPrecondition, match="pull subscriptions"):
            await subscriber.pull(subscription=name, max_messages=1)


@pytest.mark.rule("S1")
@pytest.mark.parametrize(
    ("client", "method"),
    [(client, method) for client, methods in NOT_YET.items() for method in methods],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
async def test_what_comes_later_says_so_at_once(connect: Connect, project: Project, client: type, method: str) -> None:
    face = connect(client)

    with pytest.raises(exceptions.MethodNotImplemented, match="not implemented by this emulator yet"):
        await getattr(face, method)(request=NOT_YET[client][method](project.name))


@pytest.mark.parametrize(
    ("client", "tests"),
    [(PublisherClient, TestPublisher), (SubscriberClient, TestSubscriber), (SchemaServiceClient, None)],
)
def test_every_unary_rpc_of_a_client_is_tested(client: type, tests: type | None) -> None:
    rpcs = {
        name
        for name, method in inspect.getmembers(client, inspect.isfunction)
        if "request" in inspect.signature(method).parameters
    }

    tested = {name for name in rpcs if hasattr(tests, f"test_{name}")}

    assert rpcs
    assert rpcs - tested == NOT_YET[client].keys()
