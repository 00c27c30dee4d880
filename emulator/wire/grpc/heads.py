"""What a gRPC request's headers say, read once per distinct header block."""

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from emulator.errors import PubsubError
from emulator.errors import grpc as grpc_errors
from emulator.limits import REQUEST_HEADER_MAX_BYTES
from emulator.wire.http2.heads import RequestHead

ENCODINGS: Final = ("identity", "gzip", "deflate")

_CONTENT_TYPE = re.compile(r"application/grpc(\+proto)?[ \t]*(;.*)?", re.IGNORECASE | re.DOTALL)
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNIT_S: Final = MappingProxyType({"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9})


@dataclass(frozen=True, slots=True)
class GrpcHead:
    """`http_status` is 0 for a gRPC request, else what a peer that speaks something else is answered.

    `timeout` is in seconds (None: no limit); `error` is what the call fails with whatever its method.
    """

    http_status: int
    timeout: float | None
    encoding: str
    error: PubsubError | None


def read(head: RequestHead) -> GrpcHead:
    """The gRPC side of a head; remembered on it, since cached heads serve many calls."""
    notes = head.notes
    if notes is None:
        notes = head.notes = _read(head)
    assert isinstance(notes, GrpcHead)
    return notes


def _read(head: RequestHead) -> GrpcHead:
    if head.like is not None:
        other = read(head.like)
        if not other.http_status and other.error is None:
            return _with_timeout(head, other.encoding)
    if head.method != "POST" or not _CONTENT_TYPE.fullmatch(head.headers.get("content-type", "")):
        return GrpcHead(431 if head.too_large else 415, None, "identity", None)
    if head.too_large:
        return GrpcHead(0, None, "identity", grpc_errors.headers_too_large(REQUEST_HEADER_MAX_BYTES))
    encoding = head.headers.get("grpc-encoding", "identity")
    if encoding not in ENCODINGS:
        return GrpcHead(0, None, "identity", grpc_errors.unknown_encoding(encoding))
    return _with_timeout(head, encoding)


def _with_timeout(head: RequestHead, encoding: str) -> GrpcHead:
    text = head.headers.get("grpc-timeout")
    if text is None:
        return GrpcHead(0, None, encoding, None)
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        return GrpcHead(0, None, encoding, grpc_errors.bad_timeout(text))
    return GrpcHead(0, int(found[1]) * _UNIT_S[found[2]], encoding, None)
