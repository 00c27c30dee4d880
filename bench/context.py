"""What every load gets: its size, the programs there are, and the servers, started and warm."""

import gc
import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import warming
from bench.install import Tools
from bench.servers import OFFICIAL, Launcher, Server


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything. What the official emulator would take too long for has a smaller number of its own."""

    seconds: float
    prepared_calls: int
    idle_s: float
    queued: int
    retained: tuple[int, ...]
    drained: int
    drained_official: int
    pulled: int
    pulled_official: int
    latency_s: float
    depths: tuple[int, ...]
    sampled: int
    topics: int
    leases: int
    stall_s: float
    warm_calls: int
    warm_rest_calls: int


FULL: Final = Scale(
    seconds=2,
    prepared_calls=40_000,
    idle_s=5,
    queued=100_000,
    retained=(100_000, 1_000_000),
    drained=100_000,
    drained_official=4_000,
    pulled=50_000,
    pulled_official=20_000,
    latency_s=3,
    depths=(10_000, 100_000, 1_000_000),
    sampled=500,
    topics=10_000,
    leases=100_000,
    stall_s=3,
    warm_calls=20_000,
    warm_rest_calls=150_000,
)

QUICK: Final = Scale(
    seconds=0.3,
    prepared_calls=1_000,
    idle_s=0.1,
    queued=1_000,
    retained=(1_000, 2_000),
    drained=1_000,
    drained_official=200,
    pulled=1_000,
    pulled_official=200,
    latency_s=0.3,
    depths=(2_000, 4_000, 8_000),
    sampled=100,
    topics=100,
    leases=1_000,
    stall_s=0.5,
    warm_calls=200,
    warm_rest_calls=200,
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured value, and what has to be said about it."""

    value: float
    note: str = ""


class Bench:
    """One run of the tool. Servers that loads share are started when the first load asks, and stay until the end."""

    def __init__(self, scale: Scale, tools: Tools, launcher: Launcher) -> None:
        self.scale = scale
        self.tools = tools
        self.launcher = launcher
        self._servers: dict[str, Server] = {}
        self._warm: set[tuple[str, str]] = set()
        self._numbers = itertools.count(1)
        self._exits = ExitStack()

    @property
    def directory(self) -> Path:
        """For files that nobody needs afterwards."""
        return self.launcher.directory

    def fresh_name(self, what: str) -> str:
        """An id that no load of this run has used."""
        return f"{what}-{next(self._numbers)}"

    def server(self, name: str) -> Server:
        """The shared server of that name, warm. Raises Absent, BenchError."""
        if name not in self._servers:
            server = self._exits.enter_context(self.launcher.serve(name))
            self._servers[name] = server
        server = self._servers[name]
        if (name, "gRPC") not in self._warm:
            self._say(warming.warm_grpc(server, self._count(server, self.scale.warm_calls)))
            self._warm.add((name, "gRPC"))
        return server

    def rest_server(self, name: str) -> Server:
        """The same server, warm for REST too."""
        server = self.server(name)
        if (name, "REST") not in self._warm:
            count = self._count(server, self.scale.warm_rest_calls)
            self._say(warming.warm_rest(server, count, self.tools.wrk, self.directory))
            self._warm.add((name, "REST"))
        return server

    def _count(self, server: Server, calls: int) -> int:
        # Ours has no compiler that learns: what it needs are its caches.
        return calls if server.name == OFFICIAL else min(calls, warming.ENOUGH_FOR_OURS)

    def _say(self, text: str) -> None:
        print(text, flush=True)

    def close(self) -> None:
        self._exits.close()
        self._servers.clear()

    def __repr__(self) -> str:
        return f"<Bench servers={sorted(self._servers)}>"


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection in this process while it measures."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
