"""Taking a backlog away over gRPC: by streams, and by Pull."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from bench import frames
from bench.client import ACK_DEADLINE_S, ACKNOWLEDGE, PULL, STREAMING_PULL, client_of, subscription_of
from bench.context import Bench, Sample, undisturbed
from bench.servers import OFFICIAL, Server
from bench.wire import BenchError, Connection, Messages, run
from emulator.api import pb

_SIZE: Final = 100
_ACKS_MAX: Final = 1_000
_PULLED: Final = 100
_PULLERS: Final = 4

_ACK_BLOCK: Final = frames.static_block(ACKNOWLEDGE)
_PULL_BLOCK: Final = frames.static_block(PULL)
_STREAM_BLOCK: Final = frames.static_block(STREAMING_PULL)


class Stream:
    """One StreamingPull on a connection of its own, which acknowledges by unary calls, as the client libraries do."""

    def __init__(self, server: Server, subscription: str) -> None:
        self.connection = Connection(server.host, server.port)
        self.connection.on_data = self._on_data
        self.connection.on_end = self._on_end
        self._subscription = subscription
        self._messages = Messages()
        self._acks: dict[int, int] = {}
        self.acked = 0
        first = pb.StreamingPullRequest(subscription=subscription, stream_ack_deadline_seconds=ACK_DEADLINE_S)
        self._stream = self.connection.open(_STREAM_BLOCK, first.SerializeToString(), end=False)
        self.connection.flush()

    def _on_data(self, stream: int, chunk: bytes) -> None:
        if stream != self._stream:
            return
        for message in self._messages.take(chunk):
            response = pb.StreamingPullResponse.FromString(message)
            ids = [received.ack_id for received in response.received_messages]
            for first in range(0, len(ids), _ACKS_MAX):
                self._ack(ids[first : first + _ACKS_MAX])

    def _ack(self, ids: Sequence[str]) -> None:
        request = pb.AcknowledgeRequest(subscription=self._subscription, ack_ids=ids)
        self._acks[self.connection.open(_ACK_BLOCK, request.SerializeToString())] = len(ids)

    def _on_end(self, stream: int, replied: bool) -> None:
        if not replied or stream not in self._acks:
            raise BenchError("an Acknowledge failed" if stream in self._acks else "the stream ended")
        self.acked += self._acks.pop(stream)

    def __repr__(self) -> str:
        return f"<Stream acked={self.acked}>"


def drain(bench: Bench, name: str, streams: int) -> float:
    """Messages a second that streams take and acknowledge, from their opening to the answer to the last ack."""
    server = bench.server(name)
    count = bench.scale.drained_official if name == OFFICIAL else bench.scale.drained
    with subscription_of(server, bench.fresh_name("drain")) as (topic, subscription):
        with client_of(server) as client:
            client.publish(topic, count, _SIZE)
        return drained(server, subscription, count, streams)


def drained(server: Server, subscription: str, count: int, streams: int) -> float:
    """Messages a second, of so many that wait."""
    with undisturbed():
        begun = time.perf_counter()
        open_ones = [Stream(server, subscription) for _ in range(streams)]
        connections = [stream.connection for stream in open_ones]
        run(connections, lambda: sum(stream.acked for stream in open_ones) >= count, "draining a subscription")
        taken = time.perf_counter() - begun
    for connection in connections:
        connection.close()
    return count / taken


def drain_1(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Messages a second over one stream."""
    return {"drain-1": Sample(drain(bench, name, 1))}


def drain_10(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Messages a second over ten streams together."""
    return {"drain-10": Sample(drain(bench, name, 10))}


class Puller:
    """One connection that pulls and acknowledges in turn."""

    def __init__(self, server: Server, subscription: str) -> None:
        self.connection = Connection(server.host, server.port)
        self.connection.on_data = self._on_data
        self.connection.on_end = self._on_end
        self._subscription = subscription
        self._pull = pb.PullRequest(
            subscription=subscription, max_messages=_PULLED, return_immediately=True
        ).SerializeToString()
        self._chunks: list[bytes] = []
        self._under_way = 0
        self.acked = 0
        self._ask()
        self.connection.flush()

    def _ask(self) -> None:
        self._under_way = 0
        self.connection.open(_PULL_BLOCK, self._pull)

    def _on_data(self, _stream: int, chunk: bytes) -> None:
        self._chunks.append(chunk)

    def _on_end(self, stream: int, replied: bool) -> None:
        if not replied:
            raise BenchError(f"the call on stream {stream} failed")
        reply = b"".join(self._chunks)[frames.PREFIX_BYTES :]
        self._chunks.clear()
        if self._under_way:
            self.acked += self._under_way
            self._ask()
            return
        ids = [received.ack_id for received in pb.PullResponse.FromString(reply).received_messages]
        if not ids:
            self._ask()
            return
        self._under_way = len(ids)
        request = pb.AcknowledgeRequest(subscription=self._subscription, ack_ids=ids)
        self.connection.open(_ACK_BLOCK, request.SerializeToString())

    def __repr__(self) -> str:
        return f"<Puller acked={self.acked}>"


def pull_and_ack(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Messages a second that Pull(100) and Acknowledge take away."""
    server = bench.server(name)
    count = bench.scale.pulled_official if name == OFFICIAL else bench.scale.pulled
    with subscription_of(server, bench.fresh_name("pull")) as (topic, subscription):
        with client_of(server) as client:
            client.publish(topic, count, _SIZE)
        with undisturbed():
            begun = time.perf_counter()
            pullers = [Puller(server, subscription) for _ in range(_PULLERS)]
            connections = [puller.connection for puller in pullers]
            run(connections, lambda: sum(puller.acked for puller in pullers) >= count, "pulling a subscription empty")
            taken = time.perf_counter() - begun
        for connection in connections:
            connection.close()
    return {"pull-ack": Sample(count / taken)}
