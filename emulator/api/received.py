"""Leased messages as Pull and StreamingPull answer them.

Written by hand: building the message objects took most of the time that a delivery took, ten times what this takes. A
test holds it against protobuf.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from emulator.api import pb
from emulator.engine.entries import Lease
from emulator.engine.subscription import Subscription

# Tags of the fields, each of the kind whose length follows but for the last (encoding: protobuf.dev).
_RECEIVED: Final = b"\x0a"
_ACK_ID: Final = b"\x0a\x18"  # and its length, which is always the same
_MESSAGE: Final = b"\x12"
_ATTEMPT: Final = b"\x18"
_DATA: Final = b"\x0a"
_ATTRIBUTE: Final = b"\x12"
_KEY: Final = b"\x0a"
_VALUE: Final = b"\x12"
_ID: Final = b"\x1a"
_TIME: Final = b"\x22"
_ORDERING_KEY: Final = b"\x2a"

_SHORT: Final = tuple(bytes((size,)) for size in range(128))


def received(subscription: Subscription, leases: Iterable[Lease]) -> bytes:
    """`received_messages` of a response, serialized; leases that have ended are left out (service.md §7.1)."""
    ack_id = subscription.ack_ids.encode
    shows_attempts = subscription.settings.dead_letter is not None
    times: dict[int, bytes] = {}
    out: list[bytes] = []
    for lease in leases:
        entry = lease.entry
        if entry is None:
            continue
        message = entry.message
        time = times.get(message.publish_time)
        if time is None:
            time = times[message.publish_time] = _time(message.publish_time)
        data = message.data
        number = b"%d" % message.number
        shown = b"".join(
            (
                _DATA + _size(len(data)) + data if data else b"",
                _attributes(message.attributes) if message.attributes else b"",
                _ID,
                _SHORT[len(number)],
                number,
                time,
                _text(_ORDERING_KEY, message.ordering_key) if message.ordering_key else b"",
            )
        )
        delivery = _ACK_ID + ack_id(message.number, lease.number) + _MESSAGE + _size(len(shown))
        attempt = _ATTEMPT + _size(entry.failures + 1) if shows_attempts else b""
        out += (_RECEIVED, _size(len(delivery) + len(shown) + len(attempt)), delivery, shown, attempt)
    return b"".join(out)


def _size(value: int) -> bytes:
    """A varint."""
    if value < 128:
        return _SHORT[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(tag: bytes, value: str) -> bytes:
    encoded = value.encode()
    return tag + _size(len(encoded)) + encoded


def _attributes(attributes: Mapping[str, str]) -> bytes:
    out = bytearray()
    for key, value in attributes.items():
        entry = _text(_KEY, key) + _text(_VALUE, value)
        out += _ATTRIBUTE + _size(len(entry)) + entry
    return bytes(out)


def _time(nanoseconds: int) -> bytes:
    stamp = pb.Timestamp()
    stamp.FromNanoseconds(nanoseconds)
    encoded = stamp.SerializeToString()
    return _TIME + _size(len(encoded)) + encoded
