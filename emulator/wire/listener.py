"""The one port: looks at a connection's first bytes and hands it to the protocol it speaks (clients.md T1, T18)."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from http import HTTPStatus
from typing import TypeAlias, cast

from emulator.errors import http as http_errors
from emulator.limits import REQUEST_HEADER_MAX_BYTES
from emulator.wire.http2.frames import PREFACE
from emulator.wire.sockets import BACKLOG
from emulator.wire.status import JSON_CONTENT_TYPE, error_body

# In real time: how long a connection may take to say what it speaks.
SNIFF_TIMEOUT_S = 10

# What a method may begin with (RFC 9110 §5.6.2).
_FIRST_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~")

ProtocolFactory: TypeAlias = Callable[[], asyncio.Protocol]


class Verdict(Enum):
    """What the first bytes of a connection say."""

    UNDECIDED = auto()
    HTTP1 = auto()
    HTTP2 = auto()
    TOO_LONG = auto()


def sniff(data: bytes | bytearray) -> Verdict:
    """Tell HTTP/2, by its whole preface, from HTTP/1.1, by a whole line; what can be neither is left to HTTP/1.1."""
    if data.startswith(PREFACE):
        return Verdict.HTTP2
    if PREFACE.startswith(data):
        return Verdict.UNDECIDED
    # A robust server skips empty lines before a request (RFC 9112 §2.2).
    line = data.lstrip(b"\r\n")
    if line and (line[0] not in _FIRST_BYTES or b"\n" in line):
        return Verdict.HTTP1
    return Verdict.TOO_LONG if len(data) > REQUEST_HEADER_MAX_BYTES else Verdict.UNDECIDED


class Listener:
    """Accepts connections on one or more sockets."""

    def __init__(
        self, http1: ProtocolFactory, http2: ProtocolFactory, sniff_timeout_s: float = SNIFF_TIMEOUT_S
    ) -> None:
        self._http1 = http1
        self._http2 = http2
        self._sniff_timeout_s = sniff_timeout_s
        self._servers: list[asyncio.Server] = []
        self._sniffing: set[Sniffer] = set()
        self._none_sniffing = asyncio.Event()
        self._none_sniffing.set()
        self._closed = False

    @property
    def undecided(self) -> int:
        """How many open connections have not said what they speak."""
        return len(self._sniffing)

    @property
    def closed(self) -> bool:
        """Whether who comes now is turned away."""
        return self._closed

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Accept on these listening sockets, which belong to the listener from here on."""
        loop = asyncio.get_running_loop()
        for sock in sockets:
            server = await loop.create_server(self._accept, sock=sock, backlog=BACKLOG)
            self._servers.append(server)

    def close(self) -> None:
        """Accept no more, and drop who has not said anything yet; connections handed over live on."""
        self._closed = True
        loop = asyncio.get_running_loop()
        for server in self._servers:
            # asyncio takes a turn from accepting to attaching, and cannot attach to a server that has closed meanwhile.
            with suppress(NotImplementedError):  # Windows
                for sock in server.sockets:
                    loop.remove_reader(sock.fileno())
            loop.call_soon(server.close)
        self._servers.clear()
        for sniffer in list(self._sniffing):
            sniffer.abort()

    async def wait_closed(self) -> None:
        """Return once every connection that was not handed over has gone, also the newest; after `close`."""
        # What has been accepted is attached by then, and the servers are closed.
        await asyncio.sleep(0)
        await self._none_sniffing.wait()

    def _accept(self) -> asyncio.Protocol:
        sniffer = Sniffer(self, self._sniff_timeout_s)
        self._sniffing.add(sniffer)
        self._none_sniffing.clear()
        return sniffer

    def forget(self, sniffer: "Sniffer") -> None:
        self._sniffing.discard(sniffer)
        if not self._sniffing:
            self._none_sniffing.set()

    def protocol_for(self, verdict: Verdict) -> asyncio.Protocol:
        """The protocol that takes the connection over."""
        return self._http1() if verdict is Verdict.HTTP1 else self._http2()

    def __repr__(self) -> str:
        return f"<Listener sockets={len(self._servers)} undecided={len(self._sniffing)}>"


class Sniffer(asyncio.Protocol):
    """One connection until it is known what it speaks."""

    __slots__ = ("_data", "_listener", "_timeout_s", "_timer", "_transport")

    def __init__(self, listener: Listener, timeout_s: float) -> None:
        self._listener = listener
        self._timeout_s = timeout_s
        self._data = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._listener.closed:
            self._transport.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self.abort)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._data += data
        verdict = sniff(self._data)
        if verdict is Verdict.UNDECIDED or self._transport.is_closing():
            return
        if verdict is Verdict.TOO_LONG:
            self._transport.write(_refusal())
            self.drop()
            return
        protocol = self._listener.protocol_for(verdict)
        self._leave()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(bytes(self._data))

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def drop(self) -> None:
        """Close the connection, once what was written is out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection, whatever is unsent."""
        if self._transport is not None:
            self._transport.abort()

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._listener.forget(self)

    def __repr__(self) -> str:
        return f"<Sniffer bytes={len(self._data)}>"


def _refusal() -> bytes:
    """The answer to a request line without end."""
    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    body = error_body(http_errors.header_too_large(REQUEST_HEADER_MAX_BYTES), status)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {JSON_CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
