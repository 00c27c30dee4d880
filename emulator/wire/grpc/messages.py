"""Messages in the bytes of a stream: a flag, a length, the message (gRPC's "length-prefixed message")."""

import zlib
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from emulator.errors import grpc as grpc_errors
from emulator.limits import REQUEST_BODY_MAX_BYTES

PREFIX_BYTES: Final = 5
_WINDOW_BITS: Final = MappingProxyType({"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS})


def frame(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


class Deframer:
    """Cuts received bytes into messages, decompressed.

    Raises PubsubError as soon as a prefix promises more than the limit, or what it holds can't be read.
    """

    __slots__ = ("_buffer", "_encoding")

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The messages that are complete now."""
        buffer = self._buffer
        buffer += chunk
        while len(buffer) >= PREFIX_BYTES:
            size = check_prefix(buffer)
            if len(buffer) < PREFIX_BYTES + size:
                return
            compressed = buffer[0]
            message = bytes(memoryview(buffer)[PREFIX_BYTES : PREFIX_BYTES + size])
            del buffer[: PREFIX_BYTES + size]
            yield decompress(message, self._encoding) if compressed else message

    @property
    def pending(self) -> int:
        """How many bytes of an incomplete message are held."""
        return len(self._buffer)

    def __repr__(self) -> str:
        return f"<Deframer pending={self.pending}>"


def check_prefix(prefix: bytes | bytearray) -> int:
    """The size that a prefix promises; raises PubsubError for a bad flag or a size beyond the limit."""
    if prefix[0] > 1:
        raise grpc_errors.bad_message_flag(prefix[0])
    size = int.from_bytes(prefix[1:PREFIX_BYTES], "big")
    if size > REQUEST_BODY_MAX_BYTES:
        raise grpc_errors.message_too_large(size, REQUEST_BODY_MAX_BYTES)
    return size


def decompress(message: bytes, encoding: str) -> bytes:
    """Raises PubsubError for broken data, and before more than the limit has been unpacked."""
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        raise grpc_errors.compressed_without_encoding()
    unpacker = zlib.decompressobj(bits)
    try:
        plain = unpacker.decompress(message, REQUEST_BODY_MAX_BYTES + 1)
    except zlib.error as problem:
        raise grpc_errors.bad_compression(encoding, str(problem)) from None
    if len(plain) > REQUEST_BODY_MAX_BYTES:
        raise grpc_errors.message_too_large(len(plain), REQUEST_BODY_MAX_BYTES)
    if not unpacker.eof:
        raise grpc_errors.bad_compression(encoding, "it ends too early")
    if unpacker.unused_data:
        raise grpc_errors.bad_compression(encoding, "something follows it")
    return plain
