"""Connections without a socket: a transport in memory below the server's end, a peer of another make on the other."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from hpack import Decoder, Encoder
from hyperframe.frame import DataFrame, Frame, HeadersFrame, SettingsFrame, WindowUpdateFrame

from emulator.api.catalogue import RPCS, SERVICES
from emulator.api.dispatch import Dispatcher, Outcome
from emulator.wire.grpc.server import GrpcConnection, GrpcServer, Opener
from tests.wire.rest_fake import Call, Handlers

T = TypeVar("T")

# How much a loop hands to a protocol at once.
READ_BYTES = 262_144

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class LabLoop(asyncio.SelectorEventLoop):
    """A loop whose time moves only when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0

    def time(self) -> float:
        return self.now


class Lab:
    """A loop that a test turns by hand. `problems` holds what callbacks raised."""

    def __init__(self) -> None:
        self.loop = LabLoop()
        self.problems: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _loop, context: self.problems.append(context))

    def inside(self, function: Callable[[], T]) -> T:
        """Call it as a callback of the loop."""
        done: list[T] = []
        self.loop.call_soon(lambda: done.append(function()))
        self.turn()
        (value,) = done
        return value

    def turn(self, count: int = 1) -> None:
        """Run what is ready now, and nothing that this makes ready; so many times."""
        for _ in range(count):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def until(self, condition: Callable[[], bool]) -> None:
        """Turn until the condition holds."""
        for _ in range(100_000):
            if condition():
                return
            self.turn()
        raise AssertionError("it never comes to that")

    def timers(self) -> int:
        """How many timers may still fire."""
        scheduled: list[asyncio.TimerHandle] = self.loop._scheduled  # type: ignore[attr-defined]  # no public count
        return sum(not each.cancelled() for each in scheduled)

    def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that follows from it."""
        self.loop.now += seconds
        self.turn(20)

    def close(self) -> None:
        self.turn(20)
        self.loop.close()


class MemoryTransport(asyncio.Transport):
    """The server's end. `room`: how much the peer's end takes in before it reads (None: everything)."""

    def __init__(self, lab: Lab, protocol: asyncio.Protocol, room: int | None = None) -> None:
        super().__init__()
        self._lab = lab
        self._protocol = protocol
        self.room = room
        self._high, self._low = 65_536, 16_384
        self._unwritten = bytearray()
        self._arrived = bytearray()
        self._inbox = bytearray()
        self._reading = True
        self._writing_paused = False
        self._closing = False
        self._dead = False
        self.lost = False
        self.aborted = False
        protocol.connection_made(self)

    # The protocol's side

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return "a peer in memory" if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self._high, self._low = high, high // 4

    def get_write_buffer_size(self) -> int:
        return len(self._unwritten)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        if self._dead:
            self._lose()
            return
        self._unwritten += data
        self._push()
        if len(self._unwritten) > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        if self._inbox:
            self._lab.loop.call_soon(self._pump)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._unwritten:
                self._lab.loop.call_soon(self._tell_lost)

    def abort(self) -> None:
        self.aborted = True
        self._lose()

    def _lose(self) -> None:
        if not (self._closing and not self._unwritten):
            self._closing = True
            self._lab.loop.call_soon(self._tell_lost)
        self._unwritten.clear()

    def _tell_lost(self) -> None:
        if not self.lost:
            self.lost = True
            self._protocol.connection_lost(None)

    def _push(self) -> None:
        size = len(self._unwritten)
        if self.room is not None:
            size = max(0, min(size, self.room - len(self._arrived)))
        self._arrived += self._unwritten[:size]
        del self._unwritten[:size]

    def _pump(self) -> None:
        while self._inbox and self.is_reading():
            chunk = bytes(self._inbox[:READ_BYTES])
            del self._inbox[:READ_BYTES]
            self._protocol.data_received(chunk)

    # The peer's side

    @property
    def unread(self) -> int:
        """How many of the peer's bytes the server has not taken."""
        return len(self._inbox)

    def deliver(self, data: bytes) -> None:
        """Send to the server."""
        self._inbox += data
        self._pump()

    def read(self) -> bytes:
        """Take what has arrived from the server."""
        data = bytes(self._arrived)
        self._arrived.clear()
        self._push()
        if self._closing and not self._unwritten:
            self._lab.loop.call_soon(self._tell_lost)
        elif self._writing_paused and len(self._unwritten) <= self._low:
            self._writing_paused = False
            self._protocol.resume_writing()
        return data

    def stop_sending(self) -> None:
        """End the peer's sending side."""
        if not self._protocol.eof_received():
            self.close()

    def die(self) -> None:
        """The connection is reset; the server learns of it in the loop's next turn."""
        self._lose()

    def die_unnoticed(self) -> None:
        """The connection is reset; the server learns of it when it writes."""
        self._dead = True

    def __repr__(self) -> str:
        return f"<MemoryTransport unwritten={len(self._unwritten)}{' closing' if self._closing else ''}>"


@dataclass(slots=True)
class Reply:
    """What came on a stream so far; `initial` is None until headers came, `trailers` until they did."""

    initial: dict[str, str] | None = None
    data: bytes = b""
    trailers: dict[str, str] | None = None
    ended: bool = False
    reset: int | None = None

    @property
    def alone(self) -> bool:
        """Whether the trailers are the whole reply."""
        return self.trailers is None and self.initial is not None and "grpc-status" in self.initial

    @property
    def end(self) -> Mapping[str, str]:
        """The trailers, wherever they stood."""
        found = self.initial if self.alone else self.trailers
        assert found is not None, self
        return found

    @property
    def status(self) -> int:
        return int(self.end["grpc-status"])

    @property
    def message(self) -> str:
        return unquote(self.end.get("grpc-message", ""))

    @property
    def messages(self) -> list[bytes]:
        """The messages of the reply; raises AssertionError if the last one is not whole."""
        found, rest = [], self.data
        while rest:
            assert rest[0] == 0
            size = int.from_bytes(rest[1:5], "big")
            assert len(rest) >= 5 + size
            found.append(rest[5 : 5 + size])
            rest = rest[5 + size :]
        return found


def framed(message: bytes, flag: int = 0) -> bytes:
    """A message as gRPC sends it."""
    return bytes([flag]) + len(message).to_bytes(4, "big") + message


def head(path: str, *extra: tuple[str, str], content_type: str | None = "application/grpc") -> list[tuple[str, str]]:
    """The headers of a gRPC request."""
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "here"), ("te", "trailers")]
    if content_type is not None:
        fields.append(("content-type", content_type))
    return [*fields, *extra]


class Peer:
    """A client made of the `h2` library. `credits`: whether it opens its windows again as data comes."""

    def __init__(self, transport: MemoryTransport, *, credits: bool = True) -> None:
        self.transport = transport
        self.h2 = H2Connection(
            H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False)
        )
        self.credits = credits
        self.replies: defaultdict[int, Reply] = defaultdict(Reply)
        self.events: list[Event] = []
        self.h2.initiate_connection()
        self.exchange()

    def exchange(self) -> None:
        """Send what there is to send, take in what has come."""
        while True:
            out = self.h2.data_to_send()
            if out:
                self.transport.deliver(out)
            received = self.transport.read()
            if received:
                for event in self.h2.receive_data(received):
                    self._on(event)
            elif not out:
                return

    def _on(self, event: Event) -> None:
        self.events.append(event)
        stream_id: int = getattr(event, "stream_id", None) or 0
        reply = self.replies[stream_id] if stream_id else Reply()
        match event:
            case ResponseReceived(headers=headers):
                reply.initial = _texts(headers)
            case DataReceived(data=data, flow_controlled_length=length):
                reply.data += data or b""
                if self.credits and length:
                    self.h2.acknowledge_received_data(length, stream_id)
            case TrailersReceived(headers=headers):
                reply.trailers = _texts(headers)
            case StreamEnded():
                reply.ended = True
            case StreamReset(error_code=code):
                reply.reset = int(code or 0)

    def open(
        self, path: str, *extra: tuple[str, str], end: bool = False, content_type: str | None = "application/grpc"
    ) -> int:
        """Send a request's headers; the id of its stream."""
        stream_id: int = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream_id, head(path, *extra, content_type=content_type), end_stream=end)
        self.exchange()
        return stream_id

    def send(self, stream_id: int, data: bytes, *, end: bool = False) -> None:
        """Send bytes, in as many frames as the windows ask for; nothing more once the stream is reset."""
        rest = memoryview(data)
        while self.replies[stream_id].reset is None:
            size = min(len(rest), self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size)
            last = size == len(rest)
            self.h2.send_data(stream_id, bytes(rest[:size]), end_stream=end and last)
            self.exchange()
            if last:
                return
            rest = rest[size:]

    def call(self, path: str, body: bytes, *extra: tuple[str, str], content_type: str = "application/grpc") -> Reply:
        """A whole request of these bytes, and what there is of a reply."""
        stream_id = self.open(path, *extra, content_type=content_type)
        self.send(stream_id, body, end=True)
        return self.replies[stream_id]

    def cancel(self, stream_id: int) -> None:
        self.h2.reset_stream(stream_id, 8)
        self.exchange()


def _texts(headers: Iterable[tuple[Any, Any]] | None) -> dict[str, str]:
    return {str(name): str(value) for name, value in headers or ()}


class RawPeer:
    """A client of single frames, for what `h2` would not do."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        self._encoder = Encoder()
        self._decoder = Decoder()
        self._rest = b""
        transport.deliver(PREFACE)
        self.send(SettingsFrame(0))

    def send(self, *frames: Frame) -> None:
        self.transport.deliver(b"".join(frame.serialize() for frame in frames))

    def open_window(self) -> None:
        """Let the server send as much as there can be on the connection."""
        self.send(WindowUpdateFrame(0, window_increment=2**31 - 1 - 65_535))

    def request(self, stream_id: int, path: str, body: bytes | None = None) -> None:
        """A whole unary request; without a body, only its headers."""
        block = self._encoder.encode(head(path))
        flags = ["END_HEADERS"]
        frames: list[Frame] = [HeadersFrame(stream_id, data=block, flags=flags)]
        if body is not None:
            frames.append(DataFrame(stream_id, data=body, flags=["END_STREAM"]))
        self.send(*frames)

    def arrived(self) -> list["Arrived"]:
        """The frames that have come since the last time, whole ones only."""
        data = memoryview(self._rest + self.transport.read())
        found = []
        while len(data) >= 9:
            frame, length = Frame.parse_frame_header(data[:9])
            if len(data) < 9 + length:
                break
            frame.parse_body(data[9 : 9 + length])
            fields = dict(self._decoder.decode(frame.data)) if isinstance(frame, HeadersFrame) else {}
            found.append(Arrived(frame, _texts(fields.items())))
            data = data[9 + length :]
        self._rest = bytes(data)
        return found

    def statuses(self) -> dict[int, int]:
        """The calls that have ended since the last time, by stream."""
        return {
            each.frame.stream_id: int(each.fields["grpc-status"])
            for each in self.arrived()
            if "grpc-status" in each.fields
        }


@dataclass(frozen=True, slots=True)
class Arrived:
    """A frame, and its fields if it is HEADERS."""

    frame: Frame
    fields: Mapping[str, str]


@dataclass
class Served:
    """A gRPC server over a dispatcher, and those who connect to it."""

    lab: Lab
    server: GrpcServer
    connections: list[GrpcConnection] = field(default_factory=list)

    def transport(self, *, room: int | None = None) -> MemoryTransport:
        """A new connection's transport."""
        connection = self.lab.inside(self.server.connect)
        self.connections.append(connection)
        return MemoryTransport(self.lab, connection, room)

    def peer(self, *, room: int | None = None, credits: bool = True) -> Peer:
        return Peer(self.transport(room=room), credits=credits)

    def raw_peer(self, *, room: int | None = None) -> RawPeer:
        return RawPeer(self.transport(room=room))

    def is_empty(self) -> bool:
        """Whether nothing is held for any call."""
        counts = self.server.counts()
        return (counts["streams"], counts["buffered_bytes"]) == (0, 0)


class Fake(Served):
    """A server whose handlers answer what a test prepared: `answers` by an RPC's name in snake case."""

    def __init__(
        self, lab: Lab, openers: Mapping[str, Opener] | None = None, wait_s: float = 5, **answers: Callable[[], Outcome]
    ) -> None:
        self.handlers = Handlers(answers)
        dispatcher = Dispatcher(dict.fromkeys(SERVICES, self.handlers))
        super().__init__(lab, GrpcServer(dispatcher, RPCS, openers or {}, wait_s=wait_s))

    @property
    def calls(self) -> list[Call]:
        return self.handlers.calls


def path_of(method: str, service: str = "google.pubsub.v1") -> str:
    """The path of an RPC, by its method's name."""
    (found,) = [rpc.path for rpc in RPCS if rpc.method == method and rpc.service.startswith(service)]
    return found
