"""Raw unary calls of grpcio: a method's path, the request's bytes, and nothing of a generated client in between."""

from collections.abc import Mapping
from typing import Any

import grpc
from google.pubsub_v1 import types

PUBLISHER = "/google.pubsub.v1.Publisher"
SUBSCRIBER = "/google.pubsub.v1.Subscriber"

# Longer than any Pull waits on this project's server.
TIMEOUT_S = 20


def get_topic(topic: str) -> bytes:
    return serialized(types.GetTopicRequest(topic=topic))


def publish(topic: str, data: bytes) -> bytes:
    return serialized(types.PublishRequest(topic=topic, messages=[types.PubsubMessage(data=data)]))


def pull(subscription: str, most: int = 1) -> bytes:
    return serialized(types.PullRequest(subscription=subscription, max_messages=most))


def serialized(message: Any) -> bytes:
    """The bytes of one of the client library's messages."""
    raw: bytes = type(message).serialize(message)
    return raw


def message_ids(reply: bytes) -> list[str]:
    return list(types.PublishResponse.deserialize(reply).message_ids)


def received(reply: bytes) -> list[bytes]:
    """The data of the messages of a Pull's reply."""
    return [one.message.data for one in types.PullResponse.deserialize(reply).received_messages]


class Calls:
    """The methods of one channel; bytes go in and out."""

    def __init__(self, target: str, options: Mapping[str, object] | None = None) -> None:
        self.channel: Any = grpc.insecure_channel(target, options=list((options or {}).items()))

    def unary(self, path: str) -> Any:
        """The multi-callable; called, it is a call that is waited for; its `future` is one that isn't."""
        return self.channel.unary_unary(path)

    def get_topic(self, topic: str, **options: Any) -> str:
        options.setdefault("timeout", TIMEOUT_S)
        reply = self.unary(f"{PUBLISHER}/GetTopic")(get_topic(topic), **options)
        return str(types.Topic.deserialize(reply).name)

    def publish(self, topic: str, data: bytes, **options: Any) -> list[str]:
        options.setdefault("timeout", TIMEOUT_S)
        return message_ids(self.unary(f"{PUBLISHER}/Publish")(publish(topic, data), **options))

    def pull(self, subscription: str, most: int = 1, **options: Any) -> list[bytes]:
        options.setdefault("timeout", TIMEOUT_S)
        return received(self.unary(f"{SUBSCRIBER}/Pull")(pull(subscription, most), **options))

    def close(self) -> None:
        self.channel.close()

    def __repr__(self) -> str:
        return f"<Calls {self.channel!r}>"
