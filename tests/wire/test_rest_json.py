"""The JSON mapping: what is read, what is refused and how, and what is written."""

from datetime import datetime
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import Message

from emulator.api import pb
from emulator.errors import Code, PubsubError
from emulator.wire.rest_json import (
    Readers,
    descriptor_of,
    parse_document,
    render_document,
)
from emulator.wire.rest_printing import Printers
from emulator.wire.rest_values import STRUCT_MAX_LEVELS, Unreadable

NAMES = Printers(enums_as_numbers=False)
NUMBERS = Printers(enums_as_numbers=True)

READERS = Readers()


def read(message: type[Message], document: object) -> Any:
    return message(**READERS.of(descriptor_of(message))(document))


def refusal(message: type[Message], document: object) -> str:
    with pytest.raises(Unreadable) as refused:
        read(message, document)
    error = refused.value.error("body")
    assert error.code is Code.INVALID_ARGUMENT
    return error.message


# Fields


@pytest.mark.rule("S1.7.1")
@pytest.mark.parametrize(
    "document",
    [
        {"ackDeadlineSeconds": 30, "pushConfig": {"pushEndpoint": "https://x"}},
        {"ack_deadline_seconds": 30, "push_config": {"push_endpoint": "https://x"}},
        {"ackDeadlineSeconds": 30, "push_config": {"pushEndpoint": "https://x"}},
    ],
)
def test_both_spellings_are_read(document: object) -> None:
    subscription = read(pb.Subscription, document)

    assert subscription == pb.Subscription(
        ack_deadline_seconds=30, push_config=pb.PushConfig(push_endpoint="https://x")
    )


@pytest.mark.rule("S1.7.1")
@pytest.mark.parametrize(
    "document",
    [
        {"labels": None, "ackDeadlineSeconds": None, "name": None, "expirationPolicy": None, "state": None},
        {"ackDeadlineSeconds": None, "ack_deadline_seconds": None},
        {},
    ],
)
def test_null_is_absent(document: object) -> None:
    assert read(pb.Subscription, document) == pb.Subscription()


@pytest.mark.rule("S1.7.1")
def test_an_empty_message_is_not_absent() -> None:
    assert read(pb.Subscription, {"expirationPolicy": {}}).HasField("expiration_policy")


@pytest.mark.rule("S1.7.2", "S1.7.9")
@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", b""),
        ("YQ==", b"a"),
        ("YQ", b"a"),
        ("YWI=", b"ab"),
        ("YWI", b"ab"),
        ("YWJj", b"abc"),
        ("+/+/", b"\xfb\xff\xbf"),
        ("-_-_", b"\xfb\xff\xbf"),
        ("-_+/", b"\xfb\xff\xbf"),
        ("_w", b"\xff"),
    ],
)
def test_base64_is_read_in_each_form(text: str, data: bytes) -> None:
    assert read(pb.PubsubMessage, {"data": text}).data == data


@pytest.mark.rule("S1.7.2", "S1.7.9")
@pytest.mark.parametrize(
    "text",
    ["ab=", "=====", "====", "=", "a b c", "a", "YWJjZ", "YQ=", "YQ===", "Y=Q=", "YQ==YQ==", "YQ\n==", "YWI*", "ÿÿÿÿ"],
)
def test_what_is_not_base64_is_refused_naming_field_and_value(text: str) -> None:
    message = refusal(pb.PublishRequest, {"messages": [{"data": "YQ=="}, {"data": text}]})

    assert "(argument=messages[1].data)" in message
    assert text.replace("\n", "\\n") in message


@pytest.mark.rule("S1.7.3")
@pytest.mark.parametrize(
    ("text", "seconds", "nanos"),
    [
        ("600s", 600, 0),
        ("3.5s", 3, 500_000_000),
        ("0s", 0, 0),
        ("0.000000001s", 0, 1),
        ("-1.5s", -1, -500_000_000),
        ("-0.5s", 0, -500_000_000),
        ("315576000000s", 315_576_000_000, 0),
        ("00010s", 10, 0),
    ],
)
def test_durations_are_read(text: str, seconds: int, nanos: int) -> None:
    duration = read(pb.Topic, {"messageRetentionDuration": text}).message_retention_duration

    assert (duration.seconds, duration.nanos) == (seconds, nanos)


@pytest.mark.rule("S1.7.3")
@pytest.mark.parametrize(
    ("text", "seconds", "nanos"),
    [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("1970-01-01T01:00:00+01:00", 0, 0),
        ("1969-12-31T18:30:00.000000001-05:30", 0, 1),
        ("2025-01-31T12:00:00.5Z", 1_738_324_800, 500_000_000),
        ("0001-01-01T00:00:00Z", -62_135_596_800, 0),
    ],
)
def test_timestamps_are_read_with_any_offset(text: str, seconds: int, nanos: int) -> None:
    time = read(pb.SeekRequest, {"time": text}).time

    assert (time.seconds, time.nanos) == (seconds, nanos)


@pytest.mark.rule("S1.7.3")
@pytest.mark.parametrize("value", [30, "30", 30.0, "30.0", "3e1", "030"])
def test_integers_are_read_as_number_or_string(value: object) -> None:
    assert read(pb.Subscription, {"ackDeadlineSeconds": value}).ack_deadline_seconds == 30


@pytest.mark.rule("S1.7.3")
@pytest.mark.parametrize("value", [2**63 - 1, str(2**63 - 1), -(2**63), str(-(2**63))])
def test_64_bits_fit(value: object) -> None:
    assert read(pb.CloudStorageConfig, {"maxBytes": value}).max_bytes == int(str(value))


@pytest.mark.rule("S1.7.3")
@pytest.mark.parametrize(
    ("value", "number"), [("AVRO", 2), (2, 2), ("2", 2), ("TYPE_UNSPECIFIED", 0), (99, 99), (2.0, 2)]
)
def test_enums_are_read_by_name_or_number(value: object, number: int) -> None:
    assert read(pb.Schema, {"type": value}).type == number


@pytest.mark.rule("S1.7.7", "S1.7.9")
@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("", []),
        ("labels", ["labels"]),
        ("ackDeadlineSeconds,push_config.pushEndpoint", ["ackDeadlineSeconds", "push_config.pushEndpoint"]),
        ("labels, filter", ["labels", "filter"]),
        ("a,,b", ["a", "", "b"]),
    ],
)
def test_masks_are_read_without_a_change_of_spelling(text: str, paths: list[str]) -> None:
    assert read(pb.UpdateTopicRequest, {"updateMask": text}).update_mask.paths == paths


@pytest.mark.rule("S1.7.1")
def test_structs_are_read() -> None:
    document = {"parameters": {"a": [1, 2.5, "x", None, True, {"b": {}}], "größe": "日本", "n": 2**70}}

    inference = read(pb.AIInference.UnstructuredInference, document)

    assert NAMES.document(inference) == document


# Refusals

SUBSCRIPTION_REFUSALS: list[tuple[object, str, str]] = [
    ([], "body", "a list"),
    (None, "body", "null"),
    ("x", "body", "x"),
    (3, "body", "3"),
    (True, "body", "true"),
    ({"bogus": 1}, "bogus", "1"),
    ({"Name": "x"}, "Name", "x"),
    ({"": {}}, "body", "an object"),
    ({"pushConfig": {"bogus": "v"}}, "push_config.bogus", "v"),
    ({"pubsubExportConfig": {}}, "pubsubExportConfig", "an object"),
    ({"name": 5}, "name", "5"),
    ({"name": ["x"]}, "name", "a list"),
    ({"name": "\ud800"}, "name", "\\ud800"),
    ({"ackDeadlineSeconds": "x"}, "ack_deadline_seconds", "x"),
    ({"ackDeadlineSeconds": "1_0"}, "ack_deadline_seconds", "1_0"),
    ({"ackDeadlineSeconds": " 10"}, "ack_deadline_seconds", " 10"),
    ({"ackDeadlineSeconds": "١٠"}, "ack_deadline_seconds", "١٠"),
    ({"ackDeadlineSeconds": ""}, "ack_deadline_seconds", "(empty)"),
    ({"ackDeadlineSeconds": 1.5}, "ack_deadline_seconds", "1.5"),
    ({"ackDeadlineSeconds": float("inf")}, "ack_deadline_seconds", "inf"),
    ({"ackDeadlineSeconds": True}, "ack_deadline_seconds", "true"),
    ({"ackDeadlineSeconds": {}}, "ack_deadline_seconds", "an object"),
    ({"ackDeadlineSeconds": 2**31}, "ack_deadline_seconds", "2147483648"),
    ({"ackDeadlineSeconds": "-2147483649"}, "ack_deadline_seconds", "-2147483649"),
    ({"ackDeadlineSeconds": 1e300}, "ack_deadline_seconds", "1000000"),
    ({"enableMessageOrdering": "true"}, "enable_message_ordering", "true"),
    ({"enableMessageOrdering": 1}, "enable_message_ordering", "1"),
    ({"labels": []}, "labels", "a list"),
    ({"labels": {"a": 1}}, "labels.a", "1"),
    ({"labels": {"a": None}}, "labels.a", "null"),
    ({"labels": {"\ud800": "x"}}, "labels.\\ud800", "\\ud800"),
    ({"messageTransforms": {}}, "message_transforms", "an object"),
    ({"messageTransforms": [None]}, "message_transforms[0]", "null"),
    ({"messageTransforms": [{}, {"disabled": "x"}]}, "message_transforms[1].disabled", "x"),
    ({"pushConfig": "x"}, "push_config", "x"),
    ({"state": "BOGUS"}, "state", "BOGUS"),
    ({"state": "active"}, "state", "active"),
    ({"state": 1.5}, "state", "1.5"),
    ({"state": True}, "state", "true"),
    ({"state": 2**31}, "state", "2147483648"),
    ({"messageRetentionDuration": "600"}, "message_retention_duration", "600"),
    ({"messageRetentionDuration": 600}, "message_retention_duration", "600"),
    ({"messageRetentionDuration": "10m"}, "message_retention_duration", "10m"),
    ({"messageRetentionDuration": "1_0s"}, "message_retention_duration", "1_0s"),
    ({"messageRetentionDuration": " 5s"}, "message_retention_duration", " 5s"),
    ({"messageRetentionDuration": "5s\n"}, "message_retention_duration", "5s\\n"),
    ({"messageRetentionDuration": "s"}, "message_retention_duration", "s"),
    ({"messageRetentionDuration": "1e3s"}, "message_retention_duration", "1e3s"),
    ({"messageRetentionDuration": "1.0000000001s"}, "message_retention_duration", "1.0000000001s"),
    ({"messageRetentionDuration": "315576000001s"}, "message_retention_duration", "315576000001s"),
    ({"retryPolicy": {"minimumBackoff": "x"}}, "retry_policy.minimum_backoff", "x"),
    ({"ackDeadlineSeconds": 1, "ack_deadline_seconds": 1}, "ack_deadline_seconds", "twice"),
    ({"pushConfig": {"noWrapper": {}, "pubsubWrapper": {}}}, "push_config.no_wrapper", "push_config.pubsub_wrapper"),
]


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(("document", "argument", "value"), SUBSCRIPTION_REFUSALS)
def test_what_does_not_fit_is_refused_naming_field_and_value(document: object, argument: str, value: str) -> None:
    message = refusal(pb.Subscription, document)

    assert f"(argument={argument})" in message
    assert value in message


@pytest.mark.rule("S1.7.3")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2025-01-31",
        "2025-01-31T12:00:00",
        "2025-01-31 12:00:00Z",
        "2025-01-31t12:00:00z",
        "2025-13-01T00:00:00Z",
        "2025-02-30T00:00:00Z",
        "2025-01-01T24:00:00Z",
        "2025-01-01T00:00:60Z",
        "2025-01-01T00:00:61Z",
        "2025-01-01T00:00:00+24:00",
        "2025-01-01T00:00:00+0100",
        "2025-01-01T00:00:00+01:00_1",
        "2025-01-01T00:00:00.Z",
        "2025-01-01T00:00:00.1234567890Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "２025-01-01T00:00:00Z",
    ],
)
def test_a_malformed_timestamp_is_refused(text: str) -> None:
    message = refusal(pb.SeekRequest, {"time": text})

    assert "(argument=time)" in message
    assert (text or "(empty)") in message


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("value", [["labels"], {"paths": ["labels"]}, 3, "\ud800"])
def test_a_mask_that_is_not_text_is_refused(value: object) -> None:
    assert "(argument=update_mask)" in refusal(pb.UpdateTopicRequest, {"updateMask": value})


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(
    ("value", "argument"),
    [
        ([], "parameters"),
        ({"a": {"b": "\ud800"}}, "parameters.a.b"),
        ({"\ud800": 1}, "parameters.\\ud800"),
        ({"a": [0, float("inf")]}, "parameters.a.1"),
        ({"a": 10**400}, "parameters.a"),
    ],
)
def test_a_struct_that_protobuf_cannot_hold_is_refused(value: object, argument: str) -> None:
    message = refusal(pb.AIInference.UnstructuredInference, {"parameters": value})

    assert f"(argument={argument})" in message


def nested(levels: int, shape: Any) -> Any:
    value: Any = 1
    for _ in range(levels - 1):
        value = shape(value)
    return {"a": value}


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("shape", [lambda value: {"a": value}, lambda value: [value]])
def test_structs_nest_no_deeper_than_protobuf_reads_back(shape: Any) -> None:
    def document(levels: int) -> object:
        inference = {"unstructuredInference": {"parameters": nested(levels, shape)}}
        return {"subscription": {"messageTransforms": [{"aiInference": inference}]}}

    deepest = read(pb.UpdateSubscriptionRequest, document(STRUCT_MAX_LEVELS))

    assert pb.UpdateSubscriptionRequest.FromString(deepest.SerializeToString()) == deepest
    assert f"at most {STRUCT_MAX_LEVELS} levels" in refusal(
        pb.UpdateSubscriptionRequest, document(STRUCT_MAX_LEVELS + 1)
    )
    assert "levels" in refusal(pb.UpdateSubscriptionRequest, document(5_000))


def test_a_type_that_pubsub_does_not_use_is_not_half_supported() -> None:
    with pytest.raises(TypeError, match="number_value"):
        READERS.of(descriptor_of(pb.Value))


def test_neither_are_maps_by_number() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="m", syntax="proto3")
    message = file.message_type.add(name="M")
    entry = message.nested_type.add(name="XEntry", options=descriptor_pb2.MessageOptions(map_entry=True))
    for number, name in enumerate(("key", "value"), start=1):
        entry.field.add(name=name, number=number, type="TYPE_INT32", label="LABEL_OPTIONAL")
    message.field.add(name="x", number=1, type="TYPE_MESSAGE", type_name=".m.M.XEntry", label="LABEL_REPEATED")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)

    with pytest.raises(TypeError, match=r"keys of m\.M\.x"):
        READERS.of(pool.FindMessageTypeByName("m.M"))


def test_readers_show_what_they_read() -> None:
    readers = Readers()
    reader = readers.of(descriptor_of(pb.PublishRequest))

    assert repr(reader) == "<MessageReader PublishRequest>"
    assert repr(readers) == "<Readers types=2>"
    assert repr(Unreadable(lambda _: pytest.fail("not asked for"), "a.b")) == "<Unreadable a.b>"


# Documents


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", ""),
        (b"{'a': 1}", ""),
        (b'{"a": 1,}', ""),
        (b'{"a": 1} x', "Extra data"),
        (b'{"a": 1}{"a": 1}', "Extra data"),
        (b"a=b", ""),
        (b"\xef\xbb\xbf{}", ""),
        (b'{"a": "\xff"}', "utf-8"),
        (b'{"a": "\xed\xa0\x80"}', "utf-8"),
        ("{}".encode("utf-16"), "utf-8"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": Infinity}', "Infinity"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1, "a": 1}', "the key a stands twice"),
        (b'{"x": {"b": 1, "a": 1, "b": 2}}', "the key b stands twice"),
        (b'{"a": "\n"}', "control character"),
        (b'{"a": ' + b"1" * 10_000 + b"}", ""),
        (b'{"a": ' + b"[" * 200_000, "nested too deeply"),
        (b'{"a": ' * 200_000, "nested too deeply"),
    ],
)
def test_what_is_not_one_json_document_is_refused(body: bytes, named: str) -> None:
    with pytest.raises(PubsubError) as refused:
        parse_document(body)

    assert refused.value.code is Code.INVALID_ARGUMENT
    assert named in refused.value.message
    assert "(argument=body)" in refused.value.message


def test_a_pair_of_surrogate_escapes_is_one_character() -> None:
    assert parse_document(b'"\\ud83d\\ude00"') == "😀"


# Output


@pytest.mark.rule("S1.7.1")
def test_output_is_camel_case_without_defaults() -> None:
    subscription = pb.Subscription(
        name="n", ack_deadline_seconds=10, enable_message_ordering=False, push_config=pb.PushConfig()
    )

    assert NAMES.document(subscription) == {"name": "n", "ackDeadlineSeconds": 10, "pushConfig": {}}


@pytest.mark.rule("S1.7.1")
def test_an_empty_list_is_an_empty_object() -> None:
    assert render_document(NAMES.document(pb.ListTopicsResponse())) == b"{}"


@pytest.mark.rule("S1.7.2")
@pytest.mark.parametrize(("data", "text"), [(b"a", "YQ=="), (b"\xfb\xff\xbf", "+/+/"), (b"\xff", "/w==")])
def test_bytes_go_out_as_padded_standard_base64(data: bytes, text: str) -> None:
    assert NAMES.document(pb.PubsubMessage(data=data)) == {"data": text}


@pytest.mark.rule("S1.7.3")
@pytest.mark.parametrize(
    ("seconds", "nanos", "text"),
    [
        (600, 0, "600s"),
        (3, 500_000_000, "3.500s"),
        (3, 500_000, "3.000500s"),
        (3, 500, "3.000000500s"),
        (0, -500_000_000, "-0.500s"),
    ],
)
def test_durations_go_out_with_0_3_6_or_9_digits(seconds: int, nanos: int, text: str) -> None:
    topic = pb.Topic(message_retention_duration=pb.Duration(seconds=seconds, nanos=nanos))

    assert NAMES.document(topic) == {"messageRetentionDuration": text}


@pytest.mark.rule("S1.7.3")
@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "2023-11-14T22:13:20Z"),
        (500_000_000, "2023-11-14T22:13:20.500Z"),
        (123_456_000, "2023-11-14T22:13:20.123456Z"),
        (123_456_789, "2023-11-14T22:13:20.123456789Z"),
    ],
)
def test_timestamps_go_out_in_utc_and_python_reads_them(nanos: int, text: str) -> None:
    message = pb.PubsubMessage(publish_time=pb.Timestamp(seconds=1_700_000_000, nanos=nanos))

    assert NAMES.document(message) == {"publishTime": text}
    assert datetime.fromisoformat(text).timestamp() == pytest.approx(1_700_000_000 + nanos / 1e9, abs=1e-6)


@pytest.mark.rule("S1.7.3")
def test_64_bit_integers_go_out_as_strings() -> None:
    assert NAMES.document(pb.CloudStorageConfig(max_bytes=2**53 + 1)) == {"maxBytes": "9007199254740993"}


@pytest.mark.rule("S1.7.4")
def test_enums_go_out_by_name_or_by_number() -> None:
    topic = pb.Topic(state=1)

    assert NAMES.document(topic) == {"state": "ACTIVE"}
    assert NUMBERS.document(topic) == {"state": 1}


def test_documents_are_compact_utf_8_unless_pretty() -> None:
    document = {"a": ["ü", 1]}

    assert render_document(document) == '{"a":["ü",1]}'.encode()
    assert render_document(document, pretty=True) == '{\n  "a": [\n    "ü",\n    1\n  ]\n}\n'.encode()
