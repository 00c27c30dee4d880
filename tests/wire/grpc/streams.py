"""StreamingPull over a transport in memory: a whole service, and its clients with as many streams as they like."""

from collections.abc import Sequence
from typing import Any, cast

from google.protobuf.message import Message
from h2.events import DataReceived, Event
from h2.settings import SettingCodes

from emulator.api import pb
from emulator.api.catalogue import BY_PATH, RPCS
from emulator.api.dispatch import Dispatcher
from emulator.api.services import STREAMING_PULL, build_services
from emulator.api.streaming_pull import PONG_DELAY_S, StreamingPull
from emulator.clock import FakeClock
from emulator.engine.broker import Broker
from emulator.errors import Code
from emulator.limits import STRICT, Limits
from emulator.wire.grpc.server import GrpcServer
from tests.wire.grpc.memory import Lab, MemoryTransport, Peer, Reply, Served, framed, path_of

TOPIC = "projects/acme/topics/news"
DEAD = "projects/acme/topics/dead"
READERS = "projects/acme/subscriptions/readers"
OTHERS = "projects/acme/subscriptions/others"

WINDOW_MAX = 2**31 - 1
WINDOW_DEFAULT = 65_535


class Service(Served):
    """A broker with a topic and a subscription of it that shows attempts, served as the product serves it.

    `admin` is a client without streams.
    """

    def __init__(self, lab: Lab, limits: Limits = STRICT) -> None:
        self.clock = FakeClock()
        self.broker = Broker(self.clock, limits)
        super().__init__(
            lab,
            GrpcServer(
                Dispatcher(build_services(self.broker)),
                RPCS,
                {STREAMING_PULL: lambda call: StreamingPull(self.broker, call, call.outbox)},
                wait_s=limits.pull_wait_s,
            ),
        )
        self.clients: list[Client] = []
        self.admin = self.client()
        for topic in (TOPIC, DEAD):
            self.admin.rpc("CreateTopic", pb.Topic(name=topic))
        self.create_subscription(READERS)

    def create_subscription(self, name: str, **fields: Any) -> None:
        policy = pb.DeadLetterPolicy(dead_letter_topic=DEAD)
        self.admin.rpc(
            "CreateSubscription", pb.Subscription(name=name, topic=TOPIC, dead_letter_policy=policy, **fields)
        )

    def client(self, *, room: int | None = None, credits: bool = True) -> "Client":
        """A client on a connection of its own."""
        client = Client(self, self.transport(room=room), credits=credits)
        self.clients.append(client)
        return client

    def publish(self, *bodies: bytes) -> None:
        """Publish in one call, over a connection without streams; nobody has his turn yet."""
        self.admin.publish(*bodies)

    def turn(self) -> None:
        """One turn of the loop, after which everybody who reads has read."""
        self.lab.turn()
        for client in self.clients:
            client.exchange()

    def settle(self) -> None:
        """Turn until nobody has anything to do."""
        for _ in range(10_000):
            self.turn()
            if not self.ready():
                return
        raise AssertionError("it never comes to rest")

    def pong(self) -> None:
        """Let the time pass that the answer to a ping takes."""
        self.lab.advance(PONG_DELAY_S)
        self.settle()

    def ready(self) -> int:
        """How many callbacks the loop runs in its next turn."""
        return len(self.lab.loop._ready)  # type: ignore[attr-defined]  # no public count

    def advance(self, seconds: float) -> None:
        """Let time pass for the broker, and everything happen that follows from it."""
        self.clock.advance(seconds)
        self.settle()

    def counts(self) -> dict[str, int]:
        """All that must come back to where it was."""
        return {
            **self.broker.counts(),
            **self.server.counts(),
            "loop_timers": self.lab.timers(),
            "clock_timers": self.clock.timer_count(),
        }

    def held(self, name: str = READERS) -> tuple[int, int, int]:
        """How many messages of a subscription wait, are leased, and of these are not written yet."""
        counts = self.broker.subscriptions.get(name).counts()
        return counts["waiting"], counts["leases"], counts["unwritten"]

    def failures(self, name: str = READERS) -> list[int]:
        """The failed deliveries of each message that is left, oldest first."""
        messages = cast("list[tuple[int, str, int, Any]]", self.broker.subscriptions.get(name).dump()["messages"])
        return [failures for _, _, failures, _ in messages]

    def __repr__(self) -> str:
        return f"<Service clients={len(self.clients)} {self.broker!r}>"


class Client(Peer):
    """A peer with streams. `arrivals`: the stream of each response, in the order in which they became whole.

    Without `reading` it takes nothing from its socket. For streams in `stalled` it opens the connection's window again
    as data comes, but not theirs.
    """

    def __init__(self, service: Service, transport: MemoryTransport, *, credits: bool) -> None:
        self.service = service
        self.streams: dict[int, Subscriber] = {}
        self.arrivals: list[int] = []
        self.stalled: set[int] = set()
        self.reading = True
        super().__init__(transport, credits=credits)

    def exchange(self) -> None:
        if self.transport.lost:
            return
        if self.reading:
            super().exchange()
        elif out := self.h2.data_to_send():
            self.transport.deliver(out)

    def _on(self, event: Event) -> None:
        # The data of a stream is not collected as that of a call is: some tests move tens of megabytes.
        stream_id: int = getattr(event, "stream_id", None) or 0
        if not isinstance(event, DataReceived) or stream_id not in self.streams:
            super()._on(event)
            return
        self.streams[stream_id].take(event.data or b"")
        length = event.flow_controlled_length or 0
        if self.credits and length:
            if stream_id in self.stalled:
                self.h2.increment_flow_control_window(length)
            else:
                self.h2.acknowledge_received_data(length, stream_id)

    # Windows

    def open_windows(self, size: int = WINDOW_MAX) -> None:
        """Let streams opened from now on, and the connection, take so many bytes."""
        self.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: size})
        self.h2.increment_flow_control_window(WINDOW_MAX - WINDOW_DEFAULT)
        self.exchange()

    def shut(self, stream: "Subscriber") -> None:
        """Take back to the last byte what a stream's window has left; those of the connection's others shrink too."""
        initial = self.h2.local_settings.initial_window_size
        self.h2.update_settings(
            {SettingCodes.INITIAL_WINDOW_SIZE: initial - self.h2.remote_flow_control_window(stream.id)}
        )
        self.exchange()

    def grow(self, stream: "Subscriber", size: int) -> None:
        """Let a stream take so many bytes more."""
        self.h2.increment_flow_control_window(size, stream.id)
        self.exchange()

    # Calls

    def invoke(self, method: str, request: Message) -> Reply:
        """A unary call, and what there is of a reply at once."""
        return self.call(path_of(method), framed(request.SerializeToString()))

    def rpc(self, method: str, request: Message) -> Any:
        """A unary call's response; it is there at once, and OK."""
        reply = self.invoke(method, request)
        assert reply.status == Code.OK, reply
        (response,) = reply.messages
        return BY_PATH[path_of(method)].response.FromString(response)

    def publish(self, *bodies: bytes) -> None:
        request = pb.PublishRequest(topic=TOPIC, messages=[pb.PubsubMessage(data=body) for body in bodies])
        assert len(self.rpc("Publish", request).message_ids) == len(bodies)

    def acknowledge(self, *ack_ids: str, name: str = READERS) -> None:
        self.rpc("Acknowledge", pb.AcknowledgeRequest(subscription=name, ack_ids=ack_ids))

    def open_stream(self, *headers: tuple[str, str]) -> "Subscriber":
        """A stream that has said nothing yet."""
        stream = Subscriber(self, self.open(STREAMING_PULL, *headers))
        self.streams[stream.id] = stream
        return stream

    def subscribe(
        self,
        *headers: tuple[str, str],
        name: str = READERS,
        deadline: int = 10,
        messages: int = 0,
        max_bytes: int = 0,
        version: int = 0,
    ) -> "Subscriber":
        """An open stream; times in seconds, limits of 0 are none."""
        stream = self.open_stream(*headers)
        stream.ask(
            subscription=name,
            stream_ack_deadline_seconds=deadline,
            max_outstanding_messages=messages,
            max_outstanding_bytes=max_bytes,
            protocol_version=version,
        )
        return stream

    def __repr__(self) -> str:
        return f"<Client streams={list(self.streams)}>"


class Subscriber:
    """One stream as its client sees it; `responses` are the whole ones, `partial` what there is of the next."""

    def __init__(self, client: Client, stream_id: int) -> None:
        self.client = client
        self.id = stream_id
        self.responses: list[pb.StreamingPullResponse] = []
        self.partial = bytearray()

    def take(self, data: bytes) -> None:
        """Bytes that came on it."""
        self.partial += data
        while len(self.partial) >= 5:
            size = int.from_bytes(self.partial[1:5], "big")
            if len(self.partial) < 5 + size:
                return
            self.responses.append(pb.StreamingPullResponse.FromString(bytes(self.partial[5 : 5 + size])))
            del self.partial[: 5 + size]
            self.client.arrivals.append(self.id)

    def ask(self, *, end: bool = False, **fields: Any) -> None:
        """Send a request; nobody has his turn yet."""
        request = pb.StreamingPullRequest(**fields)
        self.client.send(self.id, framed(request.SerializeToString()), end=end)

    def ack(self, *ack_ids: str) -> None:
        self.ask(ack_ids=ack_ids)

    def ack_all(self) -> None:
        """Acknowledge whatever came so far, over a unary call."""
        ids = self.ack_ids
        for start in range(0, len(ids), 1_000):
            self.client.service.admin.acknowledge(*ids[start : start + 1_000])

    def nack(self, *ack_ids: str) -> None:
        self.ask(modify_deadline_ack_ids=ack_ids, modify_deadline_seconds=[0] * len(ack_ids))

    def half_close(self) -> None:
        self.client.send(self.id, b"", end=True)

    def cancel(self) -> None:
        self.client.cancel(self.id)

    @property
    def reply(self) -> Reply:
        """How it began and ended; its messages are in `responses`."""
        return self.client.replies[self.id]

    @property
    def received(self) -> list[pb.ReceivedMessage]:
        return [message for response in self.responses for message in response.received_messages]

    @property
    def bodies(self) -> list[bytes]:
        return [message.message.data for message in self.received]

    @property
    def attempts(self) -> list[int]:
        return [message.delivery_attempt for message in self.received]

    @property
    def ack_ids(self) -> list[str]:
        return [message.ack_id for message in self.received]

    def __repr__(self) -> str:
        return f"<Subscriber {self.id} responses={len(self.responses)}>"


def bodies(count: int, first: int = 0, size: int = 0) -> Sequence[bytes]:
    """Different bodies of at least `size` bytes."""
    return [b"%d" % number + b"." * (size - len(b"%d" % number)) for number in range(first, first + count)]
