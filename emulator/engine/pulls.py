"""A unary Pull as a consumer: it takes what is there, or waits for the first message (service.md §7.2)."""

from collections.abc import Callable

from emulator.engine.entries import RECEIVED_BYTES, Lease, Leases
from emulator.errors import PubsubError


class Pull:
    """Collects up to `most` messages and `max_bytes` bytes, then is done.

    `deadline`, in nanoseconds on the clock, is when it stops waiting. `on_done` runs once, when `leases` or `error` is
    final; set it only while the pull is not done yet.
    """

    # What there is leaves in one reply, with the subscription's own ack deadline.
    takes_all = True
    ack_deadline = None

    __slots__ = ("_bytes", "_max_bytes", "_most", "deadline", "done", "error", "in_line", "leases", "number", "on_done")

    def __init__(self, most: int, max_bytes: int, deadline: int) -> None:
        self._most = most
        self._max_bytes = max_bytes
        self._bytes = 0
        self.deadline = deadline
        self.in_line = False
        self.number = 0
        self.leases: list[Lease] = []
        self.error: PubsubError | None = None
        self.done = False
        self.on_done: Callable[[], None] | None = None

    def room(self, size: int) -> bool:
        leases = self.leases
        return not self.done and (
            not leases or (len(leases) < self._most and self._bytes + size + RECEIVED_BYTES <= self._max_bytes)
        )

    def take(self, lease: Lease) -> None:
        assert lease.entry is not None
        lease.written = True
        self.leases.append(lease)
        self._bytes += lease.entry.message.size + RECEIVED_BYTES

    def flush(self) -> None:
        if self.leases:
            self.finish()

    def release(self, lease: Lease) -> None:
        """A pull takes no credit: it is done when its leases are out."""

    def end(self, error: PubsubError) -> None:
        self.error = error
        self.finish()

    def finish(self) -> None:
        """Answer with what it has, which may be nothing."""
        if self.done:
            return
        self.done = True
        on_done, self.on_done = self.on_done, None
        if on_done is not None:
            on_done()

    def hand_over(self) -> Leases:
        """The leases, which the pull then forgets, so that it keeps no message alive."""
        leases, self.leases = self.leases, []
        return leases

    def __repr__(self) -> str:
        return f"<Pull most={self._most} leases={len(self.leases)}{' done' if self.done else ''}>"
