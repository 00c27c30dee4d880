"""Calls with one message and one reply, and requests that are no gRPC."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError, Message

from emulator.api.catalogue import Rpc
from emulator.api.replies import Parked, Undoable
from emulator.errors import PubsubError
from emulator.errors import grpc as grpc_errors
from emulator.wire.grpc import blocks, messages
from emulator.wire.grpc.heads import GrpcHead
from emulator.wire.http2.stream import Stream

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

    def sent(self) -> None: ...

    def gone(self) -> None: ...

    def writable(self) -> None: ...

    def __repr__(self) -> str:
        return f"<Refusal {self._stream!r}>"


class UnaryCall:
    """Collects one message, dispatches it inline, writes the reply. No task; a timer only while it waits.

    It waits when it is parked, when its request takes more than one turn to arrive, and when its reply has no window.
    """

    __slots__ = (
        "_arrived",
        "_buffer",
        "_connection",
        "_deadline",
        "_give_back",
        "_head",
        "_parked",
        "_replied",
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
        self._replied = False
        if self._deadline is not None:
            connection.begun.append(self)

    def time_arrival(self) -> None:
        """The turn is over that brought its headers: its deadline holds for the rest of the request too (T4, T36)."""
        if not self._arrived and not self._stream.closed:
            self._time_deadline()

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
        if not isinstance(outcome, Parked):
            self._reply(outcome)
        elif outcome.done:
            self._reply(outcome.result())
        else:
            self._park(outcome)

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
        parked = self._parked
        if parked is not None:
            parked.hurry()
            if not parked.done:
                self._time_deadline()

    def _time_deadline(self) -> None:
        if self._deadline is not None:
            self._timer = self._connection.loop.call_at(self._deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        self._fail(grpc_errors.deadline_exceeded())
        self._connection.wake()

    def _on_parked(self) -> None:
        self._stop_timer()
        self._connection.answer_soon(self)

    def answer(self) -> None:
        """Reply with what the call was parked for; nothing if it has ended meanwhile."""
        parked, self._parked = self._parked, None
        if parked is not None:
            try:
                self._connection.require_room()
            except PubsubError as problem:
                parked.cancel()
                self._fail(problem)
                return
            try:
                self._reply(parked.result())
            except Exception as problem:
                self._fail(self._connection.as_answer(self._rpc, problem))

    def _reply(self, reply: Message | Undoable[Message]) -> None:
        if isinstance(reply, Undoable):
            self._give_back = reply.give_back
            reply = reply.message
        data = messages.frame(reply.SerializeToString())
        self._replied = True
        self._stream.reply(blocks.HEADERS, data, blocks.OK)
        if not self._stream.closed:
            self._time_deadline()  # the rest waits for a window

    def sent(self) -> None:
        self._stop_timer()
        if self._give_back is not None:
            self._connection.unwritten.append(self._give_back)
            self._give_back = None

    def _fail(self, problem: PubsubError) -> None:
        self.gone()
        self._connection.fail(self._stream, problem, alone=not self._replied)

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
