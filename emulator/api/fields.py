"""Checks that several resources share: durations, labels, keys."""

import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf import json_format, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from emulator import errors
from emulator.api import pb
from emulator.clock import NS_PER_S
from emulator.limits import Limits

logger = logging.getLogger(__name__)

_KMS_KEY = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")


def duration_ns(duration: pb.Duration) -> int:
    return duration.seconds * NS_PER_S + duration.nanos


def show_duration(duration: pb.Duration) -> str:
    """As JSON writes it, "600s" or "0.5s", and exact."""
    span = duration_ns(duration)
    whole, rest = divmod(abs(span), NS_PER_S)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if span < 0 else ''}{whole}{fraction}s"


def check_duration(duration: pb.Duration, argument: str, low_s: int, high_s: int | None) -> int:
    """The span in nanoseconds; raises INVALID_ARGUMENT outside of `low_s` to `high_s` seconds (None: no bound)."""
    span = duration_ns(duration)
    if high_s is None:
        if span < low_s * NS_PER_S:
            raise errors.too_small(argument, show_duration(duration), low_s, "seconds")
    elif not low_s * NS_PER_S <= span <= high_s * NS_PER_S:
        raise errors.out_of_range(argument, show_duration(duration), low_s, high_s, "seconds")
    return span


def warn_of_missing_effects(resource: Any, paths: Iterable[str]) -> None:
    """Say in the log which of these fields are set: they are kept and returned, and nothing acts on them yet."""
    for path in paths:
        parent, _, leaf = path.rpartition(".")
        holder = getattr(resource, parent) if parent else resource
        field = holder.DESCRIPTOR.fields_by_name[leaf]
        if holder.HasField(leaf) if field.has_presence else getattr(holder, leaf):
            logger.warning("resource=%s field=%s is kept but has no effect yet", resource.name, path)


def is_repeated(field: FieldDescriptor) -> bool:
    # The one sign of it that all supported versions of protobuf give without a warning.
    return isinstance(field.default_value, list)


def check_representable(resource: Message, prefix: str = "") -> None:
    """Raise INVALID_ARGUMENT for a duration, timestamp or struct that gRPC can carry and JSON could never show.

    `prefix` stands before the names of the fields: "" or "retry_policy.".
    """
    for field, value in resource.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        path = prefix + field.name
        for where, item in _numbered(path, value) if is_repeated(field) else ((path, value),):
            if not field.message_type.full_name.startswith("google.protobuf."):
                check_representable(item, f"{where}.")
            elif not _has_json(item):
                shown = text_format.MessageToString(item, as_one_line=True)
                raise errors.malformed(where, shown, f"a valid {field.message_type.name}")


def _numbered(path: str, items: Iterable[Message]) -> Iterator[tuple[str, Message]]:
    for index, item in enumerate(items):
        yield f"{path}[{index}]", item


def _has_json(value: Message) -> bool:
    try:
        json_format.MessageToJson(value)
    except (ValueError, json_format.Error):
        return False
    return True


def check_labels(labels: Mapping[str, str], limits: Limits) -> None:
    """Raise INVALID_ARGUMENT for labels that production refuses (service.md §3.7)."""
    if len(labels) > limits.labels_max:
        raise errors.too_many_labels(len(labels), limits.labels_max)
    for key, value in labels.items():
        if not 1 <= len(key) <= limits.label_key_max_characters:
            raise errors.bad_label("key", key, f"must have 1 to {limits.label_key_max_characters} characters")
        if not (_is_letter(key[0]) and all(map(_in_label, key))):
            raise errors.bad_label(
                "key", key, "must start with a lower-case letter and hold only lower-case letters, digits, _ and -"
            )
        if len(value) > limits.label_value_max_characters:
            raise errors.bad_label(
                "value", value, f"must have at most {limits.label_value_max_characters} characters (key {key!r})"
            )
        if not all(map(_in_label, value)):
            raise errors.bad_label("value", value, f"must hold only lower-case letters, digits, _ and - (key {key!r})")


def _is_letter(character: str) -> bool:
    """A letter of any script that has no lower-case form to be written in instead."""
    return unicodedata.category(character) in {"Ll", "Lo", "Lm"}


def _in_label(character: str) -> bool:
    # Marks belong to the letters of many scripts.
    return character in "_-" or _is_letter(character) or unicodedata.category(character)[0] in "MN"


def check_kms_key(name: str, argument: str) -> None:
    if name and not _KMS_KEY.fullmatch(name):
        raise errors.malformed(argument, name, "projects/*/locations/*/keyRings/*/cryptoKeys/*")


def check_ack_request_size(request: Message, limits: Limits) -> None:
    """Raise INVALID_ARGUMENT for acks or modacks of more bytes than a request may have (service.md §7.1.9)."""
    size = request.ByteSize()
    if size > limits.ack_request_max_bytes:
        raise errors.ack_request_too_large(size, limits.ack_request_max_bytes)
