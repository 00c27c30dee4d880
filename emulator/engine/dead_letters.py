"""What is published to a dead-letter topic for a message that failed too often (service.md §10.4, §10.5)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from emulator import names
from emulator.clock import NS_PER_S
from emulator.engine.sizes import field_size, map_entry_size
from emulator.engine.values import Draft, Message

_EPOCH: Final = datetime(1970, 1, 1)
_PREFIX: Final = "CloudPubSubDeadLetterSource"


class DeadLetterOffice(Protocol):
    """Where dead letters go."""

    def takes(self, topic: str) -> bool:
        """Whether there is such a topic; if not, the message stays (service.md §10.6)."""
        ...

    def forward(self, topic: str, drafts: Sequence[Draft]) -> None:
        """Publish them; the topic is there."""
        ...


def dead_letter(subscription: str, message: Message, attempts: int) -> Draft:
    """The message as the dead-letter topic of `subscription`, a full name, gets it."""
    attributes = {
        **message.attributes,
        f"{_PREFIX}DeliveryCount": str(attempts),
        f"{_PREFIX}Subscription": names.id_of(subscription),
        f"{_PREFIX}SubscriptionProject": names.project_of(subscription),
        f"{_PREFIX}TopicPublishTime": _rfc3339(message.publish_time),
    }
    return Draft(
        message.data, attributes, message.ordering_key, _serialized_size(message.data, attributes, message.ordering_key)
    )


def _rfc3339(nanoseconds: int) -> str:
    """As protobuf writes a timestamp in JSON: publish times have whole milliseconds."""
    seconds, rest = divmod(nanoseconds, NS_PER_S)
    fraction = f".{rest // 1_000_000:03d}" if rest else ""
    return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat()}{fraction}Z"


def _serialized_size(data: bytes, attributes: Mapping[str, str], ordering_key: str) -> int:
    size = sum(map_entry_size(key, value) for key, value in attributes.items())
    for part in (data, ordering_key.encode()):
        size += field_size(len(part)) if part else 0
    return size
