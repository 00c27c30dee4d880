"""Length-prefixed messages: cutting a stream of bytes into them, and undoing their compression."""

import gzip
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.api import pb
from emulator.errors import Code, PubsubError
from emulator.limits import REQUEST_BODY_MAX_BYTES
from emulator.wire.grpc import messages
from emulator.wire.grpc.messages import Deframer
from tests.wire.grpc.memory import Fake, Lab, Peer, framed, path_of

GET_TOPIC = path_of("GetTopic")
PUBLISH = path_of("Publish")
REQUEST = pb.GetTopicRequest(topic="projects/acme/topics/orders")
PLAIN = REQUEST.SerializeToString()


@pytest.fixture
def fake(lab: Lab) -> Fake:
    return Fake(lab)


@pytest.fixture
def peer(fake: Fake) -> Peer:
    return fake.peer()


@pytest.mark.rule("T26")
@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(0, 300), max_size=8))
def test_messages_come_out_as_they_went_in_however_they_are_cut(sent: list[bytes], cuts: list[int]) -> None:
    data = b"".join(messages.frame(message) for message in sent)
    edges = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    deframer = Deframer("identity")

    received = [message for start, end in pairwise(edges) for message in deframer.feed(data[start:end])]

    assert received == sent
    assert deframer.pending == 0


@pytest.mark.rule("T26")
def test_what_is_incomplete_is_counted() -> None:
    deframer = Deframer("identity")

    assert list(deframer.feed(framed(b"abc") + framed(b"defgh")[:7])) == [b"abc"]
    assert deframer.pending == 7
    assert repr(deframer) == "<Deframer pending=7>"
    assert list(deframer.feed(b"fgh")) == [b"defgh"]


@pytest.mark.rule("T6")
def test_a_stream_of_messages_is_refused_at_the_prefix() -> None:
    deframer = Deframer("identity")

    with pytest.raises(PubsubError) as refusal:
        list(deframer.feed(b"\0" + (REQUEST_BODY_MAX_BYTES + 1).to_bytes(4, "big")))

    assert refusal.value.code is Code.RESOURCE_EXHAUSTED


@pytest.mark.rule("T5", "K8")
@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_compressed_request_is_unpacked(fake: Fake, peer: Peer, encoding: str, compress: object) -> None:
    assert callable(compress)
    body = framed(compress(PLAIN), 1)

    reply = peer.call(GET_TOPIC, body, ("grpc-encoding", encoding))

    assert reply.status == Code.OK
    assert reply.data[:1] == b"\0"
    assert fake.calls[0].request == REQUEST


@pytest.mark.rule("T5")
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
def test_an_encoding_need_not_be_used(fake: Fake, peer: Peer, encoding: str) -> None:
    assert peer.call(GET_TOPIC, framed(PLAIN), ("grpc-encoding", encoding)).status == Code.OK
    assert fake.calls[0].request == REQUEST


@pytest.mark.rule("T5")
@pytest.mark.parametrize("encoding", ["br", "zstd", "snappy", "GZIP", "", "gzip,gzip"])
@pytest.mark.parametrize("flag", [0, 1])
def test_an_unknown_encoding_is_unimplemented_and_the_known_are_named(peer: Peer, encoding: str, flag: int) -> None:
    reply = peer.call(GET_TOPIC, framed(PLAIN, flag), ("grpc-encoding", encoding))

    assert (reply.alone, reply.status, encoding in reply.message) == (True, Code.UNIMPLEMENTED, True)
    assert reply.end["grpc-accept-encoding"] == "identity,gzip,deflate"


@pytest.mark.rule("T5")
@pytest.mark.parametrize("extra", [[], [("grpc-encoding", "identity")]])
def test_a_compressed_message_without_an_encoding_is_internal(peer: Peer, extra: list[tuple[str, str]]) -> None:
    reply = peer.call(GET_TOPIC, framed(gzip.compress(PLAIN), 1), *extra)

    assert (reply.alone, reply.status, "grpc-encoding" in reply.message) == (True, Code.INTERNAL, True)


@pytest.mark.rule("T5")
@pytest.mark.parametrize(
    ("encoding", "broken"),
    [
        ("gzip", b""),
        ("gzip", PLAIN),
        ("gzip", gzip.compress(PLAIN, mtime=0)[:-1]),
        ("gzip", gzip.compress(PLAIN, mtime=0)[:10]),
        ("gzip", gzip.compress(PLAIN, mtime=0)[:-5] + b"12345"),
        ("gzip", gzip.compress(PLAIN, mtime=0) + b"more"),
        ("gzip", zlib.compress(PLAIN)),
        ("deflate", gzip.compress(PLAIN, mtime=0)),
        ("deflate", zlib.compress(PLAIN)[:-1]),
    ],
)
def test_broken_compression_is_internal(fake: Fake, peer: Peer, encoding: str, broken: bytes) -> None:
    reply = peer.call(GET_TOPIC, framed(broken, 1), ("grpc-encoding", encoding))

    assert (reply.alone, reply.status, encoding in reply.message) == (True, Code.INTERNAL, True)
    assert fake.calls == []


@pytest.mark.rule("T5", "T6")
@pytest.mark.parametrize(("bits", "encoding"), [(31, "gzip"), (15, "deflate")])
def test_a_bomb_is_refused_before_it_is_unpacked(fake: Fake, peer: Peer, bits: int, encoding: str) -> None:
    packer = zlib.compressobj(1, zlib.DEFLATED, bits)
    bomb = packer.compress(bytes(REQUEST_BODY_MAX_BYTES + 1)) + packer.flush()
    assert len(bomb) < 200_000

    reply = peer.call(PUBLISH, framed(bomb, 1), ("grpc-encoding", encoding))

    assert (reply.alone, reply.status) == (True, Code.RESOURCE_EXHAUSTED)
    assert f"({REQUEST_BODY_MAX_BYTES + 1} vs. {REQUEST_BODY_MAX_BYTES}" in reply.message
    assert fake.calls == []


@pytest.mark.rule("T5", "T6")
def test_the_limit_is_one_of_unpacked_bytes() -> None:
    at_the_limit = gzip.compress(bytes(REQUEST_BODY_MAX_BYTES), 1)

    assert len(messages.decompress(at_the_limit, "gzip")) == REQUEST_BODY_MAX_BYTES
