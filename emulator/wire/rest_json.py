"""JSON documents to protobuf messages: proto3 JSON, as strict as production (service.md §1.7.1 to §1.7.9).

Readers are built once per message type, from its descriptor. In front of `json_format.ParseDict` the same walk would be
needed, for base64, masks and errors that name field and value, and together they take five times as long.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from emulator import errors
from emulator.api.fields import is_repeated
from emulator.errors import http as http_errors
from emulator.limits import REQUEST_MAX_ELEMENTS
from emulator.wire.rest_values import SCALARS, WELL_KNOWN, Read, Unreadable, enum_reader, read_string, refuse

# Possessive throughout: it never looks at a byte twice, whatever the bytes are.
_UP_TO_COMMA = re.compile(rb'(?:[^",]++|"(?:[^"\\]++|\\.)*+")*+,', re.DOTALL)


def parse_document(body: bytes) -> object:
    """Decode a JSON document. Raises INVALID_ARGUMENT for what is not exactly one or has too many elements."""
    if body.count(b",") >= REQUEST_MAX_ELEMENTS and _has_too_many_elements(body):
        raise http_errors.too_many_elements(REQUEST_MAX_ELEMENTS)
    try:
        return _DECODER.decode(body.decode())
    except RecursionError:
        raise http_errors.not_json("nested too deeply") from None
    except ValueError as problem:  # JSON's own, UTF-8's, and that of integers with thousands of digits
        raise http_errors.not_json(str(problem)) from None


def _has_too_many_elements(body: bytes) -> bool:
    """Whether so many commas stand outside of strings, in a document that may be broken."""
    at = commas = 0
    while commas < REQUEST_MAX_ELEMENTS and (found := _UP_TO_COMMA.match(body, at)):
        at = found.end()
        commas += 1
    return commas >= REQUEST_MAX_ELEMENTS


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        raise http_errors.repeated_json_key(next(key for key in keys if keys.count(key) > 1))
    return result


def _no_constant(token: str) -> NoReturn:
    raise http_errors.not_json(f"{token} is not a JSON value")


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    read: Read


class MessageReader:
    """Reads the JSON object of one message type; what it returns is what the type's constructor takes."""

    __slots__ = ("_fields", "_message", "_oneofs")

    def __init__(self, message: str) -> None:
        self._message = message
        self._fields: Mapping[str, _Field] = {}
        self._oneofs: Sequence[Sequence[str]] = ()

    def build(self, descriptor: Descriptor, readers: "Readers", only: str = "") -> None:
        """Second half of construction: types refer to each other. only: the one field that is known, "" for all."""
        fields: dict[str, _Field] = {}
        for field in [descriptor.fields_by_name[only]] if only else descriptor.fields:
            fields[field.name] = fields[field.camelcase_name] = _Field(field.name, readers.of_field(field))
        self._fields = fields
        groups = [[field.name for field in oneof.fields] for oneof in descriptor.oneofs]
        self._oneofs = [group for group in groups if len(group) > 1]

    def __call__(self, value: object) -> dict[str, object]:
        """Both spellings of a field are read; null is as good as absent. Raises Unreadable."""
        if type(value) is not dict:
            refuse(value, "an object")
        result: dict[str, object] = {}
        for key, item in value.items():
            field = self._fields.get(key)
            if field is None:
                raise Unreadable(self._unknown(item), key)
            if item is None:
                continue
            name = field.name
            if name in result:
                raise Unreadable(http_errors.field_given_twice, name)
            try:
                result[name] = field.read(item)
            except Unreadable as problem:
                raise problem.within(name) from None
        for group in self._oneofs:
            given = [name for name in group if name in result]
            if len(given) > 1:
                raise Unreadable(_exclusive(given), given[-1])
        return result

    def _unknown(self, value: object) -> Callable[[str], errors.PubsubError]:
        return lambda where: http_errors.unknown_json_field(where, value, self._message)

    def __repr__(self) -> str:
        return f"<MessageReader {self._message}>"


def _exclusive(names: Sequence[str]) -> Callable[[str], errors.PubsubError]:
    def make(where: str) -> errors.PubsubError:
        holder = where.removesuffix(names[-1])
        return errors.exclusive_fields([holder + name for name in names])

    return make


class Readers:
    """The readers of message types, each built when it is first asked for."""

    __slots__ = ("_built",)

    def __init__(self) -> None:
        self._built: dict[str, MessageReader] = {}

    def of(self, descriptor: Descriptor) -> MessageReader:
        reader = self._built.get(descriptor.full_name)
        if reader is None:
            reader = self._built[descriptor.full_name] = MessageReader(descriptor.name)
            reader.build(descriptor, self)
        return reader

    def of_field(self, field: FieldDescriptor) -> Read:
        """Raises TypeError for a type that Pub/Sub's messages do not use."""
        if (entry := map_entry(field)) is not None:
            if entry.fields_by_name["key"].type != FieldDescriptor.TYPE_STRING:
                raise TypeError(f"no JSON reader for the keys of {field.full_name}")
            return _map_reader(self._of_single(entry.fields_by_name["value"]))
        return _list_reader(self._of_single(field)) if is_repeated(field) else self._of_single(field)

    def _of_single(self, field: FieldDescriptor) -> Read:
        if field.message_type is not None:
            return WELL_KNOWN.get(field.message_type.full_name) or self.of(field.message_type)
        if field.enum_type is not None:
            return enum_reader(field.enum_type)
        if field.type not in SCALARS:
            raise TypeError(f"no JSON reader for {field.full_name}")
        return SCALARS[field.type]

    def __repr__(self) -> str:
        return f"<Readers types={len(self._built)}>"


def map_entry(field: FieldDescriptor) -> Descriptor | None:
    """The key and value of a map field; None for any other field."""
    entry = field.message_type
    return entry if entry is not None and entry.GetOptions().map_entry else None


def descriptor_of(message: type[Message] | Message) -> Descriptor:
    # The stubs give the attribute two unrelated types, the classes of the two implementations.
    return cast("Descriptor", message.DESCRIPTOR)


def spelled(message: Descriptor, name: str) -> FieldDescriptor | None:
    """The field that `name` stands for in JSON, in either spelling."""
    return message.fields_by_name.get(name) or message.fields_by_camelcase_name.get(name)


def _list_reader(read: Read) -> Read:
    def read_list(value: object) -> list[object]:
        if type(value) is not list:
            refuse(value, "a list")
        result: list[object] = []
        for index, item in enumerate(value):
            try:
                result.append(read(item))
            except Unreadable as problem:
                raise problem.within(f"[{index}]") from None
        return result

    return read_list


def _map_reader(read: Read) -> Read:
    def read_map(value: object) -> dict[str, object]:
        if type(value) is not dict:
            refuse(value, "an object")
        result: dict[str, object] = {}
        for key, item in value.items():
            try:
                result[read_string(key)] = read(item)
            except Unreadable as problem:
                raise problem.within(key) from None
        return result

    return read_map


def render_document(document: object, pretty: bool = False) -> bytes:
    """Bytes of a decoded JSON document; compact unless `pretty`, for nobody reads a reply of a test twice."""
    if pretty:
        return json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
    return _COMPACT.encode(document).encode()
