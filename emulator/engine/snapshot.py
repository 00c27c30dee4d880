"""A snapshot: the messages that were unacked when it was made, and all that were published since (service.md §12)."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from emulator.clock import Clock, Timer
from emulator.engine.values import Message

if TYPE_CHECKING:
    from emulator.engine.topic import Topic


class Snapshot:
    """Keeps its messages until it is deleted or expires, at `expires` in nanoseconds on the clock.

    `incarnation` is the number of the topic it belongs to, which stays when that is deleted. `document` as in
    `TopicSettings`.
    """

    __slots__ = ("_messages", "_timer", "document", "expires", "incarnation", "name", "topic")

    def __init__(
        self,
        name: str,
        topic: "Topic | None",
        incarnation: int,
        messages: Iterable[Message],
        expires: int,
        document: bytes,
    ) -> None:
        self.name = name
        self.topic = topic
        self.incarnation = incarnation
        self._messages = list(messages)
        self.expires = expires
        self.document = document
        self._timer: Timer | None = None

    def start(self, clock: Clock, on_expired: Callable[["Snapshot"], None]) -> None:
        """Expire when it is time."""
        self._timer = clock.call_at(self.expires, lambda: on_expired(self))

    def add(self, messages: Iterable[Message]) -> None:
        """Published since."""
        self._messages += messages

    @property
    def messages(self) -> Sequence[Message]:
        """Oldest first."""
        return self._messages

    def stop(self) -> None:
        """Expire no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def delete(self) -> None:
        self.stop()
        self._messages.clear()

    def __repr__(self) -> str:
        return f"<Snapshot {self.name} messages={len(self._messages)}>"
