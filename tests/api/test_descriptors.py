"""The descriptor set and its generator against the real client's types."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.api import annotations_pb2
from google.iam.v1 import iam_policy_pb2, policy_pb2
from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.pubsub_v1.types import pubsub, schema
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from emulator.api import catalogue, pb
from tests.tools import descriptors

CLIENT_FILES = (
    pubsub.Topic.pb().DESCRIPTOR.file,
    schema.Schema.pb().DESCRIPTOR.file,
    iam_policy_pb2.DESCRIPTOR,
    policy_pb2.DESCRIPTOR,
    health_pb2.DESCRIPTOR,
    reflection_pb2.DESCRIPTOR,
)


def messages_of(scope: Any) -> Iterator[Descriptor]:
    nested = scope.nested_types if isinstance(scope, Descriptor) else scope.message_types_by_name.values()
    for message in nested:
        yield message
        yield from messages_of(message)


def enums_of(scope: Any) -> Iterator[EnumDescriptor]:
    yield from scope.enum_types_by_name.values()
    for message in messages_of(scope):
        yield from message.enum_types


CLIENT_MESSAGES = {message.full_name: message for file in CLIENT_FILES for message in messages_of(file)}
CLIENT_ENUMS = {enum.full_name: enum for file in CLIENT_FILES for enum in enums_of(file)}
OUR_FILES = [
    pb.POOL.FindFileByName(f"{name}.proto")
    for name in (
        "google/pubsub/v1/pubsub",
        "google/pubsub/v1/schema",
        "google/iam/v1/iam_policy",
        "google/iam/v1/policy",
        "grpc/health/v1/health",
        "grpc/reflection/v1alpha/reflection",
    )
]

each_message = pytest.mark.parametrize("name", CLIENT_MESSAGES)


def field_shape(field: FieldDescriptor) -> dict[str, object]:
    oneof = field.containing_oneof
    return {
        # The client avoids Python's builtins with a trailing underscore; the wire doesn't.
        "name": field.name.removesuffix("_"),
        "json_name": field.json_name,
        "type": field.type,
        "repeated": field.is_repeated,
        "packed": field.is_packed,
        "presence": field.has_presence,
        "oneof": oneof.name if oneof else None,
        "message": field.message_type.full_name if field.message_type else None,
        "enum": field.enum_type.full_name if field.enum_type else None,
    }


def message_shape(message: Descriptor) -> dict[str, object]:
    proto = descriptor_pb2.DescriptorProto()
    message.CopyToProto(proto)
    return {
        "fields": {field.number: field_shape(field) for field in message.fields},
        "optional": {field.number for field in proto.field if field.proto3_optional},
        "map_entry": message.GetOptions().map_entry,
    }


class TestGenerator:
    """The shipped files are what the generator makes, and it notices when they aren't."""

    def test_the_shipped_set_and_stub_are_up_to_date(self) -> None:
        assert descriptors.check() == []

    def test_a_build_has_the_same_bytes_in_every_process(self) -> None:
        shipped, built = (
            [file.SerializeToString() for file in side.file if file.name.startswith(descriptors.REPAIRED)]
            for side in (pb.FILES, descriptors.build())
        )

        assert shipped == built

    def test_the_set_holds_every_dependency_before_its_dependents(self) -> None:
        seen: set[str] = set()
        for file in pb.FILES.file:
            assert seen.issuperset(file.dependency), file.name
            seen.add(file.name)

    def test_a_changed_missing_or_superfluous_file_is_drift(self) -> None:
        changed, missing, superfluous = (descriptors.build() for _ in range(3))
        next(file for file in changed.file if file.name == descriptors.PUBSUB_FILE).message_type[0].name = "Other"
        del missing.file[-1]
        superfluous.file.add(name="other.proto")

        assert descriptors.drift(changed, descriptors.build()) == [descriptors.PUBSUB_FILE]
        assert descriptors.drift(missing, descriptors.build()) == ["google/iam/v1/iam_policy.proto"]
        assert descriptors.drift(superfluous, descriptors.build()) == ["other.proto"]

    def test_a_dependency_as_another_library_version_has_it_is_not_drift(self) -> None:
        other = descriptors.build()
        next(file for file in other.file if file.name == "google/protobuf/descriptor.proto").message_type.add(name="X")

        assert descriptors.drift(other, descriptors.build()) == []

    def test_check_names_what_is_stale_writes_nothing_and_exits_1(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        stale = tmp_path / "pb.pyi"
        stale.write_text("old")
        monkeypatch.setattr(descriptors, "STUB", stale)

        code = descriptors.main(["--check"])

        assert code == 1
        assert "pb.pyi" in capsys.readouterr().err
        assert stale.read_text() == "old"

    def test_without_check_it_writes_both_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(descriptors, "SET", tmp_path / "pubsub.binpb")
        monkeypatch.setattr(descriptors, "STUB", tmp_path / "pb.pyi")

        code = descriptors.main([])

        assert code == 0
        assert descriptors.main(["--check"]) == 0

    def test_transports_that_disagree_about_iam_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def options(rest: type[Any], method: str) -> list[dict[str, str]]:
            return [{"method": "get", "uri": f"/v1/{rest.__name__}/{method}"}]

        monkeypatch.setattr(descriptors, "http_options", options)

        with pytest.raises(ValueError, match="disagree on SetIamPolicy"):
            descriptors.build()


@pytest.mark.rule("S2")
class TestEqualToTheClient:
    """Walks both sides: what is on the wire is the same for the client and for us."""

    def test_the_same_messages_and_enums_exist(self) -> None:
        assert {message.full_name for file in OUR_FILES for message in messages_of(file)} == set(CLIENT_MESSAGES)
        assert {enum.full_name for file in OUR_FILES for enum in enums_of(file)} == set(CLIENT_ENUMS)

    @each_message
    def test_a_message_has_the_same_fields(self, name: str) -> None:
        ours = pb.POOL.FindMessageTypeByName(name)

        assert message_shape(ours) == message_shape(CLIENT_MESSAGES[name])

    @pytest.mark.parametrize("name", CLIENT_ENUMS)
    def test_an_enum_has_the_same_values(self, name: str) -> None:
        ours, theirs = (
            [(value.name, value.number) for value in enum.values]
            for enum in (pb.POOL.FindEnumTypeByName(name), CLIENT_ENUMS[name])
        )

        assert ours == theirs

    @each_message
    def test_bytes_of_a_full_client_message_read_the_same(self, name: str) -> None:
        theirs = message_factory.GetMessageClass(CLIENT_MESSAGES[name])()
        fill(theirs)
        raw = theirs.SerializeToString(deterministic=True)

        ours = message_factory.GetMessageClass(pb.POOL.FindMessageTypeByName(name)).FromString(raw)

        assert json_format.MessageToDict(ours) == json_format.MessageToDict(theirs)
        assert ours.SerializeToString(deterministic=True) == raw


def fill(message: Message, depth: int = 3) -> None:
    """Set every field (of a oneof the last one) to something other than its default."""
    scalars = {"str": "text", "bytes": b"\x00\xff", "bool": True, "int": 7, "float": 1.5}
    for field in message.DESCRIPTOR.fields:
        held = getattr(message, field.name)
        if field.message_type is None:
            kind = type(field.default_value).__name__ if not field.is_repeated else SCALAR_KINDS[field.type]
            value = field.enum_type.values[-1].number if field.enum_type else scalars[kind]
            held.append(value) if field.is_repeated else setattr(message, field.name, value)
        elif depth and field.message_type.GetOptions().map_entry:
            fill_map(held, field.message_type, depth)
        elif depth:
            child = held.add() if field.is_repeated else held
            child.SetInParent()
            fill(child, depth - 1)


SCALAR_KINDS = {
    FieldDescriptor.TYPE_STRING: "str",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_ENUM: "int",
    FieldDescriptor.TYPE_INT32: "int",
    FieldDescriptor.TYPE_INT64: "int",
}


def fill_map(held: Any, entry: Any, depth: int) -> None:
    if entry.fields_by_name["value"].message_type is None:
        held["key"] = "value"
    else:
        fill(held["key"], depth - 1)


class TestRepairs:
    """What proto-plus bends in the client's descriptors is bent back."""

    def test_schema_type_has_its_real_name(self) -> None:
        message = json_format.ParseDict({"type": "AVRO"}, pb.Schema())

        assert message.type == pb.Schema.AVRO
        assert "type_" not in pb.Schema.DESCRIPTOR.fields_by_name

    def test_no_name_ends_in_an_underscore(self) -> None:
        names = [
            f"{name}.{field.name}" for name in CLIENT_MESSAGES for field in pb.POOL.FindMessageTypeByName(name).fields
        ]

        assert [name for name in names if name.endswith("_")] == []

    @pytest.mark.parametrize(
        ("name", "file"),
        [
            ("Topic", "pubsub"),
            ("Subscription", "pubsub"),
            ("Snapshot", "pubsub"),
            ("SchemaSettings", "pubsub"),
            ("Schema", "schema"),
            ("Encoding", "schema"),
            ("SchemaView", "schema"),
            ("CompiledProtoSchema", "schema"),
            ("Publisher", "pubsub"),
            ("Subscriber", "pubsub"),
            ("SchemaService", "schema"),
        ],
    )
    def test_a_symbol_is_in_the_file_of_the_api(self, name: str, file: str) -> None:
        found = pb.POOL.FindFileContainingSymbol(f"google.pubsub.v1.{name}")

        assert found.name == f"google/pubsub/v1/{file}.proto"

    @pytest.mark.rule("T15")
    def test_both_versions_of_reflection_differ_in_their_names_only(self) -> None:
        stable, alpha = (
            next(file for file in pb.FILES.file if file.name == f"grpc/reflection/{version}/reflection.proto")
            for version in ("v1", "v1alpha")
        )

        assert str(stable) == str(alpha).replace("v1alpha", "v1").replace("  deprecated: true\n", "")

    def test_no_file_of_the_client_library_is_left(self) -> None:
        assert [file.name for file in pb.FILES.file if "pubsub_v1" in str(file)] == []

    @pytest.mark.rule("S1")
    def test_get_iam_policy_is_a_get_unlike_in_its_own_proto(self) -> None:
        http: Any = annotations_pb2.http  # Any: its stub and protobuf's stub disagree on what an extension is
        theirs = iam_policy_pb2.DESCRIPTOR.services_by_name["IAMPolicy"].methods_by_name["GetIamPolicy"]
        ours = catalogue.BY_PATH["/google.iam.v1.IAMPolicy/GetIamPolicy"]

        assert theirs.GetOptions().Extensions[http].WhichOneof("pattern") == "post"
        assert {binding.verb for binding in ours.http} == {"GET"}

    def test_http_rules_are_the_only_annotations_and_no_options_are_empty(self) -> None:
        shipped = descriptor_pb2.FileDescriptorSet.FromString(descriptors.SET.read_bytes())
        text = "".join(str(file) for file in shipped.file if file.name.startswith(descriptors.REPAIRED))

        assert set(re.findall(r"^ *\[(.+)\]", text, re.MULTILINE)) == {"google.api.http"}
        assert re.findall(r"^ *\d+\b.*", text, re.MULTILINE) == []  # an annotation that nothing here can name
        assert re.findall(r"options \{\s*\}", text) == []

    def test_files_of_other_annotations_are_gone(self) -> None:
        files = {file.name for file in pb.FILES.file if file.name.startswith("google/api/")}

        assert files == {"google/api/http.proto", "google/api/annotations.proto"}


@pytest.mark.rule("S2")
@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("Topic", {"state": 9, "ingestion_data_source_settings": 10, "message_transforms": 13, "tags": 14}),
        ("MessageStoragePolicy", {"enforce_in_transit": 2}),
        ("SchemaSettings", {"first_revision_id": 3, "last_revision_id": 4}),
        (
            "Subscription",
            {
                "enable_exactly_once_delivery": 16,
                "bigquery_config": 18,
                "state": 19,
                "cloud_storage_config": 22,
                "analytics_hub_subscription_info": 23,
                "message_transforms": 25,
                "tags": 26,
                "bigtable_config": 27,
            },
        ),
        ("PushConfig", {"pubsub_wrapper": 4, "no_wrapper": 5}),
        ("PushConfig.NoWrapper", {"write_metadata": 1}),
        ("StreamingPullRequest", {"protocol_version": 10}),
        ("StreamingPullResponse", {"modify_ack_deadline_confirmation": 3, "acknowledge_confirmation": 5}),
        ("CreateSnapshotRequest", {"tags": 4}),
        (
            "MessageTransform",
            {"javascript_udf": 2, "ai_inference": 6, "compression": 7, "enabled": 3, "disabled": 4},
        ),
        ("AIInference", {"endpoint": 1, "unstructured_inference": 2, "service_account_email": 3}),
        ("AIInference.UnstructuredInference", {"parameters": 1}),
        (
            "BigtableConfig",
            {
                "table": 1,
                "app_profile_id": 2,
                "service_account_email": 3,
                "state": 4,
                "write_metadata": 5,
                "column_family_mapping": 6,
            },
        ),
        ("Schema", {"type": 2, "revision_id": 4, "revision_create_time": 6, "compiled_proto_schema": 8}),
    ],
)
def test_the_newer_surface_is_there(message: str, fields: dict[str, int]) -> None:
    found = pb.POOL.FindMessageTypeByName(f"google.pubsub.v1.{message}").fields_by_name

    assert {name: found[name].number for name in fields} == fields


@pytest.mark.rule("S2")
def test_the_newer_surface_has_its_oneofs_enums_and_messages() -> None:
    transform = pb.MessageTransform.DESCRIPTOR.oneofs_by_name["transform"]
    wrapper = pb.PushConfig.DESCRIPTOR.oneofs_by_name["wrapper"]
    compression = pb.Compression.DESCRIPTOR.enum_types_by_name

    assert {field.name for field in transform.fields} == {"javascript_udf", "ai_inference", "compression"}
    assert {field.name for field in wrapper.fields} == {"pubsub_wrapper", "no_wrapper"}
    assert {"ZLIB": 1, "ZSTD": 3}.items() <= numbers(compression["CompressionAlgorithm"]).items()
    assert {"COMPRESS": 1, "DECOMPRESS": 2}.items() <= numbers(compression["CompressionMode"]).items()
    assert hasattr(pb, "PubsubClientTelemetry")


def numbers(enum: Any) -> dict[str, int]:
    return {value.name: value.number for value in enum.values}
