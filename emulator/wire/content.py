"""Undoing a request's content-encoding, within bounds (clients.md T2, T6)."""

import zlib
from collections.abc import Mapping
from types import MappingProxyType

from emulator import errors
from emulator.errors import http as http_errors
from emulator.limits import REQUEST_BODY_MAX_BYTES, REQUEST_MAX_MEMBERS
from emulator.wire.status import HttpFailure

_GZIP = 31

# zlib copies what stands behind a member's end, so a member is given little more than itself.
_PIECE_BYTES = 65_536

# What zlib is told about the framing. "deflate" is zlib's format by the book and the bare stream from some clients.
_FRAMINGS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"gzip": (_GZIP,), "x-gzip": (_GZIP,), "deflate": (15, -15)},
)


def decode(body: bytes, encoding: str) -> bytes:
    """The plain body; `encoding` is the content-encoding header, "" if there is none.

    Raises HttpFailure 413 for a body that is or becomes too large and 415 for an encoding that is not supported (two
    at a time are none), INVALID_ARGUMENT for bytes that are not what the header says, and for
    gzip of too many members.
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
        try:
            return _plain(body, window_bits)
        except zlib.error:
            continue
    raise http_errors.broken_content_encoding(name)


def _plain(body: bytes, window_bits: int) -> bytes:
    """The plain body, or just more of it than is allowed; only gzip may have several members. Raises zlib.error."""
    plain = bytearray()
    at = 0
    for _ in range(REQUEST_MAX_MEMBERS if window_bits == _GZIP else 1):
        inflater = zlib.decompressobj(window_bits)
        while not inflater.eof:
            piece = body[at : at + _PIECE_BYTES]
            if not piece:
                raise zlib.error("the end is missing")
            plain += inflater.decompress(piece, REQUEST_BODY_MAX_BYTES + 1 - len(plain))
            if len(plain) > REQUEST_BODY_MAX_BYTES:
                return bytes(plain)
            at += len(piece) - len(inflater.unused_data)
        if at == len(body):
            return bytes(plain)
    if window_bits == _GZIP:
        raise http_errors.too_many_gzip_members(REQUEST_MAX_MEMBERS)
    raise zlib.error("something follows the end")
