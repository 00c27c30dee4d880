"""The catalogue that gRPC and REST are both served from: one row per RPC, read from the descriptor set."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from google.protobuf import message_factory

from emulator.api import pb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

SERVICES = (
    "google.pubsub.v1.Publisher",
    "google.pubsub.v1.Subscriber",
    "google.pubsub.v1.SchemaService",
    "google.iam.v1.IAMPolicy",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
)


@dataclass(frozen=True, slots=True)
class HttpBinding:
    """One REST address of an RPC, as in google.api.HttpRule.

    verb: upper case. template: "/v1/{topic=projects/*/topics/*}:publish".
    body: "" takes none, "*" is the whole request, otherwise the request's field that the body holds.
    """

    verb: str
    template: str
    body: str


@dataclass(frozen=True, slots=True)
class Rpc:
    """One RPC (service.md §1). service: full name. method: as on the wire. http: empty if only gRPC offers it."""

    service: str
    method: str
    request: type[Message]
    response: type[Message]
    client_streaming: bool
    server_streaming: bool
    http: tuple[HttpBinding, ...]

    @property
    def path(self) -> str:
        """The gRPC path, "/google.pubsub.v1.Publisher/CreateTopic"."""
        return f"/{self.service}/{self.method}"

    @property
    def name(self) -> str:
        """The method in snake case, "create_topic"."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.method).lower()


def _bindings(method: MethodDescriptor) -> Iterator[HttpBinding]:
    # Parsed anew, as our pool's class: the library's own knows the rule only once annotations_pb2 has been imported,
    # which takes longer than all the rest of this module.
    options_type: Any = message_factory.GetMessageClass(pb.POOL.FindMessageTypeByName("google.protobuf.MethodOptions"))
    options = options_type.FromString(method.GetOptions().SerializeToString())
    rule = options.Extensions[pb.POOL.FindExtensionByName("google.api.http")]
    for each in (rule, *rule.additional_bindings):
        verb = each.WhichOneof("pattern")
        if verb is not None:
            yield HttpBinding(verb.upper(), getattr(each, verb), each.body)


def _rows() -> Iterator[Rpc]:
    for service in SERVICES:
        for method in pb.POOL.FindServiceByName(service).methods:
            yield Rpc(
                service=service,
                method=method.name,
                request=message_factory.GetMessageClass(method.input_type),
                response=message_factory.GetMessageClass(method.output_type),
                client_streaming=method.client_streaming,
                server_streaming=method.server_streaming,
                http=tuple(_bindings(method)),
            )


RPCS: tuple[Rpc, ...] = tuple(_rows())
BY_PATH: Mapping[str, Rpc] = MappingProxyType({rpc.path: rpc for rpc in RPCS})
