"""What a gRPC request's headers say, read once per distinct header block."""

import re
from types import MappingProxyType
from typing import Final, NamedTuple

from emulator.errors import PubsubError
from emulator.errors import grpc as grpc_errors
from emulator.limits import REQUEST_HEADER_MAX_BYTES
from emulator.wire.http2.heads import RequestHead

ENCODINGS: Final = ("identity", "gzip", "deflate")

_CONTENT_TYPE = re.compile(r"application/grpc(\+proto)?[ \t]*(;.*)?", re.IGNORECASE | re.DOTALL)
_TIMEOUT_MAX_DIGITS: Final = 8
_UNIT_S: Final = MappingProxyType({"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9})


class GrpcHead(NamedTuple):
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
    like = head.like
    if like is not None:
        http_status, _, encoding, error = like.notes or read(like)
        if not http_status and error is None:
            return _with_timeout(head.varying, encoding)
    if head.method != "POST" or not _CONTENT_TYPE.fullmatch(head.headers.get("content-type", "")):
        return GrpcHead(431 if head.too_large else 415, None, "identity", None)
    if head.too_large:
        return GrpcHead(0, None, "identity", grpc_errors.headers_too_large(REQUEST_HEADER_MAX_BYTES))
    encoding = head.headers.get("grpc-encoding", "identity")
    if encoding not in ENCODINGS:
        return GrpcHead(0, None, "identity", grpc_errors.unknown_encoding(encoding))
    return _with_timeout(head.headers.get("grpc-timeout"), encoding)


def _with_timeout(text: str | None, encoding: str) -> GrpcHead:
    if text is None:
        return GrpcHead(0, None, encoding, None)
    digits, unit = text[:-1], _UNIT_S.get(text[-1:])
    if unit is None or not (0 < len(digits) <= _TIMEOUT_MAX_DIGITS and digits.isascii() and digits.isdigit()):
        return GrpcHead(0, None, encoding, grpc_errors.bad_timeout(text))
    return GrpcHead(0, int(digits) * unit, encoding, None)
