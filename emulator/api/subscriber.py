"""The Subscriber service: one method per RPC."""

import random
from functools import partial
from typing import Any

from emulator import errors, names
from emulator.api import pb, snapshots, subscriptions
from emulator.api.fields import check_ack_request_size, check_representable, warn_of_missing_effects
from emulator.api.paging import page
from emulator.api.received import received
from emulator.api.replies import Parked, Undoable
from emulator.engine.broker import Broker
from emulator.engine.pulls import Pull
from emulator.engine.registry import Registry
from emulator.engine.snapshot import Snapshot
from emulator.engine.subscription import Subscription

_RANDOM_ID_DIGITS = 16


class Subscriber:
    """google.pubsub.v1.Subscriber over one broker. Keeps no state of its own."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def create_subscription(self, request: pb.Subscription) -> pb.Subscription:
        if request.name:
            names.check(request.name, names.SUBSCRIPTIONS, "name")
        if not request.topic:
            raise errors.missing("topic")
        names.check(request.topic, names.TOPICS, "topic")
        topic = self._broker.topics.get(request.topic)
        resource = pb.Subscription()
        resource.CopyFrom(request)
        if not resource.name:
            resource.name = _free_name(self._broker.subscriptions, request.topic, names.SUBSCRIPTIONS, "sub")
        self._broker.subscriptions.require_free(resource.name)
        settings = subscriptions.read(resource, self._broker.limits, creating=True)
        self._require_dead_letter_topic(resource)
        subscription = self._broker.create_subscription(resource.name, topic, settings)
        warn_of_missing_effects(resource, subscriptions.NOT_YET)
        return subscriptions.show(subscription)

    def get_subscription(self, request: pb.GetSubscriptionRequest) -> pb.Subscription:
        subscription = self._named(request.subscription, "subscription")
        subscription.touch()
        return subscriptions.show(subscription)

    def update_subscription(self, request: pb.UpdateSubscriptionRequest) -> pb.Subscription:
        if not request.HasField("subscription"):
            raise errors.missing("subscription")
        subscription = self._named(request.subscription.name, "subscription.name")
        merged = subscriptions.MASKABLE.merge(
            subscriptions.stored(subscription), request.subscription, request.update_mask.paths
        )
        self._change(subscription, merged)
        return subscriptions.show(subscription)

    def list_subscriptions(self, request: pb.ListSubscriptionsRequest) -> pb.ListSubscriptionsResponse:
        names.check_project(request.project, "project")
        project = names.project_of(request.project)
        found, token = page(
            lambda after, size: self._broker.subscriptions.page(project, after, size),
            f"{request.project}/{names.SUBSCRIPTIONS}",
            request.page_token,
            request.page_size,
            self._broker.limits,
        )
        return pb.ListSubscriptionsResponse(subscriptions=map(subscriptions.show, found), next_page_token=token)

    def delete_subscription(self, request: pb.DeleteSubscriptionRequest) -> pb.Empty:
        names.check(request.subscription, names.SUBSCRIPTIONS, "subscription")
        self._broker.delete_subscription(request.subscription)
        return pb.Empty()

    def modify_ack_deadline(self, request: pb.ModifyAckDeadlineRequest) -> pb.Empty:
        self._named(request.subscription, "subscription")
        check_ack_request_size(request, self._broker.limits)
        self._broker.modify_ack_deadline(request.subscription, request.ack_ids, request.ack_deadline_seconds)
        return pb.Empty()

    def acknowledge(self, request: pb.AcknowledgeRequest) -> pb.Empty:
        self._named(request.subscription, "subscription")
        check_ack_request_size(request, self._broker.limits)
        self._broker.acknowledge(request.subscription, request.ack_ids)
        return pb.Empty()

    def pull(self, request: pb.PullRequest) -> Undoable[pb.PullResponse] | Parked[Undoable[pb.PullResponse]]:
        subscription = self._named(request.subscription, "subscription")
        pull = self._broker.pull(request.subscription, request.max_messages, wait=not request.return_immediately)
        if pull.done:
            return _pull_reply(subscription, pull)
        parked: Parked[Undoable[pb.PullResponse]] = Parked(
            cancel=partial(subscription.cancel, pull), hurry=partial(subscription.hurry, pull)
        )
        pull.on_done = lambda: _answer(parked, subscription, pull)
        return parked

    def modify_push_config(self, request: pb.ModifyPushConfigRequest) -> pb.Empty:
        subscription = self._named(request.subscription, "subscription")
        resource = subscriptions.stored(subscription)
        resource.push_config.CopyFrom(request.push_config)
        self._change(subscription, resource)
        return pb.Empty()

    def get_snapshot(self, request: pb.GetSnapshotRequest) -> pb.Snapshot:
        return snapshots.show(self._snapshot(request.snapshot, "snapshot"))

    def list_snapshots(self, request: pb.ListSnapshotsRequest) -> pb.ListSnapshotsResponse:
        names.check_project(request.project, "project")
        project = names.project_of(request.project)
        found, token = page(
            lambda after, size: self._broker.snapshots.page(project, after, size),
            f"{request.project}/{names.SNAPSHOTS}",
            request.page_token,
            request.page_size,
            self._broker.limits,
        )
        return pb.ListSnapshotsResponse(snapshots=map(snapshots.show, found), next_page_token=token)

    def create_snapshot(self, request: pb.CreateSnapshotRequest) -> pb.Snapshot:
        if request.name:
            names.check(request.name, names.SNAPSHOTS, "name")
        subscription = self._named(request.subscription, "subscription")
        taken = self._broker.snapshots
        name = request.name or _free_name(taken, request.subscription, names.SNAPSHOTS, "snap")
        taken.require_free(name)
        document = snapshots.document(request.labels, self._broker.limits)
        return snapshots.show(self._broker.create_snapshot(name, subscription, document))

    def update_snapshot(self, request: pb.UpdateSnapshotRequest) -> pb.Snapshot:
        if not request.HasField("snapshot"):
            raise errors.missing("snapshot")
        snapshot = self._snapshot(request.snapshot.name, "snapshot.name")
        merged = snapshots.MASKABLE.merge(snapshots.show(snapshot), request.snapshot, request.update_mask.paths)
        snapshot.document = snapshots.document(merged.labels, self._broker.limits)
        return snapshots.show(snapshot)

    def delete_snapshot(self, request: pb.DeleteSnapshotRequest) -> pb.Empty:
        names.check(request.snapshot, names.SNAPSHOTS, "snapshot")
        self._broker.delete_snapshot(request.snapshot)
        return pb.Empty()

    def seek(self, request: pb.SeekRequest) -> pb.SeekResponse:
        names.check(request.subscription, names.SUBSCRIPTIONS, "subscription")
        target = request.WhichOneof("target")
        if target == "snapshot":
            names.check(request.snapshot, names.SNAPSHOTS, "snapshot")
        subscription = self._broker.subscriptions.get(request.subscription)
        subscription.touch()
        if target == "snapshot":
            subscription.seek_to_snapshot(self._broker.snapshots.get(request.snapshot))
        elif target == "time":
            check_representable(request)
            subscription.seek_to_time(request.time.ToNanoseconds())
        else:
            raise errors.missing("time or snapshot")
        return pb.SeekResponse()

    def _snapshot(self, name: str, argument: str) -> Snapshot:
        """The snapshot; raises INVALID_ARGUMENT, then NOT_FOUND."""
        names.check(name, names.SNAPSHOTS, argument)
        return self._broker.snapshots.get(name)

    def _named(self, name: str, argument: str) -> Subscription:
        """The subscription; raises INVALID_ARGUMENT, then NOT_FOUND (service.md §1.5a)."""
        names.check(name, names.SUBSCRIPTIONS, argument)
        return self._broker.subscriptions.get(name)

    def _change(self, subscription: Subscription, resource: pb.Subscription) -> None:
        settings = subscriptions.read(resource, self._broker.limits, creating=False)
        if resource.dead_letter_policy != subscriptions.stored(subscription).dead_letter_policy:
            # Whatever else changes, a policy may stay whose topic was deleted (service.md §10.6).
            self._require_dead_letter_topic(resource)
        subscription.update(settings)
        warn_of_missing_effects(resource, subscriptions.NOT_YET)

    def _require_dead_letter_topic(self, resource: pb.Subscription) -> None:
        if resource.HasField("dead_letter_policy"):
            topic = resource.dead_letter_policy.dead_letter_topic
            names.check(topic, names.TOPICS, "dead_letter_policy.dead_letter_topic")
            self._broker.topics.get(topic)

    def __repr__(self) -> str:
        return f"<Subscriber {self._broker!r}>"


def _free_name(taken: Registry[Any], beside: str, collection: str, prefix: str) -> str:
    """A random name that is not taken, in the project of `beside`, for what came without one (service.md §1.2)."""
    while True:
        identifier = f"{prefix}-{random.getrandbits(4 * _RANDOM_ID_DIGITS):0{_RANDOM_ID_DIGITS}x}"
        name = names.build(names.project_of(beside), collection, identifier)
        if taken.find(name) is None:
            return name


def _answer(parked: Parked[Undoable[pb.PullResponse]], subscription: Subscription, pull: Pull) -> None:
    if pull.error is not None:
        parked.fail(pull.error)
    else:
        parked.complete_later(partial(_pull_reply, subscription, pull))


def _pull_reply(subscription: Subscription, pull: Pull) -> Undoable[pb.PullResponse]:
    leases = pull.hand_over()
    reply = pb.PullResponse.FromString(received(subscription, leases))
    return Undoable(reply, partial(subscription.give_back, leases))
