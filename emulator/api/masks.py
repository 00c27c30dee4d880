"""Field masks: which part of a resource an update replaces (service.md §1.8)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from emulator import errors
from emulator.api.fields import is_repeated

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Maskable:
    """What a mask may name of a resource; `kind` is how messages call it."""

    kind: str
    immutable: frozenset[str]
    output_only: frozenset[str]

    def merge(self, stored: M, given: M, paths: Sequence[str]) -> M:
        """A copy of `stored` with the masked fields replaced by those of `given`, absent ones cleared.

        Raises INVALID_ARGUMENT before anything is changed if any path is empty, unknown, immutable or output only.
        """
        descriptor: Any = stored.DESCRIPTOR
        steps = [self._steps(path, descriptor) for path in self._expand(paths, descriptor)]
        merged = type(stored)()
        merged.CopyFrom(stored)
        for path in steps:
            _replace(merged, given, path)
        return merged

    def settable(self, resource: M) -> M:
        """A copy without the output-only fields: whatever a caller puts there is ignored (service.md §4)."""
        kept = type(resource)()
        kept.CopyFrom(resource)
        for path in self.output_only:
            _clear(kept, path.split("."))
        return kept

    def _expand(self, paths: Sequence[str], descriptor: Any) -> Sequence[str]:
        if not paths:
            raise errors.mask_missing()
        if "*" not in paths:
            return paths
        if len(paths) > 1:
            raise errors.mask_with_wildcard()
        fixed = self.immutable | self.output_only
        return [field.name for field in descriptor.fields if field.name not in fixed]

    def _steps(self, path: str, descriptor: Any) -> tuple[str, ...]:
        steps = tuple(path.split("."))
        # A label's key may hold no dot, so splitting loses nothing.
        if not _exists(descriptor, steps):
            raise errors.mask_unknown_path(path, self.kind)
        for depth in range(1, len(steps) + 1):
            if (prefix := ".".join(steps[:depth])) in self.immutable:
                raise errors.mask_immutable_path(path)
            elif prefix in self.output_only:
                raise errors.mask_output_only_path(path)
        return steps


def _exists(descriptor: Any, steps: Sequence[str]) -> bool:
    field = descriptor.fields_by_name.get(steps[0])
    if field is None:
        return False
    rest = steps[1:]
    if not rest:
        return True
    if _is_text_map(field):
        return len(rest) == 1 and rest[0] != ""
    return _is_nested(field) and _exists(field.message_type, rest)


def _clear(message: Any, steps: Sequence[str]) -> None:
    *above, name = steps
    for each in above:
        if not message.HasField(each):
            return
        message = getattr(message, each)
    message.ClearField(name)


def _is_text_map(field: FieldDescriptor) -> bool:
    message = field.message_type
    if message is None or not message.GetOptions().map_entry:
        return False
    return bool(message.fields_by_name["value"].type == FieldDescriptor.TYPE_STRING)


def _is_nested(field: FieldDescriptor) -> bool:
    """A message of Pub/Sub's own with parts to name: no list, and nothing that JSON writes as one value."""
    return (
        field.message_type is not None
        and not is_repeated(field)
        and not field.message_type.full_name.startswith("google.protobuf.")
    )


def _replace(target: Any, given: Any, steps: Sequence[str]) -> None:
    name, rest = steps[0], steps[1:]
    field = target.DESCRIPTOR.fields_by_name[name]
    if not rest:
        target.ClearField(name)
        _copy(target, given, field)
    elif _is_text_map(field):
        labels, source = getattr(target, name), getattr(given, name)
        if rest[0] in source:
            labels[rest[0]] = source[rest[0]]
        else:
            labels.pop(rest[0], None)
    elif given.HasField(name) or target.HasField(name):
        _replace(getattr(target, name), getattr(given, name), rest)


def _copy(target: Any, given: Any, field: FieldDescriptor) -> None:
    name = field.name
    value = getattr(given, name)
    if is_repeated(field):
        getattr(target, name).MergeFrom(value)
    elif field.message_type is not None:
        if given.HasField(name):
            getattr(target, name).CopyFrom(value)
    elif not field.has_presence or given.HasField(name):
        setattr(target, name, value)
