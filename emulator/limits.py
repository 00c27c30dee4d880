"""Every quota and default, in a set for each kind of use; names carry the unit (service.md §19)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Limits:
    """One set of numbers; the defaults are production's."""

    id_min_characters: int = 3
    id_max_characters: int = 255

    labels_max: int = 64
    label_key_max_characters: int = 63
    label_value_max_characters: int = 63

    publish_max_messages: int = 1_000
    publish_max_bytes: int = 10_000_000
    attributes_max: int = 100
    attribute_key_max_bytes: int = 256
    attribute_value_max_bytes: int = 1_024
    ordering_key_max_bytes: int = 1_024

    filter_max_bytes: int = 256

    ack_deadline_min_s: int = 10
    ack_deadline_max_s: int = 600
    ack_deadline_default_s: int = 10
    ack_deadline_exactly_once_default_s: int = 60
    ack_request_max_bytes: int = 524_288

    retention_min_s: int = 600
    retention_max_s: int = 31 * _DAY_S
    retention_default_s: int = 7 * _DAY_S

    expiration_ttl_min_s: int = _DAY_S
    expiration_ttl_default_s: int = 31 * _DAY_S

    delivery_attempts_min: int = 5
    delivery_attempts_max: int = 100
    delivery_attempts_default: int = 5

    backoff_max_s: int = 600
    backoff_minimum_default_s: int = 10
    backoff_maximum_default_s: int = 600

    cloud_storage_max_duration_min_s: int = 60
    cloud_storage_max_duration_max_s: int = 600
    cloud_storage_max_duration_default_s: int = 300
    cloud_storage_max_bytes_min: int = 1_000
    cloud_storage_max_bytes_max: int = 10 * 1024**3
    cloud_storage_max_messages_min: int = 1_000

    pull_max_messages: int = 1_000
    pull_wait_s: int = 5
    reply_max_bytes: int = 4_000_000

    # Of one stream, however much credit it has, so that a stalled reader cannot swallow the backlog (outbox.md O9).
    unwritten_max_messages: int = 1_000
    unwritten_max_bytes: int = 104_857_600

    # How long a lease may last in all, whatever extends it; None: for ever.
    lease_max_s: int | None = None

    # Of one ordering key, with one consumer: a failure has all that follow it wait again, in one go (service.md §9.4).
    ordering_key_max_outstanding: int = 10_000

    snapshot_lifetime_s: int = 7 * _DAY_S
    snapshot_lifetime_min_s: int = 3_600

    page_size_default: int = 100
    page_size_max: int = 1_000


STRICT = Limits()

# For tests that do not want to wait: whatever has a shortest time or a smallest number, from one on. Defaults and
# largest values stay production's, but for a Pull that finds nothing, which waits for no more than a second.
RELAXED = Limits(
    ack_deadline_min_s=1,
    retention_min_s=1,
    expiration_ttl_min_s=1,
    delivery_attempts_min=1,
    cloud_storage_max_duration_min_s=1,
    cloud_storage_max_bytes_min=1,
    cloud_storage_max_messages_min=1,
    snapshot_lifetime_min_s=1,
    pull_wait_s=1,
)

# By the names that users give them.
SETS: Mapping[str, Limits] = MappingProxyType({"strict": STRICT, "relaxed": RELAXED})

# Events that wait for one reader of a feed, unless it asks for another number (outbox.md O3).
MAX_PENDING_DEFAULT = 1_000

# Set by the transports, not by the service: what one request may hold (clients.md T6, T7a).
REQUEST_BODY_MAX_BYTES = 32 * 1024 * 1024
REQUEST_HEADER_MAX_BYTES = 65_536

# A whole head over HTTP/1.1: room for the longest target and for 64 KiB of headers, and an end to what one may hold.
REQUEST_HEAD_MAX_BYTES = 4 * REQUEST_HEADER_MAX_BYTES

# What costs time in a JSON document is the number of its values, not their bytes. No call that can succeed has more
# (1,000 messages with 100 attributes each), and reading this many takes about a second.
REQUEST_MAX_ELEMENTS = 200_000

# Each member of a gzip body costs a start, even an empty one; the block formats fill 32 MiB with half as many.
REQUEST_MAX_MEMBERS = 1_000
