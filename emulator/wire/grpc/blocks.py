"""The header blocks of gRPC replies, the constant ones made once."""

from base64 import b64encode
from typing import Final
from urllib.parse import quote_from_bytes

from emulator.errors import Code, PubsubError
from emulator.wire.grpc.heads import ENCODINGS
from emulator.wire.http2.heads import encode

_MESSAGE_MAX_BYTES: Final = 500
_STATUS_200: Final = (":status", "200")
_CONTENT_TYPE: Final = ("content-type", "application/grpc")
# Everything printable but the percent sign stays as it is (clients.md T30).
_SAFE: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")

HEADERS: Final = encode([_STATUS_200, _CONTENT_TYPE])
OK: Final = encode([("grpc-status", "0")])


def escape_message(text: str) -> str:
    """A grpc-message: percent-encoded UTF-8 of at most 500 bytes, cut between code points."""
    escaped = quote_from_bytes(text.encode(errors="replace"), safe=_SAFE)
    while len(escaped) > _MESSAGE_MAX_BYTES:
        # At least one byte per character, so this never cuts too much at once.
        excess = len(escaped) - _MESSAGE_MAX_BYTES
        text = text[: -max(1, excess // 12)]
        escaped = quote_from_bytes(text.encode(errors="replace"), safe=_SAFE)
    return escaped


def error(problem: PubsubError, details: bytes, *, alone: bool) -> bytes:
    """Trailers for a failed call; `alone` makes them the whole reply (clients.md T31).

    `details` is a serialized google.rpc.Status, empty for none.
    """
    fields = [_STATUS_200, _CONTENT_TYPE] if alone else []
    fields += [("grpc-status", str(int(problem.code))), ("grpc-message", escape_message(problem.message))]
    if details:
        fields.append(("grpc-status-details-bin", b64encode(details).decode().rstrip("=")))
    if problem.code is Code.UNIMPLEMENTED and alone:
        fields.append(("grpc-accept-encoding", ",".join(ENCODINGS)))
    return encode(fields)


def http_error(status: int) -> bytes:
    """The reply to a request that isn't gRPC's."""
    return encode([(":status", str(status))])
