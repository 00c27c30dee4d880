"""StreamingPull: what a stream's requests may say, and what its responses hold (service.md §7.3)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from emulator import errors, names
from emulator.api import pb
from emulator.api.confirmations import Confirmations
from emulator.api.fields import check_ack_request_size
from emulator.api.received import received
from emulator.clock import NS_PER_S
from emulator.engine.broker import Broker, refused
from emulator.engine.entries import Lease, Leases
from emulator.engine.outbox import Outbox
from emulator.engine.subscription import Subscription
from emulator.errors import PubsubError
from emulator.errors import grpc as grpc_errors

if TYPE_CHECKING:
    from emulator.engine.streams import Stream

# Go's and Java's clients note the time of a ping after they have sent it. An answer that is there before, as over the
# loopback it may be, looks to them like one to an earlier ping, and they reopen the stream 15 s later.
PONG_DELAY_S: Final = 0.02

# An ack id of a confirmation, with its tag and its length.
_CONFIRMED_BYTES: Final = 26

_FIRST_ONLY: Final = ("subscription", "max_outstanding_messages", "max_outstanding_bytes", "protocol_version")


class Call(Protocol):
    """The streaming call under it."""

    def room(self) -> int:
        """How many bytes of a message would leave at once; 0 for none, until it tells that it is writable."""
        ...

    @property
    def unsent(self) -> int:
        """How many bytes of what was sent wait for a window."""
        ...

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back in real time, unless the call is over by then. One at a time."""
        ...

    def send_headers(self) -> None: ...

    def send_bytes(self, message: bytes) -> None:
        """Send a serialized response."""
        ...

    def finish(self) -> None:
        """End with OK, after everything that was sent."""
        ...

    def fail(self, problem: PubsubError) -> None:
        """End with an error now."""
        ...

    def crash(self, problem: Exception) -> None:
        """End with what came of a failure that nobody thought of; `gone` follows."""
        ...


class StreamingPull:
    """One stream, from its opening on. What its methods raise ends the call with that status.

    It never ends with OK unless its client has half-closed (K16).
    """

    __slots__ = (
        "_broker",
        "_call",
        "_confirmations",
        "_heartbeats",
        "_last",
        "_owes_properties",
        "_pile",
        "_stream",
        "_subscription",
    )

    def __init__(self, broker: Broker, call: Call, outbox: Outbox) -> None:
        self._broker = broker
        self._call = call
        self._pile = outbox.add_recipient(self)
        self._subscription: Subscription | None = None
        self._stream: Stream | None = None
        self._heartbeats = False
        self._owes_properties = False
        self._confirmations = Confirmations()
        # Of a stream that is ending: the delivery whose bytes have not all left.
        self._last: Lease | None = None

    # Requests

    def message(self, request: pb.StreamingPullRequest) -> None:
        """Every request: nothing of it happens unless all of it can. Raises INVALID_ARGUMENT, NOT_FOUND and so on."""
        if self._subscription is None:
            self._first(request)
        else:
            self._later(request, self._subscription)

    def _first(self, request: pb.StreamingPullRequest) -> None:
        names.check(request.subscription, names.SUBSCRIPTIONS, "subscription")
        check_ack_request_size(request, self._broker.limits)
        seconds = request.stream_ack_deadline_seconds
        self._check_ack_deadline(seconds)
        self._check_modacks(request)
        subscription = self._broker.subscriptions.get(request.subscription)
        subscription.require_pullable()
        self._settle(request, subscription)
        self._subscription = subscription
        self._heartbeats = request.protocol_version >= 1
        self._call.send_headers()
        self._stream = subscription.open_stream(
            self._pile,
            seconds * NS_PER_S,
            request.max_outstanding_messages,
            request.max_outstanding_bytes,
            self,
        )

    def _later(self, request: pb.StreamingPullRequest, subscription: Subscription) -> None:
        check_ack_request_size(request, self._broker.limits)
        for field in _FIRST_ONLY:
            value = getattr(request, field)
            if value:
                raise errors.only_on_the_first_request(field, value)
        seconds = request.stream_ack_deadline_seconds
        if seconds:
            self._check_ack_deadline(seconds)
        self._check_modacks(request)
        settled = self._settle(request, subscription)
        if seconds and self._stream is not None:
            self._stream.ack_deadline = seconds * NS_PER_S
        if not (settled or seconds):
            self._answer_ping()

    def _check_ack_deadline(self, seconds: int) -> None:
        low, high = self._broker.limits.ack_deadline_min_s, self._broker.limits.ack_deadline_max_s
        if not low <= seconds <= high:
            raise errors.out_of_range("stream_ack_deadline_seconds", seconds, low, high, "seconds")

    def _check_modacks(self, request: pb.StreamingPullRequest) -> None:
        ids, seconds = request.modify_deadline_ack_ids, request.modify_deadline_seconds
        if len(ids) != len(seconds):
            raise errors.lengths_differ("modify_deadline_ack_ids", len(ids), "modify_deadline_seconds", len(seconds))
        for each in set(seconds):
            self._broker.check_extension("modify_deadline_seconds", each)

    def _settle(self, request: pb.StreamingPullRequest, subscription: Subscription) -> bool:
        """Acks and modacks, whichever stream delivered the messages (V11); whether there were any."""
        acked = self._broker.decode(subscription, request.ack_ids)
        by_term: dict[int, list[str]] = {}
        for ack_id, seconds in zip(request.modify_deadline_ack_ids, request.modify_deadline_seconds, strict=True):
            by_term.setdefault(seconds, []).append(ack_id)
        extended = [(seconds, ids, self._broker.decode(subscription, ids)) for seconds, ids in by_term.items()]
        self._require_room_to_confirm(len(acked) + len(request.modify_deadline_ack_ids))
        subscription.touch()
        confirmations = self._confirmations if subscription.settings.exactly_once else None
        if acked:
            failures = subscription.acknowledge(acked)
            if confirmations is not None:
                confirmations.add_acks(request.ack_ids, refused(request.ack_ids, acked, failures))
        refusals: dict[str, str] = {}
        for seconds, ids, deliveries in extended:
            refusals |= refused(ids, deliveries, subscription.modify_ack_deadline(deliveries, seconds))
        if confirmations is not None and extended:
            confirmations.add_modacks(request.modify_deadline_ack_ids, refusals)
        if self._confirmations.count:
            self._pile.note()
        return bool(acked or by_term)

    def _require_room_to_confirm(self, count: int) -> None:
        """Raises RESOURCE_EXHAUSTED when a peer settles and settles, and never reads what came of it."""
        limit = self._broker.limits.reply_max_bytes
        if (self._confirmations.count + count) * _CONFIRMED_BYTES > limit:
            raise grpc_errors.too_much_unanswered(limit)

    def half_closed(self) -> None:
        """The client sends no more: what is queued for it still leaves, as far as there is room, and then an OK."""
        if self._subscription is None or self._stream is None:
            raise errors.missing("subscription")
        self._subscription.stop_stream(self._stream)
        while (parcel := self._pile.next(self._broker.limits.reply_max_bytes)) is not None:
            self.deliver(parcel.leases)
        if self._owes_properties or self._confirmations.count:
            self._send_properties()
        self._last = self._pile.incomplete
        unwritten = [lease for lease in self._stop() if lease is not self._last]
        self._call.finish()
        self.give_back(unwritten)

    # The end

    def sent(self) -> None:
        """After a half-close: what had left in part has left."""
        if self._last is not None:
            self._last.written = True

    def gone(self) -> None:
        """The call is over: nothing of it stays behind but leases that were written (O16, V14)."""
        unwritten = self._stop()
        if self._last is not None:
            unwritten = [self._last]
        self.give_back(unwritten)

    def ended(self, error: PubsubError) -> None:
        """The subscription was deleted, detached, is pushed from now on, or the server stops."""
        unwritten = self._stop()
        self._call.fail(error)
        self.give_back(unwritten)

    def _stop(self) -> Leases:
        """Take nothing more; what was never written."""
        if self._subscription is None or self._stream is None:
            return self._pile.close()
        self._subscription.stop_stream(self._stream)
        return self._stream.close()

    def take_back(self, leases: Leases) -> None:
        if self._subscription is not None:
            self._subscription.take_back(leases)

    def give_back(self, leases: Leases) -> None:
        if self._subscription is not None:
            self._subscription.give_back(leases)

    # Responses

    def _answer_ping(self) -> None:
        """At most one answer waits (O19); clients of before the protocol had them get none (K4)."""
        if self._heartbeats and not self._owes_properties:
            self._owes_properties = True
            self._call.later(PONG_DELAY_S, self._pile.note)

    def changed(self) -> None:
        """A response of its own says so, at once; clients of before the protocol had them get none (K4)."""
        if self._heartbeats:
            self._owes_properties = True
            self._pile.note()

    def room(self) -> int:
        return self._call.room()

    def writable(self) -> None:
        """The call has room again."""
        self._pile.resume()
        self._take_more()

    def deliver(self, leases: Leases) -> None:
        """Write one response."""
        try:
            self._write(leases)
        except Exception as problem:
            self._call.crash(problem)
            self.give_back(leases)

    def _write(self, leases: Leases) -> None:
        if leases:
            self._send_messages(leases)
        elif self._owes_properties or self._confirmations.count:
            self._send_properties()
        if not self._call.room():
            self._pile.shut = True
        self._take_more()

    def _send_messages(self, leases: Leases) -> None:
        subscription = self._subscription
        assert subscription is not None
        self._call.send_bytes(received(subscription, leases) + _properties(subscription))
        if self._call.unsent:
            self._pile.hold_back(leases[-1])  # only the last can be too large for the window

    def _send_properties(self) -> None:
        """A response without messages, with what there is to confirm."""
        assert self._subscription is not None
        self._owes_properties = False
        confirmed = self._confirmations.take()
        if not self._subscription.settings.exactly_once:
            confirmed = b""  # switched off since: none may come any more (service.md §7.3.10)
        self._call.send_bytes(confirmed + _properties(self._subscription))

    def _take_more(self) -> None:
        if self._subscription is not None and self._stream is not None:
            self._subscription.resume(self._stream)

    def __repr__(self) -> str:
        return f"<StreamingPull {self._subscription.name if self._subscription else None} {self._pile!r}>"


def _properties(subscription: Subscription) -> bytes:
    """`subscription_properties` of a response, serialized; clients take its absence for "both off"."""
    properties = pb.StreamingPullResponse.SubscriptionProperties(
        exactly_once_delivery_enabled=subscription.settings.exactly_once,
        message_ordering_enabled=subscription.settings.ordered,
    )
    return pb.StreamingPullResponse(subscription_properties=properties).SerializeToString()
