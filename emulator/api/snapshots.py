"""The Snapshot resource: what a request may say of it, and what a reply says (service.md §12)."""

from collections.abc import Mapping

from emulator import names
from emulator.api import pb
from emulator.api.fields import check_labels
from emulator.api.masks import Maskable
from emulator.engine.snapshot import Snapshot
from emulator.limits import Limits

MASKABLE = Maskable(
    kind="Snapshot",
    immutable=frozenset({"name", "topic"}),
    output_only=frozenset({"expire_time"}),
)


def document(labels: Mapping[str, str], limits: Limits) -> bytes:
    """What is kept of a request; raises INVALID_ARGUMENT."""
    check_labels(labels, limits)
    return pb.Snapshot(labels=labels).SerializeToString(deterministic=True)


def show(snapshot: Snapshot) -> pb.Snapshot:
    """The resource as Get answers it."""
    resource = pb.Snapshot.FromString(snapshot.document)
    resource.name = snapshot.name
    resource.topic = names.DELETED_TOPIC if snapshot.topic is None else snapshot.topic.name
    resource.expire_time.FromNanoseconds(snapshot.expires)
    return resource
