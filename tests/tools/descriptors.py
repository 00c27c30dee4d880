"""Builds the descriptor set and the typed stub of emulator/api/pb.py from the installed client libraries."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from google.api import annotations_pb2, http_pb2
from google.iam.v1 import iam_policy_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, empty_pb2, text_format
from google.pubsub_v1.services.publisher.transports.grpc import PublisherGrpcTransport
from google.pubsub_v1.services.publisher.transports.rest_base import _BasePublisherRestTransport
from google.pubsub_v1.services.schema_service.transports.grpc import SchemaServiceGrpcTransport
from google.pubsub_v1.services.schema_service.transports.rest_base import _BaseSchemaServiceRestTransport
from google.pubsub_v1.services.subscriber.transports.grpc import SubscriberGrpcTransport
from google.pubsub_v1.services.subscriber.transports.rest_base import _BaseSubscriberRestTransport
from google.pubsub_v1.types import pubsub, schema
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from tests.tools import stubs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

API = Path(__file__).parents[2] / "emulator" / "api"
SET = API / "pubsub.binpb"
STUB = API / "pb.pyi"

# Files that are repaired here. The others are copied as the installed libraries have them, so a newer protobuf
# changes their bytes without making what we ship wrong: they are not compared.
REPAIRED = ("google/pubsub/v1/", "google/iam/v1/", "grpc/")

PUBSUB_FILE = "google/pubsub/v1/pubsub.proto"
SCHEMA_FILE = "google/pubsub/v1/schema.proto"
HTTP: Any = annotations_pb2.http  # Any: its stub and protobuf's stub disagree on what an extension is
ANNOTATIONS_FILE = annotations_pb2.DESCRIPTOR.name
ROOTS = (status_pb2.DESCRIPTOR.name, error_details_pb2.DESCRIPTOR.name)

PUBLISHER_REST = _BasePublisherRestTransport
REST_TRANSPORTS = (PUBLISHER_REST, _BaseSubscriberRestTransport, _BaseSchemaServiceRestTransport)


class Service(NamedTuple):
    """One Pub/Sub service: its file, its name and the two client transports that describe it."""

    file: str
    name: str
    grpc: type[Any]
    rest: type[Any]


SERVICES = (
    Service(PUBSUB_FILE, "Publisher", PublisherGrpcTransport, PUBLISHER_REST),
    Service(PUBSUB_FILE, "Subscriber", SubscriberGrpcTransport, _BaseSubscriberRestTransport),
    Service(SCHEMA_FILE, "SchemaService", SchemaServiceGrpcTransport, _BaseSchemaServiceRestTransport),
)


class RecordedCall(NamedTuple):
    """What a gRPC transport says about one of its methods."""

    path: str
    request: str
    response: str
    client_streaming: bool
    server_streaming: bool


class RecordingChannel:
    """Stands in for a grpc.Channel and notes each method that a transport makes a stub for."""

    def __init__(self) -> None:
        self.calls: list[RecordedCall] = []

    def __repr__(self) -> str:
        return f"<RecordingChannel calls={len(self.calls)}>"

    def __getattr__(self, kind: str) -> Callable[..., None]:
        request_kind, _, response_kind = kind.partition("_")
        if {request_kind, response_kind} - {"unary", "stream"}:
            raise AttributeError(kind)

        def record(path: str, *, request_serializer: Any, response_deserializer: Any) -> None:
            # Only Pub/Sub's own methods: protobuf's SerializeToString, used for IAM, doesn't know its class.
            if path.startswith("/google.pubsub.v1."):
                self.calls.append(
                    RecordedCall(
                        path,
                        _full_name(request_serializer.__self__),
                        _full_name(response_deserializer.__self__),
                        request_kind == "stream",
                        response_kind == "stream",
                    )
                )

        return record


def _full_name(message: Any) -> str:
    raw = message.pb() if hasattr(message, "pb") else message
    return str(raw.DESCRIPTOR.full_name)


def recorded_calls(transport: type[Any]) -> list[RecordedCall]:
    """The methods of a gRPC transport class, in the order of its source, which is the order of the .proto."""
    channel = RecordingChannel()
    instance = object.__new__(transport)  # __init__ would look for credentials and open a channel
    instance._stubs = {}
    instance._logged_channel = instance._grpc_channel = channel
    for member in vars(transport).values():
        if isinstance(member, property) and member.fget is not None:
            member.fget(instance)
    return channel.calls


def http_options(rest: type[Any], method: str) -> list[dict[str, str]]:
    """The bindings {method, uri, body} that a REST transport has for a method; empty where REST doesn't offer it."""
    base = getattr(rest, f"_Base{method}")
    return base._get_http_options() if hasattr(base, "_get_http_options") else []


def _set_http(method: descriptor_pb2.MethodDescriptorProto, options: Iterable[dict[str, str]]) -> None:
    rules = []
    for option in options:
        rule = http_pb2.HttpRule(body=option.get("body", ""))
        setattr(rule, option["method"], option["uri"])
        rules.append(rule)
    if rules:
        rules[0].additional_bindings.extend(rules[1:])
        method.options.Extensions[HTTP].CopyFrom(rules[0])


def _service(spec: Service) -> descriptor_pb2.ServiceDescriptorProto:
    service = descriptor_pb2.ServiceDescriptorProto(name=spec.name)
    for call in recorded_calls(spec.grpc):
        method = service.method.add(
            name=call.path.rpartition("/")[2],
            input_type=f".{call.request}",
            output_type=f".{call.response}",
        )
        # Set only when true, as protoc does: a field that is present and false has other bytes.
        if call.client_streaming:
            method.client_streaming = True
        if call.server_streaming:
            method.server_streaming = True
        _set_http(method, http_options(spec.rest, method.name))
    return service


def _copy(descriptor: Any) -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto.FromString(descriptor.serialized_pb)


def _walk(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for child in value if _is_repeated(value) else [value]:
                yield from _walk(child)


def _is_repeated(value: Any) -> bool:
    return hasattr(value, "append")


def _strip_options(file: descriptor_pb2.FileDescriptorProto) -> None:
    """Remove annotations, which would drag in the files that define them, and the empty options of proto-plus."""
    for message in list(_walk(file)):
        if message.DESCRIPTOR.name.endswith("Options"):
            message.DiscardUnknownFields()
            for field, _ in message.ListFields():
                if field.is_extension:
                    message.ClearExtension(field)
    for message in list(_walk(file)):
        has_options = "options" in message.DESCRIPTOR.fields_by_name and message.HasField("options")
        if has_options and not message.options.ListFields():
            message.ClearField("options")


def _pubsub_file(descriptor: Any, name: str) -> descriptor_pb2.FileDescriptorProto:
    file = _copy(descriptor)
    file.name = name
    for message in _walk(file):
        if isinstance(message, descriptor_pb2.FieldDescriptorProto):
            # proto-plus avoids Python's builtins; the wire doesn't. Schema.type_ is type.
            message.name = message.name.removesuffix("_")
    _strip_options(file)
    file.service.extend(_service(spec) for spec in SERVICES if spec.file == name)
    needed = {dependency.replace("/pubsub_v1/types/", "/pubsub/v1/") for dependency in file.dependency}
    needed |= {ANNOTATIONS_FILE, empty_pb2.DESCRIPTOR.name}
    del file.dependency[:]
    file.dependency.extend(sorted(needed))
    return file


def _iam_file() -> descriptor_pb2.FileDescriptorProto:
    file = _copy(iam_policy_pb2.DESCRIPTOR)
    _strip_options(file)
    for method in file.service[0].method:
        offers = [http_options(rest, method.name) for rest in REST_TRANSPORTS]
        if any(offer != offers[0] for offer in offers):
            raise ValueError(f"the REST transports disagree on {method.name}: {offers}")
        _set_http(method, offers[0])
    needed = [name for name in file.dependency if not name.startswith("google/api/")]
    del file.dependency[:]
    file.dependency.extend(sorted([*needed, ANNOTATIONS_FILE]))
    return file


def _grpc_file(descriptor: Any) -> descriptor_pb2.FileDescriptorProto:
    """A file of gRPC's own, under the name that it has outside of Python's packages."""
    file = _copy(descriptor)
    file.name = re.sub(r"^grpc_(\w+)/", r"grpc/\1/", file.name)
    return file


def _reflection_v1() -> descriptor_pb2.FileDescriptorProto:
    """The stable version of reflection, which Python's package lacks: v1alpha under another name."""
    text = text_format.MessageToString(_grpc_file(reflection_pb2.DESCRIPTOR)).replace("v1alpha", "v1")
    file = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
    file.options.ClearField("deprecated")
    return file


def _repaired() -> dict[str, descriptor_pb2.FileDescriptorProto]:
    files = [
        _grpc_file(health_pb2.DESCRIPTOR),
        _reflection_v1(),
        _grpc_file(reflection_pb2.DESCRIPTOR),
        _pubsub_file(pubsub.Topic.pb().DESCRIPTOR.file, PUBSUB_FILE),
        _pubsub_file(schema.Schema.pb().DESCRIPTOR.file, SCHEMA_FILE),
        _iam_file(),
    ]
    return {file.name: file for file in files}


def _installed(name: str) -> descriptor_pb2.FileDescriptorProto:
    file = _copy(descriptor_pool.Default().FindFileByName(name))
    if name.startswith(REPAIRED):
        _strip_options(file)
        kept = [dependency for dependency in file.dependency if not dependency.startswith("google/api/")]
        del file.dependency[:]
        file.dependency.extend(kept)
    return file


def build() -> descriptor_pb2.FileDescriptorSet:
    """The whole set, dependencies before dependents, the same bytes on every run."""
    repaired = _repaired()
    result: dict[str, descriptor_pb2.FileDescriptorProto] = {}

    def visit(name: str) -> None:
        if name in result:
            return
        file = repaired.get(name) or _installed(name)
        for dependency in file.dependency:
            visit(dependency)
        result[name] = file

    for root in (*ROOTS, *repaired):
        visit(root)
    return descriptor_pb2.FileDescriptorSet(file=result.values())


def drift(shipped: descriptor_pb2.FileDescriptorSet, built: descriptor_pb2.FileDescriptorSet) -> list[str]:
    """Names of files that are missing, superfluous, or, where they are repaired here, different."""
    old, new = ({file.name: file for file in side.file} for side in (shipped, built))
    unpaired = old.keys() ^ new.keys()
    changed = {name for name in old.keys() & new.keys() if name.startswith(REPAIRED) and old[name] != new[name]}
    return sorted(unpaired | changed)


def check() -> list[str]:
    """What `make descriptors` would change: names of files in the set, and the stub's name."""
    stale = drift(descriptor_pb2.FileDescriptorSet.FromString(SET.read_bytes()), build())
    if STUB.read_text(encoding="utf-8") != _stub():
        stale.append(STUB.name)
    return stale


def write() -> None:
    """Write the set and the stub into emulator/api."""
    SET.write_bytes(build().SerializeToString(deterministic=True))
    STUB.write_text(_stub(), encoding="utf-8")


def _stub() -> str:
    # Imported late: the module can't be loaded before its set is written.
    return stubs.render(vars(importlib.import_module("emulator.api.pb")))


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 1 if --check finds something out of date."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.descriptors", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if something is out of date")
    if not parser.parse_args(arguments).check:
        write()
        return 0
    stale = check()
    for name in stale:
        print(f"out of date, run make descriptors: {name}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
