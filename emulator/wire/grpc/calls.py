"""A call that streams both ways, and what a service gives it to talk to."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from google.protobuf.message import DecodeError, Message

from emulator.api.catalogue import Rpc
from emulator.engine.outbox import Outbox
from emulator.errors import PubsubError
from emulator.errors import grpc as grpc_errors
from emulator.wire.grpc import blocks, messages
from emulator.wire.grpc.heads import GrpcHead
from emulator.wire.http2.stream import Stream

if TYPE_CHECKING:
    from emulator.wire.grpc.server import GrpcConnection


class Conversation(Protocol):
    """The service's side of a streaming call. What these raise as PubsubError ends the call with that status."""

    def message(self, request: Any) -> None:
        """The peer sent a message."""
        ...

    def half_closed(self) -> None:
        """The peer sends no more."""
        ...

    def sent(self) -> None:
        """After `StreamingCall.finish`: everything has left."""
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
        "_later",
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
        self._later: asyncio.TimerHandle | None = None
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
                if self._over or self._conversation is None:
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

    def sent(self) -> None:
        conversation = self._conversation
        self._end()
        if conversation is not None:
            conversation.sent()

    def gone(self) -> None:
        conversation = self._conversation
        self._end()
        if conversation is not None:
            conversation.gone()

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

    def _end(self) -> None:
        self._over = True
        self._hold(0)
        for timer in (self._timer, self._later):
            if timer is not None:
                timer.cancel()
        self._timer = self._later = None
        self._connection.forget(self)
        self._conversation = None

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

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back in real time, unless the call is over by then. One at a time."""
        if not self._over:
            self._later = self._connection.loop.call_later(seconds, callback)

    def next_turn(self, callback: Callable[[], None]) -> None:
        """Go on later, when other connections had their turn."""
        self._connection.loop.call_soon(callback)

    def finish(self) -> None:
        """End with OK, after everything that was sent; if that never leaves, the conversation hears that it is gone."""
        if not self._over:
            self.send_headers()
            self._over = True
            self._connection.forget(self)
            self._stream.finish(blocks.OK)
            self._connection.wake()

    def fail(self, problem: PubsubError, *, tell: bool = False) -> None:
        """End with an error now; what is unsent is dropped. `tell`: the conversation does not know yet."""
        if not self._stream.closed:
            conversation, self._conversation = self._conversation, None
            self._connection.fail(self._stream, problem, alone=not self._headers_sent)
            self._end()
            if tell and conversation is not None:
                conversation.gone()
            self._connection.wake()

    def __repr__(self) -> str:
        return f"<StreamingCall {self._rpc.method} {self._stream!r}>"
