"""google-cloud-pubsub replays: seek and snapshots under subscribers that are running."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeError, AcknowledgeStatus
from google.cloud.pubsub_v1.types import FlowControl
from google.protobuf.field_mask_pb2 import FieldMask
from google.pubsub_v1 import types

from compat_tests.rest import Project
from compat_tests.targets import Target
from compat_tests.test_streaming_subscriber import (
    PATIENCE_S,
    Holder,
    Receiver,
    Subscribers,
    check_that_all_are_acked,
    stop,
)

CLIENT = "google-cloud-pubsub"

# With it the library tells when an ack has arrived; an ack on its way would count as a late one after a seek.
CONFIRMED = {"enableExactlyOnceDelivery": True}


@pytest.fixture
def subscribers(server: Target, monkeypatch: pytest.MonkeyPatch) -> Iterator[Subscribers]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.host_port)
    subscribers = Subscribers()
    yield subscribers
    subscribers.close()


@pytest.fixture
def client(subscribers: Subscribers) -> SubscriberClient:
    client: SubscriberClient = subscribers.client()
    return client


def an_hour_ago() -> datetime:
    return datetime.now(UTC) - timedelta(hours=1)


@pytest.mark.rule("B073", "S12.1", "S12.2")
def test_acked_messages_come_again_to_a_running_subscriber(
    subscribers: Subscribers, client: SubscriberClient, project: Project
) -> None:
    topic, subscription = project.pair(retainAckedMessages=True, **CONFIRMED)
    receiver = Receiver()
    running = subscribers.subscribe(subscription, receiver, client)
    ids = project.publish(topic, *(b"%d" % number for number in range(100)))
    receiver.wait_until_acked(100)

    client.seek(request={"subscription": subscription, "time": an_hour_ago()})
    receiver.wait_until_acked(200)

    assert sorted(message.message_id for message in receiver.messages[100:]) == sorted(ids)
    assert sorted(receiver.data[100:]) == sorted(receiver.data[:100])
    stop(running)
    assert project.pull(subscription) == []


@pytest.mark.rule("S12.2", "S12.4", "B074")
def test_what_a_subscriber_holds_is_dropped_by_a_seek_to_the_future(
    subscribers: Subscribers, client: SubscriberClient, project: Project
) -> None:
    topic, subscription = project.pair()
    holder = Holder()
    running = subscribers.subscribe(subscription, holder, client, flow_control=FlowControl(max_messages=1))
    project.publish(topic, b"held", b"never seen", b"never seen either")
    holder.wait(1)

    client.seek(request={"subscription": subscription, "time": datetime.now(UTC) + timedelta(hours=1)})
    project.publish(topic, b"new")
    holder.go_on.set()
    holder.wait(2)
    holder.wait_until_acked(2)

    assert holder.data == [b"held", b"new"]
    stop(running)
    check_that_all_are_acked(project, subscription, holder)


@pytest.mark.rule("S12.7", "B080", "B076")
def test_a_running_subscriber_goes_back_to_a_snapshot(
    subscribers: Subscribers, client: SubscriberClient, project: Project
) -> None:
    topic, subscription = project.pair(**CONFIRMED)
    receiver = Receiver()
    subscribers.subscribe(subscription, receiver, client)
    project.publish(topic, b"before")
    receiver.wait_until_acked(1)
    snapshot = client.create_snapshot(name=project.snapshot_name(), subscription=subscription)
    project.publish(topic, b"after")
    receiver.wait_until_acked(2)

    client.seek(request={"subscription": subscription, "snapshot": snapshot.name})
    receiver.wait_until_acked(3)

    assert receiver.data == [b"before", b"after", b"after"]


@pytest.mark.rule("B077", "S12.11", "S1.9.4", "S12.9")
def test_a_snapshot_s_whole_life(client: SubscriberClient, project: Project) -> None:
    topic, subscription = project.pair()
    names = [project.snapshot_name(f"snap-{number}") for number in range(3)]
    for name in names:
        client.create_snapshot(request={"name": name, "subscription": subscription, "labels": {"a": "b"}})

    updated: Any = client.update_snapshot(
        snapshot=types.Snapshot(name=names[0], labels={"c": "d"}), update_mask=FieldMask(paths=["labels"])
    )
    listed = client.list_snapshots(request={"project": project.name, "page_size": 2})

    assert (updated.name, updated.topic, dict(updated.labels)) == (names[0], topic, {"c": "d"})
    assert updated.expire_time > datetime.now(UTC) + timedelta(days=6)
    assert [(one.name, dict(one.labels)) for one in listed] == [
        (names[0], {"c": "d"}),
        (names[1], {"a": "b"}),
        (names[2], {"a": "b"}),
    ]
    assert list(PublisherClient().list_topic_snapshots(request={"topic": topic})) == names
    for name in names:
        client.delete_snapshot(snapshot=name)
    assert list(client.list_snapshots(project=project.name)) == []


@pytest.mark.rule("S9.9", "S9.2")
def test_ordered_messages_come_in_their_order_again(
    subscribers: Subscribers, client: SubscriberClient, project: Project
) -> None:
    topic, subscription = project.pair(retainAckedMessages=True, enableMessageOrdering=True, **CONFIRMED)
    receiver = Receiver()
    subscribers.subscribe(subscription, receiver, client)
    for data in ("MQ==", "Mg==", "Mw=="):
        project.publish(topic, {"data": data, "orderingKey": "k"})
    receiver.wait_until_acked(3)

    client.seek(request={"subscription": subscription, "time": an_hour_ago()})
    receiver.wait_until_acked(6)

    assert receiver.data == [b"1", b"2", b"3"] * 2


@pytest.mark.rule("S12.4", "S8.2")
def test_under_exactly_once_an_ack_from_before_a_seek_fails(
    subscribers: Subscribers, client: SubscriberClient, project: Project
) -> None:
    topic, subscription = project.pair(**CONFIRMED)
    come = [threading.Event(), threading.Event()]
    messages: list[Any] = []

    def take(message: Any) -> None:
        messages.append(message)
        come[len(messages) - 1].set()

    subscribers.subscribe(subscription, Receiver(take), client)
    project.publish(topic, b"x")
    assert come[0].wait(PATIENCE_S)

    client.seek(request={"subscription": subscription, "time": an_hour_ago()})
    assert come[1].wait(PATIENCE_S)

    with pytest.raises(AcknowledgeError) as refusal:
        messages[0].ack_with_response().result(PATIENCE_S)
    assert refusal.value.error_code == AcknowledgeStatus.INVALID_ACK_ID
    assert messages[1].ack_with_response().result(PATIENCE_S) == AcknowledgeStatus.SUCCESS
    assert [message.data for message in messages] == [b"x", b"x"]


@pytest.mark.rule("S11.7", "S12.10", "S12.11")
def test_a_filter_is_changed_while_messages_are_published_and_none_is_lost(
    subscribers: Subscribers, client: SubscriberClient, project: Project
) -> None:
    """As Google documents it: a snapshot of the old subscription, a new one with the new filter, and its seek."""
    topic = project.topic()
    old = project.subscription(topic, "old", filter='attributes.kind = "a" OR attributes.kind = "b"')
    publisher: Any = PublisherClient()
    published: list[tuple[int, str, str]] = []
    done: list[object] = []
    enough = threading.Event()
    changed = threading.Condition()

    def publish() -> None:
        while not enough.is_set():
            so_far = len(done)
            futures = [(publisher.publish(topic, b"x", kind=kind), kind) for kind in ("a", "b", "c")]
            found = [(so_far, kind, future.result(PATIENCE_S)) for future, kind in futures]
            with changed:
                published.extend(found)
                changed.notify_all()

    def go_on() -> None:
        """Until something is published that was begun after the last step."""
        with changed:
            assert changed.wait_for(lambda: published and published[-1][0] == len(done), PATIENCE_S)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        steps: list[Callable[[], object]] = [
            lambda: client.create_snapshot(name=project.snapshot_name(), subscription=old),
            lambda: client.create_subscription(
                request={
                    "name": project.subscription_name("new"),
                    "topic": topic,
                    "filter": 'attributes.kind = "b" OR attributes.kind = "c"',
                }
            ),
            lambda: client.seek(
                request={"subscription": project.subscription_name("new"), "snapshot": project.snapshot_name()}
            ),
        ]
        for step in steps:
            go_on()
            done.append(step())
        go_on()
    finally:
        enough.set()
        thread.join()
    # Nothing of the old one was acked: all that it matched is in the snapshot, and all that was published since.
    wanted = {identifier for _, kind, identifier in published if kind == "b"}
    since = {identifier for steps_done, kind, identifier in published if kind == "c" and steps_done}

    receiver = Receiver()
    subscribers.subscribe(project.subscription_name("new"), receiver, client)
    receiver.wait_for(lambda: {one.message_id for one in receiver.messages} >= wanted | since)

    assert {one.attributes["kind"] for one in receiver.messages} == {"b", "c"}
    assert len({one.message_id for one in receiver.messages}) == len(receiver.messages)
