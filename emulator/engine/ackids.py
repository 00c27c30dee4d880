"""Ack ids: opaque text of 24 characters that tells for itself which delivery it belongs to (service.md §7.1.1, §7.1.8).

Eighteen bytes in URL-safe base64: a tag of this run of the server (3), the subscription's number (3), the message's
number (5), the lease's number (5) and a check (2). Because an id names its message, late acks need no table of old ids.
"""

import binascii
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from zlib import crc32

from emulator import errors

_LENGTH = 24
_BYTES = 18
_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
_SUBSCRIPTION_BITS = 24
_NUMBER_BITS = 40


@dataclass(frozen=True, slots=True)
class AckId:
    """One decoded id. `subscription` is None when the id is from another run of the server."""

    subscription: int | None
    message: int
    lease: int


class AckIds:
    """The codec of one run of the server; `run` is any 24-bit number that differs between runs."""

    __slots__ = ("_run",)

    def __init__(self, run: int) -> None:
        self._run = run & 0xFFFFFF

    def encode(self, subscription: int, message: int, lease: int) -> str:
        packed = (
            (((self._run << _SUBSCRIPTION_BITS | subscription) << _NUMBER_BITS | message) << _NUMBER_BITS) | lease
        ).to_bytes(16, "big")
        return urlsafe_b64encode(packed + (crc32(packed) & 0xFFFF).to_bytes(2, "big")).decode("ascii")

    def decode(self, ack_id: str) -> AckId:
        """Raises INVALID_ARGUMENT for text that no run of this server has ever handed out."""
        if len(ack_id) != _LENGTH or not ack_id.isascii():
            raise errors.malformed_ack_id(ack_id)
        try:
            raw = binascii.a2b_base64(ack_id.encode("ascii").translate(_TO_STANDARD), strict_mode=True)
        except binascii.Error:
            raise errors.malformed_ack_id(ack_id) from None
        if len(raw) != _BYTES or crc32(raw[:16]) & 0xFFFF != int.from_bytes(raw[16:], "big"):
            raise errors.malformed_ack_id(ack_id)
        lease = int.from_bytes(raw[11:16], "big")
        message = int.from_bytes(raw[6:11], "big")
        if int.from_bytes(raw[:3], "big") != self._run:
            return AckId(None, message, lease)
        return AckId(int.from_bytes(raw[3:6], "big"), message, lease)

    def of(self, subscription: int) -> "OwnAckIds":
        """The same for one subscription only."""
        return OwnAckIds(self._run << _SUBSCRIPTION_BITS | subscription)

    def __repr__(self) -> str:
        return f"<AckIds run={self._run:06x}>"


class OwnAckIds:
    """The ids of one subscription, at a third of the cost: their first eight characters are always the same."""

    __slots__ = ("_check", "_start", "_start_text")

    def __init__(self, owner: int) -> None:
        """`owner`: run and subscription, as they stand in an id."""
        packed = owner.to_bytes(6, "big")
        self._start = urlsafe_b64encode(packed)
        self._start_text = self._start.decode("ascii")
        self._check = crc32(packed)

    def encode(self, message: int, lease: int) -> bytes:
        rest = (message << _NUMBER_BITS | lease).to_bytes(10, "big")
        checked = rest + (crc32(rest, self._check) & 0xFFFF).to_bytes(2, "big")
        return self._start + binascii.b2a_base64(checked, newline=False).translate(_TO_URL_SAFE)

    def decode(self, ack_id: str) -> tuple[int, int] | None:
        """Message and lease; None for whatever is not plainly an own id, for `AckIds.decode` to judge."""
        if not ack_id.startswith(self._start_text) or len(ack_id) != _LENGTH or not ack_id.isascii():
            return None
        try:
            raw = binascii.a2b_base64(ack_id[8:].encode("ascii").translate(_TO_STANDARD), strict_mode=True)
        except binascii.Error:
            return None
        value = int.from_bytes(raw, "big")
        if len(raw) != 12 or crc32(raw[:10], self._check) & 0xFFFF != value & 0xFFFF:
            return None
        return value >> 56, value >> 16 & 0xFF_FFFF_FFFF

    def __repr__(self) -> str:
        return f"<OwnAckIds {self._start_text}>"
