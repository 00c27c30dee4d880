"""An emulator inside somebody else's process, usually a test's."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING

from emulator.clock import FakeClock
from emulator.limits import SETS, Limits

if TYPE_CHECKING:
    from emulator.app import App

_HOST = "127.0.0.1"


class Emulator:
    """A server on a free port of 127.0.0.1 for as long as the block lasts; any number of them may run side by side.

    `with` runs it on a thread and event loop of its own, `async with` on the loop that is running. On a `clock` of its
    own, time stands still until the test advances it. `limits`: "strict" are production's, "relaxed" ones take short
    times too; or a set of the test's own. `max_lease_duration`: for how many seconds a lease may last, whatever extends
    it; None: for ever, as in production.
    """

    def __init__(
        self,
        *,
        clock: FakeClock | None = None,
        limits: str | Limits = "strict",
        max_lease_duration: int | None = None,
    ) -> None:
        """Raises TypeError for a value of another kind, ValueError for limits of another name or a duration below 1."""
        if clock is not None and not isinstance(clock, FakeClock):
            raise TypeError(f"clock is a FakeClock or None, not {clock!r}")
        self._clock = clock
        self._limits = _limits(limits)
        if max_lease_duration is not None:
            self._limits = replace(self._limits, lease_max_s=_duration(max_lease_duration))
        self._app: App | None = None
        self._thread: _ServerThread | None = None

    @property
    def port(self) -> int:
        """Raises RuntimeError while it does not run."""
        return self._running().port

    @property
    def host_port(self) -> str:
        """The value for PUBSUB_EMULATOR_HOST. Raises RuntimeError while it does not run."""
        return f"{_HOST}:{self.port}"

    def reset(self) -> None:
        """Forget every topic, subscription and message. Raises RuntimeError while it does not run."""
        app = self._running()
        app.run(app.reset)

    def debug_counts(self) -> Mapping[str, int]:
        """How much it holds: streams, leases, waiting_pulls, connections, buffered_bytes, tasks, timers.

        Raises RuntimeError while it does not run.
        """
        app = self._running()
        return app.run(app.debug_counts)

    def _running(self) -> "App":
        if self._app is None:
            raise RuntimeError("the emulator is not running; use it inside its with block")
        return self._app

    def _refuse_to_run_twice(self) -> None:
        if self._app is not None:
            raise RuntimeError("the emulator is running already")

    def __enter__(self) -> "Emulator":
        self._refuse_to_run_twice()
        thread = _ServerThread(self._clock, self._limits)
        self._app = thread.start()
        self._thread = thread
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            raise RuntimeError("the emulator is not running on a thread; leave a with block that was entered")
        self._app = None
        thread.stop()

    async def __aenter__(self) -> "Emulator":
        self._refuse_to_run_twice()
        app = _build(self._clock, self._limits)
        await app.start()
        self._app = app
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        app, self._app = self._running(), None
        await app.stop()

    def __repr__(self) -> str:
        return f"<Emulator {self.host_port if self._app else 'not running'}>"


@dataclass(frozen=True, slots=True)
class _Started:
    app: "App"
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event


class _ServerThread:
    """A thread with a loop on which an emulator runs until it is told to stop."""

    def __init__(self, clock: FakeClock | None, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._started: concurrent.futures.Future[_Started] = concurrent.futures.Future()
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._main, name="pubsub-emulator", daemon=True)

    def start(self) -> "App":
        """Raises what the emulator's start raises."""
        self._thread.start()
        try:
            return self._started.result().app
        except BaseException:
            self._thread.join()
            raise

    def stop(self) -> None:
        started = self._started.result()
        with suppress(RuntimeError):  # the loop is closed: it ended by itself, and the last line says why
            started.loop.call_soon_threadsafe(started.stop.set)
        self._thread.join()
        self._ended.result()

    def _main(self) -> None:
        # Imported late: whoever imports the package need not want a server.
        from emulator.app import new_event_loop

        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as problem:
            (self._ended if self._started.done() else self._started).set_exception(problem)
        else:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        app = _build(self._clock, self._limits)
        await app.start()
        stop = asyncio.Event()
        self._started.set_result(_Started(app, asyncio.get_running_loop(), stop))
        await stop.wait()
        await app.stop()

    def __repr__(self) -> str:
        return f"<_ServerThread {'alive' if self._thread.is_alive() else 'ended'}>"


def _build(clock: FakeClock | None, limits: Limits) -> "App":
    from emulator.app import App

    return App(_HOST, 0, clock=clock, limits=limits)


def _limits(given: str | Limits) -> Limits:
    if isinstance(given, Limits):
        return given
    if not isinstance(given, str):
        raise TypeError(f"limits are {_choices()} or a Limits, not {given!r}")
    if given not in SETS:
        raise ValueError(f"limits are {_choices()} or a Limits, not {given!r}")
    return SETS[given]


def _duration(given: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"max_lease_duration is a whole number of seconds or None, not {given!r}")
    if given < 1:
        raise ValueError(f"max_lease_duration is at least 1 second, not {given!r}")
    return given


def _choices() -> str:
    return ", ".join(map(repr, SETS))
