"""aiohttp's server end of an HTTP/1.1 connection, with our errors and with clients that stop sending in mind."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, cast

from aiohttp import HttpVersion11, StreamReader, http_exceptions, web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http_parser import RawRequestMessage

from emulator import errors
from emulator.api.replies import Parked
from emulator.errors import PubsubError
from emulator.errors import http as http_errors
from emulator.limits import REQUEST_BODY_MAX_BYTES, REQUEST_HEAD_MAX_BYTES, REQUEST_HEADER_MAX_BYTES
from emulator.wire.rest import RestResponse
from emulator.wire.status import HTTP_STATUS, JSON_CONTENT_TYPE, error_body

logger = logging.getLogger(__name__)

SERVER_NAME = "pubsub-emulator"

_OK: Final = 200
# Of aiohttp's handler: what it takes to answer in its place.
_INNARDS: Final = (
    "_keepalive_handle",
    "_keepalive_timeout",
    "_logging_enabled",
    "_messages",
    "_next_keepalive_close_time",
    "_waiter",
    "writing_paused",
)

Answer: TypeAlias = RestResponse | Parked[RestResponse]
# What a whole request is answered, or None if it has to go through aiohttp's handlers.
AtOnce: TypeAlias = Callable[[RawRequestMessage, StreamReader], Answer | None]


class Transports:
    """The open connections of a server."""

    def __init__(self) -> None:
        self._open: set[asyncio.Transport] = set()
        self._none_open = asyncio.Event()
        self._none_open.set()

    def add(self, transport: asyncio.Transport) -> None:
        self._open.add(transport)
        self._none_open.clear()

    def discard(self, transport: asyncio.Transport) -> None:
        self._open.discard(transport)
        if not self._open:
            self._none_open.set()

    @property
    def buffered_bytes(self) -> int:
        """How many bytes their clients have not taken yet."""
        return sum(transport.get_write_buffer_size() for transport in self._open)

    async def abort(self) -> None:
        """End every connection, whatever is unsent, and wait until each has gone."""
        for transport in list(self._open):
            transport.abort()
        await self._none_open.wait()

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"<Transports open={len(self._open)}>"


def respond(
    status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None = None, *, close: bool = False
) -> web.Response:
    """An answer without a word about what it was made with; `close` ends the connection after it."""
    response = web.Response(
        status=status, body=body, headers={"Server": SERVER_NAME, "Content-Type": content_type, **(headers or {})}
    )
    if close:
        response.force_close()
    return response


def respond_error(
    error: PubsubError, status: int | None = None, headers: Mapping[str, str] | None = None, *, close: bool = False
) -> web.Response:
    """An error in JSON; `status` replaces the code's own HTTP number."""
    status = HTTP_STATUS[error.code] if status is None else status
    return respond(status, error_body(error, status), JSON_CONTENT_TYPE, headers, close=close)


class _HeadTooLarge(http_exceptions.BadHttpMessage):
    """A head that has gone on for too long."""


class _BoundedParser:
    """aiohttp's parser, which bounds a line of a head and the number of lines, with a bound for the whole head."""

    __slots__ = ("_body", "_head_bytes", "_parser")

    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self._body: StreamReader | None = None
        self._head_bytes = 0

    def feed_data(self, data: bytes) -> Any:
        """As aiohttp's."""
        parsed = self._parser.feed_data(data)
        messages = parsed[0]
        if messages:
            self._body = messages[-1][1]
            self._head_bytes = 0
        elif self._body is None or self._body.is_eof():
            self._head_bytes += len(data)
            if self._head_bytes > REQUEST_HEAD_MAX_BYTES:
                raise _HeadTooLarge("the head is too large")
        return parsed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def __repr__(self) -> str:
        return f"<_BoundedParser head={self._head_bytes}>"


class HttpConnection(web.RequestHandler):
    """One connection; `transports` holds it while it is open.

    aiohttp has two tasks and a dozen objects for a request. One that is whole when it comes, with nothing before it, is
    read by aiohttp's parser and answered without those; where the answer takes more than a write, it is made all the
    same, and aiohttp's handler gets it from `prepared`.

    A client may end its sending side and still get its answers, unless it owes the rest of a body, or a call waits on
    its behalf: then nobody can tell it from one that is gone, and it is treated as gone.
    """

    __slots__ = (
        "_answered",
        "_at_once",
        "_body",
        "_consumed",
        "_half_closed",
        "_needs_client",
        "_prepared",
        "_registered",
        "_transports",
        "body_is_broken",
    )

    def __init__(
        self, server: web.Server, transports: Transports, at_once: AtOnce | None = None, **options: Any
    ) -> None:
        super().__init__(server, **options)
        # What aiohttp may rename; it then does all of the work itself again.
        self._at_once = at_once if all(hasattr(self, name) for name in _INNARDS) else None
        self._prepared: tuple[RawRequestMessage, Answer] | None = None
        # Newer parsers count what is taken from them.
        self._consumed: Callable[[], None] = getattr(self._parser, "message_consumed", _nothing)
        self._parser = cast("Any", _BoundedParser(self._parser))
        self._transports = transports
        self._registered: asyncio.Transport | None = None
        self._answered = 0
        self._half_closed = False
        self._needs_client = False
        self._body: StreamReader | None = None
        self.body_is_broken = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._registered = cast("asyncio.Transport", transport)
        self._transports.add(self._registered)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        assert self._registered is not None
        self._transports.discard(self._registered)
        super().connection_lost(exc)
        if self._prepared is not None:
            _, answer = self._prepared
            self._prepared = None
            if isinstance(answer, Parked):
                answer.cancel()
            elif answer.give_back is not None:
                answer.give_back()

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done() or self._at_once is None:
            super().data_received(data)
        else:
            # aiohttp's task is woken once it is known that there is something for it.
            self._waiter = None
            try:
                super().data_received(data)
                self._answer_at_once(self._at_once)
            finally:
                self._waiter = waiter
            if self._messages and not waiter.done():
                waiter.set_result(None)
        if self._body is not None:
            self._end_if_broken(self._body)

    def _answer_at_once(self, at_once: AtOnce) -> None:
        if len(self._messages) != 1:
            return
        message, payload = self._messages[0]
        if (
            not isinstance(message, RawRequestMessage)
            or message.version != HttpVersion11
            or message.should_close
            or message.upgrade
            or not payload.is_eof()
            or payload.exception() is not None
            or self.writing_paused
            or self._logging_enabled
            or self._keepalive_handle is None
            or self.transport is None
        ):
            return
        answer = at_once(message, payload)
        if answer is None:
            return
        if isinstance(answer, Parked) or answer.give_back or answer.status != _OK or len(answer.headers) != 1:
            self._prepared = message, answer
            return
        self._messages.popleft()
        self._consumed()
        self.transport.write(_whole(answer))
        self._answered += 1
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout

    def prepared(self, message: RawRequestMessage) -> Answer | None:
        """The answer to this request, if it has been made already; it is the caller's then."""
        if self._prepared is None or self._prepared[0] is not message:
            return None
        _, answer = self._prepared
        self._prepared = None
        return answer

    def _end_if_broken(self, body: StreamReader) -> None:
        # What stands behind an unfinished body is no request but a parser's complaint. aiohttp does not pass it on to
        # the reader of that body, who would wait for ever.
        if self._request_count > self._answered + 1 and not body.is_eof():
            self.body_is_broken = True
            body.feed_eof()

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's own signature; aiohttp's never keeps it open
        """Whether to keep the connection open although the client sends no more."""
        if self._needs_client or self._answered == self._request_count:
            return False
        self._half_closed = True
        return True

    @contextmanager
    def needing_the_client(self, *, body: StreamReader | None = None, from_now: bool = False) -> Iterator[None]:
        """Inside the block, a client that stops sending is gone: the block is cancelled.

        body: what the block reads; if it breaks, it ends early and `body_is_broken` is set. from_now: a client that had
        stopped before the block counts as present.
        """
        self._needs_client = True
        self._body = body
        if body is not None:
            self._end_if_broken(body)
        try:
            if self._half_closed and not from_now:
                self.force_close()
                raise asyncio.CancelledError  # what would be read or written now fails in aiohttp's own words
            yield
        finally:
            self._needs_client = False
            self._body = None

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if isinstance(resp, web.HTTPException) and resp.status >= 400:
            resp = _translate(request, resp)
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._answered += 1
            if self._half_closed and self._answered == self._request_count:
                self.close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what could not be read, or to what failed in a way that nobody thought of."""
        if isinstance(exc, http_exceptions.LineTooLong):
            answer = respond_error(http_errors.header_too_large(REQUEST_HEADER_MAX_BYTES), 431, close=True)
        elif isinstance(exc, _HeadTooLarge):
            answer = respond_error(http_errors.head_too_large(REQUEST_HEAD_MAX_BYTES), 431, close=True)
        elif isinstance(exc, http_exceptions.HttpProcessingError):
            answer = respond_error(http_errors.not_http(_first_line(exc)), close=True)
        else:
            failure = exc or TimeoutError()
            logger.error("an HTTP request failed unexpectedly", exc_info=failure)
            answer = respond_error(errors.internal(failure), close=True)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is under way already")
        return answer

    def __repr__(self) -> str:
        return f"<HttpConnection answered={self._answered}{' half-closed' if self._half_closed else ''}>"


def _nothing() -> None: ...


def _whole(answer: RestResponse) -> bytes:
    """The bytes of an answer with a body and no headers but its type, as aiohttp writes them."""
    head = (
        f"HTTP/1.1 200 OK\r\nServer: {SERVER_NAME}\r\nContent-Type: {answer.headers['content-type']}\r\n"
        f"Content-Length: {len(answer.body)}\r\nDate: {rfc822_formatted_time()}\r\n\r\n"
    )
    return head.encode("ascii") + answer.body


def _first_line(problem: http_exceptions.HttpProcessingError) -> str:
    """What aiohttp says about a request it cannot read, without the picture that it draws below."""
    return problem.message.strip().partition("\n")[0].rstrip(":. ")


def _translate(request: web.BaseRequest, failure: web.HTTPException) -> web.Response:
    """One of aiohttp's error pages as one of our errors."""
    allow = failure.headers.get("Allow", "")
    match failure.status:
        case 404:
            error = http_errors.unknown_path(request.path)
        case 405:
            error = http_errors.method_not_allowed(request.method, request.path, allow)
        case 413:
            error = http_errors.body_too_large(REQUEST_BODY_MAX_BYTES)
        case _:
            error = http_errors.not_http(failure.reason)
    return respond_error(error, failure.status, {"Allow": allow} if allow else None, close=True)
