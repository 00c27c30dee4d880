"""How one REST address turns path, query and body into its RPC's request message."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from emulator.api.catalogue import HttpBinding, Rpc
from emulator.api.fields import is_repeated
from emulator.errors import http as http_errors
from emulator.wire.rest_json import (
    MessageReader,
    Readers,
    descriptor_of,
    map_entry,
    parse_document,
    spelled,
)
from emulator.wire.rest_values import WELL_KNOWN, Unreadable

_MASK = "google.protobuf.FieldMask"
_BOOLEANS: Mapping[str, object] = MappingProxyType({"true": True, "false": False})
_WHOLE = "*"


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A field of the request that the query may hold."""

    path: tuple[str, ...]
    field: FieldDescriptor

    def value(self, texts: Sequence[str]) -> object:
        """What a JSON document would have in the place of the query's texts."""
        if _is_mask(self.field):
            return ",".join(texts)
        values = [_BOOLEANS.get(each, each) if self.field.type == FieldDescriptor.TYPE_BOOL else each for each in texts]
        if is_repeated(self.field):
            return values
        if len(values) > 1:
            raise http_errors.field_given_twice(".".join(self.path))
        return values[0]


class RequestReader:
    """One binding of one RPC: fields from the path, then the body, then the query (service.md §1.7.4 to §1.7.7)."""

    __slots__ = (
        "_body_field",
        "_body_reader",
        "_mask",
        "_mask_resource",
        "_parameters",
        "_path",
        "_reader",
        "_request",
    )

    def __init__(self, rpc: Rpc, binding: HttpBinding, path: tuple[str, ...], readers: Readers) -> None:
        """path: the field that takes the resource name in the address."""
        request = descriptor_of(rpc.request)
        self._request = rpc.request
        self._path = path
        self._reader = readers.of(request)
        self._body_field = binding.body
        self._body_reader = self._reader_of_body(request, readers)
        mask = next((field for field in request.fields if _is_mask(field)), None)
        self._mask = mask.name if mask else ""
        self._mask_resource = _resource_of_mask(request)
        self._parameters = self._query_parameters(request)

    def _reader_of_body(self, request: Descriptor, readers: Readers) -> MessageReader:
        if self._body_field == "":
            reader = MessageReader(request.name)
            reader.build(request, readers, only=self._path[0])  # repeated from the path, which beats it
            return reader
        if self._body_field == _WHOLE:
            return self._reader
        content = request.fields_by_name[self._body_field].message_type
        if content is None:
            raise TypeError(f"the body of {request.name} is not a message")
        return readers.of(content)

    def _query_parameters(self, request: Descriptor) -> Mapping[str, _Parameter]:
        every = _spellings(request, ())
        if self._body_field == _WHOLE:
            # The mask is the exception: an update takes it from either place (service.md §1.7.7).
            return MappingProxyType({name: each for name, each in every if _is_mask(each.field)})
        return MappingProxyType(
            {name: each for name, each in every if each.path[0] != self._body_field and each.path != self._path}
        )

    def read(self, name: str, parameters: Sequence[tuple[str, str]], body: bytes) -> Message:
        """The request message; `name` is the resource name from the path, which beats the body's.

        Raises INVALID_ARGUMENT for whatever does not fit.
        """
        fields = self._from_body(body)
        if parameters:
            self._add(fields, self._from_query(parameters))
        if self._mask in fields:
            paths = fields[self._mask]["paths"]
            fields[self._mask] = {"paths": [canonical_path(path, self._mask_resource) for path in paths]}
        holder = fields
        for part in self._path[:-1]:
            holder = holder.setdefault(part, {})
        holder[self._path[-1]] = name
        return self._request(**fields)

    def _from_body(self, body: bytes) -> dict[str, Any]:
        document = parse_document(body) if body and not body.isspace() else {}
        try:
            content = self._body_reader(document)
        except Unreadable as problem:
            if self._body_field not in ("", _WHOLE):
                problem.within(self._body_field)
            raise problem.error("body") from None
        return content if self._body_field in ("", _WHOLE) else {self._body_field: content}

    def _from_query(self, parameters: Sequence[tuple[str, str]]) -> dict[str, Any]:
        given: dict[tuple[str, ...], tuple[_Parameter, list[str]]] = {}
        for name, text in parameters:
            parameter = self._parameters.get(name)
            if parameter is None:
                raise http_errors.unknown_query_parameter(name, text)
            given.setdefault(parameter.path, (parameter, []))[1].append(text)
        document: dict[str, Any] = {}
        for parameter, texts in given.values():
            holder = document
            for part in parameter.path[:-1]:
                holder = holder.setdefault(part, {})
            holder[parameter.path[-1]] = parameter.value(texts)
        try:
            return self._reader(document)
        except Unreadable as problem:
            raise problem.error("query") from None

    def _add(self, fields: dict[str, Any], more: dict[str, Any]) -> None:
        in_body, in_query = fields.get(self._mask), more.get(self._mask)
        if in_body and in_query:
            spelled_in_body, spelled_in_query = (
                sorted({canonical_path(path, self._mask_resource) for path in mask["paths"]})
                for mask in (in_body, in_query)
            )
            if spelled_in_body != spelled_in_query:
                raise http_errors.conflicting_masks(",".join(in_body["paths"]), ",".join(in_query["paths"]))
        fields.update(more)

    def __repr__(self) -> str:
        return f"<RequestReader {self._request.__name__}>"


def canonical_path(path: str, resource: Descriptor | None) -> str:
    """A mask's path in snake case; from a map's key or an unknown name on, as it came (service.md §1.7.7, §1.8.1)."""
    names = path.split(".")
    for index, name in enumerate(names):
        field = spelled(resource, name) if resource else None
        if field is None:
            break
        names[index] = field.name
        resource = None if map_entry(field) else field.message_type
    return ".".join(names)


def _is_mask(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name == _MASK


def _resource_of_mask(request: Descriptor) -> Descriptor | None:
    """The message that a mask in the request is about: the other message in it."""
    for field in request.fields:
        if field.message_type is not None and not _is_mask(field):
            return field.message_type
    return None


def _spellings(message: Descriptor, above: tuple[str, ...]) -> Iterator[tuple[str, _Parameter]]:
    """Every name by which a query can give a field; maps and lists of messages it cannot."""
    for field in message.fields:
        content = field.message_type
        path = (*above, field.name)
        for name in {field.name, field.camelcase_name}:
            if content is None or (content.full_name in WELL_KNOWN and not is_repeated(field)):
                yield name, _Parameter(path, field)
            elif not is_repeated(field):
                yield from ((f"{name}.{rest}", parameter) for rest, parameter in _spellings(content, path))
