"""The gRPC server: which method a request is for, and the transport under one connection of it."""

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from emulator import errors
from emulator.api.catalogue import Rpc
from emulator.api.dispatch import Dispatcher
from emulator.engine.outbox import Letter, Outbox, Parcel
from emulator.errors import PubsubError
from emulator.errors import grpc as grpc_errors
from emulator.wire.grpc import blocks, heads
from emulator.wire.grpc.calls import Conversation, StreamingCall
from emulator.wire.grpc.unary import Refusal, UnaryCall
from emulator.wire.http2.connection import Connection
from emulator.wire.http2.frames import Http2Error
from emulator.wire.http2.heads import RequestHead
from emulator.wire.http2.stream import Stream
from emulator.wire.postie import TURN_S, ConnectionOutbox

logger = logging.getLogger(__name__)

_FRAMES_AT_ONCE: Final = 64
_WRITE_HIGH_WATER_BYTES: Final = 262_144
_HELD_MAX_BYTES: Final = 134_217_728
_QUEUED_MAX_BYTES: Final = 134_217_728
_GOAWAY_PING: Final = b"goodbye!"
_GOAWAY_WAIT_S: Final = 0.2
# In real time: how long a peer is given to take its last answers.
_GOODBYE_MAX_S: Final = 1.0

Opener: TypeAlias = Callable[[StreamingCall], Conversation]


@dataclass(frozen=True, slots=True)
class Method:
    """A row and, for one that streams, who opens its conversation (None: not served yet)."""

    rpc: Rpc
    opener: Opener | None = None


class GrpcServer:
    """What all connections share: methods by path, and who is connected.

    `rows` are every known RPC; `openers` the streaming ones that are served, by path. `wait_s` is the longest a parked
    call waits in real time.
    """

    def __init__(
        self, dispatcher: Dispatcher, rows: tuple[Rpc, ...], openers: Mapping[str, Opener], *, wait_s: float
    ) -> None:
        self.dispatcher = dispatcher
        self.wait_s = wait_s
        self.methods = MappingProxyType({row.path: Method(row, openers.get(row.path)) for row in rows})
        self.connections: set[GrpcConnection] = set()

    def connect(self) -> "GrpcConnection":
        """A protocol for a new connection whose preface has been read."""
        return GrpcConnection(self)

    def counts(self) -> Mapping[str, int]:
        """Open connections, streams on them, and bytes that wait in either direction."""
        return {
            "connections": len(self.connections),
            "streams": sum(connection.open_streams for connection in self.connections),
            "buffered_bytes": sum(connection.buffered_bytes for connection in self.connections),
        }

    def say_goodbye(self) -> None:
        """Tell every peer to go elsewhere, and end what streams; unary calls are still answered."""
        for connection in list(self.connections):
            connection.say_goodbye()

    async def shutdown(self) -> None:
        """End every connection in two steps, once its calls are answered (clients.md T10, T35)."""
        self.say_goodbye()
        lost = [connection.closed for connection in self.connections]
        if lost:
            await asyncio.wait(lost, timeout=_GOODBYE_MAX_S)
        for connection in list(self.connections):
            connection.abort()  # its peer does not read
        for closed in lost:
            await closed

    def __repr__(self) -> str:
        return f"<GrpcServer methods={len(self.methods)} connections={len(self.connections)}>"


class GrpcConnection(asyncio.Protocol):
    """One connection: moves bytes between the transport and HTTP/2, and opens a call per request."""

    def __init__(self, server: GrpcServer) -> None:
        self._server = server
        self.dispatcher = server.dispatcher
        self.wait_s = server.wait_s
        self.loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self.loop.create_future()
        self._http2 = Connection(self)
        self._transport: asyncio.Transport | None = None
        self._in_turn = False
        self._turn_planned = False
        self._flush_planned = False
        self._writing_paused = False
        self._held_bytes = 0
        self._goodbye: asyncio.TimerHandle | None = None
        self._leaving = False
        self._peer_is_done = False
        self._over = False
        self._hanging_up: asyncio.TimerHandle | None = None
        # Parked calls whose replies are there.
        self._answers: deque[UnaryCall] = deque()
        # Unary calls with a deadline whose headers came in this turn.
        self.begun: list[UnaryCall] = []
        # How to undo replies that no transport has taken yet.
        self.unwritten: list[Callable[[], None]] = []
        self._streaming: set[StreamingCall] = set()
        self._postie: ConnectionOutbox | None = None

    # Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports share the interface, not the class.
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER_BYTES)
        _keep_alive(transport.get_extra_info("socket"))
        self._server.connections.add(self)
        self._http2.on_ping_ack = self._on_ping_ack
        self._http2.start()
        self._flush()

    def data_received(self, data: bytes) -> None:
        if not self._over:
            self._http2.feed(data)
            self._turn()

    def eof_received(self) -> bool:
        """A peer that will not even open its windows again is gone, once what it sent before is handled."""
        self._peer_is_done = True
        if not self._turn_planned:
            self._hang_up()
        return True

    def _turn(self) -> None:
        """Handle what was received, for a bounded time; the rest comes after others had their turn."""
        until = time.monotonic() + TURN_S
        sender = self._http2.sender

        def enough() -> bool:
            return time.monotonic() >= until or sender.out_bytes > _WRITE_HIGH_WATER_BYTES

        self._in_turn = True
        try:
            while (more := self._http2.process(_FRAMES_AT_ONCE, enough)) and time.monotonic() < until:
                # Replies count against the socket as they come, so that a peer that does not read stops being read.
                self._flush()
                if self._writing_paused:
                    break
        except Http2Error as problem:
            logger.debug("peer=%s ended: %s", self._peer(), problem)
            self._hang_up()
            return
        except Exception:
            logger.exception("peer=%s ended by a failure of this server", self._peer())
            self._over = True
            self.abort()
            return
        finally:
            self._in_turn = False
            self._time_arrivals()
        self._flush()
        if more and not self._writing_paused:
            self._plan_turn()
        elif self._peer_is_done:
            self._hang_up()

    def _time_arrivals(self) -> None:
        if self.begun:
            begun, self.begun = self.begun, []
            for call in begun:
                call.time_arrival()

    def _plan_turn(self) -> None:
        if not self._turn_planned and self._transport is not None:
            self._turn_planned = True
            self._transport.pause_reading()
            self.loop.call_soon(self._turn_again)

    def _turn_again(self) -> None:
        self._turn_planned = False
        if self._transport is not None and not self._over and not self._writing_paused:
            self._transport.resume_reading()
            self._turn()
        elif self._peer_is_done:
            self._hang_up()

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._http2.sender.pause(paused=True)
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._writing_paused = False
        if not self._over:
            self._http2.sender.pause(paused=False)
            if self._answers:
                self.loop.call_soon(self._answer_some)
            self._plan_turn()

    def answer_soon(self, call: UnaryCall) -> None:
        """A parked call has its reply: it leaves when whoever completed it is done, with others' in a bounded time."""
        self._answers.append(call)
        if len(self._answers) == 1:
            self.loop.call_soon(self._answer_some)

    def _answer_some(self) -> None:
        if self._writing_paused:
            return  # `resume_writing` goes on
        until = time.monotonic() + TURN_S
        sender = self._http2.sender
        self._in_turn = True
        try:
            while self._answers:
                self._answers.popleft().answer()
                if time.monotonic() >= until or sender.out_bytes > _WRITE_HIGH_WATER_BYTES:
                    break
        finally:
            self._in_turn = False
        self._flush()
        if self._answers and not self._writing_paused:
            self.loop.call_soon(self._answer_some)

    def wake(self) -> None:
        """Something was written outside of a turn: it leaves with whatever else this loop turn brings."""
        if not self._in_turn and not self._flush_planned:
            self._flush_planned = True
            self.loop.call_soon(self._flush_soon)

    def _flush_soon(self) -> None:
        self._flush_planned = False
        self._flush()

    def _flush(self) -> None:
        out = self._http2.sender.take()
        transport = self._transport
        if transport is None:
            return
        if out:
            transport.write(out)
            if self.unwritten and not transport.is_closing():
                self.unwritten.clear()
        if self._leaving and self._http2.open_streams == 0:
            transport.close()

    def _hang_up(self) -> None:
        """Read and answer nothing more; what is written already has a moment to leave."""
        if not self._over:
            self._over = True
            self._flush()
            self._let_go_of_calls()
            if self._transport is not None:
                self._transport.close()
                self._hanging_up = self.loop.call_later(_GOODBYE_MAX_S, self.abort)

    def _let_go_of_calls(self) -> None:
        if self._postie is not None:
            self._postie.close()
        self._http2.lost()
        unwritten, self.unwritten = self.unwritten, []
        for give_back in unwritten:
            give_back()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._over = True
        for timer in (self._goodbye, self._hanging_up):
            if timer is not None:
                timer.cancel()
        self._let_go_of_calls()
        self._server.connections.discard(self)
        self.closed.set_result(None)

    def _peer(self) -> object:
        return self._transport.get_extra_info("peername") if self._transport else None

    # Requests

    def request(self, stream: Stream, head: RequestHead) -> None:
        grpc = heads.read(head)
        if grpc.http_status:
            stream.call = Refusal(stream, blocks.http_error(grpc.http_status))
            return
        try:
            self.require_room()
        except PubsubError as problem:
            self.fail(stream, problem, alone=True)
            return
        method = self._server.methods.get(head.path)
        if grpc.error is not None:
            self.fail(stream, grpc.error, alone=True)
        elif method is None:
            self.fail(stream, errors.unknown_method(head.path), alone=True)
        elif not (method.rpc.client_streaming or method.rpc.server_streaming):
            stream.call = UnaryCall(self, stream, method.rpc, grpc)
        elif method.opener is None:
            self.fail(stream, errors.not_implemented(f"{method.rpc.service}.{method.rpc.method}"), alone=True)
        else:
            call = StreamingCall(self, stream, method.rpc, grpc)
            stream.call = call
            self._streaming.add(call)
            call.start(method.opener)

    def fail(self, stream: Stream, problem: PubsubError, *, alone: bool) -> None:
        """End a stream with a status; `alone`: nothing of a reply was sent before."""
        stream.cut(blocks.error(problem, alone=alone, header_list=self._http2.sender.max_header_list))

    @property
    def outbox(self) -> Outbox:
        """What waits for streams of this connection; made for the first of them."""
        if self._postie is None:
            self._postie = ConnectionOutbox(self, loop=self.loop)
            self._postie.start()
        return self._postie.outbox

    async def push(self, item: Parcel | Letter) -> None:
        """Write deliveries to their stream. Its window and the socket have room, or it would not be its turn."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError
        assert isinstance(item, Parcel)  # nobody sends events to gRPC clients
        was_in_turn, self._in_turn = self._in_turn, True
        try:
            item.recipient.deliver(item.leases)
        finally:
            self._in_turn = was_in_turn
        self._flush()

    def forget(self, call: StreamingCall) -> None:
        self._streaming.discard(call)

    def as_answer(self, rpc: Rpc, problem: Exception) -> PubsubError:
        """What the caller is told of a failure; one that nobody thought of is logged."""
        if isinstance(problem, PubsubError):
            return problem
        logger.error("rpc=%s failed unexpectedly", rpc.method, exc_info=problem)
        return errors.internal(problem)

    # Memory

    def hold(self, size: int) -> None:
        """Count bytes of unfinished requests; raises RESOURCE_EXHAUSTED when one connection holds too many."""
        if self._held_bytes + size > _HELD_MAX_BYTES:
            raise grpc_errors.too_much_unfinished(_HELD_MAX_BYTES)
        self._held_bytes += size

    def require_room(self) -> None:
        """Raises RESOURCE_EXHAUSTED when the peer asks and asks, and does not open its windows for the answers."""
        if self._http2.sender.queued_bytes > _QUEUED_MAX_BYTES:
            raise grpc_errors.too_much_unread(_QUEUED_MAX_BYTES)

    def let_go(self, size: int) -> None:
        self._held_bytes -= size

    @property
    def open_streams(self) -> int:
        return self._http2.open_streams

    @property
    def buffered_bytes(self) -> int:
        unwritten = self._transport.get_write_buffer_size() if self._transport else 0
        return self._held_bytes + self._http2.unprocessed() + self._http2.sender.queued_bytes + unwritten

    # The end

    def say_goodbye(self) -> None:
        """GOAWAY in two steps: the last stream is named only when the peer has read the first or 200 ms have passed."""
        if self._goodbye is None and self._transport is not None:
            self._http2.announce_goaway(_GOAWAY_PING)
            for call in list(self._streaming):
                call.fail(errors.shutting_down(), tell=True)
            self._goodbye = self.loop.call_later(_GOAWAY_WAIT_S, self._leave)
            self._flush()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _on_ping_ack(self, opaque: bytes) -> None:
        if opaque == _GOAWAY_PING and self._goodbye is not None:
            self._goodbye.cancel()
            self._leave()

    def _leave(self) -> None:
        if not self._leaving:
            self._leaving = True
            self._http2.final_goaway()
            self._flush()

    def __repr__(self) -> str:
        return f"<GrpcConnection {self._peer()} streams={self.open_streams}>"


def _keep_alive(peer: socket.socket | None) -> None:
    """Have the kernel find out that a silent peer is dead, so that what is queued for it is redelivered (T37)."""
    if peer is None:
        return
    with suppress(OSError):  # some systems refuse it on a connection that has been reset meanwhile
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, seconds in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            option = getattr(socket, name, None)
            if option is not None:
                peer.setsockopt(socket.IPPROTO_TCP, option, seconds)
