"""How long a published message takes to a stream that is open."""

import math
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Final

from bench import frames
from bench.client import ACK_DEADLINE_S, ACKNOWLEDGE, PUBLISH, STREAMING_PULL, subscription_of
from bench.context import Bench, Sample, undisturbed
from bench.servers import Server
from bench.wire import BenchError, Connection, Messages, turn
from emulator.api import pb

# The first messages do not count: the stream opens, caches fill.
_WARM_UP_S: Final = 0.5

# What has not come by then is taken to come just now.
_LAST_CALL_S: Final = 10.0

_PADDING: Final = bytes(92)
_MOMENT: Final = struct.Struct(">d")

_PUBLISH_BLOCK: Final = frames.static_block(PUBLISH)
_ACK_BLOCK: Final = frames.static_block(ACKNOWLEDGE)
_STREAM_BLOCK: Final = frames.static_block(STREAMING_PULL)


class Exchange:
    """A publisher and a stream, each on a connection of its own. `latencies` are in seconds, in order of arrival."""

    def __init__(self, server: Server, topic: str, subscription: str) -> None:
        self._topic = topic
        self._subscription = subscription
        self._publisher = Connection(server.host, server.port)
        self._subscriber = Connection(server.host, server.port)
        self._publisher.on_end = self._on_published
        self._subscriber.on_data = self._on_data
        self.connections = (self._publisher, self._subscriber)
        self._messages = Messages()
        self.sent: list[float] = []
        self.latencies: list[tuple[float, float]] = []
        first = pb.StreamingPullRequest(subscription=subscription, stream_ack_deadline_seconds=ACK_DEADLINE_S)
        self._stream = self._subscriber.open(_STREAM_BLOCK, first.SerializeToString(), end=False)
        self._subscriber.flush()

    def publish(self) -> None:
        """Send a message that says when it was sent."""
        now = time.perf_counter()
        message = pb.PubsubMessage(data=_MOMENT.pack(now) + _PADDING)
        request = pb.PublishRequest(topic=self._topic, messages=[message])
        self._publisher.open(_PUBLISH_BLOCK, request.SerializeToString())
        self._publisher.flush()
        self.sent.append(now)

    def _on_published(self, _stream: int, replied: bool) -> None:
        if not replied:
            raise BenchError("a Publish failed")

    def _on_data(self, stream: int, chunk: bytes) -> None:
        if stream != self._stream:
            return
        now = time.perf_counter()
        for message in self._messages.take(chunk):
            received = pb.StreamingPullResponse.FromString(message).received_messages
            for each in received:
                sent: float = _MOMENT.unpack_from(each.message.data)[0]
                self.latencies.append((sent, now - sent))
            if received:
                self._acknowledge([each.ack_id for each in received])

    def _acknowledge(self, ids: Sequence[str]) -> None:
        request = pb.AcknowledgeRequest(subscription=self._subscription, ack_ids=ids)
        self._subscriber.open(_ACK_BLOCK, request.SerializeToString())

    def __repr__(self) -> str:
        return f"<Exchange sent={len(self.sent)} received={len(self.latencies)}>"


def _latencies(exchange: Exchange, per_second: int, seconds: float) -> Sequence[float]:
    """Seconds from publish to arrival at a steady rate, of everything sent after the warm-up."""
    begun = time.perf_counter()
    for number in range(round(per_second * (_WARM_UP_S + seconds))):
        due = begun + number / per_second
        while (left := due - time.perf_counter()) > 0:
            turn(exchange.connections, left)
        exchange.publish()
        turn(exchange.connections, 0)
    until = time.perf_counter() + _LAST_CALL_S
    while len(exchange.latencies) < len(exchange.sent) and time.perf_counter() < until:
        turn(exchange.connections, 0.1)
    counted = [latency for sent, latency in exchange.latencies if sent >= begun + _WARM_UP_S]
    now = time.perf_counter()
    arrived = {sent for sent, _ in exchange.latencies}
    return counted + [now - sent for sent in exchange.sent if sent not in arrived]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of them doesn't exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _measure(bench: Bench, name: str, per_second: int) -> Mapping[str, Sample]:
    server = bench.server(name)
    with subscription_of(server, bench.fresh_name("latency")) as (topic, subscription):
        exchange = Exchange(server, topic, subscription)
        with undisturbed():
            seconds = _latencies(exchange, per_second, bench.scale.latency_s)
        for connection in exchange.connections:
            connection.close()
    return {
        f"latency-{per_second}-p50": Sample(percentile(seconds, 0.50) * 1_000),
        f"latency-{per_second}-p99": Sample(percentile(seconds, 0.99) * 1_000),
    }


def latency_100(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Milliseconds at 100 messages a second."""
    return _measure(bench, name, 100)


def latency_2000(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Milliseconds at 2,000 messages a second."""
    return _measure(bench, name, 2_000)
