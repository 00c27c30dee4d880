"""A face that starts with its first connection: whoever comes meanwhile waits, nothing that was said is lost."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import cast

import pytest

from emulator.wire.late import LateFace
from emulator.wire.listener import Listener
from emulator.wire.sockets import open_sockets, port_of
from tests.wire.serving import LOOPS, LoopFactory, LoopOfItsOwn, connected

HELLO = b"GET / HTTP/1.1\r\n"


class Echo(asyncio.Protocol):
    """Says back what it hears."""

    def __init__(self, face: "Face") -> None:
        self._face = face

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._face.open.add(self._transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._face.open.discard(self._transport)


class Face:
    """What is started late."""

    buffered_bytes = 7

    def __init__(self) -> None:
        self.open: set[asyncio.Transport] = set()
        self.stopped = False

    @property
    def connections(self) -> int:
        return len(self.open)

    def connection(self) -> asyncio.Protocol:
        return Echo(self)

    async def stop(self) -> None:
        self.stopped = True
        for transport in list(self.open):
            transport.abort()

    def __repr__(self) -> str:
        return "<Face>"


class Server:
    """A listener before a late face, whose start goes on when a test says so: True starts, False fails."""

    def __init__(self, loop: LoopOfItsOwn) -> None:
        async def build() -> None:
            self.go_on: asyncio.Queue[bool] = asyncio.Queue()
            self.late = LateFace(self._start)
            self.listener = Listener(self.late.connection, asyncio.Protocol)
            sockets = open_sockets("127.0.0.1", 0)
            self.port = port_of(sockets)
            await self.listener.start(sockets)

        self.loop = loop
        self.starts = 0
        self.faces: list[Face] = []
        loop.run(build())

    async def _start(self) -> Face:
        self.starts += 1
        if not await self.go_on.get():
            raise ZeroDivisionError
        self.faces.append(Face())
        return self.faces[-1]

    def let(self, go_on: bool) -> None:
        self.loop.call(lambda: self.go_on.put_nowait(go_on))

    def wait_for(self, connections: int) -> None:
        self.loop.until(lambda: self.late.connections == connections)

    def stop(self) -> None:
        self.loop.call(self.listener.close)
        self.loop.run(self.late.stop())


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> Iterator[LoopOfItsOwn]:
    factory: LoopFactory = request.param
    with LoopOfItsOwn(factory) as loop:
        yield loop
        assert loop.problems == []


@pytest.fixture
def server(loop: LoopOfItsOwn) -> Iterator[Server]:
    server = Server(loop)
    yield server
    server.stop()


@pytest.mark.rule("K9")
def test_nothing_starts_before_a_connection(server: Server) -> None:
    assert (server.starts, server.late.connections, server.late.buffered_bytes) == (0, 0, 0)
    assert repr(server.late) == "<LateFace waiting=0 not started>"


@pytest.mark.rule("K9")
def test_all_who_come_meanwhile_are_served_and_it_starts_once(server: Server) -> None:
    with ExitStack() as clients:
        waiting = [clients.enter_context(connected(server.port)) for _ in range(3)]
        for number, client in enumerate(waiting):
            client.send(HELLO + bytes([number]))
        server.wait_for(3)
        for client in waiting:
            client.send(b"and more")

        server.let(True)

        for number, client in enumerate(waiting):
            assert client.read(len(HELLO) + 9) == HELLO + bytes([number]) + b"and more"
        assert (server.starts, server.late.connections, server.late.buffered_bytes) == (1, 3, 7)
        assert repr(server.late) == "<LateFace waiting=0 <Face>>"
    server.wait_for(0)


@pytest.mark.rule("K9")
def test_who_comes_later_does_not_wait(server: Server) -> None:
    server.let(True)
    for _ in range(2):
        with connected(server.port) as client:
            client.send(HELLO)
            assert client.read(len(HELLO)) == HELLO

    assert server.starts == 1


def test_who_has_said_all_before_it_starts_is_served(server: Server) -> None:
    with connected(server.port) as client:
        client.send(HELLO)
        server.wait_for(1)
        client.stop_sending()
        server.let(True)

        assert client.read(len(HELLO) + 1) == HELLO
    server.wait_for(0)


def test_who_goes_before_it_starts_is_forgotten(server: Server) -> None:
    with connected(server.port) as client:
        client.send(HELLO)
        server.wait_for(1)

    server.let(True)

    server.loop.until(lambda: bool(server.faces))
    server.wait_for(0)


def test_who_is_lost_before_it_starts_is_forgotten(server: Server) -> None:
    class Lost(asyncio.Transport):
        def pause_reading(self) -> None: ...

    def come_and_go() -> tuple[int, int]:
        arrival = server.late.connection()
        arrival.connection_made(Lost())
        come = server.late.connections
        arrival.connection_lost(None)
        return come, server.late.connections

    assert server.loop.call(come_and_go) == (1, 0)
    server.let(True)


def test_a_start_that_fails_ends_the_waiting_and_is_tried_again(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(server.port) as client:
        client.send(HELLO)
        server.let(False)
        assert client.is_closed()
    server.wait_for(0)
    server.let(True)
    with connected(server.port) as client:
        client.send(HELLO)
        assert client.read(len(HELLO)) == HELLO

    assert server.starts == 2
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_stopping_stops_what_has_started(server: Server) -> None:
    server.let(True)
    with connected(server.port) as client:
        client.send(HELLO)
        client.read(len(HELLO))

        server.stop()

        assert client.is_closed()
    assert server.faces[0].stopped


def test_stopping_while_it_starts_waits_and_stops_it(server: Server) -> None:
    async def stop_before_it_starts() -> None:
        stopping = asyncio.create_task(server.late.stop())
        await asyncio.sleep(0)
        server.go_on.put_nowait(True)
        await stopping

    with connected(server.port) as client:
        client.send(HELLO)
        server.wait_for(1)

        server.loop.run(stop_before_it_starts())

        while not client.is_closed():
            pass
    server.wait_for(0)
    assert server.faces[0].stopped
