"""Header blocks: requests decoded through HPACK with a cache, replies encoded without the dynamic table."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hpack.exceptions import HPACKError, OversizedHeaderListError
from hpack.hpack import encode_integer
from hpack.table import HeaderTable

from emulator.wire.http2.frames import ErrorCode, Http2Error, StreamError
from emulator.wire.http2.recurring import VALUE_MAX_BYTES, Recurring
from emulator.wire.http2.unpacking import ENTRY_OVERHEAD, Unpacker, resizes

_CACHED_BLOCKS: Final = 64
_CACHED_BLOCK_MAX_BYTES: Final = 4_096
# A list this long no honest peer sends: the block is a bomb, and decoding stops.
_BOMB_BYTES: Final = 262_144
# A block may begin with two, the smallest size and the last (RFC 7541 §4.2).
_THREE_RESIZES: Final = re.compile(rb"(?:[\x20-\x3e]|\x3f[\x80-\xff]*[\x00-\x7f]){3}")
_DEFAULT_TABLE_SIZE: Final = 4096

# The header that differs from call to call of clients that set deadlines.
VARYING: Final = b"grpc-timeout"

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_BAD_VALUE = re.compile(rb"[\x00\r\n]|^[ \t]|[ \t]$")
_CONNECTION_HEADERS: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_REQUEST_PSEUDO: Final = frozenset({b":method", b":scheme", b":path", b":authority"})


class RequestHead:
    """A request's headers.

    `problem` says what is malformed about them ("" for nothing); `too_large` that they pass the announced limit.
    `notes` is for the layer above to keep what it read out of them, since a cached head serves many requests. `like` is
    another head that differs in the value of `VARYING` alone, which is `varying` here.
    """

    __slots__ = ("_headers", "content_length", "like", "method", "notes", "path", "problem", "too_large", "varying")

    def __init__(self, fields: Sequence[tuple[bytes, bytes]], limit: int) -> None:
        self.method = ""
        self.path = ""
        self._headers: Mapping[str, str] = {}
        self.content_length: int | None = None
        self.notes: Any = None
        self.like: RequestHead | None = None
        self.varying = ""
        kept, self.too_large = _within(fields, limit)
        try:
            self._read(kept)
            self.problem = ""
        except StreamError as problem:
            self.problem = str(problem)

    def _read(self, fields: Sequence[tuple[bytes, bytes]]) -> None:
        pseudo, regular = split_fields(fields)
        for name in (b":method", b":scheme", b":path"):
            if not pseudo.get(name):
                raise _malformed(f"no {name.decode()}")
        self.method = pseudo[b":method"].decode("latin-1")
        self.path = pseudo[b":path"].decode("latin-1")
        headers: dict[str, str] = {}
        repeated: dict[str, list[str]] = {}
        for name, value in regular:
            key, text = name.decode("ascii"), value.decode("latin-1")
            if key in headers:
                repeated.setdefault(key, [headers[key]]).append(text)
            else:
                headers[key] = text
        for key, texts in repeated.items():  # joined at once: a bomb repeats a name many thousand times
            headers[key] = ",".join(texts)
        if b":authority" in pseudo:
            headers.setdefault("host", pseudo[b":authority"].decode("latin-1"))
        self._headers = headers
        length = headers.get("content-length")
        if length is not None:
            if not (length.isascii() and length.isdigit() and len(length) < 20):
                raise _malformed("content-length is no number")
            self.content_length = int(length)

    @property
    def headers(self) -> Mapping[str, str]:
        """By name in lower case; a repeated one's values are joined with commas."""
        if self.like is None:
            return self._headers
        return {**self.like.headers, VARYING.decode("ascii"): self.varying}

    def with_varying(self, value: bytes) -> "RequestHead":
        """The same head with another value of `VARYING`, which must be a good one."""
        head = RequestHead.__new__(RequestHead)
        head.method = self.method
        head.path = self.path
        head.varying = value.decode("latin-1")
        head.content_length = self.content_length
        head.problem = ""
        head.too_large = False
        head.notes = None
        head.like = self
        return head

    def __repr__(self) -> str:
        return f"<RequestHead {self.method} {self.path}{' ' + self.problem if self.problem else ''}>"


def _within(fields: Sequence[tuple[bytes, bytes]], limit: int) -> tuple[Sequence[tuple[bytes, bytes]], bool]:
    """As many fields as the limit allows, and whether there are more; those are not worth a look.

    The first four are there in any case: the pseudo-headers say who is to be answered.
    """
    size = 0
    for count, (name, value) in enumerate(fields):
        size += len(name) + len(value) + ENTRY_OVERHEAD
        if size > limit:
            return fields[: max(count, len(_REQUEST_PSEUDO))], True
    return fields, False


def _malformed(text: str) -> StreamError:
    return StreamError(ErrorCode.PROTOCOL_ERROR, text)


def split_fields(
    fields: Iterable[tuple[bytes, bytes]],
) -> tuple[dict[bytes, bytes], list[tuple[bytes, bytes]]]:
    """Pseudo-headers and the rest; raises StreamError for what RFC 9113 §8.2 and §8.3 call malformed."""
    pseudo: dict[bytes, bytes] = {}
    regular: list[tuple[bytes, bytes]] = []
    for name, value in fields:
        if _BAD_VALUE.search(value):
            raise _malformed("a header value holds forbidden characters")
        if name[:1] == b":":
            if regular or name in pseudo or name not in _REQUEST_PSEUDO:
                raise _malformed("a pseudo-header is late, repeated or unknown")
            pseudo[name] = value
            continue
        if not _NAME.fullmatch(name):
            raise _malformed("a header name is not lower case or holds forbidden characters")
        if name in _CONNECTION_HEADERS or (name == b"te" and value.lower() != b"trailers"):
            raise _malformed("a header of HTTP/1.1 connections")
        regular.append((name, value))
    return pseudo, regular


class HeadDecoder:
    """Decodes blocks in the order of their arrival.

    Decoded heads are cached by their bytes for one generation of the table: it moves on every insertion, eviction and
    size update (clients.md T21). A block that itself moves the table is never cached, nor is a large one; those that
    recur with a fresh value of `VARYING` are recognised by what they name.
    """

    __slots__ = ("_cache", "_limit", "_recurring", "_shapes", "_table", "_unpacker")

    def __init__(self, limit: int) -> None:
        self._unpacker = Unpacker(_BOMB_BYTES)
        self._table = self._unpacker.table
        self._limit = limit
        self._cache: dict[bytes, RequestHead] = {}
        # Heads by their fields but for the value of VARYING; they hold whatever becomes of the table.
        self._shapes: dict[tuple[object, ...], RequestHead] = {}
        self._recurring: Recurring[RequestHead] = Recurring(self._table, VARYING)

    def request(self, block: bytes) -> RequestHead:
        """A request's head; raises Http2Error when the block can't be decoded."""
        head = self._cache.get(block)
        if head is not None:
            return head
        recurring = self._recurring.take(block)
        if recurring is not None:
            self._cache.clear()
            model, value = recurring
            return model.with_varying(value)
        insertions = self._table.insertions
        head = self._head(self.fields(block))
        if head.like is not None:
            self._recurring.learn(block, insertions, head.like)
        if self._table.insertions == insertions and not resizes(block) and self._worth_caching(block, head):
            if len(self._cache) >= _CACHED_BLOCKS:
                self._cache.clear()
            self._cache[block] = head
        return head

    def _head(self, fields: list[tuple[bytes, bytes]]) -> RequestHead:
        at = next((at for at, (name, _) in enumerate(fields) if name == VARYING), None)
        if at is None:
            return RequestHead(fields, self._limit)
        value = fields[at][1]
        fields[at] = (VARYING, b"")
        shape = tuple(fields)
        like = self._shapes.get(shape)
        if like is not None and len(value) <= VALUE_MAX_BYTES and not _BAD_VALUE.search(value):
            return like.with_varying(value)
        fields[at] = (VARYING, value)
        head = RequestHead(fields, self._limit)
        if not head.problem and self._worth_keeping(fields):
            if len(self._shapes) >= _CACHED_BLOCKS:
                self._shapes.clear()
            self._shapes[shape] = head
        return head

    def _worth_keeping(self, fields: list[tuple[bytes, bytes]]) -> bool:
        """Whether a head is small, whatever the value of VARYING, and has that once."""
        size = sum(len(name) + len(value) + ENTRY_OVERHEAD for name, value in fields) + VALUE_MAX_BYTES
        return size <= min(_CACHED_BLOCK_MAX_BYTES, self._limit) and [name for name, _ in fields].count(VARYING) == 1

    def _worth_caching(self, block: bytes, head: RequestHead) -> bool:
        """Whether it is small, packed and unpacked, so that the whole cache of a connection is."""
        return len(block) <= _CACHED_BLOCK_MAX_BYTES and not head.too_large

    def fields(self, block: bytes) -> list[tuple[bytes, bytes]]:
        """Any block as a plain list; raises Http2Error."""
        if _THREE_RESIZES.match(block):
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, "a header block with many table size updates")
        insertions = self._table.insertions
        try:
            return self._unpacker.unpack(block)
        except OversizedHeaderListError:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "a header list beyond all measure") from None
        except (HPACKError, IndexError, ValueError) as problem:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, f"undecodable header block: {problem}") from None
        finally:
            if self._table.insertions != insertions or resizes(block):
                self._cache.clear()

    def __repr__(self) -> str:
        return f"<HeadDecoder insertions={self._table.insertions} cached={len(self._cache)}>"


def encode(fields: Iterable[tuple[str, str]]) -> bytes:
    """A header block of literals that touch no dynamic table; the same bytes for every peer."""
    out = bytearray()
    static = HeaderTable.STATIC_TABLE_MAPPING
    for name, value in fields:
        raw_name, raw_value = name.encode("ascii"), value.encode("latin-1")
        index, values = static.get(raw_name, (0, {}))
        if raw_value in values:
            indexed = encode_integer(values[raw_value], 7)
            indexed[0] |= 0x80
            out += indexed
            continue
        out += encode_integer(index, 4)
        if not index:
            out += encode_integer(len(raw_name), 7) + raw_name
        out += encode_integer(len(raw_value), 7) + raw_value
    return bytes(out)


class TableSizeNotice:
    """What the next header block must say of the table that we never use (clients.md T20)."""

    __slots__ = ("_lowest", "_said", "_wanted")

    def __init__(self) -> None:
        self._said = _DEFAULT_TABLE_SIZE
        self._wanted = _DEFAULT_TABLE_SIZE
        self._lowest = _DEFAULT_TABLE_SIZE

    def allow(self, size: int) -> None:
        """The peer's SETTINGS_HEADER_TABLE_SIZE."""
        self._wanted = min(size, _DEFAULT_TABLE_SIZE)
        self._lowest = min(self._lowest, self._wanted)

    @property
    def due(self) -> bool:
        return self._lowest < self._said or self._wanted != self._said

    def take(self) -> bytes:
        """The size updates for the head of the next block, smallest first."""
        sizes = [self._lowest] if self._lowest < self._said else []
        if self._wanted != (sizes[-1] if sizes else self._said):
            sizes.append(self._wanted)
        self._said = self._lowest = self._wanted
        out = bytearray()
        for size in sizes:
            update = encode_integer(size, 5)
            update[0] |= 0x20
            out += update
        return bytes(out)

    def __repr__(self) -> str:
        return f"<TableSizeNotice said={self._said} wanted={self._wanted}>"
