"""The listener: what the first bytes of a connection say, and who gets it."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import cast

import pytest

from emulator.limits import REQUEST_HEADER_MAX_BYTES
from emulator.wire.http2.frames import PREFACE
from emulator.wire.listener import Listener, Sniffer, Verdict, sniff
from emulator.wire.sockets import open_sockets, port_of
from tests.wire.serving import LOOPS, Client, LoopFactory, LoopOfItsOwn, connected

FIRST_FRAME = b"\0\0\0\4\0\0\0\0\0"


class Recorder(asyncio.Protocol):
    """Takes a connection over and sends back what it gets, behind its name."""

    def __init__(self, name: str, log: list[str]) -> None:
        self._name = name
        self._log = log
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._log.append(f"{self._name} made")
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(self._name.encode() + b":" + data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._log.append(f"{self._name} lost")


class Port:
    """A listener that serves on a loop of its own."""

    def __init__(self, loop: LoopOfItsOwn, listener: Listener, log: list[str]) -> None:
        self.loop = loop
        self.listener = listener
        self.log = log
        sockets = open_sockets("127.0.0.1", 0)
        self.number = port_of(sockets)
        loop.run(listener.start(sockets))

    def wait_for_undecided(self, count: int) -> None:
        self.loop.until(lambda: self.listener.undecided == count)


class Ports:
    """Makes ports of one kind of loop."""

    def __init__(self, loop: LoopOfItsOwn, stack: ExitStack) -> None:
        self._loop = loop
        self._stack = stack

    def open(self, *, timeout_s: float = 60) -> Port:
        log: list[str] = []
        listener = Listener(lambda: Recorder("http1", log), lambda: Recorder("http2", log), timeout_s)
        self._stack.callback(self._loop.call, listener.close)
        return Port(self._loop, listener, log)


@pytest.fixture(params=LOOPS)
def ports(request: pytest.FixtureRequest) -> Iterator[Ports]:
    factory: LoopFactory = request.param
    with LoopOfItsOwn(factory) as loop:
        with ExitStack() as stack:
            yield Ports(loop, stack)
        assert loop.problems == []


@pytest.mark.rule("T1", "T18")
@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        *((PREFACE[:length], Verdict.UNDECIDED) for length in range(len(PREFACE))),
        (PREFACE, Verdict.HTTP2),
        (PREFACE + FIRST_FRAME, Verdict.HTTP2),
        *((verb, Verdict.UNDECIDED) for verb in (b"P", b"PU", b"PUT /", b"POST /", b"PATCH /", b"PRIO /", b"GET /")),
        *((verb + b" / HTTP/1.1\r\n", Verdict.HTTP1) for verb in (b"PUT", b"POST", b"PATCH", b"PRI", b"GET", b"X")),
        (b"GET / HTTP/1.1\n", Verdict.HTTP1),
        (b"PRI * HTTP/2.0\r\n\r\nSN", Verdict.HTTP1),
        (b"\r\n\r\n", Verdict.UNDECIDED),
        (b"\r\n\r\nGET / HTTP/1.1\r\n", Verdict.HTTP1),
        (b"\r\n\r\nGET /", Verdict.UNDECIDED),
        (b"\x16\x03\x01", Verdict.HTTP1),
        (b"\0", Verdict.HTTP1),
        (b"\xff", Verdict.HTTP1),
        (b"A" * REQUEST_HEADER_MAX_BYTES, Verdict.UNDECIDED),
        (b"A" * (REQUEST_HEADER_MAX_BYTES + 1), Verdict.TOO_LONG),
        (b"\n" * (REQUEST_HEADER_MAX_BYTES + 1), Verdict.TOO_LONG),
        (b"A" * REQUEST_HEADER_MAX_BYTES + b"\n", Verdict.HTTP1),
    ],
)
def test_the_first_bytes_tell_the_protocol(data: bytes, verdict: Verdict) -> None:
    assert sniff(data) is verdict


@pytest.mark.rule("T1", "T18")
def test_a_preface_split_anywhere_goes_to_http2_in_one_piece(ports: Ports) -> None:
    port = ports.open()
    for cut in range(1, len(PREFACE)):
        with connected(port.number) as client:
            client.send(PREFACE[:cut])
            port.wait_for_undecided(1)
            client.send(PREFACE[cut:] + FIRST_FRAME)

            assert receive(client, b"http2:" + PREFACE + FIRST_FRAME)


@pytest.mark.rule("T18")
def test_a_preface_byte_by_byte_goes_to_http2(ports: Ports) -> None:
    port = ports.open()
    with connected(port.number) as client:
        for byte in PREFACE:
            client.send(bytes([byte]))

        assert receive(client, b"http2:" + PREFACE)


@pytest.mark.rule("T18")
@pytest.mark.parametrize("verb", [b"PUT", b"POST", b"PATCH", b"GET"])
def test_a_request_line_in_two_pieces_goes_to_http1_in_one(ports: Ports, verb: bytes) -> None:
    port = ports.open()
    with connected(port.number) as client:
        client.send(verb[:1])
        port.wait_for_undecided(1)
        client.send(verb[1:] + b" / HTTP/1.1\r\n")

        assert receive(client, b"http1:" + verb + b" / HTTP/1.1\r\n")


@pytest.mark.rule("T1")
@pytest.mark.parametrize(("first", "name"), [(PREFACE, b"http2"), (b"GET / HTTP/1.1\r\n", b"http1")])
def test_what_follows_goes_to_the_protocol_directly(ports: Ports, first: bytes, name: bytes) -> None:
    port = ports.open()
    with connected(port.number) as client:
        client.send(first)
        assert receive(client, name + b":" + first)
        client.send(b"more")

        assert receive(client, name + b":more")
        assert port.listener.undecided == 0


@pytest.mark.rule("T1")
def test_both_protocols_are_served_at_once(ports: Ports) -> None:
    port = ports.open()
    with connected(port.number) as one, connected(port.number) as two:
        one.send(PREFACE)
        two.send(b"GET / HTTP/1.1\r\n")

        assert receive(one, b"http2:")
        assert receive(two, b"http1:")


@pytest.mark.rule("T1")
def test_the_protocol_learns_when_the_connection_is_lost(ports: Ports) -> None:
    port = ports.open()
    with connected(port.number) as client:
        client.send(PREFACE)
        receive(client, b"http2:" + PREFACE)

    port.loop.until(lambda: port.log == ["http2 made", "http2 lost"])


@pytest.mark.rule("T18")
@pytest.mark.parametrize("said", [b"", b"P", PREFACE[:-1], b"GET / HTTP/1.1", b"\r\n"])
def test_who_does_not_say_what_it_speaks_is_closed(ports: Ports, said: bytes) -> None:
    port = ports.open(timeout_s=0.05)
    with connected(port.number) as client:
        client.send(said)

        assert client.is_closed()
        port.wait_for_undecided(0)
        assert port.log == []


@pytest.mark.rule("T18")
def test_who_has_said_it_stays(ports: Ports) -> None:
    port = ports.open(timeout_s=0.05)
    with connected(port.number) as client, connected(port.number) as silent:
        client.send(b"GET / HTTP/1.1\r\n")
        receive(client, b"http1:GET / HTTP/1.1\r\n")

        assert silent.is_closed()
        client.send(b"more")
        assert receive(client, b"http1:more")


@pytest.mark.rule("T18")
def test_ten_seconds_are_given() -> None:
    listener = Listener(asyncio.Protocol, asyncio.Protocol)

    sniffer = listener._accept()

    assert isinstance(sniffer, Sniffer)
    assert sniffer._timeout_s == 10


def test_a_line_without_end_is_refused_in_json(ports: Ports) -> None:
    port = ports.open()
    with connected(port.number) as client:
        client.send(b"A" * (REQUEST_HEADER_MAX_BYTES + 1))

        reply = client.reply()

        assert reply.status == 431
        assert reply.headers["content-type"].startswith("application/json")
        error = json.loads(reply.body)["error"]
        assert (error["code"], error["status"]) == (431, "RESOURCE_EXHAUSTED")
        assert str(REQUEST_HEADER_MAX_BYTES) in error["message"]
        assert client.is_closed()


def test_a_client_that_leaves_undecided_is_forgotten(ports: Ports, caplog: pytest.LogCaptureFixture) -> None:
    port = ports.open()
    with connected(port.number) as client:
        client.send(b"P")
        port.wait_for_undecided(1)

    port.wait_for_undecided(0)
    assert caplog.records == []


def test_an_undecided_client_that_stops_sending_is_closed(ports: Ports) -> None:
    port = ports.open()
    with connected(port.number) as client:
        client.send(b"GET /")
        client.stop_sending()

        assert client.is_closed()


def test_closing_drops_the_undecided_and_keeps_the_others(ports: Ports) -> None:
    port = ports.open()
    with connected(port.number) as undecided, connected(port.number) as decided:
        undecided.send(b"P")
        decided.send(PREFACE)
        receive(decided, b"http2:" + PREFACE)
        port.wait_for_undecided(1)

        port.loop.call(port.listener.close)

        assert undecided.is_closed()
        decided.send(b"more")
        assert receive(decided, b"http2:more")
    port.loop.until(lambda: refuses(port.number))


@pytest.mark.parametrize("factory", LOOPS)
@pytest.mark.parametrize("said", [b"", b"GET / HT", PREFACE[:5], b"A" * (REQUEST_HEADER_MAX_BYTES + 1)])
def test_closing_leaves_no_connection_on_the_loop(
    factory: LoopFactory, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that was accepted before, nor one that the system holds ready when the listener closes."""
    open_now: set[Sniffer] = set()
    made, lost = Sniffer.connection_made, Sniffer.connection_lost

    def note_made(sniffer: Sniffer, transport: asyncio.BaseTransport) -> None:
        open_now.add(sniffer)
        made(sniffer, transport)

    def note_lost(sniffer: Sniffer, exc: Exception | None) -> None:
        open_now.discard(sniffer)
        lost(sniffer, exc)

    monkeypatch.setattr(Sniffer, "connection_made", note_made)
    monkeypatch.setattr(Sniffer, "connection_lost", note_lost)

    async def serve_and_close(stack: ExitStack, turns: int) -> tuple[int, int]:
        listener = Listener(asyncio.Protocol, asyncio.Protocol)
        sockets = open_sockets("127.0.0.1", 0)
        await listener.start(sockets)
        # The loop sees all of them at once, and none before it goes round.
        for _ in range(20):
            client = stack.enter_context(connected(port_of(sockets)))
            client.send(said[:100_000])
        for _ in range(turns):
            await asyncio.sleep(0)
        listener.close()
        await listener.wait_closed()
        left = len(open_now), listener.undecided
        for _ in range(5):
            await asyncio.sleep(0)
        assert not open_now, "one came after the end"
        return left

    for turns in range(6):
        with ExitStack() as clients, asyncio.Runner(loop_factory=factory) as runner:
            assert runner.run(serve_and_close(clients, turns)) == (0, 0)


@pytest.mark.parametrize("factory", LOOPS)
def test_who_arrives_after_closing_is_never_handed_over(factory: LoopFactory) -> None:
    made: list[str] = []

    async def arrive_late() -> None:
        listener = Listener(lambda: Recorder("http1", made), lambda: Recorder("http2", made))
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.sendall(b"GET / HTTP/1.1\r\n\r\n")
            loop = asyncio.get_running_loop()
            sniffer = listener._accept()
            listener.close()
            transport, _ = await loop.connect_accepted_socket(lambda: sniffer, ours)
            await listener.wait_closed()
            assert transport.is_closing()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(arrive_late())

    assert made == []


def test_it_says_how_it_stands(ports: Ports) -> None:
    port = ports.open()
    with connected(port.number) as client:
        client.send(b"P")
        port.wait_for_undecided(1)

        assert repr(port.listener) == "<Listener sockets=1 undecided=1>"
        port.loop.until(lambda: [repr(sniffer) for sniffer in port.listener._sniffing] == ["<Sniffer bytes=1>"])


def receive(client: Client, expected: bytes) -> bool:
    """Read as many bytes as expected and compare."""
    received = client.read(len(expected))
    return received == expected


def refuses(port: int) -> bool:
    try:
        with connected(port):
            return False
    except ConnectionRefusedError:
        return True
