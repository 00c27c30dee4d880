"""The high-level PublisherClient of google-cloud-pubsub: batches, futures, ordering keys, compression, many and big."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any, TypeAlias

import grpc
import pytest
from google.api_core import exceptions
from google.cloud.pubsub_v1 import PublisherClient
from google.cloud.pubsub_v1.publisher.exceptions import PublishToPausedOrderingKeyException
from google.cloud.pubsub_v1.types import BatchSettings, PublisherOptions
from google.pubsub_v1.services.publisher.transports.grpc import PublisherGrpcTransport
from hyperframe.frame import DataFrame, HeadersFrame

from compat_tests.relay import relay_to
from compat_tests.rest import Project
from compat_tests.targets import Target

CLIENT = "google-cloud-pubsub"

# How long a future may take, in seconds.
PATIENCE_S = 30

Connect: TypeAlias = Callable[..., PublisherClient]


@pytest.fixture
def connect(server: Target, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.host_port)
    clients: list[PublisherClient] = []

    def make(**options: Any) -> PublisherClient:
        clients.append(PublisherClient(**options))
        return clients[-1]

    yield make
    for client in clients:
        with suppress(RuntimeError):  # its test has stopped it
            client.stop()
        client.transport.close()


@pytest.mark.rule("S1", "S5.9")
def test_messages_of_a_batch_travel_together(
    connect: Connect, server: Target, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, subscription = project.pair()

    with relay_to(server) as relay:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", relay.host_port)
        publisher = connect(batch_settings=BatchSettings(max_messages=10, max_latency=PATIENCE_S))
        futures = [publisher.publish(topic, b"%d" % n, number=str(n)) for n in range(30)]
        publisher.stop()
        ids = [future.result(PATIENCE_S) for future in futures]
        publisher.transport.close()
        requests = len(relay.frames("client", HeadersFrame))

    received = project.pull(subscription)
    assert requests < 10
    assert len(set(ids)) == 30
    assert {one.message["messageId"]: one.data for one in received} == {i: b"%d" % n for n, i in enumerate(ids)}
    assert all(one.message["attributes"] == {"number": one.data.decode()} for one in received)


@pytest.mark.rule("S1", "T3")
@pytest.mark.parametrize("count", [1_000, 100_000])
def test_every_one_of_many_messages_gets_an_id_of_its_own(connect: Connect, project: Project, count: int) -> None:
    topic = project.topic()
    publisher = connect()

    futures = [publisher.publish(topic, b"%d" % n) for n in range(count)]

    assert len({future.result(PATIENCE_S) for future in futures}) == count


@pytest.mark.rule("S1", "T6", "T9")
def test_a_message_of_9_900_000_bytes(connect: Connect, project: Project) -> None:
    topic, subscription = project.pair()
    data = bytes(range(256)) * 38_672

    connect().publish(topic, data[:9_900_000]).result(PATIENCE_S)

    assert sha256(project.pull_one(subscription).data).digest() == sha256(data[:9_900_000]).digest()


@pytest.mark.rule("S5.7")
def test_messages_of_ordering_keys_arrive_in_order(connect: Connect, project: Project) -> None:
    topic, subscription = project.pair(enableMessageOrdering=True)
    publisher = connect(
        batch_settings=BatchSettings(max_messages=7), publisher_options=PublisherOptions(enable_message_ordering=True)
    )

    futures = [publisher.publish(topic, b"%d" % n, ordering_key=f"key-{n % 3}") for n in range(90)]
    for future in futures:
        future.result(PATIENCE_S)

    received = project.pull(subscription)
    for key in range(3):
        ours = [int(one.data) for one in received if one.message["orderingKey"] == f"key-{key}"]
        assert ours == list(range(key, 90, 3))


@pytest.mark.rule("S1.6", "T3")
def test_a_failed_key_is_paused_until_it_is_resumed(connect: Connect, project: Project) -> None:
    publisher = connect(publisher_options=PublisherOptions(enable_message_ordering=True))
    with pytest.raises(exceptions.NotFound, match="Resource not found"):
        publisher.publish(project.topic_name(), b"lost", ordering_key="key").result(PATIENCE_S)
    topic, subscription = project.pair()
    with pytest.raises(PublishToPausedOrderingKeyException):
        publisher.publish(topic, b"paused", ordering_key="key").result(PATIENCE_S)

    publisher.resume_publish(topic, "key")
    publisher.publish(topic, b"resumed", ordering_key="key").result(PATIENCE_S)

    assert project.data(subscription) == [b"resumed"]


@pytest.mark.rule("K8", "T5")
@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_compressed_publish(
    connect: Connect, server: Target, project: Project, compression: grpc.Compression
) -> None:
    """gRPC turns compression on for a channel, which the client then gets as its transport."""
    topic, subscription = project.pair()
    data = b"again and again, " * 10_000

    with relay_to(server) as relay:
        channel = grpc.insecure_channel(relay.host_port, compression=compression)
        publisher = connect(transport=PublisherGrpcTransport(channel=channel))
        publisher.publish(topic, data).result(PATIENCE_S)
        publisher.transport.close()
        sent = b"".join(frame.data for frame in relay.frames("client", DataFrame))

    assert project.pull_one(subscription).data == data
    assert sent[:1] == b"\x01", "the message went out uncompressed"
    assert len(sent) < len(data) / 50
