"""From a canonical code to an HTTP status number, and how errors are put into bytes."""

import json
from collections.abc import Mapping
from types import MappingProxyType

from emulator.api import pb
from emulator.engine.sizes import map_entry_size
from emulator.errors import Code, PubsubError
from emulator.errors import http as http_errors

HTTP_STATUS: Mapping[Code, int] = MappingProxyType(
    {
        Code.OK: 200,
        Code.INVALID_ARGUMENT: 400,
        Code.FAILED_PRECONDITION: 400,
        Code.OUT_OF_RANGE: 400,
        Code.UNAUTHENTICATED: 401,
        Code.PERMISSION_DENIED: 403,
        Code.NOT_FOUND: 404,
        Code.ALREADY_EXISTS: 409,
        Code.ABORTED: 409,
        Code.RESOURCE_EXHAUSTED: 429,
        Code.CANCELLED: 499,
        Code.INTERNAL: 500,
        Code.UNKNOWN: 500,
        Code.DATA_LOSS: 500,
        Code.UNIMPLEMENTED: 501,
        Code.UNAVAILABLE: 503,
        Code.DEADLINE_EXCEEDED: 504,
    }
)

# What HTTP itself refuses has no canonical code of its own, but `status` must be a canonical name all the same: clients
# look it up in that list. Google's front ends answer most of these with an HTML page; the names follow grpc-gateway
# (404 and 405) and the gRPC face's answer to the same mistake (what is too large is RESOURCE_EXHAUSTED).
_HTTP_ONLY: Mapping[int, Code] = MappingProxyType(
    {
        404: Code.NOT_FOUND,
        405: Code.UNIMPLEMENTED,
        408: Code.DEADLINE_EXCEEDED,
        413: Code.RESOURCE_EXHAUSTED,
        431: Code.RESOURCE_EXHAUSTED,
        501: Code.UNIMPLEMENTED,
        503: Code.UNAVAILABLE,
    }
)

JSON_CONTENT_TYPE = "application/json; charset=UTF-8"

_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_ERROR_DOMAIN = "pubsub.googleapis.com"

# By how much the lengths of the messages around the metadata grow with it, at most: two, from one byte to three.
_LENGTHS_GROW_BYTES = 4


class HttpFailure(Exception):
    """A request that failed in a way for which HTTP has a number of its own, and perhaps a header."""

    __slots__ = ("error", "headers", "status")

    def __init__(self, status: int, error: PubsubError, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.headers = headers or {}

    def __repr__(self) -> str:
        return f"<HttpFailure {self.status} {self.error.message!r}>"


def code_of_http(status: int) -> Code:
    """The canonical code whose name stands in the body of an HTTP-only failure."""
    return _HTTP_ONLY.get(status, Code.INVALID_ARGUMENT if status < 500 else Code.INTERNAL)


def error_body(error: PubsubError, status: int | None = None) -> bytes:
    """The JSON document of service.md §1.6; `status` replaces the code's own HTTP number."""
    content: dict[str, object] = {
        "code": HTTP_STATUS[error.code] if status is None else status,
        "message": error.message,
        "status": error.code.name,
    }
    if error.reason:
        detail: dict[str, object] = {"@type": _ERROR_INFO, "reason": error.reason, "domain": _ERROR_DOMAIN}
        if error.metadata:
            detail["metadata"] = dict(error.metadata)
        content["details"] = [detail]
    # A lone surrogate has no bytes in UTF-8; as an escape it is still good JSON.
    return json.dumps({"error": content}, ensure_ascii=False).encode("utf-8", "backslashreplace")


def http_error_body(status: int, message: str) -> bytes:
    """The same document for what HTTP itself refuses: an unknown path, too large a header, a request that is none."""
    return error_body(http_errors.refused_by_http(code_of_http(status), message), status)


def status_details(error: PubsubError, message: str, max_bytes: int) -> bytes:
    """A serialized google.rpc.Status for the trailers, empty when the error has no details (service.md §8.4).

    `message` is what the trailers themselves say. Of the metadata the first so many are in it that `max_bytes` hold:
    more than its peer takes would cost the call its status (§8.13).
    """
    if not error.reason:
        return b""
    room = max_bytes - len(_status(error, message, {})) - _LENGTHS_GROW_BYTES
    kept = {}
    for key, value in error.metadata.items():
        room -= map_entry_size(key, value)
        if room < 0:
            break
        kept[key] = value
    details = _status(error, message, kept)
    return details if len(details) <= max_bytes else b""


def _status(error: PubsubError, message: str, metadata: Mapping[str, str]) -> bytes:
    status = pb.Status(code=error.code, message=message)
    status.details.add().Pack(pb.ErrorInfo(reason=error.reason, domain=_ERROR_DOMAIN, metadata=metadata))
    serialized: bytes = status.SerializeToString()
    return serialized
