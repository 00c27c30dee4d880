"""One timer aimed at the earliest of many wake-ups."""

from collections.abc import Callable

from emulator.clock import Clock, Timer


class Alarm:
    """Runs `ring` when the earliest time it was aimed at comes.

    Aiming later than it is set for already costs nothing: it then rings early, finds nothing due and is aimed again.
    """

    __slots__ = ("_clock", "_ring", "_timer")

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: Timer | None = None

    def aim(self, when: int) -> None:
        """Ring at `when` or earlier."""
        if self._timer is None or when < self._timer.when:
            self.stop()
            self._timer = self._clock.call_at(when, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._ring()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __repr__(self) -> str:
        return f"<Alarm {self._timer!r}>"
