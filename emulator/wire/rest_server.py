"""REST on aiohttp: reads a request, hands it to the REST function, waits for a parked answer, writes it."""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

from aiohttp import EMPTY_PAYLOAD, StreamReader, web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.http_parser import RawRequestMessage
from aiohttp.typedefs import Handler

from emulator.api.replies import Parked
from emulator.errors import http as http_errors
from emulator.limits import REQUEST_BODY_MAX_BYTES, REQUEST_HEAD_MAX_BYTES, REQUEST_HEADER_MAX_BYTES
from emulator.wire.http_connection import HttpConnection, Transports, respond, respond_error
from emulator.wire.query import without_credentials
from emulator.wire.rest import RestRequest, RestResponse
from emulator.wire.status import HttpFailure

logger = logging.getLogger(__name__)

# Beside the API: probes, and the official emulator's own two (clients.md T12).
ROUTES = (("GET", "/"), ("GET", "/healthz"), ("POST", "/reset"), ("POST", "/shutdown"))

# What needs none of aiohttp's handlers: no other route begins so.
_API = "/v1/"
_AT_ONCE = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})

# In real time: how long before a caller's own limit its waiting call is answered (service.md §7.2.3).
MARGIN_S = 0.1

# In real time: how long calls under way may take when the server stops; to end first, to be cancelled then.
GRACE_S = 0.4

_BROKEN_BODY = "its body is broken"
_PLAIN_TEXT = "text/plain; charset=utf-8"

RestFunction: TypeAlias = Callable[[RestRequest], RestResponse | Parked[RestResponse]]


class RestServer:
    """Serves `rest` on the connections that `connection` makes, between `start` and `stop`.

    patience_s: how long, in real time, a call may wait for its answer before it is hurried. reset: forgets everything.
    shutdown: ends the process; None where the process is not ours to end. routes: served before the API; a client that
    stops sending while one of them is at work has gone, and its handler is cancelled.
    """

    def __init__(
        self,
        rest: RestFunction,
        *,
        patience_s: float,
        reset: Callable[[], None],
        shutdown: Callable[[], None] | None = None,
        routes: Iterable[web.RouteDef] = (),
        log_http: bool = False,
    ) -> None:
        self._rest = rest
        self._patience_s = patience_s
        self._on_reset = reset
        self._on_shutdown = shutdown
        self._log_http = log_http
        self._waiting: set[Parked[RestResponse]] = set()
        self._transports = Transports()
        self.ready = False
        self.app = self._make_app(routes)
        self._runner = web.AppRunner(self.app, handler_cancellation=True, shutdown_timeout=GRACE_S)

    def _make_app(self, routes: Iterable[web.RouteDef]) -> web.Application:
        app = web.Application(client_max_size=REQUEST_BODY_MAX_BYTES)
        for (verb, path), handler in zip(ROUTES, (self._greet, self._health, self._reset, self._shutdown), strict=True):
            own = _once_read(handler)
            app.add_routes([web.get(path, own) if verb == "GET" else web.post(path, own)])
        app.add_routes(
            web.RouteDef(route.method, route.path, _cancelled_with_its_client(route.handler), route.kwargs)
            for route in routes
        )
        # (?s): a path may hold an escaped line break, as any other character.
        app.router.add_route("*", "/{path:(?s:.*)}", _once_read(self._serve), expect_handler=_meet_expectation)
        return app

    async def start(self) -> None:
        await self._runner.setup()
        self.ready = True

    def connection(self) -> asyncio.Protocol:
        """The protocol for a new connection."""
        server = self._runner.server
        assert server is not None
        return HttpConnection(
            server,
            self._transports,
            self._at_once,
            loop=asyncio.get_running_loop(),
            access_log=logger if self._log_http else None,
            access_log_class=_AccessLog,
            auto_decompress=False,  # the REST function does it, within its own limit
            max_field_size=REQUEST_HEADER_MAX_BYTES,
            max_line_size=REQUEST_HEADER_MAX_BYTES,
            max_headers=REQUEST_HEAD_MAX_BYTES,  # as many as fit
        )

    async def stop(self) -> None:
        """Answer what waits, finish what is under way, then close every connection."""
        self.ready = False
        for parked in list(self._waiting):
            parked.hurry()
        await self._runner.cleanup()
        await self._transports.abort()  # what is still open has a client that does not read

    @property
    def connections(self) -> int:
        return len(self._transports)

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of answers their clients have not taken yet."""
        return self._transports.buffered_bytes

    async def _greet(self, _request: web.Request) -> web.Response:
        return respond(200, b"Ok\n", _PLAIN_TEXT)

    async def _health(self, _request: web.Request) -> web.Response:
        return respond(200, b"Ok\n", _PLAIN_TEXT) if self.ready else respond(503, b"Not ready\n", _PLAIN_TEXT)

    async def _reset(self, _request: web.Request) -> web.Response:
        self._on_reset()
        return respond(200, b"Reset\n", _PLAIN_TEXT)

    async def _shutdown(self, request: web.Request) -> web.StreamResponse:
        if self._on_shutdown is None:
            return await self._serve(request)
        self._on_shutdown()
        return respond(200, b"Shutting down\n", _PLAIN_TEXT)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        connection = request.protocol
        answer = connection.prepared(request._message) if isinstance(connection, HttpConnection) else None
        if answer is None:
            body = await request.read() if request.body_exists else b""
            answer = self._rest(_rest_request(request.method, request.raw_path, request.headers, body))
        if isinstance(answer, Parked):
            answer = await self._wait(answer, request)
        return await _write(request, answer)

    def _at_once(self, message: RawRequestMessage, body: StreamReader) -> RestResponse | Parked[RestResponse] | None:
        """The answer to a request for the API, unless it expects more than that."""
        if message.method not in _AT_ONCE or not message.path.startswith(_API) or "Expect" in message.headers:
            return None
        try:
            return self._rest(_rest_request(message.method, message.path, message.headers, _arrived(body)))
        except Exception as problem:
            # Its handler is where what nobody thought of becomes an answer.
            failed: Parked[RestResponse] = Parked(lambda: None, lambda: None)
            failed.fail(problem)
            return failed

    async def _wait(self, parked: Parked[RestResponse], request: web.Request) -> RestResponse:
        """The answer, at the latest when real time is up. A caller that goes away meanwhile leaves nothing behind."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[None] = loop.create_future()
        parked.when_done(lambda: None if arrived.done() else arrived.set_result(None))
        up = loop.call_later(_patience(request, self._patience_s), parked.hurry)
        self._waiting.add(parked)
        try:
            with _needing_the_client(request):
                await arrived
        except asyncio.CancelledError:
            if parked.done:  # the answer and the goodbye crossed
                _give_back(parked.result())
            parked.cancel()
            raise
        finally:
            up.cancel()
            self._waiting.discard(parked)
        return parked.result()

    def __repr__(self) -> str:
        return f"<RestServer connections={self.connections} waiting={len(self._waiting)}>"


class _AccessLog(AbstractAccessLogger):
    """A line for each request: method, path, status, milliseconds."""

    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        fields = {
            "method": request.method,
            "path": without_credentials(request.raw_path),
            "status": response.status,
            "ms": round(time * 1_000, 1),
        }
        self.logger.info("http", extra=fields)


async def _read_body(request: web.Request) -> None:
    """Wait for the whole body, which the request keeps. Raises HttpFailure."""
    if not request.body_exists:
        return
    _refuse_too_large(request)
    connection = request.protocol
    try:
        if not isinstance(connection, HttpConnection) or request.content.is_eof():
            await request.read()
            return
        with connection.needing_the_client(body=request.content):
            await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise HttpFailure(413, http_errors.body_too_large(REQUEST_BODY_MAX_BYTES)) from None
    except web.RequestPayloadError:
        raise HttpFailure(400, http_errors.not_http(_BROKEN_BODY)) from None
    if connection.body_is_broken:
        raise HttpFailure(400, http_errors.not_http(_BROKEN_BODY))


def _once_read(handler: Handler) -> Handler:
    """`handler`, called when the whole body is here; a request that breaks off has not been made."""

    async def reading(request: web.Request) -> web.StreamResponse:
        try:
            await _read_body(request)
        except HttpFailure as failure:
            return respond_error(failure.error, failure.status, close=True)
        return await handler(request)

    return reading


def _refuse_too_large(request: web.Request) -> None:
    if (request.content_length or 0) > REQUEST_BODY_MAX_BYTES:
        raise HttpFailure(413, http_errors.body_too_large(REQUEST_BODY_MAX_BYTES))


async def _meet_expectation(request: web.Request) -> web.StreamResponse | None:
    """Ask for the body, unless it is known already that it will not be taken (clients.md T2)."""
    if request.version < (1, 1):
        return None
    expected = request.headers.get("Expect", "")
    if expected.lower() != "100-continue":
        return respond_error(http_errors.unknown_expectation(expected), 417, close=True)
    try:
        _refuse_too_large(request)
    except HttpFailure as failure:
        return respond_error(failure.error, failure.status, close=True)
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # the answer itself has not begun
    return None


def _rest_request(method: str, target: str, headers: Mapping[str, str], body: bytes) -> RestRequest:
    # aiohttp's headers do not care for case.
    path, _, query = _origin_form(target).partition("?")
    return RestRequest(method, path, query, headers, body)


def _arrived(body: StreamReader) -> bytes:
    """A whole body. Its own way of giving it away asks the parser for more each time."""
    return b"" if body is EMPTY_PAYLOAD else b"".join(body._buffer)


def _origin_form(target: str) -> str:
    """The request target without scheme and authority, which a proxy's client sends (RFC 9112 §3.2.2)."""
    if target.startswith("/") or "://" not in target:
        return target
    return "/" + target.partition("://")[2].partition("/")[2]


def _patience(request: web.Request, most_s: float) -> float:
    """How many seconds of real time a call may wait: `most_s`, less if its caller is less patient."""
    try:
        limit_s = float(request.headers.get("X-Server-Timeout", "inf"))
    except ValueError:
        return most_s
    return most_s if math.isnan(limit_s) else min(most_s, max(0.0, limit_s - MARGIN_S))


def _needing_the_client(request: web.Request, *, from_now: bool = False) -> AbstractContextManager[None]:
    connection = request.protocol
    if isinstance(connection, HttpConnection):
        return connection.needing_the_client(from_now=from_now)
    return nullcontext()


def _cancelled_with_its_client(handler: Handler) -> Handler:
    async def cancellable(request: web.Request) -> web.StreamResponse:
        # One that stopped in the middle of its body owes the rest.
        with _needing_the_client(request, from_now=request.content.is_eof()):
            return await handler(request)

    return cancellable


async def _write(request: web.Request, answer: RestResponse) -> web.StreamResponse:
    """The response to return; one that holds leases is sent here, to know whether it could be (service.md §7.2.4)."""
    headers = dict(answer.headers)
    content_type = headers.pop("content-type", _PLAIN_TEXT)
    response = respond(answer.status, answer.body, content_type, headers)
    if answer.give_back is None:
        return response
    try:
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        # Written means written: what the system has not taken yet makes the writer wait.
        transport.set_write_buffer_limits(high=0)
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError:
        answer.give_back()
    except asyncio.CancelledError:
        answer.give_back()
        raise
    return response


def _give_back(answer: RestResponse) -> None:
    if answer.give_back is not None:
        answer.give_back()
