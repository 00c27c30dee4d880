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
# Of a request that comes in pieces: from this size on one stays what it is until all are there.
_PIECE_BYTES: Final = 1_024


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
        "_connection",
        "_deadline",
        "_give_back",
        "_head",
        "_held",
        "_parked",
        "_pieces",
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
        self._pieces: list[bytes | bytearray] = []
        self._held = 0
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
            if end and not self._held:
                self._run(chunk)
                return
            self._keep(chunk)
            if end:
                self._run(self._let_go())
        except Exception as problem:
            self._fail(self._connection.as_answer(self._rpc, problem))

    def _keep(self, chunk: bytes) -> None:
        """More of a request that comes in pieces; small ones are put together, for what holds them is larger."""
        self._connection.hold(len(chunk))
        self._held += len(chunk)
        pieces = self._pieces
        if not pieces:
            pieces.append(bytearray(chunk))
        elif len(chunk) >= _PIECE_BYTES and len(pieces[0]) >= messages.PREFIX_BYTES:
            pieces.append(chunk)
        elif isinstance(pieces[-1], bytearray):
            pieces[-1] += chunk
        else:
            pieces.append(bytearray(chunk))
        # The first grows until it holds the prefix.
        if self._held >= messages.PREFIX_BYTES:
            expected = messages.PREFIX_BYTES + messages.check_prefix(pieces[0])
            if self._held > expected:
                raise grpc_errors.second_message()

    def _let_go(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        self._connection.let_go(self._held)
        self._held = 0
        return b"".join(pieces)

    def _require_whole(self, data: bytes) -> None:
        """Raises PubsubError unless it is one message to its end."""
        if not data:
            raise grpc_errors.no_message()
        size = messages.check_prefix(data) if len(data) >= messages.PREFIX_BYTES else 0
        if len(data) < messages.PREFIX_BYTES + size:
            raise grpc_errors.truncated_message()
        if len(data) > messages.PREFIX_BYTES + size:
            raise grpc_errors.second_message()

    def _run(self, data: bytes) -> None:
        self._require_whole(data)
        if self._timer is not None:
            self._stop_timer()
        if self._deadline is not None and self._connection.loop.time() >= self._deadline:
            raise grpc_errors.deadline_exceeded()
        start = messages.PREFIX_BYTES
        if data[0]:
            data, start = messages.decompress(data[start:], self._head.encoding), 0
        dispatcher = self._connection.dispatcher
        reply = dispatcher.call_serialized(self._rpc, data, start)
        if reply is not None:
            self._reply_bytes(reply)
            return
        try:
            request = self._rpc.request.FromString(data[start:])
        except DecodeError:
            raise grpc_errors.unreadable_request(self._rpc.method) from None
        outcome: Outcome = dispatcher.call(self._rpc, request)
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
        self._reply_bytes(reply.SerializeToString())

    def _reply_bytes(self, reply: bytes) -> None:
        self._replied = True
        self._stream.reply(blocks.HEADERS, messages.frame(reply), blocks.OK)
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
