"""A face of the server that is imported and started when the first connection wants it.

Most clients speak gRPC only; what serves HTTP/1.1 is half of the start-up time and a third of the memory.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

logger = logging.getLogger(__name__)


class Face(Protocol):
    """What serves the connections of one protocol."""

    @property
    def connections(self) -> int:
        """How many are open."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """How many bytes their clients have not taken yet."""
        ...

    def connection(self) -> asyncio.Protocol:
        """The protocol for a new connection."""
        ...

    async def stop(self) -> None:
        """End every connection."""
        ...


class LateFace:
    """Stands in for the face that `start` makes, called once somebody connects; who connects meanwhile waits.

    A start that fails costs the waiting their connections; the next one tries again.
    """

    def __init__(self, start: Callable[[], Awaitable[Face]]) -> None:
        self._start = start
        self._face: Face | None = None
        self._starting: asyncio.Task[None] | None = None
        self._waiting: set[_Arrival] = set()

    @property
    def connections(self) -> int:
        return len(self._waiting) + (self._face.connections if self._face else 0)

    @property
    def buffered_bytes(self) -> int:
        return self._face.buffered_bytes if self._face else 0

    def connection(self) -> asyncio.Protocol:
        return self._face.connection() if self._face else _Arrival(self)

    async def stop(self) -> None:
        if self._starting is not None:
            await self._starting
        if self._face is not None:
            await self._face.stop()

    def arrived(self, arrival: "_Arrival") -> None:
        self._waiting.add(arrival)
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._open())

    def left(self, arrival: "_Arrival") -> None:
        self._waiting.discard(arrival)

    async def _open(self) -> None:
        try:
            self._face = await self._start()
        except Exception:
            logger.exception("what serves HTTP/1.1 could not start")
        self._starting = None
        waiting, self._waiting = self._waiting, set()
        for arrival in waiting:
            arrival.hand_over(self._face.connection() if self._face else None)

    def __repr__(self) -> str:
        return f"<LateFace waiting={len(self._waiting)} {self._face or 'not started'}>"


class _Arrival(asyncio.Protocol):
    """A connection that waits for its face, unread but for what had been read before."""

    def __init__(self, late: LateFace) -> None:
        self._late = late
        self._data = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.pause_reading()
        self._late.arrived(self)

    def data_received(self, data: bytes) -> None:
        self._data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.left(self)

    def hand_over(self, protocol: asyncio.Protocol | None) -> None:
        """Let this protocol have the connection; None ends it."""
        assert self._transport is not None
        if protocol is None or self._transport.is_closing():
            self._transport.abort()
            return
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(bytes(self._data))
        self._transport.resume_reading()

    def __repr__(self) -> str:
        return f"<_Arrival bytes={len(self._data)}>"
