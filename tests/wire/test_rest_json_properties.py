"""The JSON mapping against protobuf's own, and against anything at all, on drawn messages and documents."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from emulator.api import pb
from emulator.wire.rest_json import (
    Readers,
    descriptor_of,
    map_entry,
    parse_document,
    render_document,
)
from emulator.wire.rest_printing import Printers
from emulator.wire.rest_values import Unreadable

READERS = Readers()
PRINTERS = {numbers: Printers(enums_as_numbers=numbers) for numbers in (False, True)}


def read(message: type[Message], document: object) -> Any:
    return message(**READERS.of(descriptor_of(message))(document))


ROUND_TRIPS: list[type[Message]] = [
    pb.Topic,
    pb.Subscription,
    pb.PublishRequest,
    pb.PullResponse,
    pb.Snapshot,
    pb.Schema,
    pb.UpdateSubscriptionRequest,
    pb.SetIamPolicyRequest,
]


def _struct(value: dict[str, Any]) -> pb.Struct:
    return json_format.ParseDict(value, pb.Struct())


def _duration(nanos: int) -> pb.Duration:
    duration = pb.Duration()
    duration.FromNanoseconds(nanos)
    return duration


_SCALARS: Mapping[int, st.SearchStrategy[object]] = {
    FieldDescriptor.TYPE_STRING: st.text(max_size=8),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
_WELL_KNOWN: Mapping[str, st.SearchStrategy[object]] = {
    "google.protobuf.Duration": st.integers(-(10**18), 10**18).map(_duration),
    "google.protobuf.Timestamp": st.builds(
        pb.Timestamp, seconds=st.integers(-62_135_596_800, 253_402_300_799), nanos=st.integers(0, 999_999_999)
    ),
    "google.protobuf.FieldMask": st.lists(st.from_regex(r"[a-z]{1,5}(\.[a-z]{1,5})?", fullmatch=True), max_size=2).map(
        lambda paths: pb.FieldMask(paths=paths)
    ),
    "google.protobuf.Struct": st.dictionaries(st.text(max_size=5), _JSON, max_size=2).map(_struct),
}


def contents(descriptor: Descriptor) -> st.SearchStrategy[dict[str, object]]:
    """Keyword arguments of a message: any subset of its fields, one of each oneof."""
    fields = {field.name: _field(field) for field in descriptor.fields}

    def one_of_each(drawn: dict[str, object]) -> dict[str, object]:
        for oneof in descriptor.oneofs:
            for extra in [field.name for field in oneof.fields if field.name in drawn][1:]:
                del drawn[extra]
        return drawn

    return st.fixed_dictionaries({}, optional=fields).map(one_of_each)


def _field(field: FieldDescriptor) -> st.SearchStrategy[object]:
    if (entry := map_entry(field)) is not None:
        return st.dictionaries(st.text(max_size=5), _single(entry.fields_by_name["value"]), max_size=2)
    return st.lists(_single(field), max_size=2) if field.default_value == [] else _single(field)


def _single(field: FieldDescriptor) -> st.SearchStrategy[object]:
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.message_type is not None:
        return _message(field.message_type)
    return _SCALARS[field.type]


def _message(descriptor: Descriptor) -> st.SearchStrategy[object]:
    if descriptor.full_name in _WELL_KNOWN:
        return _WELL_KNOWN[descriptor.full_name]
    return st.deferred(lambda: contents(descriptor))


@pytest.mark.rule("S1.7.1", "S1.7.2", "S1.7.3", "S1.7.9", "B094")
@pytest.mark.parametrize("message_type", ROUND_TRIPS)
@given(data=st.data())
def test_what_is_written_is_read_again(message_type: type[Message], data: st.DataObject) -> None:
    message = message_type(**data.draw(contents(descriptor_of(message_type))))
    body = render_document(PRINTERS[data.draw(st.booleans())].document(message), data.draw(st.booleans()))

    assert read(message_type, parse_document(body)) == message


@pytest.mark.rule("S1.7.1", "S1.7.3")
@pytest.mark.parametrize("message_type", ROUND_TRIPS)
@given(data=st.data(), enums_as_numbers=st.booleans())
def test_what_is_written_is_what_protobuf_writes(
    message_type: type[Message], data: st.DataObject, enums_as_numbers: bool
) -> None:
    message = message_type(**data.draw(contents(descriptor_of(message_type))))
    expected = json_format.MessageToDict(message, use_integers_for_enums=enums_as_numbers, descriptor_pool=pb.POOL)

    assert PRINTERS[enums_as_numbers].document(message) == expected


@pytest.mark.rule("S1.7.1")
@pytest.mark.parametrize("message_type", ROUND_TRIPS)
@given(data=st.data())
def test_where_protobuf_reads_too_the_results_agree(message_type: type[Message], data: st.DataObject) -> None:
    message = message_type(**data.draw(contents(descriptor_of(message_type))))
    document = json_format.MessageToDict(
        message, preserving_proto_field_name=data.draw(st.booleans()), descriptor_pool=pb.POOL
    )
    document = json.loads(json.dumps(document))

    assert read(message_type, document) == json_format.ParseDict(document, message_type(), descriptor_pool=pb.POOL)


_ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5) | st.just("600s"),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.text(max_size=3) | st.sampled_from(["name", "labels", "pushConfig", "attributes", "messages", "data"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("message_type", ROUND_TRIPS)
@given(document=_ANY_JSON)
def test_any_json_is_either_read_or_refused(message_type: type[Message], document: object) -> None:
    with suppress(Unreadable):
        assert isinstance(read(message_type, document).SerializeToString(), bytes)
