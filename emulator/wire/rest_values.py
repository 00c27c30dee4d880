"""JSON values without fields of their own to protobuf values: scalars, enums, durations, timestamps, masks, structs.

Each reader takes a decoded JSON value and returns what the constructor of a message takes for a field, or raises
`Unreadable` (service.md §1.7.2 to §1.7.4).
"""

import binascii
import re
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NoReturn, TypeAlias

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from emulator import errors
from emulator.api import pb
from emulator.errors import PubsubError
from emulator.errors import http as http_errors

Read: TypeAlias = Callable[[object], object]

# One level of a struct takes three of the hundred that protobuf is willing to read back.
STRUCT_MAX_LEVELS = 25

_DOUBLE_MAX = sys.float_info.max

_INTEGER = re.compile(r"-?[0-9]{1,20}")
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?")
_DURATION = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,9})?s")
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)
_FROM_URL_SAFE = str.maketrans("-_", "+/")


class Unreadable(Exception):
    """A JSON value that does not fit; the readers around it add where it stands."""

    __slots__ = ("_make", "_where")

    def __init__(self, make: Callable[[str], PubsubError], where: str = "") -> None:
        super().__init__(where)
        self._make = make
        self._where = where

    def within(self, name: str) -> "Unreadable":
        """The same, seen from the field or element that holds the value."""
        separator = "." if self._where and not self._where.startswith("[") else ""
        self._where = f"{name}{separator}{self._where}"
        return self

    def error(self, whole: str) -> PubsubError:
        """What to tell the caller; `whole` names the outermost value, should that itself not fit."""
        return self._make(self._where or whole)

    def __repr__(self) -> str:
        return f"<Unreadable {self._where}>"


def refuse(value: object, expected: str) -> NoReturn:
    """Raise Unreadable for a value that is not what was expected."""
    raise Unreadable(lambda where: http_errors.unreadable_json_value(where, value, expected))


def read_string(value: object) -> str:
    if type(value) is not str:
        refuse(value, "a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            refuse(value, "a string without lone surrogates")
    return value


def read_bytes(value: object) -> bytes:
    """Standard or URL-safe base64, padded or not (service.md §1.7.2)."""
    if type(value) is not str:
        refuse(value, "a string of base64")
    text = value.translate(_FROM_URL_SAFE) if "-" in value or "_" in value else value
    if "=" not in text:
        text += "=" * (-len(text) % 4)
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise Unreadable(lambda where: http_errors.bad_base64(where, value)) from None


def read_bool(value: object) -> bool:
    if type(value) is not bool:
        refuse(value, "true or false")
    return value


def read_duration(value: object) -> object:
    duration = pb.Duration()
    _from_json_string(duration, value, _DURATION, 'a duration in seconds such as "3.5s"')
    return duration


def read_timestamp(value: object) -> object:
    timestamp = pb.Timestamp()
    _from_json_string(timestamp, value, _TIMESTAMP, 'a timestamp such as "2025-01-31T12:00:00Z"')
    return timestamp


def _from_json_string(message: pb.Duration | pb.Timestamp, value: object, form: re.Pattern[str], expected: str) -> None:
    # protobuf's own parsers let through what int() and float() do ("1_0s", " 5s"), hence the pattern before them.
    if type(value) is not str or not form.fullmatch(value):
        refuse(value, expected)
    try:
        message.FromJsonString(value)
    except ValueError:
        refuse(value, expected)


def read_mask(value: object) -> Mapping[str, object]:
    """Comma-separated paths, spelled as they come: only who knows the resource can tell a field from a map's key."""
    if type(value) is not str:
        refuse(value, "a string of comma-separated paths")
    return {"paths": [read_string(path.strip()) for path in value.split(",")] if value else []}


def read_struct(value: object) -> object:
    if type(value) is not dict:
        refuse(value, "an object")
    _check_free_form(value, STRUCT_MAX_LEVELS)
    return json_format.ParseDict(value, pb.Struct())


def _check_free_form(value: object, levels: int) -> None:
    if type(value) is dict or type(value) is list:
        if not levels:
            raise Unreadable(lambda where: http_errors.nested_too_deeply(where, STRUCT_MAX_LEVELS))
        for key, item in value.items() if type(value) is dict else enumerate(value):
            try:
                read_string(str(key))
                _check_free_form(item, levels - 1)
            except Unreadable as problem:
                raise problem.within(str(key)) from None
    elif type(value) is str:
        read_string(value)
    elif isinstance(value, int | float) and not -_DOUBLE_MAX <= value <= _DOUBLE_MAX:
        refuse(value, "a number that a double can hold")


def integer_reader(low: int, high: int) -> Read:
    """Numbers and their decimal strings, without a fraction (service.md §1.7.3)."""

    def read(value: object) -> int:
        number = _whole(value)
        if number is None:
            refuse(value, "an integer")
        if not low <= number <= high:
            raise Unreadable(lambda where: errors.out_of_range(where, number, low, high))
        return number

    return read


def _whole(value: object) -> int | None:
    if type(value) is int:
        return value
    if type(value) is str:
        if _INTEGER.fullmatch(value):
            return int(value)
        value = float(value) if _NUMBER.fullmatch(value) else None
    return int(value) if type(value) is float and value.is_integer() else None


_INT32 = integer_reader(-(2**31), 2**31 - 1)

SCALARS: Mapping[int, Read] = MappingProxyType(
    {
        FieldDescriptor.TYPE_STRING: read_string,
        FieldDescriptor.TYPE_BYTES: read_bytes,
        FieldDescriptor.TYPE_BOOL: read_bool,
        FieldDescriptor.TYPE_INT32: _INT32,
        FieldDescriptor.TYPE_INT64: integer_reader(-(2**63), 2**63 - 1),
    }
)

WELL_KNOWN: Mapping[str, Read] = MappingProxyType(
    {
        "google.protobuf.Duration": read_duration,
        "google.protobuf.Timestamp": read_timestamp,
        "google.protobuf.FieldMask": read_mask,
        "google.protobuf.Struct": read_struct,
    }
)


def enum_reader(enum: EnumDescriptor) -> Read:
    """By name, or by any number: an enum of proto3 is open (service.md §1.7.3)."""
    numbers = MappingProxyType({value.name: value.number for value in enum.values})

    def read(value: object) -> object:
        if type(value) is not str or _INTEGER.fullmatch(value):
            return _INT32(value)
        if value not in numbers:
            raise Unreadable(lambda where: errors.unsupported_choice(where, value, tuple(numbers)))
        return numbers[value]

    return read
