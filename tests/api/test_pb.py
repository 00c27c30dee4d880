"""The message classes: ordinary protobuf classes that live beside the real client in one process."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message

from emulator.api import catalogue, pb
from tests.tools import descriptors


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestMessages:
    """The message classes are ordinary protobuf classes."""

    @pytest.mark.parametrize(
        ("message", "json"),
        [
            (pb.Duration(seconds=3, nanos=500_000_000), "3.500s"),
            (pb.Timestamp(seconds=1), "1970-01-01T00:00:01Z"),
            (pb.FieldMask(paths=["push_config.no_wrapper"]), "pushConfig.noWrapper"),
            (pb.Struct(fields={"a": pb.Value(number_value=1)}), {"a": 1.0}),
            (pb.ListValue(values=[pb.Value(bool_value=True)]), [True]),
            (pb.Value(null_value=0), None),
            (pb.Empty(), {}),
            (pb.Topic(message_retention_duration=pb.Duration(seconds=600)), {"messageRetentionDuration": "600s"}),
            (pb.PubsubMessage(data=b"\xff"), {"data": "/w=="}),
            (pb.Schema(type=pb.Schema.AVRO), {"type": "AVRO"}),
            (pb.Policy(bindings=[pb.Binding(role="r")]), {"bindings": [{"role": "r"}]}),
        ],
        ids=lambda value: value.DESCRIPTOR.name if isinstance(value, Message) else "",
    )
    def test_json_goes_both_ways(self, message: Message, json: Any) -> None:
        assert json_format.MessageToDict(message) == json
        assert json_format.ParseDict(json, type(message)()) == message

    def test_any_resolves_in_the_private_pool(self) -> None:
        status = pb.Status(code=5, message="gone")
        status.details.add().Pack(pb.ErrorInfo(reason="R", domain="d", metadata={"k": "v"}))

        json = json_format.MessageToDict(status, descriptor_pool=pb.POOL)
        back = json_format.ParseDict(json, pb.Status(), descriptor_pool=pb.POOL)

        assert json["details"][0] == {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "R",
            "domain": "d",
            "metadata": {"k": "v"},
        }
        assert back == status

    def test_enums_are_reachable_by_name_and_number(self) -> None:
        assert pb.Encoding.Value("JSON") == pb.Encoding.JSON == 1
        assert pb.SchemaView.Name(2) == "FULL"
        assert pb.Topic.State.Name(pb.Topic.ACTIVE) == "ACTIVE"

    def test_nested_messages_are_reached_through_their_parent(self) -> None:
        config = pb.PushConfig(oidc_token=pb.PushConfig.OidcToken(audience="a"))

        assert config.WhichOneof("authentication_method") == "oidc_token"

    def test_an_optional_scalar_keeps_its_presence(self) -> None:
        settings = pb.IngestionDataSourceSettings.CloudStorage.TextFormat(delimiter="")

        assert settings.HasField("delimiter")
        assert not type(settings)().HasField("delimiter")

    def test_a_name_is_exported_by_one_file_only(self) -> None:
        older = "grpc/reflection/v1alpha/reflection.proto"  # the names of the newer, which are the ones to be exported
        files = [pb.POOL.FindFileByName(file.name) for file in pb.FILES.file if file.name != older]
        exported = [
            name
            for file in files
            for name in (*file.message_types_by_name, *file.enum_types_by_name)
            if hasattr(pb, name)
        ]

        assert len(exported) == len(set(exported))
        assert pb.ServerReflectionRequest.DESCRIPTOR.full_name == "grpc.reflection.v1.ServerReflectionRequest"

    def test_the_stub_promises_nothing_that_is_not_there(self) -> None:
        tree = ast.parse(descriptors.STUB.read_text())

        missing = [path for path, names in stub_classes(tree, pb) for path in names]

        assert missing == []


def stub_classes(scope: ast.Module | ast.ClassDef, runtime: Any) -> Iterator[tuple[str, list[str]]]:
    """Per class of the stub, the names in it that the run-time class lacks."""
    for node in scope.body:
        if isinstance(node, ast.ClassDef):
            actual = getattr(runtime, node.name)
            yield node.name, [f"{node.name}.{name}" for name in stub_names(node) if not has(actual, name)]
            yield from stub_classes(node, actual)


def stub_names(node: ast.ClassDef) -> Iterator[str]:
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            yield item.target.id
        elif isinstance(item, ast.ClassDef | ast.FunctionDef):
            yield item.name


def has(runtime: Any, name: str) -> bool:
    return hasattr(runtime() if isinstance(runtime, type) else runtime, name)


class TestPrivatePool:
    """The product's messages live beside the real client in one process."""

    def test_importing_the_catalogue_loads_neither_client_nor_grpc(self) -> None:
        loaded = python(
            "import sys, emulator.api.catalogue\n"
            "print([m for m in sys.modules if m.split('.')[0] in ('grpc', 'proto') or m.startswith('google.cloud')"
            " or m.startswith('google.pubsub')])"
        )

        assert loaded.strip() == "[]"

    def test_the_default_pool_does_not_learn_our_files(self) -> None:
        known = python(
            "import emulator.api.pb\n"
            "from google.protobuf import descriptor_pool\n"
            "try: print(descriptor_pool.Default().FindMessageTypeByName('google.pubsub.v1.Topic').full_name)\n"
            "except KeyError: print('unknown')"
        )

        assert known.strip() == "unknown"

    @pytest.mark.parametrize(
        "imports",
        [
            "import emulator.api.catalogue; import google.cloud.pubsub",
            "import google.cloud.pubsub; import emulator.api.catalogue",
        ],
        ids=["ours first", "theirs first"],
    )
    def test_both_can_be_used_in_one_process(self, imports: str) -> None:
        printed = python(
            f"{imports}\n"
            "from emulator.api import catalogue, pb\n"
            "from google.pubsub_v1.types import Schema, Topic\n"
            "raw = Topic.serialize(Topic(name='t', labels={'a': 'b'}))\n"
            "print(pb.Topic.FromString(raw).labels['a'], Topic.deserialize(raw).labels['a'])\n"
            "print(Schema.deserialize(pb.Schema(type=1).SerializeToString()).type_.name)\n"
            "print(sum(len(rpc.http) for rpc in catalogue.RPCS))"
        )

        assert printed.split() == ["b", "b", "PROTOCOL_BUFFER", str(sum(len(rpc.http) for rpc in catalogue.RPCS))]
