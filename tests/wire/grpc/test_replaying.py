"""What only a seek can ask for is kept as well: bodies that nobody wanted when they came in (service.md §5.11, §12)."""

from collections.abc import Callable

import pytest

from emulator.api import pb
from tests.wire.grpc.memory import Lab
from tests.wire.grpc.streams import READERS, TOPIC, Service

KEPT = "projects/acme/snapshots/kept"


@pytest.fixture
def service(lab: Lab) -> Service:
    return Service(lab)


def retain_in_topic(service: Service) -> pb.SeekRequest:
    topic = pb.Topic(name=TOPIC, message_retention_duration=pb.Duration(seconds=600))
    mask = pb.FieldMask(paths=["message_retention_duration"])
    service.admin.rpc("UpdateTopic", pb.UpdateTopicRequest(topic=topic, update_mask=mask))
    return pb.SeekRequest(subscription=READERS, time=pb.Timestamp())


def make_snapshot(service: Service) -> pb.SeekRequest:
    service.admin.rpc("CreateSnapshot", pb.CreateSnapshotRequest(name=KEPT, subscription=READERS))
    return pb.SeekRequest(subscription=READERS, snapshot=KEPT)


KEEPERS: dict[str, Callable[[Service], pb.SeekRequest]] = {"topic": retain_in_topic, "snapshot": make_snapshot}


@pytest.mark.rule("S5.11", "S12.1", "S12.3", "S12.7")
@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
def test_what_is_published_to_a_topic_without_subscriptions_comes_after_a_seek(
    service: Service, keep: Callable[[Service], pb.SeekRequest]
) -> None:
    seek = keep(service)
    service.admin.rpc("DeleteSubscription", pb.DeleteSubscriptionRequest(subscription=READERS))
    service.publish(b"one", b"two")
    service.create_subscription(READERS)
    stream = service.client().subscribe()
    service.settle()
    assert stream.bodies == []

    service.admin.rpc("Seek", seek)
    service.settle()

    assert stream.bodies == [b"one", b"two"]
    assert [message.message.message_id for message in stream.received] == ["1", "2"]
