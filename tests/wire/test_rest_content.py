"""Encoded request bodies, and their size."""

import gzip
import json
import zlib
from collections.abc import Callable
from typing import TypeAlias

import pytest

from emulator.api import pb
from emulator.limits import REQUEST_BODY_MAX_BYTES, REQUEST_MAX_ELEMENTS, REQUEST_MAX_MEMBERS
from emulator.wire import rest_json

from .rest_fake import Face

Encode: TypeAlias = Callable[[bytes], bytes]

TOPIC = "/v1/projects/p/topics/t"
SUBSCRIPTION = "/v1/projects/p/subscriptions/s"


@pytest.fixture
def face() -> Face:
    return Face()


def raw_deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(body) + compressor.flush()


@pytest.mark.rule("T2")
@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("gzip", gzip.compress),
        (" GZIP ", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("identity", bytes),
        ("", bytes),
    ],
)
def test_encoded_bodies_are_read(face: Face, encoding: str, encode: Encode) -> None:
    body = encode(json.dumps({"maxMessages": 3}).encode())

    answer = face.send("POST", f"{SUBSCRIPTION}:pull", body, {"content-encoding": encoding})

    assert answer.status == 200
    assert face.handlers.calls[0].request == pb.PullRequest(subscription="projects/p/subscriptions/s", max_messages=3)


@pytest.mark.rule("T2", "S1.7.6")
def test_an_empty_body_needs_no_encoding(face: Face) -> None:
    assert face.send("PUT", TOPIC, b"", {"content-encoding": "gzip"}).status == 200


@pytest.mark.rule("T2")
@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"{}"),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-1]),
        ("gzip", gzip.compress(b"{}", mtime=0) + b"x"),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-8] + b"\0" * 8),
        ("gzip", zlib.compress(b"{}")),
        ("gzip", gzip.compress(b"{}", mtime=0) + gzip.compress(b" ", mtime=0)[:-1]),
        ("gzip", gzip.compress(b"{}", mtime=0) + zlib.compress(b" ")),
        ("deflate", zlib.compress(b"{}") + zlib.compress(b" ")),
        ("deflate", b"{}"),
        ("deflate", gzip.compress(b"{}", mtime=0)),
        ("deflate", zlib.compress(b"{}")[:-1]),
    ],
)
def test_a_body_that_is_not_what_its_encoding_says_is_400(face: Face, encoding: str, body: bytes) -> None:
    error = face.error("POST", f"{SUBSCRIPTION}:pull", body, {"content-encoding": encoding})

    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert encoding in error["message"]


@pytest.mark.rule("T2")
@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "x", "\xff"])
def test_another_encoding_is_415(face: Face, encoding: str) -> None:
    error = face.error("PUT", TOPIC, b"x", {"content-encoding": encoding})

    assert (error["code"], error["status"]) == (415, "INVALID_ARGUMENT")
    assert "(argument=content-encoding)" in error["message"]


@pytest.mark.rule("T6")
def test_a_body_of_20_mib_is_read(face: Face) -> None:
    data = "A" * (20 * 1024 * 1024)

    request = face.request("POST", f"{TOPIC}:publish", {"messages": [{"data": data}]})

    assert len(request.messages[0].data) == len(data) // 4 * 3


@pytest.mark.rule("T6")
@pytest.mark.parametrize(("encoding", "encode"), [("", bytes), ("gzip", gzip.compress), ("deflate", raw_deflate)])
def test_a_body_that_is_or_becomes_too_large_is_413(face: Face, encoding: str, encode: Encode) -> None:
    body = b" " * (REQUEST_BODY_MAX_BYTES + 1_000)

    error = face.error("PUT", TOPIC, encode(body), {"content-encoding": encoding})

    assert (error["code"], error["status"]) == (413, "RESOURCE_EXHAUSTED")
    assert str(REQUEST_BODY_MAX_BYTES) in error["message"]


@pytest.mark.rule("T6")
def test_a_body_that_becomes_as_large_as_allowed_is_read(face: Face) -> None:
    body = gzip.compress(b"{}".ljust(REQUEST_BODY_MAX_BYTES))

    assert face.send("PUT", TOPIC, body, {"content-encoding": "gzip"}).status == 200


def list_of(element: str, count: int) -> bytes:
    return f"[{','.join([element] * count)}]".encode()


MANY = REQUEST_MAX_ELEMENTS + 1

TOO_MANY = {
    "messages": b'{"messages":%b}' % list_of("{}", MANY),
    "messages with a field": b'{"messages":%b}' % list_of('{"data":""}', MANY),
    "attributes": b'{"messages":[{"attributes":{%b}}]}' % b",".join(b'"%d":""' % each for each in range(MANY)),
    "strings": b'{"messages":%b}' % list_of('"a\\"\\\\"', MANY),
    "no request at all": list_of("0", MANY),
    "broken behind the limit": b"," * (MANY + 1) + b'"',
}


@pytest.mark.rule("T6")
@pytest.mark.parametrize("body", TOO_MANY.values(), ids=TOO_MANY)
@pytest.mark.parametrize("encode", [bytes, gzip.compress])
def test_a_document_of_too_many_elements_is_refused_before_it_is_read(
    face: Face, body: bytes, encode: Encode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_json, "_DECODER", None)
    headers = {"content-encoding": "gzip"} if encode is gzip.compress else {}

    error = face.error("POST", f"{TOPIC}:publish", encode(body), headers)

    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert "elements" in error["message"]
    assert str(REQUEST_MAX_ELEMENTS) in error["message"]


@pytest.mark.rule("T6")
def test_a_document_of_as_many_elements_as_allowed_is_read(face: Face) -> None:
    body = b'{"ackIds":%b}' % list_of('"a"', REQUEST_MAX_ELEMENTS)

    assert len(face.request("POST", f"{SUBSCRIPTION}:acknowledge", body).ack_ids) == REQUEST_MAX_ELEMENTS


@pytest.mark.rule("T6", "S5.5")
@pytest.mark.parametrize("text", [",", ',\\"', '\\",', "\\\\,", ",é"])
def test_commas_in_texts_are_no_elements(face: Face, text: str) -> None:
    value = text * MANY
    body = b'{"messages":[{"attributes":{"k":"%b"}}]}' % value.encode()

    (message,) = face.request("POST", f"{TOPIC}:publish", body).messages

    assert message.attributes["k"] == json.loads(f'"{value}"')


@pytest.mark.parametrize("tail", [b'"', b'"\\', b'"a' * 3])
def test_many_commas_in_a_text_without_end_are_not_json(face: Face, tail: bytes) -> None:
    assert "JSON" in face.error("POST", f"{TOPIC}:publish", tail + b"," * MANY)["message"]


# Several members


@pytest.mark.rule("T2")
@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
def test_gzip_may_come_in_several_members(face: Face, encoding: str, size: int) -> None:
    plain = json.dumps({"messages": [{"data": "A" * 400}]}).encode()
    body = b"".join(gzip.compress(plain[at : at + size]) for at in range(0, len(plain), size)) + gzip.compress(b"")

    answer = face.send("POST", f"{TOPIC}:publish", body, {"content-encoding": encoding})

    assert answer.status == 200
    assert face.handlers.calls[0].request == pb.PublishRequest(
        topic="projects/p/topics/t", messages=[pb.PubsubMessage(data=bytes(300))]
    )


@pytest.mark.rule("T6")
@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 413)])
def test_the_members_share_one_limit(face: Face, more: int, status: int) -> None:
    half = REQUEST_BODY_MAX_BYTES // 2
    body = gzip.compress(b"{}".ljust(half)) + gzip.compress(b" " * (half + more))

    assert face.send("PUT", TOPIC, body, {"content-encoding": "gzip"}).status == status


@pytest.mark.rule("T6")
def test_members_without_end_are_refused(face: Face) -> None:
    body = gzip.compress(b"{}") + gzip.compress(b"") * (REQUEST_MAX_MEMBERS - 1)
    headers = {"content-encoding": "gzip"}

    assert face.send("PUT", TOPIC, body, headers).status == 200
    error = face.error("PUT", TOPIC, body + gzip.compress(b""), headers)

    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert f"{REQUEST_MAX_MEMBERS} members" in error["message"]
