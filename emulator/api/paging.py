"""Pages of a list and their opaque tokens (service.md §1.9)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import TypeVar
from zlib import crc32

from emulator import errors
from emulator.limits import Limits

T = TypeVar("T")

_CHECK_BYTES = 4


def page(
    find: Callable[[str, int], tuple[list[T], str]], collection: str, token: str, size: int, limits: Limits
) -> tuple[list[T], str]:
    """One page and the next page's token, empty on the last page.

    `find` takes the name to go on after and the page size; `collection` names the list that the token is good for.
    Raises INVALID_ARGUMENT for a negative size or a token of another list.
    """
    if size < 0:
        raise errors.too_small("page_size", size, 0)
    found, last = find(_decode(collection, token), min(size or limits.page_size_default, limits.page_size_max))
    return found, _encode(collection, last)


def _encode(collection: str, last: str) -> str:
    if not last:
        return ""
    text = f"{collection}\0{last}".encode()
    return urlsafe_b64encode(crc32(text).to_bytes(_CHECK_BYTES, "big") + text).decode().rstrip("=")


def _decode(collection: str, token: str) -> str:
    if not token:
        return ""
    try:
        text = urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4))[_CHECK_BYTES:].decode()
    except ValueError:
        raise errors.bad_page_token(token) from None
    last = text.removeprefix(f"{collection}\0")
    # base64 reads more than one spelling of the same bytes; only what `_encode` would write is a token.
    if _encode(collection, last) != token:
        raise errors.bad_page_token(token)
    return last
