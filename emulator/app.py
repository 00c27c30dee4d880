"""The composition root: builds a whole emulator from its rooms, starts it, stops it, resets it."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from emulator.api.catalogue import RPCS, SERVICES
from emulator.api.dispatch import Dispatcher
from emulator.api.services import STREAMING_PULL, build_services
from emulator.api.streaming_pull import StreamingPull
from emulator.clock import Clock, FakeClock, LoopClock
from emulator.engine.broker import Broker
from emulator.limits import STRICT, Limits
from emulator.wire.grpc import health
from emulator.wire.grpc.health import Health
from emulator.wire.grpc.reflection import Reflection
from emulator.wire.grpc.server import GrpcServer
from emulator.wire.late import LateFace
from emulator.wire.listener import Listener
from emulator.wire.sockets import open_sockets, port_of

if TYPE_CHECKING:
    from aiohttp import web

    from emulator.wire.rest_server import RestServer

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of the fastest kind that is installed."""
    try:
        import uvloop
    except ImportError:  # Windows, and interpreters other than CPython
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LoopThread:
    """Runs functions on the thread of an event loop, from any thread."""

    __slots__ = ("_closed", "_lock", "_loop", "_thread_id")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Made on the loop's own thread."""
        self._loop = loop
        self._thread_id = threading.get_ident()
        self._lock = threading.Lock()
        self._closed = False

    def run(self, function: Callable[[], T]) -> T:
        """What `function` returns or raises. Raises RuntimeError once closed."""
        if threading.get_ident() == self._thread_id:
            return function()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the emulator is not running")
            self._loop.call_soon_threadsafe(_fulfil, future, function)
        return future.result()

    async def close(self) -> None:
        """Take no more; what was taken has run when this returns."""
        with self._lock:
            self._closed = True
        await asyncio.sleep(0)

    def __repr__(self) -> str:
        return f"<LoopThread{' closed' if self._closed else ''}>"


def _fulfil(future: "concurrent.futures.Future[T]", function: Callable[[], T]) -> None:
    try:
        value = function()
    except BaseException as problem:
        future.set_exception(problem)
    else:
        future.set_result(value)


class App:
    """One emulator on the running event loop; started once and stopped once.

    host, port: as in `open_sockets`. clock: real time if None. shutdown: what POST /shutdown calls; None: it is not
    offered. routes: served beside the API.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        clock: Clock | None = None,
        limits: Limits = STRICT,
        shutdown: Callable[[], None] | None = None,
        routes: "Iterable[web.RouteDef]" = (),
        log_http: bool = False,
    ) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._host = host
        self._port = port
        self._clock = clock or LoopClock(loop)
        self._broker = Broker(self._clock, limits)
        self._limits = limits
        self._shutdown = shutdown
        self._routes = tuple(routes)
        self._log_http = log_http
        self._health = Health(SERVICES)
        self._dispatcher = Dispatcher({**build_services(self._broker), health.SERVICE: self._health})
        openers = {
            **self._health.openers,
            **Reflection(SERVICES).openers,
            STREAMING_PULL: lambda call: StreamingPull(self._broker, call, call.outbox),
        }
        self._grpc = GrpcServer(self._dispatcher, RPCS, openers, wait_s=limits.pull_wait_s)
        self._rest = LateFace(self._start_rest)
        self._listener = Listener(self._rest.connection, self._grpc.connect)
        self._thread = LoopThread(loop)

    @property
    def port(self) -> int:
        """The port it listens on; before `start`, the one it was asked for."""
        return self._port

    async def start(self) -> None:
        """Serve. Raises StartError, and RuntimeError for a FakeClock that drives another emulator."""
        if isinstance(self._clock, FakeClock):
            self._clock.attach(self._thread.run)
        try:
            sockets = open_sockets(self._host, self._port)
        except BaseException:
            self._release_clock()
            raise
        self._port = port_of(sockets)
        await self._listener.start(sockets)

    async def _start_rest(self) -> "RestServer":
        # Late, for the time and the memory that aiohttp takes.
        from emulator.wire.rest import Rest
        from emulator.wire.rest_server import RestServer

        server = RestServer(
            Rest(self._dispatcher).handle,
            patience_s=self._limits.pull_wait_s,
            reset=self.reset,
            shutdown=self._shutdown,
            routes=self._routes,
            log_http=self._log_http,
        )
        await server.start()
        return server

    async def stop(self) -> None:
        """Accept no more, answer what waits, let go of everything."""
        self._listener.close()
        self._health.stop()
        self._grpc.say_goodbye()
        self._broker.close()
        await asyncio.gather(self._listener.wait_closed(), self._grpc.shutdown(), self._rest.stop())
        await self._thread.close()
        self._release_clock()

    def _release_clock(self) -> None:
        if isinstance(self._clock, FakeClock):
            self._clock.detach()
        elif isinstance(self._clock, LoopClock):
            self._clock.close()

    def reset(self) -> None:
        """Forget everything that was ever created or published; on the loop's thread."""
        self._broker.reset()

    def debug_counts(self) -> dict[str, int]:
        """What is held at the moment; back at its start once every client has gone. On the loop's thread."""
        grpc = self._grpc.counts()
        return {
            "streams": grpc["streams"],
            **self._broker.counts(),
            "connections": self._listener.undecided + self._rest.connections + grpc["connections"],
            "buffered_bytes": self._rest.buffered_bytes + grpc["buffered_bytes"],
            "tasks": len(asyncio.all_tasks(self._loop)),
            "timers": self._clock.timer_count(),
        }

    def run(self, function: Callable[[], T]) -> T:
        """Call `function` on the loop's thread, from whichever thread, and wait for it."""
        return self._thread.run(function)

    def __repr__(self) -> str:
        return f"<App {self._host or '*'}:{self._port}>"
