"""A whole API over one broker and a fake clock, called with requests written as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from google.protobuf import json_format
from google.protobuf.message import Message

from emulator.api import pb
from emulator.api.catalogue import RPCS, Rpc
from emulator.api.dispatch import Dispatcher, Outcome
from emulator.api.replies import Parked, Undoable
from emulator.api.services import build_services
from emulator.clock import NS_PER_S, FakeClock
from emulator.engine.broker import Broker

Data: TypeAlias = Mapping[str, Any]

ORDERS = "projects/acme/topics/orders"
DEAD = "projects/acme/topics/dead"

PULLED = "projects/acme/subscriptions/pulled"
ELSEWHERE = "projects/other/subscriptions/elsewhere"
PUSHED = "projects/acme/subscriptions/pushed"
EXPORTED = "projects/acme/subscriptions/exported"
DETACHED = "projects/acme/subscriptions/detached"
ORPHAN = "projects/acme/subscriptions/orphan"
AGED = "projects/acme/subscriptions/aged"

KEPT = "projects/acme/snapshots/kept"
ELSEWHERES = "projects/other/snapshots/elsewheres"
ORPHANS = "projects/acme/snapshots/orphans"

# In a request these stand for what only a running world can know; `World.fill` puts it in.
ACK_ID = "$ack id of PULLED"
FOREIGN_ACK_ID = "$ack id of ELSEWHERE"
TOPICS_TOKEN = "$page token of ListTopics"
SUBSCRIPTIONS_TOKEN = "$page token of ListSubscriptions"
TOPIC_SUBSCRIPTIONS_TOKEN = "$page token of ListTopicSubscriptions"
SNAPSHOTS_TOKEN = "$page token of ListSnapshots"
TOPIC_SNAPSHOTS_TOKEN = "$page token of ListTopicSnapshots"


def row(method: str) -> Rpc:
    """The catalogue's row of an RPC; `method` as on the wire."""
    (found,) = [rpc for rpc in RPCS if rpc.method == method]
    return found


def parse(method: str, request: Data) -> Any:
    """The RPC's request, given as proto JSON."""
    fields = dict(request)
    mask = fields.pop("updateMask", None)
    message: Any = json_format.ParseDict(fields, row(method).request())
    if mask:
        # Not by json_format, which would take a label's key for a field and change its letters.
        message.update_mask.paths.extend(map(snake, mask.split(",")))
    return message


def snake(path: str) -> str:
    """A mask's path as gRPC spells it; a label's key stays what it is."""
    if path.startswith("labels."):
        return path
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in path)


@dataclass(frozen=True, slots=True)
class World:
    """One emulator without any wire. `known`: the values of the placeholders above."""

    clock: FakeClock
    broker: Broker
    dispatcher: Dispatcher
    known: dict[str, str] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> "World":
        clock = FakeClock()
        broker = Broker(clock)
        return cls(clock, broker, Dispatcher(build_services(broker)))

    def send(self, method: str, request: Message) -> Outcome:
        """What the handler answers. Raises PubsubError."""
        return self.dispatcher.call(row(method), request)

    def call(self, method: str, /, **request: Any) -> Any:
        """The reply to a request in proto JSON; one that is parked has to be complete. Raises PubsubError."""
        outcome = self.send(method, parse(method, request))
        reply = outcome.result() if isinstance(outcome, Parked) else outcome
        return reply.message if isinstance(reply, Undoable) else reply

    def update_topic(self, name: str, mask: str, **fields: Any) -> Any:
        """UpdateTopic; `mask` as JSON has it, "labels,kmsKeyName"."""
        return self.call("UpdateTopic", topic={"name": name, **fields}, updateMask=mask)

    def update_subscription(self, name: str, mask: str, **fields: Any) -> Any:
        """UpdateSubscription; `mask` as JSON has it, "labels,pushConfig.noWrapper"."""
        return self.call("UpdateSubscription", subscription={"name": name, **fields}, updateMask=mask)

    def update_snapshot(self, name: str, mask: str, **fields: Any) -> Any:
        """UpdateSnapshot; `mask` as JSON has it."""
        return self.call("UpdateSnapshot", snapshot={"name": name, **fields}, updateMask=mask)

    def seek(self, subscription: str, *, seconds: float) -> None:
        """Seek to so many seconds before now."""
        time = pb.Timestamp()
        time.FromNanoseconds(self.clock.now() - round(seconds * NS_PER_S))
        self.send("Seek", pb.SeekRequest(subscription=subscription, time=time))

    def take(self, subscription: str) -> list[str]:
        """The texts of all there is now, which is acked."""
        received = self.pull(subscription, 1_000)
        if received:
            self.call("Acknowledge", subscription=subscription, ackIds=[each.ack_id for each in received])
        return texts(received)

    def publish(self, topic: str, *texts: str, key: str = "") -> list[str]:
        """The ids of one message per text; `key` is their ordering key."""
        drafts = [{"attributes": {"text": text}, "orderingKey": key} for text in texts]
        return list(self.call("Publish", topic=topic, messages=drafts).message_ids)

    def pull(self, subscription: str, most: int = 10) -> list[Any]:
        """What there is now."""
        reply = self.call("Pull", subscription=subscription, maxMessages=most, returnImmediately=True)
        return list(reply.received_messages)

    def acknowledge(self, subscription: str, received: Sequence[Any]) -> None:
        self.call("Acknowledge", subscription=subscription, ackIds=ids(received))

    def modify(self, subscription: str, received: Sequence[Any], seconds: int = 0) -> None:
        """ModifyAckDeadline, a nack unless it says otherwise."""
        self.call("ModifyAckDeadline", subscription=subscription, ackIds=ids(received), ackDeadlineSeconds=seconds)

    def state(self) -> object:
        """Everything that a call may change, as plain values."""
        return self.broker.dump(), dict(self.broker.counts()), self.clock.timer_count()

    def fill(self, request: Any) -> Any:
        """The request with every placeholder replaced."""
        if isinstance(request, str):
            return self.known.get(request, request)
        if isinstance(request, Mapping):
            return {key: self.fill(value) for key, value in request.items()}
        if isinstance(request, Sequence) and not isinstance(request, bytes):
            return [self.fill(value) for value in request]
        return request

    def __repr__(self) -> str:
        return f"<World {self.broker!r}>"


def texts(received: Sequence[Any]) -> list[str]:
    """What `World.publish` was given."""
    return [each.message.attributes["text"] for each in received]


def ids(received: Sequence[Any]) -> list[str]:
    """Their ack ids."""
    return [each.ack_id for each in received]


def populated() -> World:
    """A world with a subscription of each kind, with messages that wait, are leased, and were given back.

    AGED has one that is half an hour short of a week old. KEPT and ELSEWHERES are snapshots of ORDERS, ORPHANS is one
    of a topic that is gone.
    """
    world = World.empty()
    _age(world)
    world.call("CreateTopic", name=ORDERS, labels={"team": "sales"}, messageRetentionDuration="3600s")
    world.call("CreateTopic", name=DEAD)
    world.call("CreateTopic", name="projects/acme/topics/gone")
    world.call(
        "CreateSubscription",
        name=PULLED,
        topic=ORDERS,
        labels={"team": "sales"},
        retryPolicy={"minimumBackoff": "1s"},
        deadLetterPolicy={"deadLetterTopic": DEAD},
    )
    world.call("CreateSubscription", name=ELSEWHERE, topic=ORDERS, enableExactlyOnceDelivery=True)
    world.call("CreateSubscription", name=PUSHED, topic=ORDERS, pushConfig={"pushEndpoint": "http://localhost/"})
    world.call("CreateSubscription", name=EXPORTED, topic=ORDERS, bigqueryConfig={"table": "p.d.t"})
    world.call("CreateSubscription", name=DETACHED, topic=ORDERS)
    world.call("CreateSubscription", name=ORPHAN, topic="projects/acme/topics/gone")
    world.publish("projects/acme/topics/gone", "left behind")
    world.call("DeleteTopic", topic="projects/acme/topics/gone")
    world.call("CreateSnapshot", name=KEPT, subscription=PULLED, labels={"team": "sales"})
    world.call("CreateSnapshot", name=ELSEWHERES, subscription=ELSEWHERE)
    world.call("CreateSnapshot", name=ORPHANS, subscription=ORPHAN)
    world.publish(ORDERS, "nacked", "leased", "waiting")
    world.call("DetachSubscription", subscription=DETACHED)
    nacked, leased = world.pull(PULLED, 2)
    world.call("ModifyAckDeadline", subscription=PULLED, ackIds=[nacked.ack_id], ackDeadlineSeconds=0)
    world.clock.advance(1)
    world.known[ACK_ID] = leased.ack_id
    world.known[FOREIGN_ACK_ID] = world.pull(ELSEWHERE, 1)[0].ack_id
    _learn_tokens(world)
    return world


def _age(world: World) -> None:
    world.call("CreateTopic", name="projects/acme/topics/ancient")
    world.call("CreateSubscription", name=AGED, topic="projects/acme/topics/ancient")
    world.publish("projects/acme/topics/ancient", "aged")
    world.clock.advance(7 * 86_400 - 1_800)


def _learn_tokens(world: World) -> None:
    for placeholder, method, request in (
        (TOPICS_TOKEN, "ListTopics", {"project": "projects/acme"}),
        (SUBSCRIPTIONS_TOKEN, "ListSubscriptions", {"project": "projects/acme"}),
        (TOPIC_SUBSCRIPTIONS_TOKEN, "ListTopicSubscriptions", {"topic": ORDERS}),
        (SNAPSHOTS_TOKEN, "ListSnapshots", {"project": "projects/acme"}),
        (TOPIC_SNAPSHOTS_TOKEN, "ListTopicSnapshots", {"topic": ORDERS}),
    ):
        world.known[placeholder] = world.call(method, pageSize=1, **request).next_page_token
