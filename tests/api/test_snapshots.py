"""Snapshots and Seek, as the API shows them (service.md §12)."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import json_format

from emulator.api import pb
from emulator.errors import Code, PubsubError
from tests.api.streaming import Client
from tests.api.world import DEAD, ORDERS, PULLED, World, texts

KEPT = "projects/acme/snapshots/kept"
OTHER = "projects/acme/subscriptions/other"
FAR = "projects/far/subscriptions/far-off"

WEEK_S = 7 * 86_400
HOUR_S = 3_600


def shown(resource: Any) -> dict[str, Any]:
    return json_format.MessageToDict(resource)


def keep(world: World, subscription: str = PULLED, name: str = KEPT, **fields: Any) -> Any:
    return world.call("CreateSnapshot", name=name, subscription=subscription, **fields)


def return_to(world: World, subscription: str = PULLED, snapshot: str = KEPT) -> None:
    reply = world.call("Seek", subscription=subscription, snapshot=snapshot)
    assert not reply.ListFields()


def retain(world: World, subscription: str = PULLED) -> None:
    world.update_subscription(subscription, "retainAckedMessages", retainAckedMessages=True)


def seconds_left(world: World, snapshot: Any) -> float:
    return float(snapshot.expire_time.ToNanoseconds() - world.clock.now()) / 1e9


class TestCreation:
    @pytest.mark.rule("S1", "S1.5", "S12.8", "B076")
    def test_answers_the_whole_resource(self, world: World) -> None:
        created = keep(world, labels={"team": "sales"})

        assert shown(created) == {
            "name": KEPT,
            "topic": ORDERS,
            "expireTime": shown(created)["expireTime"],
            "labels": {"team": "sales"},
        }
        assert seconds_left(world, created) == WEEK_S
        assert world.call("GetSnapshot", snapshot=KEPT) == created
        assert list(world.call("ListSnapshots", project="projects/acme").snapshots) == [created]

    @pytest.mark.rule("S1.2", "B077")
    def test_without_a_name_it_gets_one_in_the_subscriptions_project(self, world: World) -> None:
        world.call("CreateSubscription", name=FAR, topic=ORDERS)

        names = [world.call("CreateSnapshot", subscription=FAR).name for _ in range(20)]

        assert len(set(names)) == 20
        assert all(name.startswith("projects/far/snapshots/") for name in names)
        for name in names:
            assert world.call("GetSnapshot", snapshot=name).topic == ORDERS
            keep(world, name=name.replace("/far/", "/acme/"))  # it is a name that a client might give

    @pytest.mark.rule("S3.8")
    def test_tags_are_taken_and_never_shown(self, world: World) -> None:
        assert "tags" not in shown(keep(world, tags={"123/env": "test"}))

    @pytest.mark.rule("S12.8")
    def test_the_oldest_unacked_message_says_when_it_expires(self, world: World) -> None:
        world.publish(ORDERS, "acked")
        world.take(PULLED)
        world.clock.advance(HOUR_S)
        world.publish(ORDERS, "unacked")
        world.clock.advance(2 * HOUR_S)
        world.publish(ORDERS, "newer")
        world.pull(PULLED, 1)

        assert seconds_left(world, keep(world)) == WEEK_S - 2 * HOUR_S

    @pytest.mark.rule("S12.8")
    @pytest.mark.parametrize(("left_s", "answer"), [(3_601, None), (3_600, None), (3_599, Code.FAILED_PRECONDITION)])
    def test_less_than_an_hour_is_too_short(self, world: World, left_s: int, answer: Code | None) -> None:
        world.publish(ORDERS, "old")
        world.clock.advance(WEEK_S - left_s)

        if answer is None:
            assert seconds_left(world, keep(world)) == left_s
        else:
            with pytest.raises(PubsubError, match="would expire in 3599s") as refusal:
                keep(world)
            assert refusal.value.code is answer
            # Not its fault for ever: once the message is done, it can be made.
            world.take(PULLED)
            assert seconds_left(world, keep(world)) == WEEK_S

    @pytest.mark.rule("S1.5a", "S3.6")
    def test_a_name_is_free_again_after_a_deletion(self, world: World) -> None:
        world.publish(ORDERS, "first")
        keep(world, labels={"a": "1"})
        with pytest.raises(PubsubError, match="already exists"):
            keep(world)
        world.call("DeleteSnapshot", snapshot=KEPT)
        world.take(PULLED)

        assert not keep(world).labels
        return_to(world)
        assert world.pull(PULLED) == []


class TestOtherCalls:
    @pytest.mark.rule("S1", "S12.11", "B077")
    def test_labels_can_be_changed_and_cleared(self, world: World) -> None:
        created = keep(world, labels={"a": "1"})

        changed = world.update_snapshot(KEPT, "labels", labels={"b": "2"}, topic="x", expireTime="1970-01-01T00:00:00Z")

        assert shown(changed) == {**shown(created), "labels": {"b": "2"}}
        assert world.call("GetSnapshot", snapshot=KEPT) == changed
        assert not world.update_snapshot(KEPT, "labels").labels

    @pytest.mark.rule("S1.8.2", "S1.8.6")
    @pytest.mark.parametrize(
        ("mask", "labels"), [("labels.a", {"a": "9", "b": "2"}), ("labels.c", {"a": "1", "b": "2"}), ("*", {"a": "9"})]
    )
    def test_a_mask_may_name_one_label_or_all_there_is(self, world: World, mask: str, labels: dict[str, str]) -> None:
        created = keep(world, labels={"a": "1", "b": "2"})

        changed = world.update_snapshot(KEPT, mask, labels={"a": "9"})

        assert shown(changed) == {**shown(created), "labels": labels}

    @pytest.mark.rule("S12.8")
    def test_an_update_lets_nothing_last_longer(self, world: World) -> None:
        created = keep(world)
        world.clock.advance(HOUR_S)

        assert world.update_snapshot(KEPT, "labels", labels={"a": "1"}).expire_time == created.expire_time

    @pytest.mark.rule("S1", "S12.9")
    def test_a_deleted_one_is_gone(self, world: World) -> None:
        world.publish(ORDERS, "kept")
        keep(world)

        assert not world.call("DeleteSnapshot", snapshot=KEPT).ListFields()

        for method, request in (
            ("GetSnapshot", {"snapshot": KEPT}),
            ("DeleteSnapshot", {"snapshot": KEPT}),
            ("UpdateSnapshot", {"snapshot": {"name": KEPT}, "updateMask": "labels"}),
            ("Seek", {"subscription": PULLED, "snapshot": KEPT}),
        ):
            with pytest.raises(PubsubError, match="Resource not found") as refusal:
                world.call(method, **request)
            assert refusal.value.code is Code.NOT_FOUND
        assert not world.call("ListTopicSnapshots", topic=ORDERS).snapshots
        assert world.broker.counts()["in_snapshots"] == 0

    @pytest.mark.rule("S12.9")
    def test_an_expired_one_is_gone(self, world: World) -> None:
        keep(world)
        world.clock.advance(WEEK_S - 1)
        assert world.call("GetSnapshot", snapshot=KEPT).name == KEPT

        world.clock.advance(1)

        for method, request in (("GetSnapshot", {}), ("Seek", {"subscription": PULLED})):
            with pytest.raises(PubsubError, match="Resource not found"):
                world.call(method, snapshot=KEPT, **request)
        assert not world.call("ListSnapshots", project="projects/acme").snapshots
        assert not world.call("ListTopicSnapshots", topic=ORDERS).snapshots

    @pytest.mark.rule("S1", "S1.9.5")
    def test_a_topic_lists_its_snapshots_of_any_project(self, world: World) -> None:
        world.call("CreateSubscription", name=OTHER, topic=DEAD)
        mine = [keep(world, name=f"projects/{project}/snapshots/one").name for project in ("zoo", "acme", "aaa")]
        keep(world, OTHER)

        listed = world.call("ListTopicSnapshots", topic=ORDERS).snapshots

        assert list(listed) == sorted(mine)
        assert list(world.call("ListTopicSnapshots", topic=DEAD).snapshots) == [KEPT]

    @pytest.mark.rule("S6.1")
    def test_those_of_a_deleted_topic_stay_and_say_so(self, world: World) -> None:
        keep(world)
        world.call("DeleteTopic", topic=ORDERS)
        world.call("CreateTopic", name=ORDERS)

        later = keep(world, name="projects/acme/snapshots/later")

        assert later.topic == world.call("GetSnapshot", snapshot=KEPT).topic == "_deleted-topic_"
        assert [each.topic for each in world.call("ListSnapshots", project="projects/acme").snapshots] == [
            "_deleted-topic_"
        ] * 2
        assert not world.call("ListTopicSnapshots", topic=ORDERS).snapshots
        assert world.update_snapshot(KEPT, "labels", labels={"a": "1"}).topic == "_deleted-topic_"

    @pytest.mark.rule("S6.3", "S6.2")
    def test_they_outlive_their_subscription(self, world: World) -> None:
        world.publish(ORDERS, "first")
        created = keep(world)
        world.call("DetachSubscription", subscription=PULLED)
        world.call("DeleteSubscription", subscription=PULLED)

        assert world.call("GetSnapshot", snapshot=KEPT) == created
        world.call("CreateSubscription", name=PULLED, topic=ORDERS)
        return_to(world)
        assert world.take(PULLED) == ["first"]


class TestSeekToASnapshot:
    @pytest.mark.rule("S1", "S12.7", "B080")
    def test_brings_what_was_unacked_then_and_what_came_later(self, world: World) -> None:
        world.publish(ORDERS, "acked", "leased", "waiting")
        acked, _ = world.pull(PULLED, 2)
        world.call("Acknowledge", subscription=PULLED, ackIds=[acked.ack_id])
        keep(world)
        world.publish(ORDERS, "later")
        world.clock.advance(10)
        assert world.take(PULLED) == ["leased", "waiting", "later"]

        return_to(world)

        assert world.take(PULLED) == ["leased", "waiting", "later"]

    @pytest.mark.rule("S12.10")
    def test_of_another_subscription_and_another_project(self, world: World) -> None:
        world.publish(ORDERS, "first")
        keep(world, name="projects/elsewhere/snapshots/kept")
        world.call("CreateSubscription", name=FAR, topic=ORDERS)

        return_to(world, FAR, "projects/elsewhere/snapshots/kept")

        assert world.take(FAR) == ["first"]

    @pytest.mark.rule("S12.10", "S6.1")
    def test_needs_the_same_topic_and_not_only_its_name(self, world: World) -> None:
        keep(world)
        world.call("DeleteTopic", topic=ORDERS)
        world.call("CreateTopic", name=ORDERS)
        for name, topic in ((OTHER, DEAD), (FAR, ORDERS)):
            world.call("CreateSubscription", name=name, topic=topic)
            with pytest.raises(PubsubError, match="same topic") as refusal:
                return_to(world, name)
            assert refusal.value.code is Code.FAILED_PRECONDITION

        return_to(world)  # the old subscription is of the old topic, too

    @pytest.mark.rule("S11.7", "S12.11")
    def test_changes_a_filter_and_loses_nothing(self, world: World) -> None:
        """As Google documents it; messages come before, between and after every step."""
        narrow, wide = f"{PULLED}-narrow", f"{PULLED}-wide"
        world.call("CreateSubscription", name=narrow, topic=ORDERS, filter='attributes.text = "new"')
        world.call("CreateSubscription", name=wide, topic=ORDERS)
        steps: list[Callable[[], object]] = [
            lambda: keep(world, wide),
            lambda: world.call("CreateSubscription", name=OTHER, topic=ORDERS, filter='attributes.text = "new"'),
            lambda: return_to(world, OTHER),
        ]
        world.publish(ORDERS, "new", "old")
        for step in steps:
            step()
            world.publish(ORDERS, "new", "old")

        assert world.take(OTHER) == ["new"] * 4 == world.take(narrow)


class TestSeekToATime:
    @pytest.mark.rule("S1", "S12.1", "S12.2", "S12.5", "B073")
    def test_in_the_past_brings_back_what_was_acked(self, world: World) -> None:
        retain(world)
        world.publish(ORDERS, "first")
        world.clock.advance(5)
        world.publish(ORDERS, "second")
        assert world.take(PULLED) == ["first", "second"]

        world.seek(PULLED, seconds=1)
        assert world.take(PULLED) == ["second"]
        world.seek(PULLED, seconds=3_600)
        assert world.take(PULLED) == ["first", "second"]

    @pytest.mark.rule("S12.1")
    def test_does_not_unless_it_is_retained(self, world: World) -> None:
        world.publish(ORDERS, "first")
        world.take(PULLED)

        world.seek(PULLED, seconds=3_600)

        assert world.pull(PULLED) == []

    @pytest.mark.rule("S12.1", "S12.3", "S4.topic.message_retention_duration")
    def test_before_its_creation_where_the_topic_retains(self, world: World) -> None:
        world.update_topic(ORDERS, "messageRetentionDuration", messageRetentionDuration="600s")
        world.publish(ORDERS, "first")
        world.clock.advance(1)
        created = world.call("CreateSubscription", name=FAR, topic=ORDERS)
        assert shown(created)["topicMessageRetentionDuration"] == "600s"
        assert world.pull(FAR) == []

        world.seek(FAR, seconds=10)
        assert world.take(FAR) == ["first"]

        world.clock.advance(599.5)
        world.seek(FAR, seconds=3_600)
        assert world.take(FAR) == []

    @pytest.mark.rule("S6.1", "B079")
    def test_of_an_orphan_goes_by_what_it_retains_itself(self, world: World) -> None:
        retain(world)
        world.update_topic(ORDERS, "messageRetentionDuration", messageRetentionDuration="600s")
        world.publish(ORDERS, "mine")
        world.publish(DEAD, "of another topic")
        world.take(PULLED)
        world.call("DeleteTopic", topic=ORDERS)
        assert "topicMessageRetentionDuration" not in shown(world.call("GetSubscription", subscription=PULLED))

        world.seek(PULLED, seconds=60)

        (again,) = world.pull(PULLED)
        assert texts([again]) == ["mine"]

    @pytest.mark.rule("B074", "S12.2")
    def test_now_drops_what_is_there(self, world: World) -> None:
        world.publish(ORDERS, "first")
        world.clock.advance(0.001)

        world.seek(PULLED, seconds=0)
        world.publish(ORDERS, "second")

        assert world.take(PULLED) == ["second"]

    @pytest.mark.rule("B074", "S12.2", "S5.10")
    @pytest.mark.parametrize(("resolution_ns", "left"), [(1, []), (1_000, []), (1_000_000, ["first"])])
    def test_now_is_as_exact_as_the_clients_clock(self, world: World, resolution_ns: int, left: list[str]) -> None:
        """A message's own time has milliseconds: a clock that has no more finds the two equal within one of them."""
        world.clock.advance_ns(1_000_000 - world.clock.now() % 1_000_000 + 700_000)
        world.publish(ORDERS, "first")

        request = pb.SeekRequest(subscription=PULLED)
        request.time.FromNanoseconds(world.clock.now() // resolution_ns * resolution_ns)
        world.send("Seek", request)

        assert world.take(PULLED) == left

    @pytest.mark.rule("S12.2")
    @pytest.mark.parametrize(
        ("time", "left"),
        [
            ("0001-01-01T00:00:00Z", ["first", "later"]),
            ("1969-12-31T23:59:59.999999999Z", ["first", "later"]),
            ("9999-12-31T23:59:59.999999999Z", ["later"]),
            ("9999-12-31T23:59:59+14:00", ["later"]),
        ],
    )
    def test_any_time_that_can_be_written_will_do(self, world: World, time: str, left: list[str]) -> None:
        retain(world)
        world.publish(ORDERS, "first")

        world.call("Seek", subscription=PULLED, time=time)
        world.publish(ORDERS, "later")

        assert world.take(PULLED) == left

    @pytest.mark.rule("S12.4", "S7.1.11")
    def test_attempts_start_anew(self, world: World) -> None:
        policy = {"deadLetterTopic": DEAD, "maxDeliveryAttempts": 5}
        world.update_subscription(PULLED, "deadLetterPolicy", deadLetterPolicy=policy)
        world.publish(ORDERS, "first")
        for attempt in (1, 2, 3):
            (received,) = world.pull(PULLED)
            assert received.delivery_attempt == attempt
            world.call("ModifyAckDeadline", subscription=PULLED, ackIds=[received.ack_id], ackDeadlineSeconds=0)

        world.seek(PULLED, seconds=60)

        assert world.pull(PULLED)[0].delivery_attempt == 1

    @pytest.mark.rule("S6.2")
    def test_a_detached_subscription_has_nowhere_to_go(self, world: World) -> None:
        world.update_topic(ORDERS, "messageRetentionDuration", messageRetentionDuration="600s")
        world.publish(ORDERS, "first")
        world.call("DetachSubscription", subscription=PULLED)

        with pytest.raises(PubsubError, match="detached"):
            world.seek(PULLED, seconds=60)

        assert world.broker.counts()["waiting"] == 0


class TestWhileAStreamIsOpen:
    @pytest.mark.rule("S12.4", "V8")
    def test_it_gets_the_messages_again_with_new_ids(self, world: World) -> None:
        retain(world)
        client = Client.opened(world, maxOutstandingMessages=2)
        world.publish(ORDERS, "first", "second", "third")
        assert client.read_texts() == ["first", "second"]
        old = client.ack_ids
        client.send(ackIds=old[:1])
        assert client.read_texts() == ["third"]

        world.seek(PULLED, seconds=60)

        # Its credit is back in full, for what was leased is leased no longer.
        assert client.read_texts() == ["first", "second"]
        assert not set(client.ack_ids[3:]) & set(old)
        assert client.call.ended is None

    @pytest.mark.rule("S12.4", "S7.1.7", "V5")
    def test_an_ack_from_before_counts_as_a_late_one(self, world: World) -> None:
        """A seek ends leases as an expiry does, and an ack that follows an expiry is done as ever."""
        client = Client.opened(world)
        world.publish(ORDERS, "first")
        client.read()

        world.seek(PULLED, seconds=60)
        client.send(ackIds=client.ack_ids[:1])

        assert client.call.ended is None
        assert world.broker.counts()["waiting"] == world.broker.counts()["leases"] == 0

    @pytest.mark.rule("S12.4", "S8.2", "S7.3.10")
    def test_under_exactly_once_an_ack_from_before_is_refused(self, world: World) -> None:
        world.update_subscription(PULLED, "enableExactlyOnceDelivery", enableExactlyOnceDelivery=True)
        client = Client.opened(world, streamAckDeadlineSeconds=60)
        world.publish(ORDERS, "first")
        client.read()
        (old,) = client.ack_ids

        world.seek(PULLED, seconds=60)
        client.send(ackIds=[old])

        confirmations = [each.acknowledge_confirmation for each in client.read()]
        assert [ack_id for each in confirmations for ack_id in each.invalid_ack_ids] == [old]
        assert world.broker.counts()["leases"] == 1

    @pytest.mark.rule("S12.2", "O15")
    def test_what_is_acked_now_and_was_not_written_never_is(self, world: World) -> None:
        client = Client.opened(world, window=0)
        world.publish(ORDERS, "first", "second")

        world.seek(PULLED, seconds=-60)
        world.publish(ORDERS, "third")
        client.grow()

        assert client.read_texts() == ["third"]

    @pytest.mark.rule("S12.7")
    def test_a_snapshot_from_before_brings_all_of_it(self, world: World) -> None:
        client = Client.opened(world)
        world.publish(ORDERS, "first")
        keep(world)
        world.publish(ORDERS, "second")
        assert client.read_texts() == ["first", "second"]
        client.send(ackIds=client.ack_ids)

        return_to(world)

        assert client.read_texts() == ["first", "second"]

    @pytest.mark.rule("S12.4")
    def test_a_parked_pull_is_answered(self, world: World) -> None:
        retain(world)
        world.publish(ORDERS, "first")
        world.take(PULLED)
        parked = world.send("Pull", pb.PullRequest(subscription=PULLED, max_messages=1))

        world.seek(PULLED, seconds=60)

        assert texts(parked.result().message.received_messages) == ["first"]  # type: ignore[union-attr]  # it is parked
