"""Partial replies: `fields` of the query, read against the reply's type, applied to its JSON (service.md §1.7.4)."""

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from emulator import errors
from emulator.errors import http as http_errors
from emulator.wire.rest_json import map_entry, spelled
from emulator.wire.rest_values import WELL_KNOWN

Path: TypeAlias = tuple[str, ...]

# What is kept of each key: a tree of the same kind, or None for all of it. "*" stands for every key of a map.
_Kept: TypeAlias = "dict[str, _Kept | None]"

# What paths can lead into: a message, a map, or (None) nothing.
_Shape: TypeAlias = Descriptor | FieldDescriptor | None

_TOKEN = re.compile(r"[^,./()\s]+|[,./()]")
_PATH_MAX_NAMES = 16


class FieldSelection:
    """The fields of a reply that the caller asked for."""

    __slots__ = ("_kept", "_text")

    def __init__(self, text: str, reply: Descriptor) -> None:
        """Raises INVALID_ARGUMENT for text that is not a list of paths, and for a path that `reply` does not have."""
        self._text = text
        self._kept: _Kept = {}
        for path in _paths(text):
            if not _keep(self._kept, reply, path):
                raise http_errors.unknown_reply_field(".".join(path), reply.name)

    def apply(self, document: object) -> object:
        """The selected part of a reply in decoded JSON."""
        return _prune(document, self._kept)

    def __repr__(self) -> str:
        return f"<FieldSelection {self._text}>"


def _paths(text: str) -> Iterator[Path]:
    """`a.b`, `a/b` and `a(b,c)` as tuples of names."""
    groups: list[Path] = [()]
    path: Path = ()
    before = ","  # the kind of the token before: a separator, a "name", or ")"
    for token in _TOKEN.findall(text):
        if token not in ",./()":
            if before == "name" or before == ")" or len(path) == _PATH_MAX_NAMES:
                raise _malformed(text)
            path = (*path, token)
            before = "name"
            continue
        if before not in ("name", ")") or (before == ")" and token not in ",)"):
            raise _malformed(text)
        if before == "name" and token in ",)":
            yield path
        if token == "(":
            groups.append(path)
        elif token == ")":
            groups.pop()
        if token in ",)":
            if not groups:
                raise _malformed(text)
            path = groups[-1]
        before = token
    if len(groups) > 1 or before not in ("name", ")"):
        raise _malformed(text)
    if before == "name":
        yield path


def _malformed(text: str) -> errors.PubsubError:
    return errors.malformed("fields", text, "a list of paths such as a,b.c,d(e,f)")


def _keep(kept: _Kept, shape: _Shape, path: Path) -> bool:
    """Add a path; False if it leads nowhere."""
    found = False
    for key, below in _steps(shape, path[0]).items():
        if len(path) == 1:
            kept[key] = None
            found = True
            continue
        inner = kept.get(key) or {}
        if _keep(inner, below, path[1:]):
            kept.setdefault(key, inner)
            found = True
    return found


def _steps(shape: _Shape, name: str) -> Mapping[str, _Shape]:
    if isinstance(shape, FieldDescriptor):
        return {name: _inside(shape)}
    if shape is None:
        return {}
    if name == "*":
        return {field.camelcase_name: _field_shape(field) for field in shape.fields}
    field = spelled(shape, name)
    return {field.camelcase_name: _field_shape(field)} if field else {}


def _field_shape(field: FieldDescriptor) -> _Shape:
    entry = map_entry(field)
    return entry.fields_by_name["value"] if entry else _inside(field)


def _inside(field: FieldDescriptor) -> _Shape:
    message = field.message_type
    return None if message is None or message.full_name in WELL_KNOWN else message


def _prune(document: object, kept: "_Kept | None") -> object:
    if isinstance(document, list):
        return [_prune(item, kept) for item in document]
    if kept is None or not isinstance(document, dict):
        return document
    result: dict[str, object] = {}
    for key, value in document.items():
        name = key if key in kept else "*"
        if name in kept:
            result[key] = _prune(value, kept[name])
    return result
