"""One stream of a connection, as the layer above sees it."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emulator.wire.http2.sending import Sender


class Call(Protocol):
    """What the layer above puts on a stream."""

    def data(self, chunk: bytes, end: bool) -> None:
        """Bytes of the request; `end` says that none follow. An end without bytes comes as `b""`."""
        ...

    def sent(self) -> None:
        """The reply has been sent to its end; nothing follows."""
        ...

    def gone(self) -> None:
        """The peer reset the stream, or the connection is lost; what was not written will never be."""
        ...

    def writable(self) -> None:
        """A stream that was not ready to write is ready again."""
        ...


class NoCall:
    """On a stream that nobody above cares for, or not any more."""

    def data(self, chunk: bytes, end: bool) -> None: ...

    def sent(self) -> None: ...

    def gone(self) -> None: ...

    def writable(self) -> None: ...

    def __repr__(self) -> str:
        return "<NoCall>"


NO_CALL = NoCall()


class Stream:
    """A request and the reply to it. Every method may be called at any time; on a closed stream it does nothing.

    After `finish` nothing but `cut` does anything.
    """

    __slots__ = (
        "_sender",
        "call",
        "closed",
        "content_left",
        "id",
        "queue",
        "queued_bytes",
        "received_unacked",
        "remote_closed",
        "send_window",
        "trailers",
    )

    def __init__(self, sender: "Sender", stream_id: int, content_length: int | None) -> None:
        self._sender = sender
        self.id = stream_id
        self.call: Call = NO_CALL
        self.send_window = sender.initial_window
        self.content_left = content_length
        self.received_unacked = 0
        self.remote_closed = False
        self.closed = False
        self.queue = sender.no_queue
        self.queued_bytes = 0
        self.trailers: bytes | None = None

    def _over(self) -> bool:
        """Whether nothing more may be sent: it has ended, or its trailers wait behind what is queued."""
        return self.closed or self.trailers is not None

    def ready(self) -> bool:
        """Whether data given now would leave at once; after a False, `Call.writable` tells when that changes."""
        return self._sender.ready(self)

    def room(self) -> int:
        """How many bytes would leave now; 0 when it is not `ready`."""
        return self._sender.room(self)

    def send_headers(self, block: bytes) -> None:
        if not self._over():
            self._sender.headers(self, block)

    def send_data(self, data: bytes) -> None:
        """Queue bytes of the reply: they leave as the windows allow, in turn with other streams'."""
        if data and not self._over():
            self._sender.data(self, data)

    def finish(self, trailers: bytes) -> None:
        """End the reply once everything queued has left (clients.md T25)."""
        if not self._over():
            self.trailers = trailers
            self._sender.finish(self)

    def cut(self, trailers: bytes) -> None:
        """End the reply now: what is queued and unsent is dropped (clients.md T25, outbox.md O16)."""
        if not self.closed:
            self._sender.drop(self)
            self.trailers = trailers
            self._sender.finish(self)

    def reply(self, headers: bytes, data: bytes, trailers: bytes) -> None:
        """A whole unary reply; `headers` fit into one frame."""
        if not self.closed and self.trailers is None:
            self._sender.reply(self, headers, data, trailers)

    def __repr__(self) -> str:
        return f"<Stream {self.id} queued={self.queued_bytes}{' closed' if self.closed else ''}>"
