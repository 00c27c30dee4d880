"""The Topic resource: what a request may say of it, and what a reply says (service.md §4)."""

from emulator import errors, names
from emulator.api import pb
from emulator.api.fields import check_duration, check_kms_key, check_labels, check_representable
from emulator.api.masks import Maskable
from emulator.engine.topic import Topic
from emulator.engine.values import TopicSettings
from emulator.limits import Limits

_SOURCES = ("aws_kinesis", "cloud_storage", "azure_event_hubs", "aws_msk", "confluent_cloud")

# Kept and returned, but without effect until the engine learns them; whoever sets one is told in the log.
NOT_YET = ("message_transforms", "ingestion_data_source_settings")

MASKABLE = Maskable(
    kind="Topic",
    immutable=frozenset({"name", "tags"}),
    output_only=frozenset(
        {"state", "satisfies_pzs", *(f"ingestion_data_source_settings.{source}.state" for source in _SOURCES)}
    ),
)


def read(resource: pb.Topic, limits: Limits) -> TopicSettings:
    """The settings a Topic asks for; raises INVALID_ARGUMENT, or NOT_FOUND for its schema."""
    check_representable(resource)
    check_labels(resource.labels, limits)
    check_kms_key(resource.kms_key_name, "kms_key_name")
    retention = None
    if resource.HasField("message_retention_duration"):
        retention = check_duration(
            resource.message_retention_duration,
            "message_retention_duration",
            limits.retention_min_s,
            limits.retention_max_s,
        )
    if resource.HasField("message_storage_policy"):
        _check_storage_policy(resource.message_storage_policy)
    if resource.HasField("schema_settings"):
        _check_schema_settings(resource.schema_settings)
    document = MASKABLE.settable(resource)
    document.ClearField("tags")
    return TopicSettings(retention=retention, document=document.SerializeToString(deterministic=True))


def show(topic: Topic) -> pb.Topic:
    """The resource as Get answers it."""
    resource = stored(topic)
    resource.state = pb.Topic.ACTIVE
    ingestion = resource.ingestion_data_source_settings
    if source := ingestion.WhichOneof("source"):
        # All these enums give ACTIVE the same number.
        getattr(ingestion, source).state = pb.Topic.ACTIVE
    return resource


def stored(topic: Topic) -> pb.Topic:
    """The resource as it was last written, without output-only fields."""
    return pb.Topic.FromString(topic.settings.document)


def _check_storage_policy(policy: pb.MessageStoragePolicy) -> None:
    if not policy.allowed_persistence_regions:
        raise errors.missing("message_storage_policy.allowed_persistence_regions")


def _check_schema_settings(settings: pb.SchemaSettings) -> None:
    names.check(settings.schema, names.SCHEMAS, "schema_settings.schema")
    if settings.encoding not in (pb.Encoding.JSON, pb.Encoding.BINARY):
        known = settings.encoding in pb.Encoding.values()
        shown = pb.Encoding.Name(settings.encoding) if known else settings.encoding
        raise errors.unsupported_choice("schema_settings.encoding", shown, ("JSON", "BINARY"))
    # No schema can exist before this emulator serves SchemaService.
    raise errors.not_found(settings.schema)
