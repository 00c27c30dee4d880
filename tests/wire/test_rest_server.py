"""REST on aiohttp: what reaches the REST function, and what its answers become on the wire."""

import asyncio
import gc
import gzip
import json
import logging
import socket
import struct
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from itertools import islice, product

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import TestClient, make_mocked_request
from pytest_aiohttp.plugin import AiohttpClient

from emulator.api.replies import Parked
from emulator.limits import REQUEST_BODY_MAX_BYTES, REQUEST_HEAD_MAX_BYTES, REQUEST_HEADER_MAX_BYTES
from emulator.wire import http_connection
from emulator.wire.listener import Listener
from emulator.wire.rest import RestRequest, RestResponse
from emulator.wire.rest_server import MARGIN_S, RestServer, _patience, _read_body
from emulator.wire.sockets import open_sockets, port_of
from emulator.wire.status import HttpFailure
from tests.wire.serving import LOOPS, Client, LoopFactory, LoopOfItsOwn, Reply

# The rest of a head, and a body that is not whole.
HALF_BODIES = [
    pytest.param(b"Content-Length: 500\r\n\r\nabc", id="a part of the length"),
    pytest.param(b"Content-Length: 500\r\n\r\n", id="nothing of the length"),
    pytest.param(b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", id="no last chunk"),
    pytest.param(b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc", id="half a chunk"),
]

HEADERS = {"content-type": "application/json; charset=UTF-8"}


class NotedParked(Parked[RestResponse]):
    """A parked answer of which a test can tell whether anybody still holds it."""

    __slots__ = ("__weakref__",)


class FakeRest:
    """A REST function that notes what it is asked; on `/wait` it parks, on `/big` its answer holds leases."""

    def __init__(self) -> None:
        self.requests: list[RestRequest] = []
        self.parked: list[Parked[RestResponse]] = []
        self.events: list[str] = []

    def __call__(self, request: RestRequest) -> RestResponse | Parked[RestResponse]:
        self.requests.append(request)
        match request.raw_path.removeprefix("/v1"):
            case "/wait":
                parked = NotedParked(self._note("cancelled"), self._hurry)
                self.parked.append(parked)
                return parked
            case "/leases":
                return self.with_leases(b"{}")
            case "/big":
                return self.with_leases(b"x" * 50_000_000)
            case "/broken":
                raise RuntimeError("on purpose")
            case _:
                return RestResponse(200, HEADERS, request.body or b"{}")

    def with_leases(self, body: bytes) -> RestResponse:
        return RestResponse(200, HEADERS, body, self._note("given back"))

    def _note(self, event: str) -> Callable[[], None]:
        return lambda: self.events.append(event)

    def _hurry(self) -> None:
        self.events.append("hurried")
        self.parked[-1].complete(self.with_leases(b'{"hurried":1}'))


class Port:
    """A REST server behind a listener, on a loop of its own."""

    def __init__(self, loop: LoopOfItsOwn, rest: FakeRest, server: RestServer, events: list[str]) -> None:
        self.loop = loop
        self.rest = rest
        self.server = server
        self.events = events
        self.listener = Listener(server.connection, asyncio.Protocol)
        sockets = open_sockets("127.0.0.1", 0)
        self.number = port_of(sockets)
        loop.run(server.start())
        loop.run(self.listener.start(sockets))

    def client(self) -> "ConnectedClient":
        return ConnectedClient(self.number)

    def connections(self) -> list[web.RequestHandler]:
        server = self.server._runner.server
        assert server is not None
        return server.connections

    def wait_for_idle(self, client: "ConnectedClient") -> None:
        """Have this client's connection wait for a request, after one that was answered."""
        client.request("GET", "/healthz")
        client.reply()
        self.loop.until(lambda: all(each._waiter is not None for each in self.connections()))

    def wait_for_parked(self) -> Parked[RestResponse]:
        self.loop.until(lambda: bool(self.rest.parked))
        return self.rest.parked[0]

    def wait_for_event(self, event: str) -> None:
        self.loop.until(lambda: event in self.rest.events)

    def wait_for_no_connection(self) -> None:
        self.loop.until(lambda: self.server.connections == 0)

    def ask(self, verb: str, target: str, body: bytes = b"", *headers: str) -> Reply:
        with self.client() as client:
            client.request(verb, target, body, *headers)
            return client.reply(head_only=verb == "HEAD")


class ConnectedClient(Client):
    def __init__(self, port: int) -> None:
        super().__init__(socket.create_connection(("127.0.0.1", port), 20))

    def __enter__(self) -> "ConnectedClient":
        return self

    def __exit__(self, *_problem: object) -> None:
        self.close()


class Ports:
    """Makes ports of one kind of loop."""

    def __init__(self, loop: LoopOfItsOwn, stack: ExitStack) -> None:
        self._loop = loop
        self._stack = stack

    def open(
        self,
        *,
        patience_s: float = 60,
        has_shutdown: bool = True,
        routes: list[web.RouteDef] | None = None,
        log_http: bool = False,
    ) -> Port:
        events: list[str] = []
        rest = FakeRest()

        def build() -> RestServer:
            return RestServer(
                rest,
                patience_s=patience_s,
                reset=lambda: events.append("reset"),
                shutdown=(lambda: events.append("shutdown")) if has_shutdown else None,
                routes=routes or [],
                log_http=log_http,
            )

        port = Port(self._loop, rest, self._loop.call(build), events)
        self._stack.callback(lambda: self._loop.run(port.server.stop()))
        self._stack.callback(lambda: self._loop.call(port.listener.close))
        return port


@pytest.fixture(params=LOOPS)
def ports(request: pytest.FixtureRequest) -> Iterator[Ports]:
    factory: LoopFactory = request.param
    with LoopOfItsOwn(factory) as loop:
        with ExitStack() as stack:
            yield Ports(loop, stack)
        assert loop.problems == []


@pytest.fixture
def port(ports: Ports) -> Port:
    return ports.open()


class TestRequests:
    """What the REST function is given."""

    def test_method_path_query_and_body_arrive_as_they_were_sent(self, port: Port) -> None:
        reply = port.ask("POST", "/v1/projects/p%2Fq/topics/a+b%25:publish?a=%20+&b", b'{"x":1}')

        (request,) = port.rest.requests
        assert request.method == "POST"
        assert request.raw_path == "/v1/projects/p%2Fq/topics/a+b%25:publish"
        assert request.query == "a=%20+&b"
        assert request.body == b'{"x":1}'
        assert (reply.status, reply.body) == (200, b'{"x":1}')

    @pytest.mark.rule("T11")
    def test_header_names_arrive_in_lower_case(self, port: Port) -> None:
        port.ask("GET", "/v1/x", b"", "X-Goog-Request-Params: Subscription=S", "AUTHORIZATION: Bearer Z")

        headers = port.rest.requests[0].headers
        assert headers["x-goog-request-params"] == "Subscription=S"
        assert headers["authorization"] == "Bearer Z"

    @pytest.mark.parametrize(
        ("target", "path"),
        [
            ("//v1/projects", "//v1/projects"),
            ("/v1/a%2fb", "/v1/a%2fb"),
            ("/v1/%E4%zz", "/v1/%E4%zz"),
            ("/v1/../x", "/v1/../x"),
            ("http://elsewhere:1/v1/x", "/v1/x"),
            ("/v1/x:y@z", "/v1/x:y@z"),
            *((f"/v1/%{byte:02X}", f"/v1/%{byte:02X}") for byte in range(256)),
        ],
    )
    def test_the_path_is_the_raw_one(self, port: Port, target: str, path: str) -> None:
        port.ask("PUT", target)

        assert [request.raw_path for request in port.rest.requests] == [path]

    @pytest.mark.rule("T2")
    @pytest.mark.parametrize("verb", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
    def test_every_method_arrives(self, port: Port, verb: str) -> None:
        port.ask(verb, "/v1/x")

        assert [request.method for request in port.rest.requests] == [verb]

    @pytest.mark.rule("T2")
    def test_a_compressed_body_arrives_compressed(self, port: Port) -> None:
        body = gzip.compress(b"{}")

        port.ask("POST", "/v1/x", body, "Content-Encoding: gzip")

        assert port.rest.requests[0].body == body
        assert port.rest.requests[0].headers["content-encoding"] == "gzip"

    @pytest.mark.rule("T2")
    def test_a_chunked_body_arrives_in_one_piece(self, port: Port) -> None:
        with port.client() as client:
            client.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.send(b"3\r\nabc\r\n")
            client.send(b"4;extension=1\r\ndefg\r\n0\r\n\r\n")

            assert client.reply().body == b"abcdefg"

    @pytest.mark.rule("T2")
    def test_a_body_in_two_pieces_is_waited_for(self, port: Port) -> None:
        with port.client() as client:
            client.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc")
            port.loop.until(lambda: port.server.connections == 1)
            client.send(b"def")

            assert client.reply().body == b"abcdef"

    @pytest.mark.rule("T2")
    def test_the_connection_is_kept(self, port: Port) -> None:
        with port.client() as client:
            for number in range(3):
                client.request("POST", "/v1/x", b"%d" % number)

                assert client.reply().body == b"%d" % number

    def test_the_connection_is_closed_for_who_wants_that(self, port: Port) -> None:
        with port.client() as client:
            client.request("POST", "/v1/x", b"", "Connection: close")
            client.reply()

            assert client.is_closed()

    @pytest.mark.rule("T2")
    def test_requests_sent_at_once_are_answered_in_order(self, port: Port) -> None:
        with port.client() as client:
            one = b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n"
            client.send(b"".join(one + b"%02d" % number for number in range(100)))

            assert [client.reply().body for _ in range(100)] == [b"%02d" % number for number in range(100)]

    def test_http_1_0_is_served(self, port: Port) -> None:
        with port.client() as client:
            client.send(b"GET /v1/x HTTP/1.0\r\n\r\n")

            assert client.reply().status == 200
            assert client.is_closed()

    @pytest.mark.rule("T1")
    def test_a_wish_for_http2_is_ignored(self, port: Port) -> None:
        upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
        with port.client() as client:
            client.request("POST", "/v1/x", b"abc", *upgrade)
            first = client.reply()
            client.request("POST", "/v1/x", b"def")

            assert (first.status, first.body, client.reply().body) == (200, b"abc", b"def")

    def test_empty_lines_before_a_request_are_skipped(self, port: Port) -> None:
        with port.client() as client:
            client.send(b"\r\n\r\n")
            client.request("GET", "/v1/x")

            assert client.reply().status == 200


class TestExpectation:
    @pytest.mark.rule("T2")
    def test_a_client_that_asks_first_is_told_to_go_on(self, port: Port) -> None:
        with port.client() as client:
            client.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
            assert client.read(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(b"abc")

            assert client.reply().body == b"abc"

    def test_a_failure_is_told_after_being_told_to_go_on(self, port: Port) -> None:
        with port.client() as client:
            client.send(b"POST /broken HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc")
            client.read(25)

            assert error_of(client.reply()) == (500, "INTERNAL")

    @pytest.mark.rule("T2")
    def test_a_client_that_asks_too_much_is_told_before_it_sends(self, port: Port) -> None:
        length = REQUEST_BODY_MAX_BYTES + 1
        with port.client() as client:
            client.send(
                b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n" % length
            )

            assert error_of(client.reply()) == (413, "RESOURCE_EXHAUSTED")

    def test_an_unknown_expectation_is_refused(self, port: Port) -> None:
        reply = port.ask("POST", "/v1/x", b"", "Expect: miracles")

        assert error_of(reply) == (417, "INVALID_ARGUMENT")
        assert "miracles" in message_of(reply)

    def test_http_1_0_expects_nothing(self, port: Port) -> None:
        with port.client() as client:
            client.send(b"POST /v1/x HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc")

            assert client.reply().body == b"abc"


class TestRefusals:
    """What never reaches the REST function is refused in its error shape, and nothing is logged as a failure."""

    @pytest.mark.parametrize(
        "sent",
        [
            b"GARBAGE\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nBad Header: x\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nX: \x01\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\nHost\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
            b"PRI * HTTP/1.1\r\nHost: h\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"\0\0\0\0",
            b"\xff" * 100,
        ],
    )
    def test_what_is_not_http(self, port: Port, sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
        with port.client() as client:
            client.send(sent)

            reply = client.reply()

            assert error_of(reply) == (400, "INVALID_ARGUMENT")
            assert "\n" not in message_of(reply)
            assert client.is_closed()
        assert port.rest.requests == []
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []

    @pytest.mark.parametrize(
        "sent",
        [
            b"GET /" + b"a" * REQUEST_HEADER_MAX_BYTES + b" HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * (REQUEST_HEADER_MAX_BYTES + 1) + b"\r\n\r\n",
        ],
    )
    def test_a_line_that_is_too_long(self, port: Port, sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
        with port.client() as client:
            client.send(sent)

            assert error_of(client.reply()) == (431, "RESOURCE_EXHAUSTED")
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []

    def test_headers_of_64_kib_are_read(self, port: Port) -> None:
        value = "a" * (REQUEST_HEADER_MAX_BYTES - 100)

        reply = port.ask("GET", "/v1/x", b"", f"X: {value}")

        assert reply.status == 200
        assert port.rest.requests[0].headers["x"] == value

    @pytest.mark.rule("T7a")
    @pytest.mark.parametrize("count", [128, 129, 1_000, REQUEST_HEADER_MAX_BYTES // len(b"aaaa:\r\n")])
    def test_headers_of_64_kib_are_read_whatever_their_number(self, port: Port, count: int) -> None:
        names = ["".join(letters) for letters in islice(product("abcdefghijklmnop", repeat=4), count)]

        reply = port.ask("GET", "/v1/x", b"", *(f"{name}:" for name in names))

        assert reply.status == 200
        assert set(names) <= set(port.rest.requests[0].headers)

    @pytest.mark.parametrize("line", [b"a:\r\n", b"a: %b\r\n" % (b"x" * 60_000)])
    @pytest.mark.parametrize("behind_a_call", [False, True])
    def test_a_head_without_end_is_given_up(
        self, port: Port, behind_a_call: bool, line: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        lines = line * (REQUEST_HEAD_MAX_BYTES // len(line) + 1)
        with port.client() as client:
            if behind_a_call:
                client.request("POST", "/wait", b"a")
                port.wait_for_parked()
            client.send(b"GET / HTTP/1.1\r\nHost: h\r\n" + lines)
            if behind_a_call:
                port.loop.call(lambda: port.rest.parked[0].complete(RestResponse(200, HEADERS, b"{}")))
                assert client.reply().status == 200

            reply = client.reply()

        assert error_of(reply) == (431, "RESOURCE_EXHAUSTED")
        assert str(REQUEST_HEAD_MAX_BYTES) in message_of(reply)
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []

    def test_a_body_does_not_count_as_head(self, port: Port) -> None:
        size = 2 * REQUEST_HEAD_MAX_BYTES
        with port.client() as client:
            for _ in range(2):
                client.request("POST", "/v1/x", b"a" * size)

                assert len(client.reply().body) == size

    def test_a_target_of_60_kb_is_read(self, port: Port) -> None:
        target = "/v1/" + "a" * 60_000

        assert port.ask("GET", target).status == 200
        assert port.rest.requests[0].raw_path == target

    @pytest.mark.rule("T6")
    def test_a_body_that_announces_too_much(self, port: Port) -> None:
        with port.client() as client:
            client.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (REQUEST_BODY_MAX_BYTES + 1))

            reply = client.reply()

            assert error_of(reply) == (413, "RESOURCE_EXHAUSTED")
            assert str(REQUEST_BODY_MAX_BYTES) in message_of(reply)
        assert port.rest.requests == []

    @pytest.mark.rule("T6")
    def test_a_body_that_turns_out_to_be_too_much(self, port: Port) -> None:
        with port.client() as client:
            client.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
            size = REQUEST_BODY_MAX_BYTES + 1
            client.send(b"%x\r\n" % size + b"a" * size + b"\r\n0\r\n\r\n")

            assert error_of(client.reply()) == (413, "RESOURCE_EXHAUSTED")
        assert port.rest.requests == []

    @pytest.mark.rule("T6")
    def test_a_body_of_the_largest_size_is_read(self, port: Port) -> None:
        port.ask("POST", "/leases", b"a" * REQUEST_BODY_MAX_BYTES)

        assert len(port.rest.requests[0].body) == REQUEST_BODY_MAX_BYTES

    def test_a_broken_chunk(self, port: Port, caplog: pytest.LogCaptureFixture) -> None:
        with port.client() as client:
            client.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n")

            assert error_of(client.reply()) == (400, "INVALID_ARGUMENT")
            assert client.is_closed()
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []

    def test_a_broken_chunk_behind_a_good_one(self, port: Port, caplog: pytest.LogCaptureFixture) -> None:
        with port.client() as client:
            client.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
            assert client.read(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(b"3\r\nabc\r\nnonsense\r\n")

            reply = client.reply()

            assert error_of(reply) == (400, "INVALID_ARGUMENT")
            assert "body" in message_of(reply)
            assert client.is_closed()
        assert port.rest.requests == []
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []

    def test_a_broken_chunk_that_comes_before_anybody_reads(self, port: Port) -> None:
        with port.client() as client:
            client.request("GET", "/v1/x")
            client.reply()
            (connection,) = port.connections()

            def receive_both() -> None:
                connection.data_received(b"POST /v1/y HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
                connection.data_received(b"nonsense\r\n")

            port.loop.call(receive_both)

            assert error_of(client.reply()) == (400, "INVALID_ARGUMENT")
            assert client.is_closed()
        assert [request.raw_path for request in port.rest.requests] == ["/v1/x"]

    def test_a_good_request_behind_a_slow_body_is_none_of_its_business(self, port: Port) -> None:
        with port.client() as client:
            client.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            client.read(25)
            client.send(b"abcPOST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\ndef")

            assert [client.reply().body, client.reply().body] == [b"abc", b"def"]

    async def test_a_body_that_the_parser_gave_up(self) -> None:
        payload = StreamReader(BaseProtocol(asyncio.get_running_loop()), 1)
        payload.set_exception(web.RequestPayloadError("on purpose"))

        with pytest.raises(HttpFailure) as caught:
            await _read_body(make_mocked_request("POST", "/", payload=payload))

        assert caught.value.status == 400

    @pytest.mark.parametrize("target", ["*", "example.com:443", "x", "http://elsewhere"])
    @pytest.mark.parametrize("verb", ["OPTIONS", "CONNECT", "GET"])
    def test_a_target_that_is_no_path(
        self, port: Port, verb: str, target: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        reply = port.ask(verb, target)

        assert reply.status in (400, 404)
        assert error_of(reply)[0] == reply.status
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []

    def test_a_fault_of_ours_is_logged_and_becomes_internal(self, port: Port, caplog: pytest.LogCaptureFixture) -> None:
        reply = port.ask("GET", "/broken")

        assert error_of(reply) == (500, "INTERNAL")
        assert "on purpose" in caplog.text
        assert "on purpose" not in message_of(reply)


class TestOwnRoutes:
    @pytest.mark.rule("T12")
    def test_the_root_is_ok(self, port: Port) -> None:
        reply = port.ask("GET", "/")

        assert (reply.status, reply.body) == (200, b"Ok\n")
        assert reply.headers["content-type"].startswith("text/plain")

    def test_the_root_has_a_head(self, port: Port) -> None:
        assert port.ask("HEAD", "/").status == 200
        assert port.rest.requests == []

    def test_it_is_healthy_while_it_serves(self, port: Port) -> None:
        assert port.ask("GET", "/healthz").status == 200

    def test_it_is_not_healthy_while_it_stops(self, port: Port) -> None:
        port.server.ready = False

        assert port.ask("GET", "/healthz").status == 503

    def test_reset_resets(self, port: Port) -> None:
        reply = port.ask("POST", "/reset")

        assert reply.status == 200
        assert reply.headers["content-type"].startswith("text/plain")
        assert port.events == ["reset"]

    def test_shutdown_shuts_down(self, port: Port) -> None:
        assert port.ask("POST", "/shutdown").status == 200
        assert port.events == ["shutdown"]

    @pytest.mark.rule("T12")
    @pytest.mark.parametrize("target", ["/reset", "/shutdown"])
    def test_neither_happens_before_the_whole_request_is_here(self, port: Port, target: str) -> None:
        with port.client() as client:
            client.send(b"POST %b HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc" % target.encode())
            port.loop.until(lambda: any(each._request_in_progress for each in port.connections()))
            port.loop.run(asyncio.sleep(0))
            before = list(port.events)
            client.send(b"def")

            assert client.reply().status == 200
        assert (before, port.events) == ([], [target.removeprefix("/")])

    @pytest.mark.parametrize("target", ["/reset", "/shutdown"])
    def test_neither_happens_for_a_request_that_is_refused(self, port: Port, target: str) -> None:
        with port.client() as client:
            client.send(b"POST %b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" % target.encode())
            client.send(b"nonsense\r\n")

            assert error_of(client.reply()) == (400, "INVALID_ARGUMENT")
        assert port.events == []

    def test_shutdown_is_not_offered_where_the_process_is_somebody_elses(self, ports: Ports) -> None:
        port = ports.open(has_shutdown=False)

        port.ask("POST", "/shutdown")

        assert [request.raw_path for request in port.rest.requests] == ["/shutdown"]

    @pytest.mark.parametrize(("verb", "target"), [("POST", "/"), ("GET", "/reset"), ("GET", "/shutdown")])
    def test_another_method_goes_to_the_api(self, port: Port, verb: str, target: str) -> None:
        port.ask(verb, target)

        assert [request.raw_path for request in port.rest.requests] == [target]
        assert port.events == []

    @pytest.mark.parametrize("target", ["/", "/healthz", "/v1/x", "/broken", "/leases"])
    def test_no_answer_says_what_it_was_made_with(self, port: Port, target: str) -> None:
        assert port.ask("GET", target).headers["server"] == "pubsub-emulator"

    def test_a_request_is_logged_on_demand(self, ports: Ports, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        port = ports.open(log_http=True)

        port.ask("POST", "/v1/x?y=%20")

        port.loop.until(lambda: bool(caplog.records))  # the line follows the answer
        assert caplog.records[0].getMessage() == "http"
        fields = vars(caplog.records[0])
        assert (fields["method"], fields["path"], fields["status"]) == ("POST", "/v1/x?y=%20", 200)
        assert fields["ms"] >= 0

    @pytest.mark.parametrize(
        ("target", "logged"),
        [
            ("/v1/x?access_token=ya29.S&y=1", "/v1/x?access_token=***&y=1"),
            ("/v1/x?y=1&key=S", "/v1/x?y=1&key=***"),
            ("/v1/x?key=S&key=S&$key=S&$access_token=S", "/v1/x?key=***&key=***&$key=***&$access_token=***"),
            ("/v1/x?%6bey=S&access%5Ftoken=S", "/v1/x?%6bey=***&access%5Ftoken=***"),
            ("/v1/x?KEY=S&oauth_token=S", "/v1/x?KEY=***&oauth_token=***"),
            ("/v1/x?key=a=S;b?c", "/v1/x?key=***"),
            ("/v1/x?%zz=1&key=S", "/v1/x?%zz=1&key=***"),
            ("http://here/v1/x?key=S", "http://here/v1/x?key=***"),
            ("/v1/x?key&access_token=&monkey=1&y=key=1", "/v1/x?key&access_token=***&monkey=1&y=key=1"),
            ("/v1/key=1?", "/v1/key=1?"),
        ],
    )
    def test_the_log_holds_no_credentials(
        self, ports: Ports, caplog: pytest.LogCaptureFixture, target: str, logged: str
    ) -> None:
        caplog.set_level(logging.INFO)
        port = ports.open(log_http=True)

        port.ask("POST", target)

        port.loop.until(lambda: bool(caplog.records))
        assert vars(caplog.records[0])["path"] == logged

    def test_requests_are_not_logged_otherwise(self, port: Port, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)

        port.ask("POST", "/v1/x")

        assert "http" not in [record.getMessage() for record in caplog.records]


class TestParked:
    """Calls that wait."""

    def test_an_answer_that_comes_later_is_sent_then(self, port: Port) -> None:
        with port.client() as client:
            client.request("POST", "/wait")
            parked = port.wait_for_parked()
            port.loop.call(lambda: parked.complete(RestResponse(200, HEADERS, b"later")))

            assert client.reply().body == b"later"
        assert port.rest.events == []

    @pytest.mark.parametrize("end", ["answer", "goodbye"])
    def test_nothing_of_it_is_left_afterwards(self, port: Port, end: str) -> None:
        with port.client() as client:
            client.request("POST", "/wait")
            held = weakref.ref(port.wait_for_parked())
            if end == "answer":
                port.loop.call(lambda: port.rest.parked[0].complete(RestResponse(200, HEADERS, b"later")))
                client.reply()
        port.wait_for_no_connection()

        port.rest.parked.clear()

        port.loop.until(lambda: gc.collect() >= 0 and held() is None)

    @pytest.mark.rule("S7.2.3")
    def test_it_is_hurried_when_real_time_is_up(self, ports: Ports) -> None:
        port = ports.open(patience_s=0.01)

        assert port.ask("POST", "/wait").body == b'{"hurried":1}'
        assert port.rest.events == ["hurried"]

    @pytest.mark.rule("S7.2.3")
    def test_it_is_hurried_before_its_callers_own_limit(self, port: Port) -> None:
        assert port.ask("POST", "/wait", b"", "X-Server-Timeout: 0.1").body == b'{"hurried":1}'

    @pytest.mark.rule("S7.2.3")
    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            (None, 5),
            ("20", 5),
            ("2.5", 2.5 - MARGIN_S),
            ("0.05", 0),
            ("0", 0),
            ("-1", 0),
            ("soon", 5),
            ("nan", 5),
            ("inf", 5),
            ("", 5),
        ],
    )
    async def test_patience_is_the_shorter_of_ours_and_the_callers(self, header: str | None, seconds: float) -> None:
        request = make_request({} if header is None else {"X-Server-Timeout": header})

        assert _patience(request, 5) == pytest.approx(seconds)

    @pytest.mark.rule("S7.2.4")
    @pytest.mark.parametrize("leave", ["close", "stop_sending", "reset"])
    def test_a_caller_that_goes_away_cancels_it(self, port: Port, leave: str) -> None:
        with port.client() as client:
            client.request("POST", "/wait")
            port.wait_for_parked()

            if leave == "reset":
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.stop_sending() if leave == "stop_sending" else client.close()

            port.wait_for_event("cancelled")
            port.wait_for_no_connection()
            assert port.rest.events == ["cancelled"]

    @pytest.mark.rule("S7.2.4")
    def test_a_caller_that_had_gone_before_cancels_it(self, port: Port) -> None:
        with port.client() as client:
            client.request("POST", "/wait")
            client.stop_sending()

            assert client.is_closed()
        port.wait_for_event("cancelled")
        port.wait_for_no_connection()

    @pytest.mark.rule("S7.2.4")
    def test_when_answer_and_goodbye_cross_the_answer_is_given_back(self, port: Port) -> None:
        with port.client() as client:
            client.request("POST", "/wait")
            parked = port.wait_for_parked()

            def cross() -> None:
                parked.complete(port.rest.with_leases(b"{}"))
                for task in asyncio.all_tasks():
                    if task is not asyncio.current_task():
                        task.cancel()

            port.loop.call(cross)

            port.wait_for_event("given back")
            port.wait_for_no_connection()
            assert port.rest.events == ["given back"]


class TestLeasesInAnswers:
    @pytest.mark.rule("S7.2.4")
    def test_a_written_answer_is_kept(self, port: Port) -> None:
        with port.client() as client:
            client.request("POST", "/leases")
            client.reply()
            client.request("GET", "/v1/x")
            client.reply()

        port.wait_for_no_connection()
        assert port.rest.events == []

    @pytest.mark.rule("S7.2.4")
    def test_an_answer_that_is_not_read_is_given_back_when_its_caller_goes_away(self, port: Port) -> None:
        with port.client() as client:
            client.request("POST", "/big")
            port.loop.until(lambda: port.server.buffered_bytes > 0)
            assert port.rest.events == []

        port.wait_for_event("given back")
        port.wait_for_no_connection()
        assert port.rest.events == ["given back"]

    @pytest.mark.rule("S7.2.4")
    def test_it_counts_as_written_when_its_last_byte_is(self, port: Port) -> None:
        with port.client() as client:
            client.request("POST", "/leases")
            client.reply()

            def limits() -> list[tuple[int, int]]:
                return [each.transport.get_write_buffer_limits() for each in port.connections() if each.transport]

            assert port.loop.call(limits) == [(0, 0)]

    @pytest.mark.rule("S7.2.4")
    def test_an_answer_read_slowly_is_kept(self, port: Port) -> None:
        with port.client() as client:
            client.request("POST", "/big")
            port.loop.until(lambda: port.server.buffered_bytes > 0)

            assert len(client.reply().body) == 50_000_000
        port.wait_for_no_connection()
        assert port.rest.events == []

    @pytest.mark.rule("S7.2.4")
    @pytest.mark.parametrize("order", ["answer first", "end first"])
    def test_an_answer_for_a_connection_that_is_closing_is_given_back_at_once(self, port: Port, order: str) -> None:
        with port.client() as client:
            client.request("POST", "/wait")
            parked = port.wait_for_parked()

            def answer() -> None:
                parked.complete(port.rest.with_leases(b"{}"))

            def end() -> None:
                for connection in port.connections():
                    assert connection.transport is not None
                    connection.transport.abort()

            def cross() -> None:
                for step in (answer, end) if order == "answer first" else (end, answer):
                    step()

            port.loop.call(cross)

            port.wait_for_event("given back")
        port.wait_for_no_connection()
        assert port.rest.events == ["given back"]


class TestHalfClosedClients:
    """A client may end its sending side and still wait for what it asked."""

    @pytest.mark.parametrize("count", [1, 3])
    def test_they_get_their_answers(self, port: Port, count: int) -> None:
        with port.client() as client:
            client.send(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na" * count)
            client.stop_sending()

            assert [client.reply().body for _ in range(count)] == [b"a"] * count
            assert client.is_closed()
        port.wait_for_no_connection()

    def test_idle_ones_are_closed(self, port: Port) -> None:
        with port.client() as client:
            client.request("GET", "/v1/x")
            client.reply()
            client.stop_sending()

            assert client.is_closed()

    @pytest.mark.parametrize("target", ["/v1/x", "/wait", "/", "/reset", "/shutdown", "/_emulator/x"])
    @pytest.mark.parametrize("leave", ["stop_sending", "close", "reset"])
    @pytest.mark.parametrize("body", HALF_BODIES)
    def test_those_that_owe_the_rest_of_a_body_are_closed(
        self, ports: Ports, target: str, leave: str, body: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def read(request: web.Request) -> web.Response:
            return web.Response(body=await request.read())

        port = ports.open(routes=[web.post("/_emulator/x", read)])
        with port.client() as client:
            client.send(b"POST %b HTTP/1.1\r\nHost: h\r\n%b" % (target.encode(), body))
            if leave == "stop_sending":
                client.stop_sending()
                assert client.is_closed()
            elif leave == "reset":
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        port.wait_for_no_connection()

        assert (port.rest.requests, port.events) == ([], [])
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []

    @pytest.mark.parametrize("body", HALF_BODIES)
    def test_a_body_and_its_end_that_come_before_anybody_reads(
        self, port: Port, body: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        with port.client() as client:
            client.request("GET", "/v1/x")
            client.reply()
            (connection,) = port.connections()

            def receive_both() -> None:
                connection.data_received(b"POST /v1/y HTTP/1.1\r\nHost: h\r\n" + body)
                connection.eof_received()

            port.loop.call(receive_both)

            assert client.is_closed()
        port.wait_for_no_connection()
        assert [request.raw_path for request in port.rest.requests] == ["/v1/x"]
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []


class TestExtraRoutes:
    def test_they_are_served_before_the_api(self, ports: Ports) -> None:
        async def hello(request: web.Request) -> web.Response:
            return web.Response(text=request.match_info["name"])

        port = ports.open(routes=[web.get("/_emulator/{name}", hello)])

        assert port.ask("GET", "/_emulator/x").body == b"x"
        assert port.rest.requests == []

    @pytest.mark.parametrize(
        ("problem", "expected"),
        [
            (web.HTTPNotFound(), (404, "NOT_FOUND")),
            (web.HTTPMethodNotAllowed("GET", ["POST"]), (405, "UNIMPLEMENTED")),
            (web.HTTPBadRequest(), (400, "INVALID_ARGUMENT")),
            (web.HTTPRequestEntityTooLarge(1), (413, "RESOURCE_EXHAUSTED")),
            (TimeoutError(), (500, "INTERNAL")),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_their_errors_have_the_shape_of_the_apis(
        self, ports: Ports, problem: Exception, expected: tuple[int, str]
    ) -> None:
        async def fail(_request: web.Request) -> web.Response:
            raise problem

        port = ports.open(routes=[web.get("/_emulator/x", fail)])

        reply = port.ask("GET", "/_emulator/x")

        assert error_of(reply) == expected
        assert reply.headers.get("allow") == ("POST" if expected[0] == 405 else None)

    def test_a_handler_ends_with_its_client(self, ports: Ports) -> None:
        events: list[str] = []

        async def watch(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"x")
            events.append("watching")
            try:
                await asyncio.Event().wait()
            finally:
                events.append("ended")
            return response

        port = ports.open(routes=[web.get("/_emulator/watch", watch)])
        with port.client() as client:
            client.request("GET", "/_emulator/watch")
            port.loop.until(lambda: events == ["watching"])
            client.stop_sending()

            port.loop.until(lambda: events == ["watching", "ended"])
        port.wait_for_no_connection()

    def test_a_client_that_had_stopped_sending_before_gets_its_answer(self, ports: Ports) -> None:
        async def hello(_request: web.Request) -> web.Response:
            return web.Response(text="hello")

        port = ports.open(routes=[web.get("/_emulator/x", hello)])
        with port.client() as client:
            client.request("GET", "/_emulator/x")
            client.stop_sending()

            assert client.reply().body == b"hello"
            assert client.is_closed()

    def test_an_answer_under_way_is_not_followed_by_an_error(
        self, ports: Ports, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def break_off(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Length": "5"})
            await response.prepare(request)
            await response.write(b"x")
            raise RuntimeError("on purpose")

        port = ports.open(routes=[web.get("/_emulator/x", break_off)])
        with port.client() as client:
            client.request("GET", "/_emulator/x")

            assert client.reply().body == b"x"
        assert "on purpose" in caplog.text


class TestStop:
    def test_what_waits_is_answered(self, port: Port) -> None:
        with port.client() as client:
            client.request("POST", "/wait")
            port.wait_for_parked()

            port.loop.run(port.server.stop())

            assert client.reply().body == b'{"hurried":1}'
            assert client.is_closed()
        assert port.rest.events == ["hurried"]

    @pytest.mark.parametrize(
        "said",
        [
            pytest.param(b"", id="nothing"),
            pytest.param(b"GET /v1/x HTTP/1.1\r\n", id="half a head"),
            pytest.param(b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc", id="half a body"),
        ],
    )
    def test_who_has_not_finished_asking_is_closed(self, port: Port, said: bytes) -> None:
        with port.client() as client:
            client.request("GET", "/v1/x")
            client.reply()
            client.send(said)

            port.loop.run(port.server.stop())

            assert client.is_closed()
        assert port.server.connections == 0

    def test_who_does_not_read_its_answer_is_closed_and_its_leases_come_back(self, port: Port) -> None:
        with port.client() as client:
            client.request("POST", "/big")
            port.loop.until(lambda: port.server.buffered_bytes > 0)

            port.loop.run(port.server.stop())

        assert port.rest.events == ["given back"]
        assert port.server.connections == 0

    def test_it_says_how_it_stands(self, port: Port) -> None:
        with port.client() as client:
            client.request("POST", "/wait")
            port.wait_for_parked()

            assert repr(port.server) == "<RestServer connections=1 waiting=1>"
            assert repr(port.server._transports) == "<Transports open=1>"
            assert [repr(connection) for connection in port.connections()] == ["<HttpConnection answered=0>"]


class TestWithAiohttpsOwnClient:
    """The application also runs in aiohttp's test server, without our listener."""

    @pytest.fixture
    async def rest(self) -> FakeRest:
        return FakeRest()

    @pytest.fixture
    async def client(self, rest: FakeRest, aiohttp_client: AiohttpClient) -> TestClient[web.Request, web.Application]:
        server = RestServer(rest, patience_s=0.01, reset=lambda: None)
        return await aiohttp_client(server.app)

    @pytest.mark.rule("T2")
    async def test_json_and_chunks(self, rest: FakeRest, client: TestClient[web.Request, web.Application]) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            yield b'{"a":'
            yield b"1}"

        answer = await client.post("/v1/projects/p/topics/t:publish", data=pieces())

        assert await answer.json() == {"a": 1}

    async def test_a_parked_call(self, rest: FakeRest, client: TestClient[web.Request, web.Application]) -> None:
        answer = await client.post("/wait", json={})

        assert await answer.json() == {"hurried": 1}


def error_of(reply: Reply) -> tuple[int, str]:
    """The HTTP number and the status of an error, after a look at its shape."""
    assert reply.headers["content-type"].startswith("application/json")
    error = json.loads(reply.body)["error"]
    assert error["code"] == reply.status
    assert error["message"]
    return reply.status, error["status"]


def message_of(reply: Reply) -> str:
    message: str = json.loads(reply.body)["error"]["message"]
    return message


def make_request(headers: dict[str, str]) -> web.Request:
    return make_mocked_request("POST", "/", headers=headers)


class TestAtOnce:
    """A request that is whole when it comes to an idle connection is answered without aiohttp's handlers."""

    @pytest.fixture
    def written(self, monkeypatch: pytest.MonkeyPatch) -> list[RestResponse]:
        """What was answered so."""
        answers: list[RestResponse] = []
        plain = http_connection._whole

        def noting(answer: RestResponse) -> bytes:
            answers.append(answer)
            return plain(answer)

        monkeypatch.setattr(http_connection, "_whole", noting)
        return answers

    @pytest.mark.rule("T2")
    @pytest.mark.parametrize("body", [b"", b"{}", b"x" * 10_000])
    @pytest.mark.parametrize("verb", ["GET", "POST", "PUT", "PATCH", "DELETE"])
    def test_the_answer_is_the_one_that_aiohttp_gives(
        self, port: Port, written: list[RestResponse], verb: str, body: bytes
    ) -> None:
        head = f"{verb} /v1/x%2Fy?a=b HTTP/1.1\r\nHost: h\r\nX-Y: z\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with port.client() as client:
            port.wait_for_idle(client)
            client.send(head[:20])
            client.send(head[20:] + body)
            expected = client.reply()
            port.wait_for_idle(client)
            written.clear()
            client.send(head + body)
            reply = client.reply()

        assert len(written) == 1
        assert {**reply.headers, "date": ""} == {**expected.headers, "date": ""}
        assert list(reply.headers) == list(expected.headers)
        assert (reply.status, reply.body) == (expected.status, expected.body)
        first, second = port.rest.requests
        assert (first.method, first.raw_path, first.query, first.body) == (verb, "/v1/x%2Fy", "a=b", body)
        assert (second.method, second.raw_path, second.query, second.body) == (verb, "/v1/x%2Fy", "a=b", body)
        assert (first.headers["x-y"], second.headers["x-y"]) == ("z", "z")

    @pytest.mark.rule("T2")
    def test_the_connection_goes_on(self, port: Port, written: list[RestResponse]) -> None:
        with port.client() as client:
            port.wait_for_idle(client)
            for number in range(100):
                client.request("POST", "/v1/x", b"%d" % number)
                assert client.reply().body == b"%d" % number
            client.request("POST", "/v1/x", b"last", "Connection: close")
            assert client.reply().body == b"last"
            assert client.is_closed()
        assert len(written) == 100

    @pytest.mark.rule("T2")
    def test_requests_sent_together_are_answered_in_order(self, port: Port) -> None:
        with port.client() as client:
            port.wait_for_idle(client)
            one = b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n"
            client.send(b"".join(one + b"%d" % number for number in range(9)))
            assert [client.reply().body for _ in range(9)] == [b"%d" % number for number in range(9)]

    @pytest.mark.parametrize(
        ("target", "header"),
        [("/v1/x", "Expect: 100-continue"), ("/", "X: y"), ("/v1/x", "Connection: close")],
    )
    def test_what_is_more_than_a_call_goes_the_long_way(
        self, port: Port, written: list[RestResponse], target: str, header: str
    ) -> None:
        with port.client() as client:
            port.wait_for_idle(client)
            client.request("GET", target, b"", header)
            assert client.reply().status in (100, 200)
        assert written == []

    @pytest.mark.rule("S7.2.4")
    def test_an_answer_that_comes_later_is_waited_for(self, port: Port) -> None:
        with port.client() as client:
            port.wait_for_idle(client)
            client.request("POST", "/v1/wait")
            parked = port.wait_for_parked()
            port.loop.call(lambda: parked.complete(RestResponse(200, HEADERS, b"later")))
            assert client.reply().body == b"later"
        assert len(port.rest.requests) == 1

    @pytest.mark.rule("S7.2.4")
    def test_an_answer_with_leases_is_given_back_if_nobody_takes_it(self, port: Port) -> None:
        with port.client() as client:
            port.wait_for_idle(client)
            client.request("POST", "/v1/leases")
            assert client.reply().body == b"{}"
            port.wait_for_idle(client)
            client.request("POST", "/v1/big")
        port.wait_for_event("given back")
        assert port.rest.events == ["given back"]

    @pytest.mark.rule("S7.2.4")
    @pytest.mark.parametrize(("target", "event"), [("/v1/wait", "cancelled"), ("/v1/leases", "given back")])
    def test_an_answer_whose_connection_is_lost_first_is_given_back(self, port: Port, target: str, event: str) -> None:
        with port.client() as client:
            port.wait_for_idle(client)

            def ask_and_lose() -> None:
                (connection,) = port.connections()
                connection.data_received(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
                connection.connection_lost(None)

            port.loop.call(ask_and_lose)
            port.wait_for_event(event)
            port.loop.call(lambda: None)
        assert port.rest.events == [event]

    def test_an_aiohttp_whose_innards_have_other_names_does_the_work_itself(
        self, port: Port, written: list[RestResponse], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http_connection, "_INNARDS", (*http_connection._INNARDS, "_no_such_thing"))
        with port.client() as client:
            port.wait_for_idle(client)
            client.request("POST", "/v1/x", b"body")
            assert client.reply().body == b"body"
        assert written == []

    def test_a_fault_of_ours_becomes_internal(self, port: Port, caplog: pytest.LogCaptureFixture) -> None:
        with port.client() as client:
            port.wait_for_idle(client)
            client.request("GET", "/v1/broken")
            assert client.reply().status == 500
        assert "on purpose" in caplog.text
        assert len(port.rest.requests) == 1
