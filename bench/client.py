"""One careful gRPC client for everything around a load: it decodes headers and fails on every status but OK."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from google.protobuf.message import Message
from hpack import Decoder

from bench import frames
from bench.wire import PATIENCE_S, BenchError, Connection, Messages, run
from emulator.api import pb

PUBLISH: Final = "/google.pubsub.v1.Publisher/Publish"
PULL: Final = "/google.pubsub.v1.Subscriber/Pull"
ACKNOWLEDGE: Final = "/google.pubsub.v1.Subscriber/Acknowledge"
STREAMING_PULL: Final = "/google.pubsub.v1.Subscriber/StreamingPull"
GET_TOPIC: Final = "/google.pubsub.v1.Publisher/GetTopic"

PROJECT: Final = "projects/bench"

# The longest that exist: no lease of a load ends by itself.
ACK_DEADLINE_S: Final = 600

_BATCH: Final = 1_000
_BATCH_BYTES: Final = 1_000_000

M = TypeVar("M", bound=Message)


class Address(Protocol):
    """Where a server listens."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Place:
    """An address and no more."""

    host: str
    port: int


class Client:
    """Unary calls, one at a time."""

    def __init__(self, server: Address) -> None:
        """Raises OSError when nobody listens there."""
        self._connection = Connection(server.host, server.port)
        self._connection.on_data = self._on_data
        self._connection.on_block = self._on_block
        self._connection.on_end = self._on_end
        self._decoder = Decoder()
        self._messages = Messages()
        self._found: list[bytes] = []
        self._fields: dict[str, str] = {}
        self._ended = False

    def _on_data(self, _stream: int, chunk: bytes) -> None:
        self._found += self._messages.take(chunk)

    def _on_block(self, _stream: int, block: bytes) -> None:
        self._fields.update((str(name), str(value)) for name, value in self._decoder.decode(block))

    def _on_end(self, _stream: int, _replied: bool) -> None:
        self._ended = True

    def call(self, path: str, request: Message, reply: type[M], patience_s: float = PATIENCE_S) -> M:
        """The reply. Raises BenchError for any status but OK."""
        self._found, self._fields, self._ended = [], {}, False
        self._connection.open(frames.static_block(path), request.SerializeToString())
        self._connection.flush()
        run([self._connection], lambda: self._ended, path, patience_s)
        if self._fields.get("grpc-status") != "0":
            raise BenchError(f"{path} was answered with {self._fields}")
        return reply.FromString(self._found[0])

    def create_topic(self, name: str) -> None:
        self.call("/google.pubsub.v1.Publisher/CreateTopic", pb.Topic(name=name), pb.Topic)

    def delete_topic(self, name: str) -> None:
        self.call("/google.pubsub.v1.Publisher/DeleteTopic", pb.DeleteTopicRequest(topic=name), pb.Empty)

    def create_subscription(self, name: str, topic: str, ack_deadline_s: int = ACK_DEADLINE_S, **options: Any) -> None:
        subscription = pb.Subscription(name=name, topic=topic, ack_deadline_seconds=ack_deadline_s, **options)
        self.call("/google.pubsub.v1.Subscriber/CreateSubscription", subscription, pb.Subscription)

    def delete_subscription(self, name: str) -> None:
        request = pb.DeleteSubscriptionRequest(subscription=name)
        self.call("/google.pubsub.v1.Subscriber/DeleteSubscription", request, pb.Empty)

    def list_topics(self) -> None:
        request = pb.ListTopicsRequest(project=PROJECT)
        self.call("/google.pubsub.v1.Publisher/ListTopics", request, pb.ListTopicsResponse)

    def publish(self, topic: str, count: int, size: int, keys: int = 0) -> None:
        """`count` messages of `size` bytes, in batches; with so many ordering keys, a batch for each in turn."""
        most = max(1, min(_BATCH, _BATCH_BYTES // size, count // keys if keys else count))
        for number, first in enumerate(range(0, count, most)):
            request = publish_request(topic, min(most, count - first), size)
            if keys:
                for message in request.messages:
                    message.ordering_key = f"key-{number % keys}"
            self.call(PUBLISH, request, pb.PublishResponse)

    def pull(self, subscription: str, most: int) -> list[str]:
        """The ack ids of up to `most` messages that are there."""
        request = pb.PullRequest(subscription=subscription, max_messages=most, return_immediately=True)
        return [received.ack_id for received in self.call(PULL, request, pb.PullResponse).received_messages]

    def acknowledge(self, subscription: str, ack_ids: Sequence[str]) -> None:
        self.call(ACKNOWLEDGE, pb.AcknowledgeRequest(subscription=subscription, ack_ids=ack_ids), pb.Empty)

    def close(self) -> None:
        self._connection.close()

    def __repr__(self) -> str:
        return f"<Client {self._connection!r}>"


def publish_request(topic: str, count: int, size: int) -> pb.PublishRequest:
    return pb.PublishRequest(topic=topic, messages=[pb.PubsubMessage(data=b"x" * size)] * count)


@contextmanager
def client_of(server: Address) -> Iterator[Client]:
    client = Client(server)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def topic_of(server: Address, name: str) -> Iterator[str]:
    """A topic for as long as the block lasts; its full name."""
    topic = f"{PROJECT}/topics/{name}"
    with client_of(server) as client:
        client.create_topic(topic)
        try:
            yield topic
        finally:
            with suppress(BenchError, OSError):  # a server that no longer answers has its story told already
                client.delete_topic(topic)


@contextmanager
def subscription_of(
    server: Address, name: str, ack_deadline_s: int = ACK_DEADLINE_S, **options: Any
) -> Iterator[tuple[str, str]]:
    """A topic and its subscription for as long as the block lasts; their full names."""
    subscription = f"{PROJECT}/subscriptions/{name}"
    with topic_of(server, name) as topic, client_of(server) as client:
        client.create_subscription(subscription, topic, ack_deadline_s, **options)
        try:
            yield topic, subscription
        finally:
            with suppress(BenchError, OSError):
                client.delete_subscription(subscription)
