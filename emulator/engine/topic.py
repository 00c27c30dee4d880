"""A topic: who gets what is published to it."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emulator.clock import Clock
from emulator.engine.alarm import Alarm
from emulator.engine.registry import page_of
from emulator.engine.values import Message, TopicSettings

if TYPE_CHECKING:
    from emulator.engine.snapshot import Snapshot
    from emulator.engine.subscription import Subscription

# How much one ring of the alarm drops before others get their turn.
_SLICE = 5_000


class Topic:
    """One incarnation of a topic's name. A deleted name that is created again is another topic (service.md §3.6).

    `number` tells it from every other one of this run. `snapshots` are those made of its subscriptions, by name.
    """

    __slots__ = ("_alarm", "_attached", "_clock", "_detached", "_retained", "name", "number", "settings", "snapshots")

    def __init__(self, name: str, number: int, settings: TopicSettings, clock: Clock) -> None:
        self.name = name
        self.number = number
        self.settings = settings
        self._clock = clock
        self._alarm = Alarm(clock, self._ring)
        self._attached: dict[str, Subscription] = {}
        self._detached: dict[str, Subscription] = {}
        self._retained: deque[Message] = deque()
        self.snapshots: dict[str, Snapshot] = {}

    def update(self, settings: TopicSettings) -> None:
        """Other settings; what is retained longer than they say leaves."""
        self.settings = settings
        if settings.retention is None:
            self._retained.clear()
            self._alarm.stop()
        else:
            self._ring()

    # Messages

    @property
    def wanted(self) -> bool:
        """Whether anybody could ever ask for what is published now."""
        return bool(self._attached or self.snapshots or self.settings.retention is not None)

    def publish(self, messages: Sequence[Message]) -> None:
        """Hand messages to whoever is there, and keep them as long as the topic is to."""
        if self.settings.retention is not None:
            self._retained += messages
            self._aim()
        for snapshot in self.snapshots.values():
            snapshot.add(messages)
        for subscription in self.attached():
            subscription.offer(messages)

    def retained(self) -> Sequence[Message]:
        """What the topic's own retention keeps, oldest first (service.md §12.1)."""
        return self._retained

    def _ring(self) -> None:
        now, retained = self._clock.now(), self._retained
        for _ in range(_SLICE):
            if not retained or self._retained_until(retained[0]) > now:
                break
            retained.popleft()
        self._aim()

    def _aim(self) -> None:
        if self._retained:
            self._alarm.aim(self._retained_until(self._retained[0]))

    def _retained_until(self, message: Message) -> int:
        assert self.settings.retention is not None
        return message.publish_time + self.settings.retention + 1

    # Subscriptions

    def attach(self, subscription: "Subscription") -> None:
        self._attached[subscription.name] = subscription

    def detach(self, subscription: "Subscription") -> None:
        """It gets and lists nothing any more, but still names this topic (service.md §6.2)."""
        self._attached.pop(subscription.name, None)
        self._detached[subscription.name] = subscription

    def forget(self, subscription: "Subscription") -> None:
        self._attached.pop(subscription.name, None)
        self._detached.pop(subscription.name, None)

    def attached(self) -> list["Subscription"]:
        return list(self._attached.values())

    def page(self, after: str, size: int) -> tuple[list["Subscription"], str]:
        """Attached subscriptions of any project, by name (service.md §1.9.5); paged as `Registry.page`."""
        return page_of(sorted(self._attached), self._attached, after, size)

    def delete(self) -> None:
        """Cut every subscription loose; they keep their backlog (service.md §6.1)."""
        for subscription in (*self._attached.values(), *self._detached.values()):
            subscription.topic = None
        for snapshot in self.snapshots.values():
            snapshot.topic = None
        self._attached.clear()
        self._detached.clear()
        self.snapshots.clear()
        self._retained.clear()
        self._alarm.stop()

    def close(self) -> None:
        """The server stops."""
        self._alarm.stop()

    def __repr__(self) -> str:
        return f"<Topic {self.name} subscriptions={len(self._attached)}>"
