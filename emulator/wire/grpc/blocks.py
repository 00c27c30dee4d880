"""The header blocks of gRPC replies, the constant ones made once."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote_from_bytes

from emulator.errors import Code, PubsubError
from emulator.wire.grpc.heads import ENCODINGS
from emulator.wire.http2.heads import encode
from emulator.wire.status import status_details

_MESSAGE_MAX_BYTES: Final = 500
# What clients take that announce nothing, and what no trailers need to be larger than.
_HEADER_LIST_DEFAULT: Final = 16_384
_BLOCK_MAX_BYTES: Final = 65_536
# A peer counts so much more than name and value for each field (RFC 9113 §6.5.2).
_FIELD_BYTES: Final = 32
_MARGIN_BYTES: Final = 200
_DETAILS: Final = "grpc-status-details-bin"
_STATUS_200: Final = (":status", "200")
_CONTENT_TYPE: Final = ("content-type", "application/grpc")
# Everything printable but the percent sign stays as it is (clients.md T30).
_SAFE: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")

HEADERS: Final = encode([_STATUS_200, _CONTENT_TYPE])
OK: Final = encode([("grpc-status", "0")])


def fit_message(text: str) -> tuple[str, str]:
    """As much of a text as a grpc-message may hold, and its percent-encoded UTF-8: at most 500 bytes, whole characters.

    Clients compare the text with the one in grpc-status-details-bin, so both have to be cut alike.
    """
    text = text.encode(errors="replace").decode()
    while len(escaped := quote_from_bytes(text.encode(), safe=_SAFE)) > _MESSAGE_MAX_BYTES:
        # A character takes at most twelve bytes, so this never cuts too much at once.
        text = text[: -max(1, (len(escaped) - _MESSAGE_MAX_BYTES) // 12)]
    return text, escaped


def error(problem: PubsubError, *, alone: bool, header_list: int | None = None) -> bytes:
    """Trailers for a failed call; `alone` makes them the whole reply (clients.md T31).

    `header_list`: how many bytes of headers the peer has said it takes (service.md §8.13).
    """
    message, escaped = fit_message(problem.message)
    fields = [_STATUS_200, _CONTENT_TYPE] if alone else []
    fields += [("grpc-status", str(int(problem.code))), ("grpc-message", escaped)]
    details = status_details(problem, message, _details_max(fields, header_list))
    if details:
        fields.append((_DETAILS, b64encode(details).decode().rstrip("=")))
    if problem.code is Code.UNIMPLEMENTED and alone:
        fields.append(("grpc-accept-encoding", ",".join(ENCODINGS)))
    return encode(fields)


def _details_max(others: Sequence[tuple[str, str]], header_list: int | None) -> int:
    """What a status may take so that its peer still reads it (service.md §8.13), beside the other fields."""
    # Some refuse at random from half of what they announce.
    announced = _HEADER_LIST_DEFAULT if header_list is None else header_list
    room = min(announced // 2, _BLOCK_MAX_BYTES) - _MARGIN_BYTES
    room -= sum(len(name) + len(value) + _FIELD_BYTES for name, value in [*others, (_DETAILS, "")])
    # base64 makes four bytes of three.
    return room * 3 // 4


def http_error(status: int) -> bytes:
    """The reply to a request that isn't gRPC's."""
    return encode([(":status", str(status))])
