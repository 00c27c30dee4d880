"""A topic: who gets what is published to it."""

from typing import TYPE_CHECKING

from emulator.engine.registry import page_of
from emulator.engine.values import TopicSettings

if TYPE_CHECKING:
    from emulator.engine.subscription import Subscription


class Topic:
    """One incarnation of a topic's name. A deleted name that is created again is another topic (service.md §3.6)."""

    __slots__ = ("_attached", "_detached", "name", "settings")

    def __init__(self, name: str, settings: TopicSettings) -> None:
        self.name = name
        self.settings = settings
        self._attached: dict[str, Subscription] = {}
        self._detached: dict[str, Subscription] = {}

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
        self._attached.clear()
        self._detached.clear()

    def __repr__(self) -> str:
        return f"<Topic {self.name} subscriptions={len(self._attached)}>"
