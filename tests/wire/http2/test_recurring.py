"""Blocks that differ in a fresh timeout: recognised as what the library unpacks, with the same table behind them."""

import random
from collections.abc import Iterator

import pytest
from hpack.exceptions import HPACKError
from hpack.hpack import Decoder, Encoder

from emulator.wire.http2.frames import Http2Error
from emulator.wire.http2.heads import HeadDecoder, RequestHead
from tests.wire.http2.peer import integer, literal

LIMIT = 65_536
TIMEOUT = b"grpc-timeout"
Fields = list[tuple[bytes, bytes]]

BEFORE: Fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a.B/C"), (b":authority", b"host:1")]
BEHIND: Fields = [(b"te", b"trailers"), (b"content-type", b"application/grpc"), (b"x-goog-api-client", b"gl-go/1")]


def outcome(head: RequestHead) -> object:
    return head.method, head.path, dict(head.headers), head.content_length, head.problem, head.too_large


class Both:
    """The decoder under test beside the library's."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.heads = HeadDecoder(limit)
        self.plain = Decoder(max_header_list_size=2**20)
        self._limit = limit

    def agree(self, block: bytes, where: object = "") -> RequestHead | None:
        """Both make the same of a block, and of the table; None if neither can read it."""
        try:
            fields = [(bytes(name), bytes(value)) for name, value in self.plain.decode(block, raw=True)]
        except HPACKError:
            with pytest.raises(Http2Error):
                self.heads.request(block)
            return None
        head = self.heads.request(block)
        table, expected = self.heads._table, self.plain.header_table
        assert outcome(head) == outcome(RequestHead(fields, self._limit)), where
        assert list(table.dynamic_entries) == list(expected.dynamic_entries), where
        assert table._current_size == expected._current_size, where
        return head


def calls(rnd: random.Random, encoder: Encoder) -> Iterator[bytes]:
    """Blocks of a client with deadlines, without end."""
    position = rnd.randint(4, 7)
    regular = BEHIND[: rnd.randint(0, 3)]
    longest = rnd.choice([3, 8, 9, 17])
    while True:
        value = b"%d%c" % (rnd.randrange(10**longest), rnd.choice(b"HMSmunx."))
        fields = [*BEFORE, *regular]
        if rnd.random() < 0.9:
            fields.insert(position, (TIMEOUT, value))
        if rnd.random() < 0.05:
            fields.insert(rnd.randint(4, len(fields)), (b"x-%d" % rnd.randrange(3), b"v" * rnd.choice([1, 30, 900])))
        if rnd.random() < 0.02:
            fields.append((TIMEOUT, b"1S"))
        if rnd.random() < 0.01:
            encoder.header_table_size = rnd.choice([0, 50, 70, 120, 300, 4_096, 4_096])
        yield encoder.encode(fields, huffman=rnd.random() < 0.7)


@pytest.mark.rule("T21")
@pytest.mark.parametrize("seed", range(20))
def test_calls_with_fresh_timeouts_are_what_the_library_reads(seed: int) -> None:
    both = Both()
    for number, block in zip(range(400), calls(random.Random(seed), Encoder()), strict=False):
        both.agree(block, number)


@pytest.mark.rule("T21")
@pytest.mark.parametrize("seed", range(60))
def test_blocks_that_nearly_recur_are_what_the_library_reads(seed: int) -> None:
    rnd = random.Random(seed)
    both, source = Both(), calls(rnd, Encoder())
    for number in range(200):
        block = next(source)
        if number > 20 and rnd.random() < 0.02:
            changed = bytearray(block)
            odd = [0x40, 0x7E, 0x7F, 0x80, 0xBE, 0xFE, 0xFF, rnd.randrange(256)]
            changed[rnd.randrange(len(changed))] = rnd.choice(odd)
            block = bytes(changed[: rnd.choice([len(changed), rnd.randint(1, len(changed))])])
        if both.agree(block, number) is None:
            return


@pytest.mark.rule("T21")
@pytest.mark.parametrize("age", range(60, 140))
def test_an_entry_is_told_from_one_that_came_128_later(age: int) -> None:
    both = Both()
    both.agree(b"\x83\x86\x84" + b"\x40" + literal(b"a", b"old")[1:] + b"\x40" + literal(TIMEOUT, b"1S")[1:])
    both.agree(b"\x83\x86\x84\xbf\x7e\x022S")
    both.agree(b"\x83\x86\x84\xc0\x7e\x023S")
    for number in range(age):
        if both.agree(b"\x83\x86\x84\x40\0" + (b"\x01b" if number % 2 else b"\0")) is None:
            break
    both.agree(b"\x40" + literal(TIMEOUT, b"1S")[1:] + b"\x83\x86\x84")
    for index in (62, 63, 64, 65 + age, 66 + age, 67 + age, 189, 190, 191, 192, 193):
        if both.agree(b"\x83\x86\x84" + integer(index, 7, 0x80) + b"\x7e\x024S") is None:
            break


@pytest.mark.rule("T21")
@pytest.mark.parametrize("behind", [[], BEHIND])
def test_nearly_all_calls_with_fresh_timeouts_are_recognised(behind: Fields, monkeypatch: pytest.MonkeyPatch) -> None:
    heads, encoder = HeadDecoder(LIMIT), Encoder()
    unpacked: list[bytes] = []
    plain = HeadDecoder.fields

    def counting(self: HeadDecoder, block: bytes) -> Fields:
        unpacked.append(block)
        return plain(self, block)

    monkeypatch.setattr(HeadDecoder, "fields", counting)
    for number in range(1_000):
        heads.request(encoder.encode([*BEFORE, (TIMEOUT, b"%du" % (99_999_999 - number)), *behind]))

    # What falls out of the table is written out again, and learnt again.
    assert len(unpacked) < 150


@pytest.mark.rule("T21")
def test_what_is_kept_is_little() -> None:
    heads, encoder = HeadDecoder(LIMIT), Encoder()
    rnd = random.Random(1)
    for number in range(9_000):
        extra = [(b"x", b"%d" % (number // 3))]
        heads.request(encoder.encode([*BEFORE, *extra, (TIMEOUT, b"%du" % rnd.randrange(10**8))]))

    recurring = heads._recurring
    assert len(recurring._models) <= 64
    assert max(len(recurring._beginnings), len(recurring._steps)) <= 4_096
