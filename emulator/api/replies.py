"""How a handler answers when a bare message is not enough: with leases in it, or later."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Undoable(Generic[T]):
    """A reply that holds leases: `give_back` returns them if the reply could not be written (service.md §7.2.4)."""

    __slots__ = ("give_back", "message")

    def __init__(self, message: T, give_back: Callable[[], None]) -> None:
        self.message = message
        self.give_back = give_back

    def __repr__(self) -> str:
        return f"<Undoable {type(self.message).__name__}>"


class Parked(Generic[T]):
    """A reply that comes later, without a task waiting for it.

    The handler completes or fails it, once; with `complete_later`, so that a call which answers many others does not
    make all their replies in its own turn. The wire says `cancel` when the caller has gone away (nothing may stay
    leased to it) and `hurry` when real time is up (answer with what there is).
    """

    __slots__ = ("_build", "_callbacks", "_cancel", "_done", "_error", "_hurry", "_taken", "_value")

    def __init__(self, cancel: Callable[[], None], hurry: Callable[[], None]) -> None:
        self._cancel = cancel
        self._hurry = hurry
        self._callbacks: list[Callable[[], None]] = []
        self._build: Callable[[], T] | None = None
        self._done = False
        self._taken = False
        self._value: T | None = None
        self._error: Exception | None = None

    @property
    def done(self) -> bool:
        return self._done

    def result(self) -> T:
        """The reply; raises the error the call failed with, or RuntimeError while it still waits."""
        build, self._build = self._build, None
        if build is not None:
            try:
                self._value = build()
            except Exception as problem:
                self._error = problem
        self._taken = True
        if self._error is not None:
            raise self._error
        if not self._done:
            raise RuntimeError("the reply is not there yet")
        return self._value  # type: ignore[return-value]  # None only if T allows it

    def complete(self, value: T) -> None:
        self._finish(value, None)

    def complete_later(self, build: Callable[[], T]) -> None:
        """The reply is what `build` makes, or fails with what it raises; it is called once, when the reply is taken."""
        self._build = build
        self._finish(None, None)

    def fail(self, error: Exception) -> None:
        self._finish(None, error)

    def _finish(self, value: T | None, error: Exception | None) -> None:
        if self._done:
            raise RuntimeError("a reply is given once")
        self._done, self._value, self._error = True, value, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the reply is there: at once if it is already."""
        if self._done:
            callback()
        else:
            self._callbacks.append(callback)

    def cancel(self) -> None:
        """The caller went away. No callback runs afterwards, and a reply that was not taken yet is undone."""
        if self._taken:
            return
        unmade = not self._done or self._build is not None
        value, self._value, self._build = self._value, None, None
        self._callbacks.clear()
        self._done = self._taken = True
        self._error = RuntimeError("the caller went away")
        if unmade:
            self._cancel()
        elif isinstance(value, Undoable):
            value.give_back()

    def hurry(self) -> None:
        """Real time is up: the handler must answer now."""
        if not self._done:
            self._hurry()

    def map(self, change: "Callable[[T], U]") -> "Parked[U]":
        """The same wait, ending in `change(reply)`; what `change` raises fails it."""
        mapped: Parked[U] = Parked(self.cancel, self.hurry)

        def pass_on() -> None:
            mapped.complete_later(lambda: change(self.result()))

        self.when_done(pass_on)
        return mapped

    def __repr__(self) -> str:
        return f"<Parked {'done' if self._done else 'waiting'}>"
