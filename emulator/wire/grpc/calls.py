"""Calls on streams: one class for unary ones, one for those that stream."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from google.protobuf.message import DecodeError, Message

from emulator.api.catalogue import Rpc
from emulator.api.replies import Parked, Undoable
from emulator.engine.outbox import Outbox
from emulator.errors import PubsubError
from emulator.errors import grpc as grpc_errors
from emulator.wire.grpc import blocks, messages
from emulator.wire.grpc.heads import GrpcHead
from emulator.wire.http2.stream import NO_CALL, Stream

if TYPE_CHECKING:
    from emulator.api.dispatch import Outcome
    from emulator.wire.grpc.server import GrpcConnection

# A Pull answers this long before its caller's deadline, so that the answer still arrives (service.md §7.2.3).
_ANSWER_AHEAD_S: Final = 0.1


class Refusal:
    """A request that isn't gRPC's: answered once it has come to its end.

    A reply before that is allowed, but what sends such requests takes a stream that ends under its hands for broken
    (curl does).
    """

    __slots__ = ("_block", "_stream")

    def __init__(self, stream: Stream, block: bytes) -> None:
        self._stream = stream
        self._block = block

    def data(self, chunk: bytes, end: bool) -> None:
        if end:
            self._stream.finish(self._block)

    def gone(self) -> None: ...

    def writable(self) -> None: ...

    def __repr__(self) -> str:
        return f"<Refusal {self._stream!r}>"


class UnaryCall:
    """Collects one message, dispatches it inline, writes the reply. No task; a timer only while it waits.

    It waits when it is parked, and when its request took more than one turn to arrive.
    """

    __slots__ = (
        "_arrived",
        "_buffer",
        "_connection",
        "_deadline",
        "_give_back",
        "_head",
        "_parked",
        "_rpc",
        "_stream",
        "_timer",
    )

    def __init__(self, connection: "GrpcConnection", stream: Stream, rpc: Rpc, head: GrpcHead) -> None:
        self._connection = connection
        self._stream = stream
        self._rpc = rpc
        self._head = head
        self._buffer: bytearray | None = None
        self._deadline = None if head.timeout is None else connection.loop.time() + head.timeout
        self._parked: Parked[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._give_back: Callable[[], None] | None = None
        self._arrived = False
        if self._deadline is not None:
            connection.begun.append(self)

    def time_arrival(self) -> None:
        """The turn is over that brought its headers: its deadline holds for the rest of the request too (T4, T36)."""
        if not self._arrived and not self._stream.closed:
            assert self._deadline is not None
            self._timer = self._connection.loop.call_at(self._deadline, self._on_deadline)

    def data(self, chunk: bytes, end: bool) -> None:
        self._arrived = end
        try:
            if end and self._buffer is None:
                self._run(self._only_message(chunk))
                return
            if self._buffer is None:
                self._buffer = bytearray()
            self._connection.hold(len(chunk))
            self._buffer += chunk
            if len(self._buffer) >= messages.PREFIX_BYTES:
                expected = messages.PREFIX_BYTES + messages.check_prefix(self._buffer)
                if len(self._buffer) > expected:
                    raise grpc_errors.second_message()
            if end:
                self._run(self._only_message(self._let_go()))
        except Exception as problem:
            self._fail(self._connection.as_answer(self._rpc, problem))

    def _let_go(self) -> bytes:
        buffer, self._buffer = self._buffer, None
        if buffer is None:
            return b""
        self._connection.let_go(len(buffer))
        return bytes(buffer)

    def _only_message(self, data: bytes) -> bytes:
        if not data:
            raise grpc_errors.no_message()
        if len(data) < messages.PREFIX_BYTES:
            raise grpc_errors.truncated_message()
        size = messages.check_prefix(data)
        if len(data) != messages.PREFIX_BYTES + size:
            raise (
                grpc_errors.truncated_message()
                if len(data) < messages.PREFIX_BYTES + size
                else grpc_errors.second_message()
            )
        message = data[messages.PREFIX_BYTES :]
        return messages.decompress(message, self._head.encoding) if data[0] else message

    def _run(self, message: bytes) -> None:
        self._stop_timer()
        if self._deadline is not None and self._connection.loop.time() >= self._deadline:
            raise grpc_errors.deadline_exceeded()
        try:
            request = self._rpc.request.FromString(message)
        except DecodeError:
            raise grpc_errors.unreadable_request(self._rpc.method) from None
        outcome: Outcome = self._connection.dispatcher.call(self._rpc, request)
        if isinstance(outcome, Parked):
            self._park(outcome)
        else:
            self._reply(outcome)

    def _park(self, parked: Parked[Any]) -> None:
        self._parked = parked
        wait = self._connection.wait_s
        if self._deadline is not None:
            wait = min(wait, self._deadline - self._connection.loop.time() - _ANSWER_AHEAD_S)
        self._timer = self._connection.loop.call_later(max(0.0, wait), self._hurry)
        parked.when_done(self._on_parked)

    def _hurry(self) -> None:
        """Whoever can answers with what there is; who can't has until the caller's deadline."""
        self._timer = None
        if self._parked is not None:
            self._parked.hurry()
        if self._parked is not None and self._deadline is not None:
            self._timer = self._connection.loop.call_at(self._deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        self._withdraw()
        self._fail(grpc_errors.deadline_exceeded())
        self._connection.wake()

    def _on_parked(self) -> None:
        parked, self._parked = self._parked, None
        assert parked is not None
        self._withdraw()
        try:
            self._reply(parked.result())
        except Exception as problem:
            self._fail(self._connection.as_answer(self._rpc, problem))
        self._connection.wake()

    def _reply(self, reply: Message | Undoable[Message]) -> None:
        if isinstance(reply, Undoable):
            self._give_back = reply.give_back
            reply = reply.message
        self._stream.reply(blocks.HEADERS, messages.frame(reply.SerializeToString()), blocks.OK)
        if self._give_back is not None and self._stream.closed:
            self._connection.unwritten.append(self._give_back)
            self._give_back = None

    def _fail(self, problem: PubsubError) -> None:
        self.gone()
        self._connection.fail(self._stream, problem, alone=True)
        self._stream.call = NO_CALL

    def _withdraw(self) -> None:
        """Wait for no reply any more."""
        self._stop_timer()
        if self._parked is not None:
            parked, self._parked = self._parked, None
            parked.cancel()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def gone(self) -> None:
        """There will be no reply: nothing may stay leased to its caller (service.md §7.2.4)."""
        self._let_go()
        self._withdraw()
        if self._give_back is not None:
            give_back, self._give_back = self._give_back, None
            give_back()

    def writable(self) -> None: ...

    def __repr__(self) -> str:
        return f"<UnaryCall {self._rpc.method} {self._stream!r}>"


class Conversation(Protocol):
    """The service's side of a streaming call. What these raise as PubsubError ends the call with that status."""

    def message(self, request: Any) -> None:
        """The peer sent a message."""
        ...

    def half_closed(self) -> None:
        """The peer sends no more."""
        ...

    def gone(self) -> None:
        """The call is over without an answer: reset, deadline, connection lost."""
        ...

    def writable(self) -> None:
        """After `StreamingCall.ready` was False: it is True again."""
        ...


class StreamingCall:
    """A call with a stream of messages on either side, as the service's conversation uses it."""

    __slots__ = (
        "_connection",
        "_conversation",
        "_deframer",
        "_headers_sent",
        "_held",
        "_over",
        "_rpc",
        "_stream",
        "_timer",
    )

    def __init__(self, connection: "GrpcConnection", stream: Stream, rpc: Rpc, head: GrpcHead) -> None:
        self._connection = connection
        self._stream = stream
        self._rpc = rpc
        self._deframer = messages.Deframer(head.encoding)
        self._held = 0
        self._headers_sent = False
        self._over = False
        self._conversation: Conversation | None = None
        self._timer: asyncio.TimerHandle | None = None
        if head.timeout is not None:
            self._timer = connection.loop.call_later(head.timeout, self._on_deadline)

    def start(self, opener: Callable[["StreamingCall"], Conversation]) -> None:
        """Have the service open its side; it may end the call at once."""
        try:
            conversation = opener(self)
        except Exception as problem:
            self.crash(problem)
            return
        if not self._over:
            self._conversation = conversation

    # The peer's side

    def data(self, chunk: bytes, end: bool) -> None:
        try:
            for message in self._deframer.feed(chunk):
                if self._conversation is None:
                    return
                self._conversation.message(self._parse(message))
            if self._over:
                return
            self._hold(self._deframer.pending)
            if end:
                if self._deframer.pending:
                    raise grpc_errors.truncated_message()
                if self._conversation is not None:
                    self._conversation.half_closed()
        except Exception as problem:
            self.crash(problem)

    def _parse(self, message: bytes) -> Message:
        try:
            return self._rpc.request.FromString(message)
        except DecodeError:
            raise grpc_errors.unreadable_request(self._rpc.method) from None

    def _hold(self, size: int) -> None:
        if size > self._held:
            self._connection.hold(size - self._held)
        else:
            self._connection.let_go(self._held - size)
        self._held = size

    def gone(self) -> None:
        self._end(tell=True)

    def writable(self) -> None:
        try:
            if self._conversation is not None:
                self._conversation.writable()
        except Exception as problem:
            self.crash(problem)

    def crash(self, problem: Exception) -> None:
        """End with what the service's side raised; one that nobody thought of is logged."""
        self.fail(self._connection.as_answer(self._rpc, problem), tell=True)

    def _on_deadline(self) -> None:
        self._timer = None
        self.fail(grpc_errors.deadline_exceeded(), tell=True)

    def _end(self, *, tell: bool) -> None:
        self._over = True
        self._hold(0)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._connection.forget(self)
        conversation, self._conversation = self._conversation, None
        if tell and conversation is not None:
            conversation.gone()

    # The service's side; once the call is over, none of these does anything.

    def ready(self) -> bool:
        """Whether a message given now would leave at once; after a False, `writable` tells when that changes."""
        return not self._over and self._stream.ready()

    def room(self) -> int:
        """How many bytes of a message would leave now; 0 when it is not `ready`."""
        room = 0 if self._over else self._stream.room()
        return max(1, room - messages.PREFIX_BYTES) if room else 0

    @property
    def unsent(self) -> int:
        """How many bytes of what was sent wait for a window."""
        return self._stream.queued_bytes

    @property
    def outbox(self) -> Outbox:
        """That of its connection, which the connection's own task empties."""
        return self._connection.outbox

    def send(self, message: Message) -> None:
        self.send_bytes(message.SerializeToString())

    def send_bytes(self, message: bytes) -> None:
        """Send a serialized message."""
        if not self._over:
            self.send_headers()
            self._stream.send_data(messages.frame(message))
            self._connection.wake()

    def send_headers(self) -> None:
        """Send the initial metadata, once."""
        if not self._over and not self._headers_sent:
            self._headers_sent = True
            self._stream.send_headers(blocks.HEADERS)
            self._connection.wake()

    def next_turn(self, callback: Callable[[], None]) -> None:
        """Go on later, when other connections had their turn."""
        self._connection.loop.call_soon(callback)

    def finish(self) -> None:
        """End with OK, after everything that was sent."""
        if not self._over:
            self.send_headers()
            self._stream.finish(blocks.OK)
            self._end(tell=False)
            self._connection.wake()

    def fail(self, problem: PubsubError, *, tell: bool = False) -> None:
        """End with an error now; what is unsent is dropped. `tell`: the conversation does not know yet."""
        if not self._over:
            self._connection.fail(self._stream, problem, alone=not self._headers_sent)
            self._end(tell=tell)
            self._connection.wake()

    def __repr__(self) -> str:
        return f"<StreamingCall {self._rpc.method} {self._stream!r}>"
