"""What a publish request must satisfy before anything is stored (service.md §5)."""

from emulator import errors
from emulator.engine.drafts import Drafts, PlainDrafts
from emulator.engine.values import Draft
from emulator.limits import Limits

# No code point takes more bytes in UTF-8, so a text this much shorter than its limit needs no encoding to be measured.
_UTF8_MAX_BYTES = 4


def check_count(count: int, limits: Limits) -> None:
    """Raise INVALID_ARGUMENT unless a request may have so many messages (service.md §5.2)."""
    if not count:
        raise errors.no_messages()
    if count > limits.publish_max_messages:
        raise errors.too_many_messages(count, limits.publish_max_messages)


def check_drafts(drafts: Drafts, limits: Limits) -> None:
    """Raise INVALID_ARGUMENT or FAILED_PRECONDITION unless all may be stored; the order is service.md §5.1."""
    check_count(len(drafts), limits)
    if isinstance(drafts, PlainDrafts):
        return
    first = drafts[0].ordering_key
    mixed = False
    for index, draft in enumerate(drafts):
        if draft.attributes:
            _check_attributes(index, draft, limits)
        elif not draft.data:
            raise errors.empty_message(index)
        key = draft.ordering_key
        mixed |= key != first
        if key and _exceeds(key, limits.ordering_key_max_bytes):
            raise errors.too_long(
                f"messages[{index}].ordering_key",
                draft.ordering_key,
                len(draft.ordering_key.encode()),
                limits.ordering_key_max_bytes,
            )
    if mixed:
        index = next(index for index, draft in enumerate(drafts) if draft.ordering_key != first)
        raise errors.mixed_ordering_keys(index, first, drafts[index].ordering_key)


def _check_attributes(index: int, draft: Draft, limits: Limits) -> None:
    if len(draft.attributes) > limits.attributes_max:
        raise errors.too_many_attributes(index, len(draft.attributes), limits.attributes_max)
    for key, value in draft.attributes.items():
        if not key:
            raise errors.bad_attribute_key(index, key, "must not be empty")
        if key.startswith("goog"):
            raise errors.bad_attribute_key(index, key, "keys starting with goog are reserved")
        if _exceeds(key, limits.attribute_key_max_bytes):
            raise errors.bad_attribute_key(
                index, key, f"{len(key.encode())} bytes, at most {limits.attribute_key_max_bytes} are allowed"
            )
        if _exceeds(value, limits.attribute_value_max_bytes):
            raise errors.attribute_value_too_long(index, key, len(value.encode()), limits.attribute_value_max_bytes)


def _exceeds(text: str, limit: int) -> bool:
    return len(text) * _UTF8_MAX_BYTES > limit and len(text.encode()) > limit
