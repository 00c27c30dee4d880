"""The background task that empties one connection's outbox: only it ever waits for that connection (outbox.md O2)."""

import asyncio
import logging
import time
from typing import Final, Protocol

from emulator.engine.entries import Lease
from emulator.engine.outbox import Event, Letter, Outbox, Parcel, Pile, Recipient
from emulator.limits import MAX_PENDING_DEFAULT, STRICT

logger = logging.getLogger(__name__)

# Inline work that may pass before other connections get their turn (clients.md T34).
TURN_S: Final = 0.005


class Connection(Protocol):
    """What an outbox is emptied into."""

    async def push(self, item: Parcel | Letter) -> None:
        """Write one item, as soon as there is room. Raises ConnectionError when the connection is closed (O8)."""
        ...


class ConnectionOutbox:
    """One connection's outbox and its postie. Whoever sends puts something in and walks away, whoever reads or not.

    Deliveries are never dropped: their number is bounded by the credit of whoever they are for. Of the events of each
    event subscription the newest `max_pending` are kept.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        max_bytes: int = STRICT.reply_max_bytes,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.outbox = Outbox(self._news.set, max_bytes)

    def add_subscription(self, name: str, max_pending: int = MAX_PENDING_DEFAULT) -> None:
        """Open an event subscription. Raises INVALID_ARGUMENT for a `max_pending` below 1 (O3)."""
        self.outbox.add_subscription(name, max_pending)

    def send_event(self, subscription: str, event: Event) -> None:
        """Queue an event; when the pile is full its oldest is dropped and counted (O4)."""
        self.outbox.send_event(subscription, event)

    def add_recipient(self, recipient: Recipient) -> Pile:
        """A pile for somebody who gets deliveries over this connection."""
        return self.outbox.add_recipient(recipient)

    def send_delivery(self, lease: Lease, pile: Pile) -> None:
        """Queue a leased message for a recipient (O5). Does nothing once closed (O12)."""
        if not self.outbox.closed and lease.entry is not None:
            pile.put(lease, lease.entry.message.size)

    def dropped(self, subscription: str) -> int:
        """How many events of a subscription were dropped so far."""
        return self.outbox.dropped(subscription)

    def start(self) -> None:
        """Start the round; on the loop's thread. Again: nothing."""
        if self._task is None and not self.outbox.closed:
            loop = self._loop or asyncio.get_running_loop()
            self._task = loop.create_task(self._drain())

    async def _drain(self) -> None:
        until = time.monotonic() + TURN_S
        while not self.outbox.closed:
            item = self.outbox.take()
            if item is None:
                self._news.clear()
                await self._news.wait()
                until = time.monotonic() + TURN_S
                continue
            try:
                await self._connection.push(item)
            except asyncio.CancelledError:
                self._give_up(item)
                raise
            except ConnectionError:
                self._lose(item)
            except Exception:
                logger.exception("connection=%r could not be given an item; going on with the next", self._connection)
                self._give_up(item)
                until = -1.0  # what was given back may be here again at once
            if time.monotonic() >= until:
                await asyncio.sleep(0)
                until = time.monotonic() + TURN_S

    def _give_up(self, item: Parcel | Letter) -> None:
        if isinstance(item, Parcel):
            item.recipient.give_back(item.leases)

    def _lose(self, item: Parcel | Letter) -> None:
        """The connection is gone: all of it goes back before any is handed out again, so that it keeps its order."""
        if isinstance(item, Parcel):
            item.recipient.take_back(item.leases)
        self.close()
        if isinstance(item, Parcel):
            item.recipient.give_back(())

    def close(self) -> None:
        """End the round. Deliveries that were never written go back (O16), events are discarded. Again: nothing."""
        unwritten = self.outbox.close()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        # All of it before any is handed out again: it keeps its order (O16).
        for parcel in unwritten:
            parcel.recipient.take_back(parcel.leases)
        for parcel in unwritten:
            parcel.recipient.give_back(())

    def __repr__(self) -> str:
        return f"<ConnectionOutbox {self.outbox!r}{' started' if self._task else ''}>"
