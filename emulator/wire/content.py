"""Undoing a request's content-encoding, within bounds (clients.md T2, T6)."""

import zlib
from collections.abc import Mapping
from types import MappingProxyType

from emulator import errors
from emulator.errors import http as http_errors
from emulator.limits import REQUEST_BODY_MAX_BYTES
from emulator.wire.status import HttpFailure

# What zlib is told about the framing. "deflate" is zlib's format by the book and the bare stream from some clients.
_FRAMINGS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)},
)


def decode(body: bytes, encoding: str) -> bytes:
    """The plain body; `encoding` is the content-encoding header, "" if there is none.

    Raises HttpFailure 413 for a body that is or becomes too large and 415 for an encoding that is not supported (two
    at a time are none), INVALID_ARGUMENT for bytes that are not what the header says.
    """
    name = encoding.strip().lower()
    if name not in ("", "identity"):
        framings = _FRAMINGS.get(name)
        if framings is None:
            raise HttpFailure(415, errors.unsupported_choice("content-encoding", encoding, (*_FRAMINGS, "identity")))
        body = _inflate(body, framings, name) if body else body
    if len(body) > REQUEST_BODY_MAX_BYTES:
        raise HttpFailure(413, http_errors.body_too_large(REQUEST_BODY_MAX_BYTES))
    return body


def _inflate(body: bytes, framings: tuple[int, ...], name: str) -> bytes:
    for window_bits in framings:
        inflater = zlib.decompressobj(window_bits)
        try:
            plain = inflater.decompress(body, REQUEST_BODY_MAX_BYTES + 1)
        except zlib.error:
            continue
        if len(plain) > REQUEST_BODY_MAX_BYTES or (inflater.eof and not inflater.unused_data):
            return plain
    raise http_errors.broken_content_encoding(name)
