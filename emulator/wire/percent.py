"""Percent-decoding that refuses what the standard library lets through."""

import re
from urllib.parse import unquote_to_bytes

from emulator.errors import http as http_errors

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def decode(text: str, part: str) -> str:
    """`text` with its escapes decoded once; "+" stays "+" (service.md §1.7.10).

    `part` names what `text` is part of, for the error. Raises INVALID_ARGUMENT for a broken escape and for bytes that
    are not UTF-8.
    """
    if text.isascii() and "%" not in text:
        return text
    if _BROKEN_ESCAPE.search(text):
        raise http_errors.broken_percent_escape(part, text)
    try:
        # HTTP servers hand raw bytes above 0x7F over as surrogate escapes.
        return unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode()
    except UnicodeError:
        raise http_errors.broken_percent_escape(part, text) from None
