"""REST as one function: a request taken apart by the address it was sent to, dispatched, its reply put into JSON.

It neither waits nor touches a socket, so any HTTP server can stand in front of it (service.md §1.7.8).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from google.protobuf.message import Message

from emulator import errors
from emulator.api.catalogue import RPCS, Rpc
from emulator.api.dispatch import Dispatcher, Reply
from emulator.api.replies import Parked, Undoable
from emulator.errors import PubsubError
from emulator.wire import content, query
from emulator.wire.field_selection import FieldSelection
from emulator.wire.query import Query
from emulator.wire.rest_json import Readers, descriptor_of, render_document
from emulator.wire.rest_printing import Printers
from emulator.wire.rest_request import RequestReader
from emulator.wire.routes import Routes, Template
from emulator.wire.status import HTTP_STATUS, JSON_CONTENT_TYPE, HttpFailure, error_body

logger = logging.getLogger(__name__)

_JSON_HEADERS: Mapping[str, str] = MappingProxyType({"content-type": JSON_CONTENT_TYPE})


class RestRequest(NamedTuple):
    """An HTTP request as it came: the path undecoded, the query without its "?".

    headers: by name in lower case; a mapping that takes them in any case will do.
    """

    method: str
    raw_path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class RestResponse(NamedTuple):
    """What to send. give_back, if there is one, is to be called should that fail (service.md §7.2.4)."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    give_back: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class _Endpoint:
    rpc: Rpc
    reader: RequestReader


class _Form(NamedTuple):
    """How a caller wants its reply written."""

    printers: Printers
    pretty: bool
    selection: FieldSelection | None

    def write(self, message: Message) -> bytes:
        document: object = self.printers.document(message)
        if self.selection is not None:
            document = self.selection.apply(document)
        return render_document(document, self.pretty)


class Rest:
    """The REST face of every unary RPC in the catalogue."""

    __slots__ = ("_dispatcher", "_enum_names", "_enum_numbers", "_routes")

    def __init__(self, dispatcher: Dispatcher, rows: Sequence[Rpc] = RPCS) -> None:
        self._dispatcher = dispatcher
        self._enum_names = Printers(enums_as_numbers=False)
        self._enum_numbers = Printers(enums_as_numbers=True)
        self._routes: Routes[_Endpoint] = Routes()
        readers = Readers()
        for rpc in rows:
            if rpc.client_streaming or rpc.server_streaming:
                continue
            for binding in rpc.http:
                template = Template.parse(binding.template)
                reader = RequestReader(rpc, binding, template.field_path, readers)
                self._routes.add(binding.verb, template, _Endpoint(rpc, reader))

    def handle(self, request: RestRequest) -> RestResponse | Parked[RestResponse]:
        """The answer, or one that comes later; never raises, and a parked answer never fails."""
        try:
            if request.method == "OPTIONS":
                return RestResponse(204, {"allow": self._routes.allowed(request.raw_path)}, b"")
            answer = self._call(request)
        except Exception as problem:
            answer = _failure(problem)
        return _without_body(answer) if request.method == "HEAD" else answer

    def _call(self, request: RestRequest) -> RestResponse | Parked[RestResponse]:
        method = "GET" if request.method == "HEAD" else request.method
        found = self._routes.find(method, request.raw_path)
        rpc = found.target.rpc
        asked = query.parse(request.query)
        form = self._form(asked, rpc)
        body = content.decode(request.body, request.headers.get("content-encoding", ""))
        message = found.target.reader.read(found.name, asked.parameters, body)
        outcome = self._dispatcher.call(rpc, message)
        return _parked(outcome, form) if isinstance(outcome, Parked) else _success(outcome, form)

    def _form(self, asked: Query, rpc: Rpc) -> _Form:
        selection = FieldSelection(asked.selection, descriptor_of(rpc.response)) if asked.selection else None
        return _Form(self._enum_numbers if asked.enums_as_numbers else self._enum_names, asked.pretty, selection)

    def __repr__(self) -> str:
        return f"<Rest {self._routes!r}>"


def _success(reply: Reply, form: _Form) -> RestResponse:
    if not isinstance(reply, Undoable):
        return RestResponse(200, _JSON_HEADERS, form.write(reply))
    try:
        return RestResponse(200, _JSON_HEADERS, form.write(reply.message), reply.give_back)
    except Exception:
        reply.give_back()
        raise


def _parked(waiting: Parked[Reply], form: _Form) -> RestResponse | Parked[RestResponse]:
    # Not `map`: an error has to become an answer, too.
    answer: Parked[RestResponse] = Parked(waiting.cancel, waiting.hurry)

    def build() -> RestResponse:
        try:
            return _success(waiting.result(), form)
        except Exception as problem:
            return _failure(problem)

    waiting.when_done(lambda: answer.complete_later(build))
    return answer.result() if answer.done else answer


def _failure(problem: Exception) -> RestResponse:
    if isinstance(problem, HttpFailure):
        headers = {**_JSON_HEADERS, **problem.headers}
        return RestResponse(problem.status, headers, error_body(problem.error, problem.status))
    if not isinstance(problem, PubsubError):
        logger.error("a REST call failed unexpectedly", exc_info=problem)
        problem = errors.internal(problem)
    return RestResponse(HTTP_STATUS[problem.code], _JSON_HEADERS, error_body(problem))


def _without_body(answer: RestResponse | Parked[RestResponse]) -> RestResponse | Parked[RestResponse]:
    if isinstance(answer, Parked):
        return answer.map(_headers_only)
    return _headers_only(answer)


def _headers_only(answer: RestResponse) -> RestResponse:
    return RestResponse(answer.status, answer.headers, b"", answer.give_back)
