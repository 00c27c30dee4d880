"""Protobuf messages of Pub/Sub, IAM, gRPC's own services and their dependencies, from a descriptor pool of our own.

The default pool stays untouched, so google-cloud-pubsub may be imported into the same process, before or after.
"""

from __future__ import annotations

from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper

FILES = descriptor_pb2.FileDescriptorSet.FromString(Path(__file__).with_name("pubsub.binpb").read_bytes())
POOL = descriptor_pool.DescriptorPool()

# Descriptions of descriptions and HTTP rules: in the pool because the others refer to them, but nobody fills one in.
# Reflection's older version has the names of the newer.
_UNEXPORTED = frozenset(
    {
        "google/protobuf/descriptor.proto",
        "google/api/annotations.proto",
        "google/api/http.proto",
        "grpc/reflection/v1alpha/reflection.proto",
    }
)


def _load() -> dict[str, object]:
    exported: dict[str, object] = {}
    for file in FILES.file:
        POOL.Add(file)
        if file.name in _UNEXPORTED:
            continue
        descriptor = POOL.FindFileByName(file.name)
        for name, message in descriptor.message_types_by_name.items():
            exported[name] = message_factory.GetMessageClass(message)
        for name, enum in descriptor.enum_types_by_name.items():
            exported[name] = enum_type_wrapper.EnumTypeWrapper(enum)
    return exported


globals().update(_load())
