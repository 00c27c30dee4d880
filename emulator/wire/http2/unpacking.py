"""Header blocks unpacked by the HPACK library, with a short way for what nearly all fields of real clients are.

The library takes 3 to 4 µs a field, most of it in layers that such fields don't need. The short way reads indexed
fields, and literals whose lengths and indexes fit into one byte, and leaves the rest of a block to the library from the
first field that is anything else. Both work on the library's own table.
"""

from typing import Final

from hpack.exceptions import HPACKDecodingError, OversizedHeaderListError
from hpack.hpack import Decoder
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

Fields = list[tuple[bytes, bytes]]

_STATIC: Final = HeaderTable.STATIC_TABLE
_STATIC_SIZE: Final = len(_STATIC)
DYNAMIC_FIRST: Final = _STATIC_SIZE + 1
ENTRY_OVERHEAD: Final = 32


class CountingTable(HeaderTable):
    """The library's table, counting what is inserted, since it has no other way to tell.

    Adding is written again: the library's asks its logger for each entry that it drops.
    """

    def __init__(self) -> None:
        super().__init__()
        self.insertions = 0

    def add(self, name: bytes, value: bytes) -> None:
        self.insertions += 1
        size = len(name) + len(value) + ENTRY_OVERHEAD
        entries, room = self.dynamic_entries, self._maxsize
        if size > room:  # RFC 7541 §4.4
            entries.clear()
            self._current_size = 0
            return
        entries.appendleft((name, value))
        size += self._current_size
        while size > room:
            name, value = entries.pop()
            size -= len(name) + len(value) + ENTRY_OVERHEAD
        self._current_size = size


class Unpacker:
    """Decodes blocks in the order of their arrival; `table` is what it has learnt. Lists hold at most `max_bytes`."""

    __slots__ = ("_decoder", "_max_bytes", "table")

    def __init__(self, max_bytes: int) -> None:
        self.table = CountingTable()
        self._max_bytes = max_bytes
        self._decoder = Decoder(max_header_list_size=max_bytes)
        self._decoder.header_table = self.table

    def unpack(self, block: bytes) -> Fields:
        """Raises HPACKError, OversizedHeaderListError, IndexError or ValueError for what can't be decoded."""
        fields, position, room = self._short_way(block)
        if position == len(block):
            return fields
        rest = block[position:] if position else block
        if position and resizes(rest):
            raise HPACKDecodingError("Table size update not at the start of the block")
        self._decoder.max_header_list_size = room
        fields += [(name, value) for name, value in self._decoder.decode(rest, raw=True)]
        return fields

    def _short_way(self, block: bytes) -> tuple[Fields, int, int]:
        """Fields, the place of the first one that is left over, and how many bytes the list may still have."""
        fields: Fields = []
        position, end, room = 0, len(block), self._max_bytes
        entries = self.table.dynamic_entries
        while position < end:
            byte = block[position]
            if byte & 0x80:
                index = byte & 0x7F
                if index == 0x7F or not index:
                    break
                after = position + 1
            else:
                # A literal: its name is indexed in 6 bits or 4, its value may be packed once more.
                indexed = byte & 0x40
                if byte & 0x20 and not indexed:
                    break
                index = byte & (0x3F if indexed else 0x0F)
                if not index or index == (0x3F if indexed else 0x0F) or position + 1 >= end:
                    break
                length = block[position + 1]
                start = position + 2
                after = start + (length & 0x7F)
                if length & 0x7F == 0x7F or after > end:
                    break
            if index <= _STATIC_SIZE:
                field = _STATIC[index - 1]
            elif index - _STATIC_SIZE <= len(entries):
                field = entries[index - _STATIC_SIZE - 1]
            else:
                break
            if not byte & 0x80:
                value = block[start:after]
                field = (bytes(field[0]), decode_huffman(value) if length & 0x80 else value)
                if indexed:
                    self.table.add(*field)
            position = after
            room -= len(field[0]) + len(field[1]) + ENTRY_OVERHEAD
            if room < 0:
                raise OversizedHeaderListError("A header list larger than the limit has been received")
            fields.append(field)
        return fields, position, room

    def __repr__(self) -> str:
        return f"<Unpacker insertions={self.table.insertions}>"


def resizes(block: bytes) -> bool:
    """Whether a block begins with a dynamic table size update, the only place for one (RFC 7541 §4.2)."""
    return block[:1] != b"" and block[0] & 0xE0 == 0x20
