"""Header blocks that are an earlier one again but for a single value, recognised without being unpacked.

A client that indexes a fresh value with every call moves the whole table each time, so that equal requests never have
equal bytes: every index in them has grown by one. Counted from the table's beginning instead of its end, though, the
entries they name are the same, and by those numbers such blocks are looked up here.
"""

import re
from typing import Final, Generic, TypeAlias, TypeVar

from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE

from emulator.wire.http2.unpacking import DYNAMIC_FIRST, CountingTable

T = TypeVar("T")
# A state of Huffman's code, what was decoded on the way there, and whether a text may end there.
_Step: TypeAlias = tuple[int, bytes, bool]

VALUE_MAX_BYTES: Final = 16

_MODELS: Final = 64
_STEPS: Final = 4_096
_BEGINNING: Final = 4
# What a fresh value pushes out of the table at most, when its name has so few bytes: it takes twice as much as the
# smallest entry, or less.
_EVICTED_MOST: Final = 2
_NAME_MAX_BYTES: Final = 16

# Indexed fields, a literal with incremental indexing whose name is in the dynamic table, the length of its value. What
# follows the value is looked at by itself. Indexes have one byte or two.
_INDEXED: Final = re.compile(rb"(?:[\x81-\xfe]++|\xff[\x00-\x7f])*+")
_RECURRING: Final = re.compile(
    rb"((?:[\x81-\xfe]++|\xff[\x00-\x7f])*+)(?:\x7e|\x7f([\x00-\x7f]))([\x01-\x10\x81-\x90])"
)

# The table has at most 4096 / 32 entries, so among those that are there the last seven bits of a number are enough.
_NUMBERS: Final = 128
_NEWEST: Final = 0x80 + DYNAMIC_FIRST  # as an indexed field
_INDEXED_FIRST: Final = 0x81
_NOTHING: Final = 0xFF  # begins an index of two bytes
_BEHIND: Final = b"\xfe"
_NAME_IS_NEWEST: Final = b"\x7e"
_FALLING: Final = bytes(range(_NUMBERS - 1, -1, -1)) * 2
_NEVER: Final = 1 << 62
_BROKEN: Final = b"\xff"


def _translation(count: int) -> bytes:
    """From indexed fields of one byte each to what they name once `count` entries have been inserted, modulo 128.

    That is below 128 for an entry, and the byte itself for a field of the static table; 255 for what is neither.
    """
    start = _NUMBERS - 1 - count
    static = bytes(range(_INDEXED_FIRST, _NEWEST))
    entries = _FALLING[start : start + _NOTHING - _NEWEST]
    return bytes((_NOTHING,)) * _INDEXED_FIRST + static + entries + bytes((_NOTHING,))


_TRANSLATIONS: Final = tuple(map(_translation, range(_NUMBERS)))


class Recurring(Generic[T]):
    """What blocks stand for that have been seen before, but for the value of the field `name`, which is indexed anew.

    Kept are at most 64 models. An entry's number is how many had been inserted when it had been.
    """

    __slots__ = ("_beginnings", "_models", "_name", "_steps", "_table")

    def __init__(self, table: CountingTable, name: bytes) -> None:
        assert len(name) <= _NAME_MAX_BYTES
        self._table = table
        self._name = name
        # By what is before the value and behind it: the number of the oldest entry needed, and the model.
        self._models: dict[bytes, tuple[int, T]] = {}
        self._beginnings: dict[bytes, _Step] = {}
        self._steps: dict[int, _Step] = {}

    def take(self, block: bytes) -> tuple[T, bytes] | None:
        """The model of a block and the value in it, of 1 to 16 letters and digits; the table has learnt it then.

        None, and nothing has happened, if the block has to be unpacked.
        """
        table = self._table
        at = block.find(_NAME_IS_NEWEST)
        start = at + 2
        end = len(block)
        found = None
        # The usual form at once: one byte an index, the name is the newest entry's, nothing follows the value.
        if 0 <= at < end - 1 and (size := block[at + 1]) & 0x7F == end - start:
            place = 0
            found = self._models.get(block[:at].translate(_TRANSLATIONS[table.insertions & 0x7F]))
        if found is None:
            parts = _parts(block, table.insertions)
            if parts is None:
                return None
            key, place, start, end, size = parts
            found = self._models.get(key)
            if found is None:
                return None
        oldest, model = found
        entries = table.dynamic_entries
        # All that the block names has to be there, also once the value has pushed others out.
        if table.insertions - oldest >= len(entries) - _EVICTED_MOST:
            return None
        if place >= len(entries) or entries[place][0] != self._name:
            return None
        value = block[start:end]
        if size & 0x80:
            value = self._unpacked(value)
        if not value.isalnum() or len(value) > VALUE_MAX_BYTES:
            return None
        table.add(self._name, value)
        return model, value

    def learn(self, block: bytes, insertions: int, model: T) -> None:
        """A block has been unpacked that has the value's field once; `insertions` had been made before."""
        table = self._table
        parts = _parts(block, insertions)
        # The one insertion must have been the value's.
        if parts is None or table.insertions != insertions + 1:
            return
        if not table.dynamic_entries or table.dynamic_entries[0][0] != self._name:
            return
        key = parts[0]
        if len(self._models) >= _MODELS:
            self._models.clear()
        # Whatever it names is still there, or was until now: then the number is that of an entry that is gone.
        ages = [(insertions - number) % _NUMBERS for number in key if number < _NUMBERS]
        self._models[key] = (insertions - max(ages) if ages else _NEVER, model)

    def _unpacked(self, packed: bytes) -> bytes:
        """What Huffman's code stands for; something with other than letters and digits if it is broken."""
        beginning = packed[:_BEGINNING]  # mostly the one of the call before
        state, text, complete = self._beginnings.get(beginning) or self._begin(beginning)
        for byte in packed[_BEGINNING:]:
            state, more, complete = self._steps.get(state << 8 | byte) or self._step(state, byte)
            text += more
        return text if complete else _BROKEN

    def _begin(self, packed: bytes) -> _Step:
        state, text, complete = 0, b"", True
        for byte in packed:
            state, more, complete = self._step(state, byte)
            text += more
        if len(self._beginnings) >= _STEPS:
            self._beginnings.clear()
        self._beginnings[packed] = state, text, complete
        return state, text, complete

    def _step(self, state: int, byte: int) -> _Step:
        """The library's decoder goes from one half of a byte to the next; from byte to byte is faster."""
        text, came_from, flags = b"", state, 0
        for half in (byte >> 4, byte & 0x0F):
            state, flags, symbol = HUFFMAN_TABLE[state << 4 | half]
            if flags & HUFFMAN_FAIL:
                return 0, _BROKEN, False
            if flags & HUFFMAN_EMIT_SYMBOL:
                text += bytes((symbol,))
        step = state, text, bool(flags & HUFFMAN_COMPLETE)
        if len(self._steps) < _STEPS:
            self._steps[came_from << 8 | byte] = step
        return step

    def __repr__(self) -> str:
        return f"<Recurring models={len(self._models)}>"


def _parts(block: bytes, insertions: int) -> tuple[bytes, int, int, int, int] | None:
    """A block of any form that recurs: its key, the place of the entry with the name, where the value begins and ends,

    and its length as it was written. None for another block.
    """
    found = _RECURRING.match(block)
    if found is None:
        return None
    before, name_index, length = found.groups()
    start = found.end()
    size = length[0]
    end = start + (size & 0x7F)
    key = _numbered(before, insertions)
    if end != len(block):
        if end > len(block) or not _INDEXED.fullmatch(block, end):
            return None
        key += _BEHIND + _numbered(block[end:], insertions + 1)
    return key, name_index[0] + 1 if name_index else 0, start, end, size


def _numbered(indexed: bytes, insertions: int) -> bytes:
    """Indexed fields by what they name instead of how far away it is; see `_translation`."""
    if _NOTHING not in indexed:
        return indexed.translate(_TRANSLATIONS[insertions % _NUMBERS])
    numbered = bytearray()
    fields = iter(indexed)
    for byte in fields:
        age = byte - _NEWEST if byte < _NOTHING else _NOTHING - _NEWEST + next(fields)
        if age >= _NUMBERS:
            return indexed  # beyond every table: with its 255 it is a key that no model has
        numbered.append(byte if age < 0 else (insertions - age) % _NUMBERS)
    return bytes(numbered)
