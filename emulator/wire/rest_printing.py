"""Protobuf messages to decoded JSON, as proto3 prints them (service.md §1.7.1).

Printers are built once per message type, as the readers are; `json_format` asks each message again what each of its
fields is. It still prints the types that have a form of their own.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from emulator.api import pb
from emulator.api.fields import is_repeated
from emulator.wire.rest_json import descriptor_of, map_entry

_Print: TypeAlias = Callable[[Any], object]

_LONG: Final = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})
# Of the types with a form of their own, those that say themselves what it is.
_STRINGS: Final = frozenset(f"google.protobuf.{name}" for name in ("Duration", "FieldMask", "Timestamp"))
_FLOATS: Final = frozenset({FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT})


class Printers:
    """The printers of message types, each built when it is first asked for."""

    __slots__ = ("_built", "_enums_as_numbers")

    def __init__(self, *, enums_as_numbers: bool) -> None:
        self._built: dict[str, _Print] = {}
        self._enums_as_numbers = enums_as_numbers

    def document(self, message: Message) -> dict[str, object]:
        """A message as decoded JSON, lowerCamelCase, without default values."""
        return cast("dict[str, object]", self._of(descriptor_of(message))(message))

    def _of(self, descriptor: Descriptor) -> _Print:
        known = self._built.get(descriptor.full_name)
        if known is None:
            known = self._build(descriptor)
            self._built[descriptor.full_name] = known
        return known

    def _build(self, descriptor: Descriptor) -> _Print:
        own_form = descriptor.full_name.startswith("google.protobuf.")
        if own_form or any(field.cpp_type in _FLOATS for field in descriptor.fields):
            return _as_string if descriptor.full_name in _STRINGS else self._by_library
        fields: dict[int, tuple[str, _Print]] = {}

        def print_message(message: Message) -> dict[str, object]:
            document: dict[str, object] = {}
            for field, value in message.ListFields():
                known = fields.get(field.number)
                if known is None:
                    known = fields[field.number] = field.json_name, self._of_field(field)
                name, show = known
                document[name] = show(value)
            return document

        return print_message

    def _by_library(self, message: Message) -> object:
        return json_format.MessageToDict(
            message, use_integers_for_enums=self._enums_as_numbers, descriptor_pool=pb.POOL
        )

    def _of_field(self, field: FieldDescriptor) -> _Print:
        entry = map_entry(field)
        if entry is not None:
            show = self._of_single(entry.fields_by_name["value"])
            return lambda values: {str(key): show(values[key]) for key in values}
        show = self._of_single(field)
        return (lambda values: [show(value) for value in values]) if is_repeated(field) else show

    def _of_single(self, field: FieldDescriptor) -> _Print:
        if field.message_type is not None:
            return self._of(field.message_type)
        if field.enum_type is not None:
            return int if self._enums_as_numbers else _enum(field.enum_type)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return lambda value: b64encode(value).decode("ascii")
        return str if field.cpp_type in _LONG else _itself

    def __repr__(self) -> str:
        return f"<Printers types={len(self._built)}>"


def _as_string(value: Any) -> object:
    return value.ToJsonString()


def _itself(value: object) -> object:
    return value


def _enum(enum: EnumDescriptor) -> _Print:
    names: Mapping[int, str] = {value.number: value.name for value in reversed(enum.values)}
    return lambda number: names.get(number, number)
