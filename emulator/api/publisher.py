"""The Publisher service: one method per RPC."""

from emulator import errors, names
from emulator.api import pb, publish_request, topics
from emulator.api.drafts import draft
from emulator.api.fields import warn_of_missing_effects
from emulator.api.paging import page
from emulator.engine.broker import Broker
from emulator.engine.drafts import Drafts
from emulator.engine.publishing import check_count
from emulator.engine.registry import page_of


class Publisher:
    """google.pubsub.v1.Publisher over one broker. Keeps no state of its own."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def create_topic(self, request: pb.Topic) -> pb.Topic:
        names.check(request.name, names.TOPICS, "name")
        self._broker.topics.require_free(request.name)
        settings = topics.read(request, self._broker.limits)
        topic = self._broker.create_topic(request.name, settings)
        warn_of_missing_effects(request, topics.NOT_YET)
        return topics.show(topic)

    def update_topic(self, request: pb.UpdateTopicRequest) -> pb.Topic:
        if not request.HasField("topic"):
            raise errors.missing("topic")
        names.check(request.topic.name, names.TOPICS, "topic.name")
        topic = self._broker.topics.get(request.topic.name)
        merged = topics.MASKABLE.merge(topics.stored(topic), request.topic, request.update_mask.paths)
        topic.update(topics.read(merged, self._broker.limits))
        warn_of_missing_effects(merged, topics.NOT_YET)
        return topics.show(topic)

    def publish(self, request: pb.PublishRequest) -> pb.PublishResponse:
        self._require_topic(request.topic)
        check_count(len(request.messages), self._broker.limits)  # before millions of them become drafts
        ids = self._publish(request.topic, [draft(message) for message in request.messages], request.ByteSize())
        return pb.PublishResponse(message_ids=map(str, ids))

    def publish_serialized(self, data: bytes, start: int) -> bytes | None:
        """The same from and to bytes; None, and nothing was done, for a request that protobuf has to read."""
        request = publish_request.read(data, start, self._broker.limits.publish_max_messages)
        if request is None:
            return None
        self._require_topic(request.topic)
        return publish_request.write_reply(self._publish(request.topic, request.drafts, request.size))

    def _require_topic(self, name: str) -> None:
        if self._broker.topics.find(name) is None:
            names.check(name, names.TOPICS, "topic")
            raise errors.not_found(name)

    def _publish(self, topic: str, drafts: Drafts, size: int) -> list[int]:
        broker = self._broker
        if size > broker.limits.publish_max_bytes:
            raise errors.publish_too_large(size, broker.limits.publish_max_bytes)
        return broker.publish(topic, drafts)

    def get_topic(self, request: pb.GetTopicRequest) -> pb.Topic:
        names.check(request.topic, names.TOPICS, "topic")
        return topics.show(self._broker.topics.get(request.topic))

    def list_topics(self, request: pb.ListTopicsRequest) -> pb.ListTopicsResponse:
        names.check_project(request.project, "project")
        project = names.project_of(request.project)
        found, token = page(
            lambda after, size: self._broker.topics.page(project, after, size),
            f"{request.project}/{names.TOPICS}",
            request.page_token,
            request.page_size,
            self._broker.limits,
        )
        return pb.ListTopicsResponse(topics=map(topics.show, found), next_page_token=token)

    def list_topic_subscriptions(self, request: pb.ListTopicSubscriptionsRequest) -> pb.ListTopicSubscriptionsResponse:
        names.check(request.topic, names.TOPICS, "topic")
        topic = self._broker.topics.get(request.topic)
        found, token = page(
            topic.page,
            f"{request.topic}/{names.SUBSCRIPTIONS}",
            request.page_token,
            request.page_size,
            self._broker.limits,
        )
        return pb.ListTopicSubscriptionsResponse(
            subscriptions=[subscription.name for subscription in found], next_page_token=token
        )

    def list_topic_snapshots(self, request: pb.ListTopicSnapshotsRequest) -> pb.ListTopicSnapshotsResponse:
        names.check(request.topic, names.TOPICS, "topic")
        topic = self._broker.topics.get(request.topic)
        found, token = page(
            lambda after, size: page_of(sorted(topic.snapshots), topic.snapshots, after, size),
            f"{request.topic}/{names.SNAPSHOTS}",
            request.page_token,
            request.page_size,
            self._broker.limits,
        )
        return pb.ListTopicSnapshotsResponse(snapshots=[snapshot.name for snapshot in found], next_page_token=token)

    def delete_topic(self, request: pb.DeleteTopicRequest) -> pb.Empty:
        names.check(request.topic, names.TOPICS, "topic")
        self._broker.delete_topic(request.topic)
        return pb.Empty()

    def detach_subscription(self, request: pb.DetachSubscriptionRequest) -> pb.DetachSubscriptionResponse:
        names.check(request.subscription, names.SUBSCRIPTIONS, "subscription")
        self._broker.detach_subscription(request.subscription)
        return pb.DetachSubscriptionResponse()

    def __repr__(self) -> str:
        return f"<Publisher {self._broker!r}>"
