"""RFC 9113 §8: what makes a request malformed, and what does not."""

import pytest

from tests.wire.http2.peer import (
    END_HEADERS,
    PROTOCOL_ERROR,
    Field,
    block,
    continuation,
    data,
    headers,
    open_headers,
    request_fields,
)
from tests.wire.http2.rows import Lives, Resets, Row, check, table

METHOD, SCHEME, PATH, AUTHORITY = request_fields()


def of(*fields: Field) -> bytes:
    return headers(1, block(fields))


def with_field(name: bytes, value: bytes) -> bytes:
    return of(*request_fields(b"/", (name, value)))


def sized(length: bytes, *chunks: bytes) -> bytes:
    """A request that says how long its body is, and a body."""
    out = open_headers(1, block(request_fields(b"/", (b"content-length", length))))
    return out + b"".join(data(1, chunk, at == len(chunks)) for at, chunk in enumerate(chunks, 1))


def with_trailers(*fields: Field, end: bool = True) -> bytes:
    return open_headers(1) + data(1, b"x", 0) + headers(1, block(fields), END_HEADERS | end)


MALFORMED = Resets(PROTOCOL_ERROR)
FINE = Lives((1,))

SHAPE = (
    Row("8.1", "a second HEADERS without END_STREAM", open_headers(1) + open_headers(1), MALFORMED),
    Row("8.1", "trailers without END_STREAM", with_trailers((b"a", b"b"), end=False), MALFORMED),
    Row("8.1", "trailers", with_trailers((b"a", b"b")), FINE),
    Row("8.1", "trailers without fields", with_trailers(), FINE),
    Row("8.1", "trailers right after the headers", open_headers(1) + headers(1, block([(b"a", b"b")])), FINE),
    Row("8.1", "trailers with a pseudo-header", with_trailers(METHOD), MALFORMED),
    Row("8.1", "trailers with an unknown pseudo-header", with_trailers((b":x", b"y")), MALFORMED),
    Row("8.1", "trailers with an upper-case name", with_trailers((b"A", b"b")), MALFORMED),
    Row("8.1", "trailers with a connection header", with_trailers((b"connection", b"close")), MALFORMED),
    Row("8.1", "trailers of which the last half is missing", open_headers(1) + headers(1, b"", 0)
        + continuation(1, b""), MALFORMED),
    Row("8.1", "no body at all", headers(1), FINE),
)  # fmt: skip

FIELDS = (
    *(Row("8.2.1", f"a name with {byte!r}", with_field(b"x" + byte + b"y", b"v"), MALFORMED)
      for byte in (b"\0", b"\t", b"\n", b"\r", b" ", b":", b"A", b"Z", b"(", b"\x7f", b"\x80", b"\xff")),
    Row("8.2.1", "an empty name", with_field(b"", b"v"), MALFORMED),
    Row("8.2.1", "a name of every other character",
        with_field(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz", b"v"), FINE),
    *(Row("8.2.1", f"a value with {byte!r} {where}", with_field(b"x", value), MALFORMED)
      for byte in (b"\0", b"\n", b"\r")
      for where, value in {"first": byte + b"v", "within": b"v" + byte + b"v", "last": b"v" + byte}.items()),
    *(Row("8.2.1", f"a value that {what} with {byte!r}", with_field(b"x", value), MALFORMED)
      for byte in (b" ", b"\t")
      for what, value in {"begins": byte + b"v", "ends": b"v" + byte, "consists": byte}.items()),
    Row("8.2.1", "an empty value", with_field(b"x", b""), FINE),
    Row("8.2.1", "a value with spaces within, and any high byte", with_field(b"x", b"a \t b\x80\xff\x7f\x01"), FINE),
    Row("8.2.1", "a pseudo-header's value with a line feed", of(METHOD, SCHEME, (b":path", b"/\n")), MALFORMED),
    *(Row("8.2.2", f"{name.decode()}", with_field(name, b"x"), MALFORMED)
      for name in (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")),
    Row("8.2.2", "te: trailers", with_field(b"te", b"trailers"), FINE),
    Row("8.2.2", "te: Trailers", with_field(b"te", b"Trailers"), FINE),
    Row("8.2.2", "te: gzip", with_field(b"te", b"gzip"), MALFORMED),
    Row("8.2.2", "te: trailers, gzip", with_field(b"te", b"trailers, gzip"), MALFORMED),
    Row("8.2.3", "several cookies", of(*request_fields(b"/", (b"cookie", b"a"), (b"cookie", b"b"))), FINE),
)  # fmt: skip

PSEUDO = (
    Row("8.3", "a pseudo-header after a regular one", of(METHOD, SCHEME, (b"x", b"y"), PATH), MALFORMED),
    Row("8.3", "an unknown pseudo-header", of(METHOD, SCHEME, PATH, (b":x", b"y")), MALFORMED),
    Row("8.3", "a pseudo-header without a name", of(METHOD, SCHEME, PATH, (b":", b"y")), MALFORMED),
    Row("8.3", "a reply's pseudo-header", of(METHOD, SCHEME, PATH, (b":status", b"200")), MALFORMED),
    Row("8.3", "an upper-case pseudo-header", of((b":Method", b"POST"), SCHEME, PATH), MALFORMED),
    Row("8.3.1", "no :method", of(SCHEME, PATH, AUTHORITY), MALFORMED),
    Row("8.3.1", "no :scheme", of(METHOD, PATH, AUTHORITY), MALFORMED),
    Row("8.3.1", "no :path", of(METHOD, SCHEME, AUTHORITY), MALFORMED),
    Row("8.3.1", "an empty :path", of(METHOD, SCHEME, (b":path", b"")), MALFORMED),
    Row("8.3.1", "an empty :method", of((b":method", b""), SCHEME, PATH), MALFORMED),
    *(Row("8.3.1", f"{field[0].decode()} twice", of(METHOD, SCHEME, PATH, AUTHORITY, field), MALFORMED)
      for field in (METHOD, SCHEME, PATH, AUTHORITY)),
    Row("8.3.1", "no :authority", of(METHOD, SCHEME, PATH), FINE),
    Row("8.3.1", "any order", of(PATH, AUTHORITY, SCHEME, METHOD), FINE),
    Row("8.3.1", "any scheme", of(METHOD, (b":scheme", b"coap"), PATH), FINE),
    Row("8.3.1", ":authority and host", with_field(b"host", b"there"), FINE),
    Row("8.5", "CONNECT, which this server does not offer", of((b":method", b"CONNECT"), AUTHORITY), MALFORMED),
)  # fmt: skip

LENGTH = (
    Row("8.1.1", "content-length as long as the body", sized(b"3", b"abc"), FINE),
    Row("8.1.1", "content-length as long as all DATA together", sized(b"6", b"ab", b"", b"cd", b"ef"), FINE),
    Row("8.1.1", "content-length longer than the body", sized(b"4", b"abc"), MALFORMED),
    Row("8.1.1", "content-length shorter than the body", sized(b"2", b"abc"), MALFORMED),
    Row("8.1.1", "content-length shorter than two DATA", sized(b"1", b"a", b"b"), MALFORMED),
    Row("8.1.1", "content-length of 0 and a body", sized(b"0", b"a"), MALFORMED),
    Row("8.1.1", "content-length of 0 and none", sized(b"0", b""), FINE),
    Row("8.1.1", "content-length of 0 and END_STREAM on HEADERS", with_field(b"content-length", b"0"), FINE),
    Row("8.1.1", "content-length and END_STREAM on HEADERS", with_field(b"content-length", b"1"), MALFORMED),
    Row("8.1.1", "content-length missed by the trailers", sized(b"3", b"a", b"b")[:-1 - 9]
        + headers(1, block([(b"a", b"b")])), MALFORMED),
    *(Row("8.1.1", f"content-length {text!r}", with_field(b"content-length", text), MALFORMED)
      for text in (b"", b"-1", b"+1", b"1a", b"0x1", b"1.0", b"9" * 20, b"\xb2")),
    Row("8.1.1", "content-length twice", of(*request_fields(b"/", *[(b"content-length", b"0")] * 2)), MALFORMED),
)  # fmt: skip


@pytest.mark.rule("T26", "T28")
@table(*SHAPE)
def test_shape_of_a_request(row: Row) -> None:
    check(row)


@pytest.mark.rule("T28")
@table(*FIELDS)
def test_names_and_values(row: Row) -> None:
    check(row)


@pytest.mark.rule("T28")
@table(*PSEUDO)
def test_pseudo_headers(row: Row) -> None:
    check(row)


@pytest.mark.rule("T28")
@table(*LENGTH)
def test_content_length(row: Row) -> None:
    check(row)
