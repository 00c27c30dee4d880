"""Pull, Acknowledge and ModifyAckDeadline over either wire, and what comes of them in one form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import grpc
from google.pubsub_v1 import types

from compat_tests.grpc_calls import SUBSCRIBER, TIMEOUT_S, Calls, serialized
from compat_tests.rest import Project

# At most so many messages are asked for.
MOST = 100


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as it was delivered; `attempt` is 0 where the reply says nothing of it, times are RFC 3339."""

    ack_id: str
    data: bytes
    attempt: int
    identifier: str
    attributes: Mapping[str, str]
    key: str
    publish_time: str


class Wire(Protocol):
    """Either of them."""

    def pull(self, subscription: str, most: int = MOST, *, wait: bool = False) -> list[Delivery]:
        """What there is now, or with `wait` as soon as there is something."""
        ...

    def acknowledge(self, subscription: str, deliveries: Sequence[Delivery]) -> None: ...

    def modify(self, subscription: str, deliveries: Sequence[Delivery], seconds: int) -> None: ...


class OverRest:
    def __init__(self, project: Project) -> None:
        self._project = project

    def pull(self, subscription: str, most: int = MOST, *, wait: bool = False) -> list[Delivery]:
        return [
            Delivery(
                one.ack_id,
                one.data,
                one.document.get("deliveryAttempt", 0),
                one.message["messageId"],
                one.message.get("attributes", {}),
                one.message.get("orderingKey", ""),
                one.message["publishTime"],
            )
            for one in self._project.pull(subscription, most, wait=wait)
        ]

    def acknowledge(self, subscription: str, deliveries: Sequence[Delivery]) -> None:
        self._project.acknowledge(subscription, [one.ack_id for one in deliveries]).ok()

    def modify(self, subscription: str, deliveries: Sequence[Delivery], seconds: int) -> None:
        self._project.modify(subscription, [one.ack_id for one in deliveries], seconds).ok()

    def __repr__(self) -> str:
        return f"<OverRest {self._project!r}>"


class OverGrpc:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def pull(self, subscription: str, most: int = MOST, *, wait: bool = False) -> list[Delivery]:
        request = types.PullRequest(subscription=subscription, max_messages=most, return_immediately=not wait)
        reply = types.PullResponse.deserialize(self._call("Pull", serialized(request)))
        return [
            Delivery(
                one.ack_id,
                one.message.data,
                one.delivery_attempt,
                one.message.message_id,
                dict(one.message.attributes),
                one.message.ordering_key,
                types.PubsubMessage.pb(one.message).publish_time.ToJsonString(),
            )
            for one in reply.received_messages
        ]

    def acknowledge(self, subscription: str, deliveries: Sequence[Delivery]) -> None:
        ack_ids = [one.ack_id for one in deliveries]
        self._call("Acknowledge", serialized(types.AcknowledgeRequest(subscription=subscription, ack_ids=ack_ids)))

    def modify(self, subscription: str, deliveries: Sequence[Delivery], seconds: int) -> None:
        request = types.ModifyAckDeadlineRequest(
            subscription=subscription, ack_ids=[one.ack_id for one in deliveries], ack_deadline_seconds=seconds
        )
        self._call("ModifyAckDeadline", serialized(request))

    def _call(self, method: str, request: bytes) -> bytes:
        try:
            reply: bytes = self._calls.unary(f"{SUBSCRIBER}/{method}")(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            raise AssertionError(f"{method} was refused: {error}") from error
        return reply

    def __repr__(self) -> str:
        return f"<OverGrpc {self._calls!r}>"


def data_of(deliveries: Sequence[Delivery]) -> list[bytes]:
    return [one.data for one in deliveries]
