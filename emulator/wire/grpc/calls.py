"""Calls on streams: one class for unary ones, one for those that stream."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from google.protobuf.message import DecodeError, Message

from emulator import errors
from emulator.api.catalogue import Rpc
from emulator.api.dispatch import CallInfo, Outcome
from emulator.api.replies import Parked, Undoable
from emulator.errors import PubsubError
from emulator.wire.grpc import blocks, messages
from emulator.wire.grpc.heads import GrpcHead
from emulator.wire.http2.stream import NO_CALL, Stream

if TYPE_CHECKING:
    from emulator.wire.grpc.server import GrpcConnection

# A Pull answers this long before its caller's deadline, so that the answer still arrives (service.md §7.2.3).
_ANSWER_AHEAD_S: Final = 0.1
_INFO: Final = CallInfo()


class UnaryCall:
    """Collects one message, dispatches it inline, writes the reply. No task; a timer only while it is parked."""

    __slots__ = ("_buffer", "_connection", "_deadline", "_give_back", "_head", "_parked", "_rpc", "_stream", "_timer")

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

    def data(self, chunk: bytes, end: bool) -> None:
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
                    raise errors.second_message()
            if end:
                self._run(self._only_message(self._let_go()))
        except PubsubError as problem:
            self._fail(problem)

    def _let_go(self) -> bytes:
        buffer, self._buffer = self._buffer, None
        if buffer is None:
            return b""
        self._connection.let_go(len(buffer))
        return bytes(buffer)

    def _only_message(self, data: bytes) -> bytes:
        if not data:
            raise errors.no_message()
        if len(data) < messages.PREFIX_BYTES:
            raise errors.truncated_message()
        size = messages.check_prefix(data)
        if len(data) != messages.PREFIX_BYTES + size:
            raise errors.truncated_message() if len(data) < messages.PREFIX_BYTES + size else errors.second_message()
        message = data[messages.PREFIX_BYTES :]
        return messages.decompress(message, self._head.encoding) if data[0] else message

    def _run(self, message: bytes) -> None:
        if self._deadline is not None and self._connection.loop.time() >= self._deadline:
            raise errors.deadline_exceeded()
        try:
            request = self._rpc.request.FromString(message)
        except DecodeError:
            raise errors.unreadable_request(self._rpc.method) from None
        outcome: Outcome = self._connection.dispatcher.call(self._rpc, request, _INFO)
        if isinstance(outcome, Parked):
            self._park(outcome)
        else:
            self._reply(outcome)

    def _park(self, parked: Parked[Any]) -> None:
        self._parked = parked
        wait = self._connection.wait_s
        if self._deadline is not None:
            wait = min(wait, self._deadline - self._connection.loop.time() - _ANSWER_AHEAD_S)
        self._timer = self._connection.loop.call_later(max(0.0, wait), parked.hurry)
        parked.when_done(self._on_parked)

    def _on_parked(self) -> None:
        parked, self._parked = self._parked, None
        assert parked is not None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self._reply(parked.result())
        except PubsubError as problem:
            self._fail(problem)
        except Exception as problem:
            self._connection.log_failure(self._rpc, problem)
            self._fail(errors.internal(problem))
        self._connection.wake()

    def _reply(self, reply: Message | Undoable[Message]) -> None:
        if isinstance(reply, Undoable):
            self._give_back = reply.give_back
            reply = reply.message
        self._stream.reply(blocks.HEADERS, messages.frame(reply.SerializeToString()), blocks.OK)
        if self._stream.closed:
            self._give_back = None

    def _fail(self, problem: PubsubError) -> None:
        self._let_go()
        self._connection.fail(self._stream, problem, alone=True)
        self._stream.call = NO_CALL

    def gone(self) -> None:
        """The caller went away: nothing may stay leased to it (service.md §7.2.4)."""
        self._let_go()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._parked is not None:
            parked, self._parked = self._parked, None
            parked.cancel()
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

    __slots__ = ("_connection", "_conversation", "_deframer", "_headers_sent", "_held", "_rpc", "_stream", "_timer")

    def __init__(self, connection: "GrpcConnection", stream: Stream, rpc: Rpc, head: GrpcHead) -> None:
        self._connection = connection
        self._stream = stream
        self._rpc = rpc
        self._deframer = messages.Deframer(head.encoding)
        self._held = 0
        self._headers_sent = False
        self._conversation: Conversation | None = None
        self._timer: asyncio.TimerHandle | None = None
        if head.timeout is not None:
            self._timer = connection.loop.call_later(head.timeout, self._on_deadline)

    def start(self, conversation: Conversation) -> None:
        self._conversation = conversation

    # The peer's side

    def data(self, chunk: bytes, end: bool) -> None:
        try:
            for message in self._deframer.feed(chunk):
                if (conversation := self._conversation) is None:
                    return
                conversation.message(self._parse(message))
            self._hold(self._deframer.pending)
            if end:
                if self._deframer.pending:
                    raise errors.truncated_message()
                if (conversation := self._conversation) is not None:
                    conversation.half_closed()
        except PubsubError as problem:
            self.fail(problem, tell=True)
        except Exception as problem:
            self._connection.log_failure(self._rpc, problem)
            self.fail(errors.internal(problem), tell=True)

    def _parse(self, message: bytes) -> Message:
        try:
            return self._rpc.request.FromString(message)
        except DecodeError:
            raise errors.unreadable_request(self._rpc.method) from None

    def _hold(self, size: int) -> None:
        if size > self._held:
            self._connection.hold(size - self._held)
        else:
            self._connection.let_go(self._held - size)
        self._held = size

    def gone(self) -> None:
        self._end(tell=True)

    def writable(self) -> None:
        if self._conversation is not None:
            self._conversation.writable()

    def _on_deadline(self) -> None:
        self._timer = None
        self.fail(errors.deadline_exceeded(), tell=True)

    def _end(self, *, tell: bool) -> None:
        self._hold(0)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._connection.forget(self)
        conversation, self._conversation = self._conversation, None
        if tell and conversation is not None:
            conversation.gone()

    # The service's side

    def ready(self) -> bool:
        """Whether a message given now would leave at once."""
        return self._stream.ready()

    def send(self, message: Message) -> None:
        self.send_bytes(message.SerializeToString())

    def send_bytes(self, message: bytes) -> None:
        """Send a serialized message."""
        self.send_headers()
        self._stream.send_data(messages.frame(message))
        self._connection.wake()

    def send_headers(self) -> None:
        """Send the initial metadata, once."""
        if not self._headers_sent:
            self._headers_sent = True
            self._stream.send_headers(blocks.HEADERS)

    def finish(self) -> None:
        """End with OK, after everything that was sent."""
        self.send_headers()
        self._stream.finish(blocks.OK)
        self._end(tell=False)
        self._connection.wake()

    def fail(self, problem: PubsubError, *, tell: bool = False) -> None:
        """End with an error now; what is unsent is dropped. `tell`: the conversation does not know yet."""
        self._connection.fail(self._stream, problem, alone=not self._headers_sent)
        self._end(tell=tell)
        self._connection.wake()

    def __repr__(self) -> str:
        return f"<StreamingCall {self._rpc.method} {self._stream!r}>"
