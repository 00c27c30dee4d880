"""What the model knows of a message's inside: what a filter lets through, and what a dead letter says."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

MS_PER_S = 1_000
NS_PER_MS = 1_000_000

# Filters that subscriptions are given, each with its meaning.
RED, NOT_RED = 'attributes.color = "red"', 'NOT attributes.color = "red"'


class Content(NamedTuple):
    """What a publisher gives."""

    body: bytes
    attributes: dict[str, str]
    key: str


def wanted(a_filter: str | None, attributes: dict[str, str]) -> bool:
    return a_filter is None or (attributes.get("color") == "red") is (a_filter == RED)


def dead_letter(sub: dict[str, Any], row: dict[str, Any]) -> Content:
    """What is published for a message that failed too often."""
    content: Content = row["content"]
    seconds, milliseconds = divmod(row["published"] // NS_PER_MS, MS_PER_S)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    _, project, _, short_name = sub["name"].split("/")
    return content._replace(
        attributes={
            **content.attributes,
            "CloudPubSubDeadLetterSourceDeliveryCount": f"{row['failures']}",
            "CloudPubSubDeadLetterSourceSubscription": short_name,
            "CloudPubSubDeadLetterSourceSubscriptionProject": project,
            "CloudPubSubDeadLetterSourceTopicPublishTime": moment + (f".{milliseconds:03}Z" if milliseconds else "Z"),
        }
    )
