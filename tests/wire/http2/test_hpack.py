"""RFC 7541: what a block may hold, the cache of decoded ones, lists beyond measure, and our own blocks."""

import copy
import random

import pytest
from hpack.exceptions import HPACKError
from hpack.hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from emulator.wire.http2.frames import ErrorCode, Http2Error
from emulator.wire.http2.heads import HeadDecoder, RequestHead, encode
from tests.wire.http2.peer import (
    COMPRESSION_ERROR,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    HANG,
    POST,
    REFUSED_STREAM,
    STREAM_CLOSED,
    Peer,
    block,
    continuation,
    data,
    frame,
    headers,
    integer,
    literal,
    open_headers,
    request_fields,
    rst,
)
from tests.wire.http2.rows import TIGHT, Dies, Lives, Resets, Row, check, table

LIMIT = 65_536
# :method POST, :scheme http, :path / of the static table.
STATIC = b"\x83\x86\x84"
TOP = b"\xbe"  # the newest entry of the dynamic table


def inserted(name: bytes, value: bytes) -> bytes:
    """Literal with incremental indexing, new name (RFC 7541 §6.2.1)."""
    return b"\x40" + literal(name, value)[1:]


def update(size: int) -> bytes:
    return integer(size, 5, 0x20)


UNDECODABLE = Dies(COMPRESSION_ERROR, 1)
FINE = Lives((1,))

BLOCKS = (
    Row("2.3.2", "the table serves later blocks", headers(1, STATIC + inserted(b"a", b"b")) + headers(3, STATIC + TOP),
        Lives((1, 3))),
    Row("2.3.2", "the table serves trailers and learns from them",
        open_headers(1, STATIC + inserted(b"a", b"b")) + headers(1, TOP + inserted(b"c", b"d"))
        + headers(3, STATIC + TOP + b"\xbf"), Lives((1, 3))),
    Row("2.3.3", "index 61", headers(1, STATIC + b"\xbd"), FINE),
    Row("2.3.3", "index 62 of an empty table", headers(1, STATIC + TOP), UNDECODABLE),
    Row("2.3.3", "an index beyond the table", headers(1, STATIC + inserted(b"a", b"b") + b"\xbf"), UNDECODABLE),
    Row("2.3.3", "a name's index beyond the table", headers(1, STATIC + integer(70, 4) + b"\x01v"), UNDECODABLE),
    Row("4.2", "a size update first", headers(1, update(100) + STATIC), FINE),
    Row("4.2", "two size updates first", headers(1, update(0) + update(4_096) + STATIC), FINE),
    Row("4.2", "three size updates first", headers(1, update(0) + update(9) + update(4_096) + STATIC), UNDECODABLE),
    Row("4.2", "many size updates", headers(1, update(4_096) * 5_000 + STATIC), UNDECODABLE),
    Row("4.2", "a size update in the trailers", open_headers(1) + headers(1, update(0)), FINE),
    Row("4.2", "a size update in the second frame", headers(1, b"", 1) + continuation(1, update(9) + STATIC), FINE),
    Row("4.2", "a size update after a field", headers(1, STATIC + update(0)), UNDECODABLE),
    Row("4.2", "a size update between fields", headers(1, b"\x83" + update(0) + b"\x86\x84"), UNDECODABLE),
    Row("4.2", "a size update beyond the limit", headers(1, update(4_097) + STATIC), UNDECODABLE),
    Row("4.2", "a size update of 2^32", headers(1, update(2**32) + STATIC), UNDECODABLE),
    Row("4.3", "a size of 0 empties the table",
        headers(1, STATIC + inserted(b"a", b"b")) + headers(3, update(0) + STATIC + TOP), Dies(COMPRESSION_ERROR, 3)),
    Row("4.3", "a smaller size keeps what fits",
        headers(1, STATIC + inserted(b"a", b"b") + inserted(b"c", b"d")) + headers(3, update(34) + STATIC + TOP),
        Lives((1, 3))),
    Row("4.3", "a smaller size drops the oldest",
        headers(1, STATIC + inserted(b"a", b"b") + inserted(b"c", b"d")) + headers(3, update(34) + STATIC + b"\xbf"),
        Dies(COMPRESSION_ERROR, 3)),
    Row("4.4", "an entry larger than the table empties it",
        headers(1, STATIC + inserted(b"a", b"b") + inserted(b"c", bytes(4_097).replace(b"\0", b"x")) + TOP),
        UNDECODABLE),
    Row("4.4", "an entry as large as the table drops all others",
        headers(1, STATIC + inserted(b"a", b"b") + inserted(b"c", b"x" * (4_096 - 33)) + b"\xbf"), UNDECODABLE),
    Row("5.1", "an integer that does not end", headers(1, STATIC + b"\xff"), UNDECODABLE),
    Row("5.1", "an integer of 9 continuation bytes", headers(1, STATIC + b"\xff" + b"\xff" * 9 + b"\1"), UNDECODABLE),
    Row("5.1", "an integer of 16,000 continuation bytes", headers(1, STATIC + b"\xff" * 16_000), UNDECODABLE),
    Row("5.1", "an integer with needless zeros", headers(1, STATIC + b"\x0f\x80\x80\x00\x01v"), FINE),
    Row("5.2", "a name longer than the block", headers(1, STATIC + b"\0\x09abc"), UNDECODABLE),
    Row("5.2", "a value longer than the block", headers(1, STATIC + b"\0\1a\x09abc"), UNDECODABLE),
    Row("5.2", "a field without its value", headers(1, STATIC + b"\0\1a"), UNDECODABLE),
    Row("5.2", "Huffman code, padded with ones", headers(1, STATIC + b"\0\1a\x81\x1f"), FINE),
    Row("5.2", "Huffman code, empty", headers(1, STATIC + b"\0\1a\x80"), FINE),
    Row("5.2", "Huffman padding of zeros", headers(1, STATIC + b"\0\1a\x81\x18"), UNDECODABLE),
    Row("5.2", "Huffman padding of more than 7 bits", headers(1, STATIC + b"\0\1a\x82\x1f\xff"), UNDECODABLE),
    Row("5.2", "the Huffman end of string", headers(1, STATIC + b"\0\1a\x84\xff\xff\xff\xff"), UNDECODABLE),
    Row("6.1", "index 0", headers(1, STATIC + b"\x80"), UNDECODABLE),
    Row("6.2.1", "incremental indexing, indexed name", headers(1, STATIC + b"\x7a\x01v"), FINE),
    Row("6.2.2", "without indexing, indexed name", headers(1, STATIC + b"\x0f\x2b\x01v"), FINE),
    Row("6.2.2", "without indexing leaves the table", headers(1, STATIC + literal(b"a", b"b") + TOP), UNDECODABLE),
    Row("6.2.3", "never indexed, new name", headers(1, STATIC + b"\x10\x01a\x01b"), FINE),
    Row("6.2.3", "never indexed, indexed name", headers(1, STATIC + b"\x1f\x2b\x01v"), FINE),
    Row("6.2.3", "never indexed leaves the table", headers(1, STATIC + b"\x10\x01a\x01b" + TOP), UNDECODABLE),
)  # fmt: skip

# Blocks of streams that nobody serves: the next block needs what they put into the table.
_TEACHES = STATIC + inserted(b"a", b"b")
_NEEDS = STATIC + TOP
IN_STEP = (
    Row("4.3", "a refused stream", headers(1, HANG) + headers(3, HANG) + headers(5, _TEACHES) + rst(1)
        + headers(7, _NEEDS) + rst(3), Resets(REFUSED_STREAM, 5), announced=TIGHT),
    Row("4.3", "a malformed request", headers(1, inserted(b"a", b"b")) + headers(3, _NEEDS), Resets(1)),
    Row("4.3", "trailers of a stream that the server reset", headers(1, b"") + headers(1, _TEACHES)
        + headers(3, _NEEDS), Resets(1)),
    Row("4.3", "trailers of a stream that the peer reset", open_headers(1) + rst(1) + headers(1, _TEACHES)
        + headers(3, _NEEDS), Resets(STREAM_CLOSED)),
    Row("4.3", "HEADERS after the end", headers(1, HANG) + headers(1, _TEACHES) + headers(3, _NEEDS),
        Resets(STREAM_CLOSED)),
)  # fmt: skip


@pytest.mark.rule("T20")
@table(*BLOCKS)
def test_blocks(row: Row) -> None:
    check(row)


@pytest.mark.rule("T23", "T32")
@table(*IN_STEP)
def test_the_table_stays_in_step(row: Row) -> None:
    check(row)


@pytest.mark.rule("T32")
def test_blocks_after_the_final_goaway_are_decoded_and_otherwise_ignored() -> None:
    peer = Peer()
    peer.send(open_headers(1))
    peer.connection.final_goaway()
    peer.read()
    assert peer.send(headers(3, _TEACHES), open_headers(5, _NEEDS), data(5, b"x"), rst(3)) == []
    assert peer.died is None
    assert list(peer.calls) == [1]


# The cache


@pytest.mark.rule("T21")
def test_a_repeated_block_is_decoded_once() -> None:
    heads = HeadDecoder(LIMIT)
    assert heads.request(POST) is heads.request(POST)


@pytest.mark.rule("T21")
@pytest.mark.parametrize(
    "mover",
    [
        pytest.param(inserted(b"c", b"d"), id="an insertion"),
        pytest.param(inserted(b"c", b"x" * 4_096), id="an entry too large to be kept"),
        pytest.param(update(4_096), id="a size update that changes nothing"),
        pytest.param(update(0) + update(4_096), id="a size update that empties the table"),
    ],
)
@pytest.mark.parametrize("as_trailers", [False, True])
def test_whatever_moves_the_table_empties_the_cache(mover: bytes, as_trailers: bool) -> None:
    heads = HeadDecoder(LIMIT)
    before = heads.request(POST)
    (heads.fields if as_trailers else heads.request)(mover)
    assert heads.request(POST) is not before


@pytest.mark.rule("T21")
@pytest.mark.parametrize("mover", [inserted(b"c", b"d"), update(4_096), update(0) + update(4_096)])
def test_a_block_that_moves_the_table_is_never_cached(mover: bytes) -> None:
    heads = HeadDecoder(LIMIT)
    assert heads.request(mover + STATIC) is not heads.request(mover + STATIC)


@pytest.mark.rule("T21")
def test_equal_bytes_mean_something_else_once_the_table_has_moved() -> None:
    heads = HeadDecoder(LIMIT)
    heads.request(STATIC + inserted(b"a", b"1"))
    first = heads.request(STATIC + TOP)
    heads.fields(inserted(b"a", b"2"))
    assert (first.headers, heads.request(STATIC + TOP).headers) == ({"a": "1"}, {"a": "2"})


@pytest.mark.rule("T21")
def test_a_block_that_moves_the_table_moves_it_every_time() -> None:
    heads = HeadDecoder(LIMIT)
    for _ in range(3):
        heads.request(STATIC + inserted(b"a", b"1"))
    assert heads.fields(b"\xbe\xbf\xc0") == [(b"a", b"1")] * 3


@pytest.mark.rule("T21")
def test_at_most_64_blocks_are_cached() -> None:
    heads = HeadDecoder(LIMIT)
    for at in range(1_000):
        heads.request(POST + literal(b"n", str(at).encode()))
        assert int(repr(heads).split("cached=")[1].rstrip(">")) <= 64


@pytest.mark.rule("T21", "T29")
@pytest.mark.parametrize(
    "large",
    [
        pytest.param(POST + literal(b"n", b"x" * 5_000), id="packed"),
        pytest.param(POST + TOP * 20, id="unpacked"),
    ],
)
def test_a_large_block_is_not_kept(large: bytes) -> None:
    heads = HeadDecoder(LIMIT)
    heads.fields(inserted(b"a", b"x" * 4_000))
    assert heads.request(large) is not heads.request(large)


def outcome(head: RequestHead) -> object:
    return head.method, head.path, dict(head.headers), head.content_length, head.problem, head.too_large


def random_block(rnd: random.Random, earlier: list[bytes]) -> bytes:
    """A block that strains the table; often one that was sent before."""
    if earlier and rnd.random() < 0.5:
        return rnd.choice(earlier[-12:])
    out = bytearray()
    if rnd.random() < 0.1:
        out += b"".join(update(rnd.choice([0, 40, 300, 1_000, 4_096])) for _ in range(rnd.randint(1, 2)))
    out += STATIC
    for _ in range(rnd.randint(0, 4)):
        name, value = (
            rnd.choice([b"a", b"b", b"long-name"]),
            rnd.choice([b"", b"1", b"2", b"x" * rnd.randint(0, 2_000)]),
        )
        out += rnd.choice(
            [
                inserted(name, value),
                literal(name, value),
                integer(62 + rnd.randint(0, 6), 7, 0x80),
                integer(62 + rnd.randint(0, 3), 6, 0x40) + bytes([len(value[:9])]) + value[:9],
                TOP,
            ]
        )
    return bytes(out)


def agree(seed: int) -> int:
    """Decode one random sequence of blocks with the cache and without: both see the same, or fail at the same block.

    Returns how many blocks were decoded.
    """
    rnd = random.Random(seed)
    cached, plain = HeadDecoder(LIMIT), Decoder(max_header_list_size=2**20)
    blocks: list[bytes] = []
    decoded = 0
    while decoded < 60:
        sent = random_block(rnd, blocks)
        try:
            copy.deepcopy(plain).decode(sent)
        except HPACKError:
            if rnd.random() < 0.995:
                continue  # most mistakes are left out, since the first one ends the sequence
            with pytest.raises(Http2Error):
                cached.request(sent)
            break
        blocks.append(sent)
        decoded += 1
        expected = RequestHead([(bytes(n), bytes(v)) for n, v in plain.decode(sent, raw=True)], LIMIT)
        if rnd.random() < 0.1:
            assert outcome(RequestHead(cached.fields(sent), LIMIT)) == outcome(expected), f"seed {seed}"
        else:
            assert outcome(cached.request(sent)) == outcome(expected), f"seed {seed}"
    return decoded


@pytest.mark.rule("T21")
def test_cached_and_plain_decoding_agree() -> None:
    assert sum(agree(seed) for seed in range(60)) > 2_000


@pytest.mark.rule("T21")
def test_cached_and_plain_decoding_agree_with_a_real_encoder_at_capacity() -> None:
    rnd = random.Random(7)
    encoder, cached, plain = Encoder(), HeadDecoder(LIMIT), Decoder()
    for at in range(1_500):
        if rnd.random() < 0.02:
            encoder.header_table_size = rnd.choice([0, 100, 4_096])
        fields = request_fields(
            b"/", (b"grpc-timeout", b"%dm" % rnd.randint(1, 40)), (b"x", b"y" * rnd.choice([1, 900]))
        )
        packed = encoder.encode(fields)
        expected = RequestHead([(bytes(n), bytes(v)) for n, v in plain.decode(packed, raw=True)], LIMIT)
        assert outcome(cached.request(packed)) == outcome(expected), at


# Lists beyond the limit


def list_of(size: int) -> bytes:
    """A request whose list counts exactly so many bytes (RFC 9113 §6.5.2)."""
    fields = request_fields()
    rest = size - sum(len(n) + len(v) + 32 for n, v in fields)
    return block(fields) + literal(b"x", b"v" * (rest - 33))


def in_frames(stream: int, fragments: bytes) -> bytes:
    """HEADERS with END_STREAM and as many CONTINUATION as needed."""
    parts = [fragments[at : at + 16_384] for at in range(0, len(fragments), 16_384)]
    out = headers(stream, parts[0], END_STREAM | (4 if len(parts) == 1 else 0))
    return out + b"".join(continuation(stream, part, 4 if part is parts[-1] else 0) for part in parts[1:])


@pytest.mark.rule("T29")
@pytest.mark.parametrize(("size", "too_large"), [(65_536, False), (65_537, True), (100_000, True)])
def test_a_list_is_measured_against_the_announced_limit(size: int, too_large: bool) -> None:
    peer = Peer()
    peer.send(in_frames(1, list_of(size)))
    assert peer.calls[1].head.too_large is too_large
    assert peer.calls[1].head.path == "/"
    assert peer.still_works()


@pytest.mark.rule("T29")
def test_a_list_over_the_limit_is_decoded_to_its_end() -> None:
    peer = Peer()
    peer.send(in_frames(1, list_of(70_000) + inserted(b"last", b"one")), headers(3, STATIC + TOP))
    assert peer.calls[3].head.headers == {"last": "one"}


@pytest.mark.rule("T29")
def test_a_small_block_that_unpacks_beyond_the_limit_ends_its_stream_only() -> None:
    peer = Peer()
    peer.send(headers(1, STATIC + inserted(b"a", b"x" * 4_000) + TOP * 50))
    assert peer.calls[1].head.too_large
    assert peer.still_works()


@pytest.mark.rule("T8", "T29")
def test_a_bomb_ends_the_connection() -> None:
    peer = Peer()
    peer.send(headers(1, STATIC + inserted(b"a", b"x" * 4_000) + TOP * 10_000))
    assert peer.died == ENHANCE_YOUR_CALM


@pytest.mark.rule("T8", "T29")
def test_a_bomb_of_many_small_fields_is_not_unpacked_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[int] = []
    plain = Decoder._decode_literal_no_index

    def counting(self: Decoder, data: bytes) -> object:
        unpacked.append(1)
        return plain(self, data)

    monkeypatch.setattr(Decoder, "_decode_literal_no_index", counting)
    peer = Peer()
    peer.send(in_frames(1, STATIC + literal(b"a", b"") * 30_000))
    assert (peer.died, len(unpacked) < 10_000) == (ENHANCE_YOUR_CALM, True)


@pytest.mark.rule("T8", "T29")
@pytest.mark.parametrize("size", [131_072, 131_073])
def test_a_packed_block_has_a_limit(size: int) -> None:
    peer = Peer()
    peer.send(in_frames(1, POST + literal(b"x", b"v" * (size - len(POST) - 7))))
    assert peer.died == (ENHANCE_YOUR_CALM if size > 131_072 else None)


@pytest.mark.rule("T8")
@pytest.mark.parametrize("piece", [b"", b"x"])
def test_a_block_of_endless_frames_ends_the_connection(piece: bytes) -> None:
    peer = Peer()
    peer.feed(headers(1, POST, END_STREAM))
    sent = 0
    while peer.died is None:
        sent += 1
        peer.feed(frame(9, 0, 1, piece))
    assert (sent, peer.died) == (1_024, ENHANCE_YOUR_CALM)


# Our own blocks


@pytest.mark.rule("T20", "T31")
@given(
    st.lists(
        st.tuples(
            st.sampled_from([":status", "content-type", "grpc-status", "grpc-message", "x-" + "n" * 200]),
            st.sampled_from(["200", "404", "", "application/grpc"]) | st.text(st.characters(max_codepoint=255)),
        ),
        max_size=6,
    )
)
def test_what_we_encode_decodes_to_the_same_and_touches_no_table(fields: list[tuple[str, str]]) -> None:
    decoder = Decoder()
    raw = [(name.encode(), value.encode("latin-1")) for name, value in fields]
    for _ in range(2):
        assert [(bytes(n), bytes(v)) for n, v in decoder.decode(encode(fields), raw=True)] == raw
    assert not decoder.header_table.dynamic_entries


def test_errors_of_the_library_end_the_connection_with_their_code() -> None:
    with pytest.raises(Http2Error) as caught:
        HeadDecoder(LIMIT).request(b"\x80")
    assert caught.value.code is ErrorCode.COMPRESSION_ERROR


@pytest.mark.rule("T29")
def test_what_is_beyond_the_limit_is_not_looked_at() -> None:
    start = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/p"), (b"x", b"v" * 66_000)]

    head = RequestHead([*start, (b"NOT A NAME", b"\0")], 65_536)

    assert (head.too_large, head.problem, head.path) == (True, "", "/p")


TIMEOUT = b"grpc-timeout"


def fields_with(*timeouts: bytes, early: bool = False) -> list[tuple[bytes, bytes]]:
    """A request's fields with so many timeouts at their end, or before its last pseudo-header."""
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x"), (b"te", b"trailers")]
    at = 2 if early else len(fields)
    return [*fields[:at], *((TIMEOUT, value) for value in timeouts), *fields[at:]]


class TestVaryingTimeouts:
    """Heads that differ in one value are made from one another, and are as if they were not."""

    @pytest.mark.rule("T21", "T36")
    @pytest.mark.parametrize("early", [False, True])
    @pytest.mark.parametrize(
        "later", [(b"2S",), (b"",), (b"59999999u",), (b"x" * 17,), (b" 2S",), (b"2\0S",), (b"2S", b"3S"), ()]
    )
    def test_a_later_head_is_what_it_would_be_alone(self, later: tuple[bytes, ...], early: bool) -> None:
        heads = HeadDecoder(LIMIT)
        encoder = Encoder()
        for first in ((b"1S",), (b"1S", b"2S")):
            heads.request(encoder.encode(fields_with(*first, early=early)))

        head = heads.request(encoder.encode(fields_with(*later, early=early)))

        alone = RequestHead(fields_with(*later, early=early), LIMIT)
        assert (outcome(head), head.headers, head.problem) == (outcome(alone), alone.headers, alone.problem)

    @pytest.mark.rule("T21", "T29")
    def test_one_just_below_the_limit_is_no_model_for_one_above_it(self) -> None:
        size = sum(len(name) + len(value) + 32 for name, value in fields_with(b"1S"))
        heads = HeadDecoder(size + 1)
        encoder = Encoder()
        assert not heads.request(encoder.encode(fields_with(b"1S"))).too_large

        assert heads.request(encoder.encode(fields_with(b"1000S"))).too_large

    @pytest.mark.rule("T21")
    def test_what_is_kept_is_little(self) -> None:
        heads = HeadDecoder(LIMIT)
        encoder = Encoder()
        for number in range(1_000):
            heads.request(encoder.encode([*fields_with(b"1S"), (b"n", b"%d" % number)]))
            heads.request(encoder.encode([*fields_with(b"1S"), (b"n", b"%d" % number + bytes(5_000))]))

        assert len(heads._shapes) <= 64
        assert all(len(repr(shape)) < 5_000 for shape in heads._shapes)
