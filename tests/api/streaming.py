"""A StreamingPull without a wire: its call is a fake with a window, its outbox is drained by hand."""

import sys
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format

from emulator import errors
from emulator.api import pb
from emulator.api.streaming_pull import StreamingPull
from emulator.clock import NS_PER_S
from emulator.engine.outbox import Outbox, Parcel
from emulator.errors import Code, PubsubError
from emulator.limits import STRICT
from tests.api.world import ORDERS, PULLED, World, texts


class FakeCall:
    """The streaming call under a stream: `window` bytes leave, the rest waits.

    `ended` is OK or the code of the error; `headers` counts how often headers were sent.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.delays: list[float] = []
        self.unsent = 0
        self.sent: list[pb.StreamingPullResponse] = []
        self.headers = 0
        self.ended: Code | None = None
        self.error: PubsubError | None = None
        self.conversation: StreamingPull | None = None

    def room(self) -> int:
        return 0 if self.ended is not None or self.unsent else self.window

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Nothing here takes time; `delays` says what it would have."""
        self.delays.append(seconds)
        callback()

    def send_headers(self) -> None:
        self.headers += 1

    def send_bytes(self, message: bytes) -> None:
        if self.ended is None:
            self.sent.append(pb.StreamingPullResponse.FromString(message))
            self.unsent += len(message)
            self.leave()

    def leave(self) -> None:
        gone = min(self.window, self.unsent)
        self.window -= gone
        self.unsent -= gone

    def finish(self) -> None:
        self._end(Code.OK)

    def fail(self, problem: PubsubError) -> None:
        self.error = self.error or problem
        self._end(problem.code)

    def crash(self, problem: Exception) -> None:
        self.fail(problem if isinstance(problem, PubsubError) else errors.internal(problem))
        self.tell()

    def tell(self) -> None:
        """The service's side hears that the call is over."""
        conversation, self.conversation = self.conversation, None
        if conversation is not None:
            conversation.gone()

    def _end(self, code: Code) -> None:
        assert self.ended is None, "a call ends once"
        self.ended = code

    def __repr__(self) -> str:
        return f"<FakeCall window={self.window} sent={len(self.sent)} ended={self.ended}>"


class Client:
    """One StreamingPull as its client sees it."""

    def __init__(self, world: World, outbox: Outbox | None = None, *, window: int = sys.maxsize) -> None:
        self.outbox = outbox or Outbox(lambda: None, STRICT.reply_max_bytes)
        self.call = FakeCall(window)
        self._seen = 0
        self.stream = StreamingPull(world.broker, self.call, self.outbox)
        self.call.conversation = self.stream

    @classmethod
    def opened(
        cls, world: World, outbox: Outbox | None = None, *, window: int = sys.maxsize, **fields: Any
    ) -> "Client":
        """With its first request sent: PULLED and 10 seconds unless other fields say so."""
        client = cls(world, outbox, window=window)
        client.send(**first(**fields))
        return client

    def send(self, **fields: Any) -> None:
        """A request, in proto JSON."""
        self._tell("message", json_format.ParseDict(fields, pb.StreamingPullRequest()))

    def half_close(self) -> None:
        self._tell("half_closed")

    def _tell(self, what: str, *arguments: Any) -> None:
        if self.call.conversation is not None and self.call.ended is None:
            try:
                getattr(self.call.conversation, what)(*arguments)
            except Exception as problem:
                self.call.crash(problem)

    def disconnect(self) -> None:
        """The connection is lost."""
        if self.call.ended is None:
            self.call.ended = Code.CANCELLED
        self.call.tell()

    def grow(self, window: int = sys.maxsize) -> None:
        """Its window opens."""
        self.call.window = window
        self.call.leave()
        if self.call.conversation is not None and self.call.room():
            self.call.conversation.writable()

    def read(self) -> list[Any]:
        """Let everything leave that can; the responses that came since the last time."""
        while (item := self.outbox.take()) is not None:
            assert isinstance(item, Parcel)
            item.recipient.deliver(item.leases)
        new, self._seen = self.call.sent[self._seen :], len(self.call.sent)
        return new

    def read_texts(self) -> list[str]:
        """What `World.publish` was given, of the messages that came."""
        return [text for response in self.read() for text in texts(response.received_messages)]

    @property
    def received(self) -> list[Any]:
        """Every message that it was ever sent."""
        return [message for response in self.call.sent for message in response.received_messages]

    @property
    def texts_by_response(self) -> list[list[str]]:
        """The same of every response so far, each by itself."""
        return [texts(response.received_messages) for response in self.call.sent]

    @property
    def ack_ids(self) -> list[str]:
        return [message.ack_id for message in self.received]

    def __repr__(self) -> str:
        return f"<Client {self.call!r}>"


def first(**fields: Any) -> dict[str, Any]:
    """The fields of a first request; None leaves one out."""
    given = {"subscription": PULLED, "streamAckDeadlineSeconds": 10, **fields}
    return {key: value for key, value in given.items() if value is not None}


def messages(world: World) -> object:
    """What PULLED holds of every message: its place, its attempts, its lease."""
    return world.broker.subscriptions.get(PULLED).dump()["messages"]


def leases(world: World) -> dict[str, float]:
    """For how many seconds from now each message of PULLED is leased, by message id."""
    held = world.broker.subscriptions.get(PULLED)._holdings._entries
    return {
        str(number): (entry.lease.due - world.clock.now()) / NS_PER_S
        for number, entry in held.items()
        if entry.lease is not None
    }


def attempts(world: World) -> list[int]:
    """How often each message that PULLED holds has come back."""
    return [entry.failures for entry in world.broker.subscriptions.get(PULLED)._holdings._entries.values()]


def publish_bytes(world: World, *sizes: int) -> None:
    """A message with so many bytes of data each, one request per message."""
    for size in sizes:
        world.send("Publish", pb.PublishRequest(topic=ORDERS, messages=[pb.PubsubMessage(data=b"x" * size)]))
