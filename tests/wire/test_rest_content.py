"""Encoded request bodies, and their size."""

import gzip
import json
import zlib
from collections.abc import Callable
from typing import TypeAlias

import pytest

from emulator.api import pb
from emulator.limits import REQUEST_BODY_MAX_BYTES

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
