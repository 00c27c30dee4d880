"""The high-level subscribers of other libraries, each driven by a test and watched on the wire.

A subscriber is a program that receives from one subscription until it has acked a number of messages, and then closes:

- arguments: the project, the subscription's id, how many messages to ack, what to do with them, and the library's limit
  for outstanding messages. The server's address is in PUBSUB_EMULATOR_HOST, where a user puts it.
- what to do: `ack`; `nack` what comes for the first time and ack it when it comes again; `hold` the first message until
  there is a line to read, then ack; `reject`, where a program knows that: nack so many messages.
- it writes lines of JSON: {"event": "holding"} when it holds its message, and in the end {"event": "closed",
  "received": the data of all it received in that order, "peak": how many were in work at once, and where a program
  tells it "attempts": each one's delivery attempt}. Before that it asks
  for the subscription on the connection that its streams were on, so the server knows by then that they are over.
- it exits with 0 at the end of its input.
"""

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal, cast

from google.pubsub_v1.types import StreamingPullRequest, StreamingPullResponse
from hpack import Decoder
from hyperframe.frame import ContinuationFrame, DataFrame, Frame, HeadersFrame

from compat_tests.grpc_calls import SUBSCRIBER
from compat_tests.relay import Heard, Relay
from compat_tests.rest import Project
from compat_tests.targets import Target

# How long a program may be silent, in seconds: a thousand messages one by one take half a minute at an old library.
PATIENCE_S = 100

# A length-prefixed message begins with a flag for compression and four bytes of length.
PREFIX_BYTES = 5

# The libraries for Go and Java note the time of a ping after they have sent it. An answer that came in between would
# count as one to an earlier ping, and this one as unanswered, so the server is as far away as it is in real life.
DISTANCE_S = 0.1

STREAMING_PULL = f"{SUBSCRIBER}/StreamingPull"
ACKNOWLEDGE = f"{SUBSCRIBER}/Acknowledge"


@dataclass(frozen=True, slots=True)
class Call:
    """One call, with the bytes that went each way so far, and whether an answer has begun."""

    path: str
    sent: bytes
    answered: bytes
    begun: bool


@dataclass(frozen=True, slots=True)
class Stream:
    """One StreamingPull, with all that was said on it so far."""

    requests: Sequence[Any]
    responses: Sequence[Any]

    @property
    def ack_ids(self) -> list[str]:
        """Of all messages that the server sent on it."""
        return [received.ack_id for response in self.responses for received in response.received_messages]

    @property
    def heartbeats(self) -> int:
        """How often the server answered without messages."""
        return sum(not response.received_messages for response in self.responses)


class Watched(Relay):
    """A relay that also knows the calls. It can stand `distance_s` away: so long everything takes on its way."""

    def __init__(self, target: Target, distance_s: float = 0) -> None:
        self._distance_s = distance_s
        super().__init__(target)

    def calls(self, path: str) -> list[Call]:
        with self._changed:
            pairs = list(zip(self._heard["client"], self._heard["server"], strict=False))
            return [
                call for client, server in pairs for call in _calls(client.frames, server.frames) if call.path == path
            ]

    def streams(self) -> list[Stream]:
        return [
            Stream(
                [StreamingPullRequest.deserialize(one) for one in _messages(call.sent)],
                [StreamingPullResponse.deserialize(one) for one in _messages(call.answered)],
            )
            for call in self.calls(STREAMING_PULL)
        ]

    def _pass_on(self, heard: Heard, source: socket.socket, sink: socket.socket) -> None:
        far = cast("socket.socket", _Far(sink, self._distance_s)) if self._distance_s else sink
        super()._pass_on(heard, source, far)

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Until it holds; False if it doesn't come to."""
        with self._changed:
            return self._changed.wait_for(condition, seconds)


@dataclass(frozen=True, slots=True)
class _Far:
    """What a relay needs of a socket."""

    sink: socket.socket
    distance_s: float

    def sendall(self, data: bytes) -> None:
        time.sleep(self.distance_s)
        self.sink.sendall(data)

    def shutdown(self, how: int) -> None:
        self.sink.shutdown(how)


@dataclass(frozen=True, slots=True)
class Report:
    """What a subscriber tells when it has closed."""

    received: Sequence[str]
    peak: int
    attempts: Sequence[int] = ()


class Subscriber:
    """A subscriber's program at work. It talks to the server through `relay`."""

    def __init__(self, process: subprocess.Popen[str], relay: Watched, written: Path) -> None:
        self.relay = relay
        self._process = process
        self._written = written
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_until_it_holds(self) -> None:
        assert self._next() == {"event": "holding"}

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def closed(self) -> Report:
        """What it tells when it has closed; its connections are still open."""
        told = self._next()
        assert told.pop("event") == "closed"
        return Report(**told)

    def leave(self) -> None:
        """Have it exit, which has to succeed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(PATIENCE_S) == 0, self._story()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _next(self) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=PATIENCE_S)
        except Empty:
            line = ""
        assert line, f"the subscriber told nothing more and wrote:\n{self._story()}"
        told: dict[str, Any] = json.loads(line)
        return told

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _story(self) -> str:
        return self._written.read_text(encoding="utf-8")[-3_000:]

    def __repr__(self) -> str:
        return f"<Subscriber {self._process.pid} through {self.relay!r}>"


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts one library's subscriber, for one test."""

    command: Sequence[str | Path]
    server: Target
    project: Project
    directory: Path

    @contextmanager
    def __call__(
        self,
        subscription: str,
        count: int,
        what: Literal["ack", "nack", "hold", "reject"] = "ack",
        *,
        most: int = 1_000,
        distance_s: float = 0,
    ) -> Iterator[Subscriber]:
        """A subscriber until the block ends."""
        relay = Watched(self.server, distance_s)
        arguments = [self.project.id, subscription.rpartition("/")[2], str(count), what, str(most)]
        environment: Mapping[str, str] = {**os.environ, "PUBSUB_EMULATOR_HOST": relay.host_port}
        written = self.directory / "stderr"
        with written.open("w", encoding="utf-8") as stderr:
            process = subprocess.Popen(
                [*self.command, *arguments],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        subscriber = Subscriber(process, relay, written)
        try:
            yield subscriber
        finally:
            subscriber.kill()
            relay.close()


def check_that_a_thousand_come_once_and_are_acked(launch: Launcher, project: Project, most: int = 1_000) -> Watched:
    """Return what was seen on the wire."""
    topic, subscription = project.pair()
    bodies = [f"message {number}" for number in range(1_000)]
    project.publish(topic, *(body.encode() for body in bodies))

    with launch(subscription, len(bodies), most=most) as subscriber:
        report = subscriber.closed()
        subscriber.leave()

    assert sorted(report.received) == sorted(bodies)
    check_that_nothing_is_left(project, subscription, subscriber.relay)
    return subscriber.relay


def check_that_nothing_is_left(project: Project, subscription: str, relay: Watched) -> None:
    """Whatever was sent and not acked comes back at once when it is nacked, and what was acked does not."""
    sent = [ack_id for stream in relay.streams() for ack_id in stream.ack_ids]
    project.modify(subscription, sent, 0).ok()
    assert project.data(subscription) == []


def check_that_a_nacked_message_comes_again(launch: Launcher, project: Project) -> None:
    topic, subscription = project.pair(ackDeadlineSeconds=600)
    project.publish(topic, b"twice")

    with launch(subscription, 1, "nack") as subscriber:
        report = subscriber.closed()
        subscriber.leave()

    assert report.received == ["twice", "twice"]
    check_that_nothing_is_left(project, subscription, subscriber.relay)


def check_that_a_limit_of_one_leaves_the_rest_to_others(launch: Launcher, project: Project) -> None:
    topic, subscription = project.pair()
    bodies = [b"message %d" % number for number in range(10)]
    project.publish(topic, *bodies)

    with launch(subscription, len(bodies), "hold", most=1) as subscriber:
        subscriber.wait_until_it_holds()
        others = project.pull(subscription)
        project.modify(subscription, [one.ack_id for one in others], 0).ok()
        subscriber.go_on()
        report = subscriber.closed()
        subscriber.leave()

    assert len(others) == 9
    assert report.peak == 1
    assert sorted(report.received) == [body.decode() for body in bodies]
    (stream,) = subscriber.relay.streams()
    assert stream.requests[0].max_outstanding_messages == 1


def check_that_a_closed_one_gets_nothing_more(launch: Launcher, project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"before")

    with launch(subscription, 1) as subscriber:
        report = subscriber.closed()
        project.publish(topic, b"after")
        received = project.pull_one(subscription)
        subscriber.leave()

    assert report.received == ["before"]
    assert received.data == b"after"


def check_that_an_idle_stream_stays(launch: Launcher, project: Project, heartbeats: int, seconds: float) -> None:
    """Stay idle until the server has answered so many pings, then have a message pass on the same stream."""
    topic, subscription = project.pair()

    with launch(subscription, 1, distance_s=DISTANCE_S) as subscriber:
        relay = subscriber.relay

        def over() -> bool:
            streams = relay.streams()
            return len(streams) > 1 or sum(stream.heartbeats for stream in streams) >= heartbeats

        assert relay.wait_for(over, seconds), "the pings went unanswered"
        project.publish(topic, b"at last")
        report = subscriber.closed()
        subscriber.leave()

    assert report.received == ["at last"]
    (stream,) = relay.streams()
    assert stream.requests[0].protocol_version >= 1
    assert all("subscription_properties" in response for response in stream.responses)


def _calls(client: Sequence[Frame], server: Sequence[Frame]) -> Iterator[Call]:
    """The calls of one connection."""
    decoder = Decoder()
    paths: dict[int, str] = {}
    block = b""
    for frame in client:
        if isinstance(frame, HeadersFrame | ContinuationFrame):
            block += frame.data
            if "END_HEADERS" in frame.flags:
                paths[frame.stream_id] = dict(decoder.decode(block, raw=True)).get(b":path", b"").decode()
                block = b""
    sent, answered = _data(client), _data(server)
    begun = {frame.stream_id for frame in server if isinstance(frame, HeadersFrame)}
    for stream_id, path in paths.items():
        yield Call(path, sent.get(stream_id, b""), answered.get(stream_id, b""), stream_id in begun)


def _data(frames: Sequence[Frame]) -> dict[int, bytes]:
    pieces: dict[int, list[bytes]] = {}
    for frame in frames:
        if isinstance(frame, DataFrame):
            pieces.setdefault(frame.stream_id, []).append(frame.data)
    return {stream_id: b"".join(some) for stream_id, some in pieces.items()}


def _messages(data: bytes) -> Iterator[bytes]:
    """The complete messages in a call's bytes; none of the libraries squeezes them unasked."""
    while len(data) >= PREFIX_BYTES:
        end = PREFIX_BYTES + int.from_bytes(data[1:PREFIX_BYTES])
        if len(data) < end:
            return
        assert data[0] == 0
        yield data[PREFIX_BYTES:end]
        data = data[end:]
