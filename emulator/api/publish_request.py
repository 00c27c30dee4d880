"""Publish requests read without protobuf's objects, and replies written without them.

Making those objects, and asking each for its fields, costs more than all else a publish does. Read by hand is what
clients send: the topic, then messages; those with nothing but data at once, others by protobuf one by one. Whatever is
written in an unusual way is left to protobuf as a whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from emulator.api import pb
from emulator.api.drafts import draft
from emulator.engine.drafts import Drafts, PlainDrafts
from emulator.engine.values import Draft

# Tags: a field's number, and that it has a length.
_TOPIC: Final = 1 << 3 | 2
_MESSAGE: Final = 2 << 3 | 2
_DATA: Final = 1 << 3 | 2
_MESSAGE_ID: Final = 1 << 3 | 2

# A length below this has one byte; two bytes hold those up to its square.
_BYTE: Final = 0x80


@dataclass(slots=True, eq=False)
class PublishRequest:
    """What a serialized request says; `size` is what protobuf would make of it, in bytes."""

    topic: str
    drafts: Drafts
    size: int


def read(data: bytes, at: int, most: int) -> PublishRequest | None:
    """The request in `data` from `at` on, if it has at most `most` messages; None: protobuf has to read it."""
    try:
        size = len(data) - at
        tag, length, start = data[at], data[at + 1], at + 2
        if length >= _BYTE:
            length, start = _longer(data, start)
        first = start + length
        if tag != _TOPIC or not length or first > len(data):
            return None
        topic = data[start:first].decode()
        plain = _read_plain(data, first, most)
        if plain is not None:
            return PublishRequest(topic, plain, size)
        drafts, added = _read_any(data, first, most)
        return PublishRequest(topic, drafts, size + added)
    except (IndexError, DecodeError, UnicodeDecodeError):
        return None


def _read_plain(data: bytes, at: int, most: int) -> PlainDrafts | None:
    """The messages, if all have data and nothing else."""
    end = len(data)
    spans: list[tuple[int, int, int]] = []
    add = spans.append
    for _ in range(most):
        if at >= end:
            break
        if data[at] != _MESSAGE:
            return None
        length, start = data[at + 1], at + 2
        if length >= _BYTE:
            high = data[start]
            if 0 < high < _BYTE:
                length += (high - 1) * _BYTE
                start += 1
            else:
                length, start = _longer(data, start)
        at = start + length
        # Behind the last message there is nothing to look at, and an empty one is not plain.
        if data[start] != _DATA:
            return None
        inner, first = data[start + 1], start + 2
        if inner >= _BYTE:
            high = data[first]
            if 0 < high < _BYTE:
                inner += (high - 1) * _BYTE
                first += 1
            else:
                inner, first = _longer(data, first)
        if not inner or first + inner != at:
            return None
        add((first, at, length))
    return PlainDrafts(data, spans) if at == end else None


def _read_any(data: bytes, at: int, most: int) -> tuple[list[Draft], int]:
    """The messages, and how many bytes protobuf would take more for them. Raises IndexError if they are unusual."""
    end = len(data)
    drafts: list[Draft] = []
    added = 0
    while at < end:
        begin, length, start = at, data[at + 1], at + 2
        if length >= _BYTE:
            length, start = _longer(data, start)
        at = start + length
        if data[begin] != _MESSAGE or at > end or len(drafts) == most:
            raise IndexError
        read = draft(pb.PubsubMessage.FromString(data[start:at]))
        drafts.append(read)
        added += 1 + _bytes_of_length(read.size) + read.size - (at - begin)
    return drafts, added


def _longer(data: bytes, second: int) -> tuple[int, int]:
    """A length of more than one byte, of which the second is here; and where it ends. Raises IndexError if unusual."""
    low, high = data[second - 1], data[second]
    if not high:
        raise IndexError
    if high < _BYTE:
        return high << 7 | low & 0x7F, second + 1
    length, shift = low & 0x7F | (high & 0x7F) << 7, 14
    while shift <= 28:
        second += 1
        byte = data[second]
        length |= (byte & 0x7F) << shift
        if byte < _BYTE:
            if not byte:
                break
            return length, second + 1
        shift += 7
    raise IndexError


def _bytes_of_length(size: int) -> int:
    return max(1, (size.bit_length() + 6) // 7)


def write_reply(ids: Sequence[int]) -> bytes:
    """A serialized PublishResponse with one or more ids in rising order."""
    if len(ids) == 1:
        text = b"%d" % ids[0]
        return b"%c%c%b" % (_MESSAGE_ID, len(text), text)
    digits = len(str(ids[-1]))
    if len(str(ids[0])) == digits:  # all have so many
        return (f"{_MESSAGE_ID:c}{digits:c}%d" * len(ids) % tuple(ids)).encode("ascii")
    texts = [b"%d" % number for number in ids]
    return b"".join([b"%c%c%b" % (_MESSAGE_ID, len(text), text) for text in texts])
