"""A REST face over handlers that answer what a test prepared, and short ways to call it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from emulator.api.catalogue import RPCS, SERVICES
from emulator.api.dispatch import Dispatcher, Outcome
from emulator.wire.rest import Rest, RestRequest, RestResponse


@dataclass(frozen=True, slots=True)
class Call:
    """What a handler was given."""

    rpc: str
    request: Message


class Handlers:
    """Every RPC of every service; one without a prepared answer gives its empty response."""

    def __init__(self, answers: Mapping[str, Callable[[], Outcome]]) -> None:
        self.calls: list[Call] = []
        for rpc in RPCS:
            setattr(self, rpc.name, self._handler(rpc.name, answers.get(rpc.name, rpc.response)))

    def _handler(self, name: str, answer: Callable[[], Outcome]) -> Callable[[Message], Outcome]:
        def handle(request: Message) -> Outcome:
            self.calls.append(Call(name, request))
            return answer()

        return handle


class Face:
    """A `Rest` and its handlers. `answers` maps an RPC's name to a function that makes its outcome or raises."""

    def __init__(self, **answers: Callable[[], Outcome]) -> None:
        self.handlers = Handlers(answers)
        self.rest = Rest(Dispatcher(dict.fromkeys(SERVICES, self.handlers)))

    def send(
        self,
        method: str,
        target: str,
        body: object = b"",
        headers: Mapping[str, str] | None = None,
    ) -> RestResponse:
        """Call with a path and query as in a request line; a body that is not bytes is sent as JSON."""
        path, _, query = target.partition("?")
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.rest.handle(RestRequest(method, path, query, headers or {}, content))
        assert isinstance(answer, RestResponse)
        return answer

    def request(self, method: str, target: str, body: object = b"") -> Any:
        """The request message that the handler was given by a call that must succeed."""
        answer = self.send(method, target, body)
        assert answer.status == 200, answer.body
        return self.handlers.calls[-1].request

    def error(self, method: str, target: str, body: object = b"", headers: Mapping[str, str] | None = None) -> Any:
        """The `error` object of a call that must fail, before any handler is reached."""
        calls = len(self.handlers.calls)
        answer = self.send(method, target, body, headers)
        assert answer.headers["content-type"].startswith("application/json")
        assert len(self.handlers.calls) == calls
        error = json.loads(answer.body)["error"]
        assert error["code"] == answer.status
        return error

    def reply(self, method: str, target: str) -> Any:
        """The decoded JSON reply of a call that must succeed."""
        answer = self.send(method, target)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)
