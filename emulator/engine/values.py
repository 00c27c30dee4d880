"""The values that go in and out of the engine. Times and spans are integer nanoseconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from emulator.engine.filters import Filter


# Not frozen, which makes them three times as fast to make: a publish makes one of each for every message.
@dataclass(slots=True, eq=False)
class Draft:
    """A message as a publisher gives it; `size` is its serialized size in bytes, before id and publish time."""

    data: bytes
    attributes: Mapping[str, str]
    ordering_key: str = ""
    size: int = 0


@dataclass(slots=True, eq=False)
class Message:
    """A stored message, one body shared by every subscription that holds it.

    `number` is its message id as a number: one counter for the whole server (service.md §5.9). `size` is the serialized
    size in bytes of the `PubsubMessage` that is delivered.
    """

    number: int
    publish_time: int
    data: bytes
    attributes: Mapping[str, str]
    ordering_key: str
    size: int


class DeliveryKind(Enum):
    """Where a subscription's messages go; the value is the API field that says so."""

    PULL = "pull"
    PUSH = "push_config"
    BIGQUERY = "bigquery_config"
    CLOUD_STORAGE = "cloud_storage_config"
    BIGTABLE = "bigtable_config"


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What a topic does. `document` is the whole resource as the API face keeps it; the engine never looks inside."""

    retention: int | None = None
    document: bytes = b""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a message waits after a failure (service.md §10.1)."""

    minimum_backoff: int
    maximum_backoff: int

    def backoff(self, failures: int) -> int:
        """The wait after so many failures of a message, at least one."""
        # No more doublings than lead from a nanosecond to the longest that may be set.
        return min(self.maximum_backoff, self.minimum_backoff << min(failures - 1, 40))


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """`topic` is a full name; after so many failures a message is published there instead (service.md §10.3)."""

    topic: str
    max_attempts: int


class AckFailure(Enum):
    """Why an ack id is refused under exactly-once; the value is what clients are told (service.md §8.5)."""

    INVALID = "PERMANENT_FAILURE_INVALID_ACK_ID"
    UNORDERED = "TRANSIENT_FAILURE_UNORDERED_ACK_ID"


@dataclass(frozen=True, slots=True)
class SubscriptionSettings:
    """What a subscription does (service.md §4). `document` as in `TopicSettings`.

    `expiration_ttl` None means that it never expires. With a dead-letter policy deliveries say how many there were
    (service.md §7.1.11). `ordered` never changes.
    """

    ack_deadline: int
    retention: int
    expiration_ttl: int | None = None
    delivery: DeliveryKind = DeliveryKind.PULL
    document: bytes = b""
    exactly_once: bool = False
    ordered: bool = False
    retry: RetryPolicy | None = None
    dead_letter: DeadLetterPolicy | None = None
    retain_acked: bool = False
    filter: Filter | None = None
