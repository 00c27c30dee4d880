"""The Subscription resource: what a request may say of it, and what a reply says (service.md §4)."""

import re

from emulator import errors, names
from emulator.api import pb
from emulator.api.fields import check_duration, check_labels, check_representable, duration_ns, show_duration
from emulator.api.masks import Maskable
from emulator.clock import NS_PER_S
from emulator.engine import filters
from emulator.engine.subscription import Subscription
from emulator.engine.values import DeadLetterPolicy, DeliveryKind, RetryPolicy, SubscriptionSettings
from emulator.limits import Limits

MASKABLE = Maskable(
    kind="Subscription",
    immutable=frozenset({"name", "topic", "enable_message_ordering", "filter", "tags"}),
    output_only=frozenset(
        {
            "detached",
            "topic_message_retention_duration",
            "state",
            "analytics_hub_subscription_info",
            "bigquery_config.state",
            "cloud_storage_config.state",
            "bigtable_config.state",
        }
    ),
)

# The scheme in lower case and a host; production refuses HTTPS:// as well (service.md §15.1.1).
_ENDPOINT = re.compile(r"https?://[^\s/?#]\S*")

_EXPORTS = (DeliveryKind.BIGQUERY, DeliveryKind.CLOUD_STORAGE, DeliveryKind.BIGTABLE)

# Kept and returned, but without effect until the engine learns them; whoever sets one is told in the log.
NOT_YET = (
    "message_transforms",
    "push_config.push_endpoint",
    *(kind.value for kind in _EXPORTS),
)


def read(resource: pb.Subscription, limits: Limits, *, creating: bool) -> SubscriptionSettings:
    """The settings a Subscription asks for, its document completed with every default (service.md §4).

    Whether the resources it names exist is for the caller to check. Raises INVALID_ARGUMENT.
    """
    document = MASKABLE.settable(resource)
    document.ClearField("tags")
    check_representable(document)
    check_labels(document.labels, limits)
    delivery = _delivery(document)
    _check_push(document)
    if document.enable_exactly_once_delivery and delivery is not DeliveryKind.PULL:
        raise errors.exactly_once_needs_pull(delivery.value)
    chosen = filters.parse(document.filter, limits.filter_max_bytes)
    _complete_ack_deadline(document, limits, creating=creating)
    retention = _complete_retention(document, limits)
    ttl = _complete_expiration(document, limits)
    dead_letter = _complete_dead_letter_policy(document, limits)
    retry = _complete_retry_policy(document, limits)
    return SubscriptionSettings(
        ack_deadline=document.ack_deadline_seconds * NS_PER_S,
        retention=retention,
        expiration_ttl=ttl,
        delivery=delivery,
        document=document.SerializeToString(deterministic=True),
        exactly_once=document.enable_exactly_once_delivery,
        ordered=document.enable_message_ordering,
        retry=retry,
        dead_letter=dead_letter,
        retain_acked=document.retain_acked_messages,
        filter=chosen,
    )


def show(subscription: Subscription) -> pb.Subscription:
    """The resource as Get answers it, with what changes without being written."""
    resource = stored(subscription)
    topic = subscription.topic
    if topic is None:
        resource.topic = names.DELETED_TOPIC
    elif topic.settings.retention is not None:
        resource.topic_message_retention_duration.FromNanoseconds(topic.settings.retention)
    resource.detached = subscription.detached
    resource.state = pb.Subscription.ACTIVE
    resource.push_config.SetInParent()
    for kind in _EXPORTS:
        if resource.HasField(kind.value):
            getattr(resource, kind.value).state = pb.BigQueryConfig.ACTIVE
    return resource


def stored(subscription: Subscription) -> pb.Subscription:
    """The resource as it was last written, without output-only fields."""
    return pb.Subscription.FromString(subscription.settings.document)


def _delivery(resource: pb.Subscription) -> DeliveryKind:
    chosen = [kind for kind in _EXPORTS if resource.HasField(kind.value)]
    if resource.push_config.push_endpoint:
        chosen.insert(0, DeliveryKind.PUSH)
    if len(chosen) > 1:
        raise errors.exclusive_fields([kind.value for kind in chosen])
    return chosen[0] if chosen else DeliveryKind.PULL


def _check_push(resource: pb.Subscription) -> None:
    endpoint = resource.push_config.push_endpoint
    if endpoint and not _ENDPOINT.fullmatch(endpoint):
        raise errors.malformed("push_config.push_endpoint", endpoint, "an http:// or https:// URL")


def _complete_ack_deadline(resource: pb.Subscription, limits: Limits, *, creating: bool) -> None:
    if resource.HasField("cloud_storage_config"):
        roll = resource.cloud_storage_config
        if not roll.HasField("max_duration"):
            roll.max_duration.seconds = resource.ack_deadline_seconds or limits.cloud_storage_max_duration_default_s
        low, high = limits.cloud_storage_max_duration_min_s, limits.cloud_storage_max_duration_max_s
        check_duration(roll.max_duration, "cloud_storage_config.max_duration", low, high)
        _check_roll_size(roll, limits)
    if resource.ack_deadline_seconds == 0:
        resource.ack_deadline_seconds = _default_ack_deadline(resource, limits, creating=creating)
    low, high = limits.ack_deadline_min_s, limits.ack_deadline_max_s
    if not low <= resource.ack_deadline_seconds <= high:
        raise errors.out_of_range("ack_deadline_seconds", resource.ack_deadline_seconds, low, high, "seconds")


def _check_roll_size(roll: pb.CloudStorageConfig, limits: Limits) -> None:
    """How large a file may get, in bytes and messages; 0 is none given (service.md §15.2.2)."""
    low, high = limits.cloud_storage_max_bytes_min, limits.cloud_storage_max_bytes_max
    if roll.max_bytes and not low <= roll.max_bytes <= high:
        raise errors.out_of_range("cloud_storage_config.max_bytes", roll.max_bytes, low, high, "bytes")
    if roll.max_messages and roll.max_messages < limits.cloud_storage_max_messages_min:
        least = limits.cloud_storage_max_messages_min
        raise errors.too_small("cloud_storage_config.max_messages", roll.max_messages, least)


def _default_ack_deadline(resource: pb.Subscription, limits: Limits, *, creating: bool) -> int:
    if resource.HasField("cloud_storage_config"):
        return resource.cloud_storage_config.max_duration.seconds
    if resource.enable_exactly_once_delivery and creating:
        return limits.ack_deadline_exactly_once_default_s
    return limits.ack_deadline_default_s


def _complete_retention(resource: pb.Subscription, limits: Limits) -> int:
    if not resource.HasField("message_retention_duration"):
        resource.message_retention_duration.seconds = limits.retention_default_s
    low, high = limits.retention_min_s, limits.retention_max_s
    return check_duration(resource.message_retention_duration, "message_retention_duration", low, high)


def _complete_expiration(resource: pb.Subscription, limits: Limits) -> int | None:
    if not resource.HasField("expiration_policy"):
        resource.expiration_policy.ttl.seconds = limits.expiration_ttl_default_s
    policy = resource.expiration_policy
    if not policy.HasField("ttl"):
        return None
    ttl = check_duration(policy.ttl, "expiration_policy.ttl", limits.expiration_ttl_min_s, None)
    if ttl < duration_ns(resource.message_retention_duration):
        raise errors.ttl_below_retention(show_duration(policy.ttl), show_duration(resource.message_retention_duration))
    return ttl


def _complete_dead_letter_policy(resource: pb.Subscription, limits: Limits) -> DeadLetterPolicy | None:
    if not resource.HasField("dead_letter_policy"):
        return None
    policy = resource.dead_letter_policy
    if policy.max_delivery_attempts == 0:
        policy.max_delivery_attempts = limits.delivery_attempts_default
    low, high = limits.delivery_attempts_min, limits.delivery_attempts_max
    if not low <= policy.max_delivery_attempts <= high:
        raise errors.out_of_range("dead_letter_policy.max_delivery_attempts", policy.max_delivery_attempts, low, high)
    return DeadLetterPolicy(policy.dead_letter_topic, policy.max_delivery_attempts)


def _complete_retry_policy(resource: pb.Subscription, limits: Limits) -> RetryPolicy | None:
    if not resource.HasField("retry_policy"):
        return None
    policy = resource.retry_policy
    if not policy.HasField("minimum_backoff"):
        policy.minimum_backoff.seconds = limits.backoff_minimum_default_s
    if not policy.HasField("maximum_backoff"):
        policy.maximum_backoff.seconds = limits.backoff_maximum_default_s
    minimum = check_duration(policy.minimum_backoff, "retry_policy.minimum_backoff", 0, limits.backoff_max_s)
    maximum = check_duration(policy.maximum_backoff, "retry_policy.maximum_backoff", 0, limits.backoff_max_s)
    if maximum < minimum:
        raise errors.backoff_order(show_duration(policy.minimum_backoff), show_duration(policy.maximum_backoff))
    return RetryPolicy(minimum, maximum)
