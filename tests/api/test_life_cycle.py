"""Deleting, detaching and recreating, as the API shows it (service.md §6)."""

from collections.abc import Callable

import pytest

from emulator.clock import NS_PER_S
from emulator.errors import Code, PubsubError
from tests.api.world import DEAD, ORDERS, PULLED, World, texts

DAY_S = 86_400


@pytest.mark.rule("S6.1")
def test_a_deleted_topic_leaves_its_subscriptions_and_their_backlog(world: World) -> None:
    world.publish(ORDERS, "first", "second")
    (leased,) = world.pull(PULLED, 1)

    world.call("DeleteTopic", topic=ORDERS)

    assert world.call("GetSubscription", subscription=PULLED).topic == "_deleted-topic_"
    (listed,) = world.call("ListSubscriptions", project="projects/acme").subscriptions
    assert listed.topic == "_deleted-topic_"
    world.call("Acknowledge", subscription=PULLED, ackIds=[leased.ack_id])
    assert texts(world.pull(PULLED)) == ["second"]


@pytest.mark.rule("S6.1", "S3.6")
def test_a_recreated_topic_is_another_one(world: World) -> None:
    world.call("DeleteTopic", topic=ORDERS)
    world.call("CreateTopic", name=ORDERS)

    world.publish(ORDERS, "new")

    assert world.call("GetSubscription", subscription=PULLED).topic == "_deleted-topic_"
    assert world.pull(PULLED) == []
    assert not world.call("ListTopicSubscriptions", topic=ORDERS).subscriptions


@pytest.mark.rule("S6.1")
def test_an_orphan_can_still_be_changed_and_deleted(world: World) -> None:
    world.call("DeleteTopic", topic=ORDERS)

    changed = world.update_subscription(PULLED, "labels", labels={"a": "1"})

    assert (changed.topic, changed.labels) == ("_deleted-topic_", {"a": "1"})
    world.call("DetachSubscription", subscription=PULLED)
    assert world.call("GetSubscription", subscription=PULLED).topic == "_deleted-topic_"
    world.call("DeleteSubscription", subscription=PULLED)
    assert not world.call("ListSubscriptions", project="projects/acme").subscriptions


@pytest.mark.rule("S6.2", "S4.subscription.detached")
def test_a_detached_subscription_keeps_its_topics_name_and_loses_its_messages(world: World) -> None:
    world.publish(ORDERS, "first", "second")
    (leased,) = world.pull(PULLED, 1)

    reply = world.call("DetachSubscription", subscription=PULLED)

    assert not reply.ListFields()
    shown = world.call("GetSubscription", subscription=PULLED)
    assert (shown.topic, shown.detached, shown.state) == (ORDERS, True, shown.ACTIVE)
    assert world.broker.counts()["waiting"] == world.broker.counts()["leases"] == 0
    for method, more in (("Acknowledge", {}), ("ModifyAckDeadline", {"ackDeadlineSeconds": 0})):
        assert not world.call(method, subscription=PULLED, ackIds=[leased.ack_id], **more).ListFields()
    world.publish(ORDERS, "third")
    assert world.broker.counts()["waiting"] == 0


@pytest.mark.rule("S6.2", "S4.subscription.detached")
def test_detaching_is_for_good_and_may_be_repeated(world: World) -> None:
    world.call("DetachSubscription", subscription=PULLED)
    world.call("DetachSubscription", subscription=PULLED)

    changed = world.update_subscription(PULLED, "*", detached=False, labels={"a": "1"})

    assert (changed.detached, changed.topic, changed.labels) == (True, ORDERS, {"a": "1"})


@pytest.mark.rule("S6.2", "S6.1")
def test_a_detached_subscription_notices_that_its_topic_is_deleted(world: World) -> None:
    world.call("DetachSubscription", subscription=PULLED)
    world.call("DeleteTopic", topic=ORDERS)
    world.call("CreateTopic", name=ORDERS)

    assert world.call("GetSubscription", subscription=PULLED).topic == "_deleted-topic_"


@pytest.mark.rule("S6.3", "B095")
def test_a_deleted_subscription_is_gone_with_its_messages(world: World) -> None:
    world.publish(ORDERS, "first", "second")
    world.pull(PULLED, 1)

    reply = world.call("DeleteSubscription", subscription=PULLED)

    assert not reply.ListFields()
    assert not world.call("ListTopicSubscriptions", topic=ORDERS).subscriptions
    counts = world.broker.counts()
    assert {key: count for key, count in counts.items() if count} == {"topics": 2}
    assert world.clock.timer_count() == 0


# Every call that names a subscription, as it counts as use of it.
USES: dict[str, Callable[[World], object]] = {
    "GetSubscription": lambda world: world.call("GetSubscription", subscription=PULLED),
    "UpdateSubscription": lambda world: world.update_subscription(PULLED, "labels"),
    "ModifyPushConfig": lambda world: world.call("ModifyPushConfig", subscription=PULLED),
    "Pull": lambda world: world.pull(PULLED),
    "Acknowledge": lambda world: world.call("Acknowledge", subscription=PULLED, ackIds=[world.known["old"]]),
    "ModifyAckDeadline": lambda world: world.call(
        "ModifyAckDeadline", subscription=PULLED, ackIds=[world.known["old"]], ackDeadlineSeconds=10
    ),
    "DetachSubscription": lambda world: world.call("DetachSubscription", subscription=PULLED),
    "CreateSnapshot": lambda world: world.call("CreateSnapshot", subscription=PULLED),
    "Seek to a time": lambda world: world.seek(PULLED, seconds=0),
    "Seek to a snapshot": lambda world: world.call("Seek", subscription=PULLED, snapshot=world.known["kept"]),
}


@pytest.mark.rule("S6.4", "S4.subscription.expiration_policy")
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_every_call_that_names_a_subscription_keeps_it_from_expiring(
    world: World, use: Callable[[World], object]
) -> None:
    world.publish(ORDERS, "old")
    world.known["old"] = world.pull(PULLED)[0].ack_id
    world.known["kept"] = world.call("CreateSnapshot", subscription=PULLED).name
    world.update_subscription(
        PULLED, "expirationPolicy,messageRetentionDuration", expirationPolicy={"ttl": f"{DAY_S}s"},
        messageRetentionDuration="600s",
    )  # fmt: skip
    world.clock.advance(DAY_S - 1)
    use(world)

    world.clock.advance_ns(DAY_S * NS_PER_S - 1)
    assert world.call("ListSubscriptions", project="projects/acme").subscriptions

    world.clock.advance_ns(1)
    assert not world.call("ListSubscriptions", project="projects/acme").subscriptions
    with pytest.raises(PubsubError, match="Resource not found"):
        world.call("GetSubscription", subscription=PULLED)


@pytest.mark.rule("S6.4", "S4.subscription.expiration_policy")
def test_a_subscription_without_a_time_to_live_never_expires(world: World) -> None:
    world.update_subscription(PULLED, "expirationPolicy", expirationPolicy={})

    world.clock.advance(10_000 * DAY_S)

    assert world.call("GetSubscription", subscription=PULLED).name == PULLED
    assert world.clock.timer_count() == 0


@pytest.mark.rule("S6.5", "S4.subscription.message_retention_duration")
def test_a_message_leaves_after_the_subscriptions_retention(world: World) -> None:
    world.call("CreateSubscription", name=f"{PULLED}2", topic=ORDERS, messageRetentionDuration="600s")
    world.publish(ORDERS, "old")

    world.clock.advance(600)
    assert texts(world.pull(f"{PULLED}2")) == ["old"]

    world.clock.advance(11)
    assert world.pull(f"{PULLED}2") == []
    assert texts(world.pull(PULLED)) == ["old"]


@pytest.mark.rule("S1", "S1.5a")
def test_delete_is_not_found_the_second_time(world: World) -> None:
    for method, field, name in (
        ("DeleteTopic", "topic", DEAD),
        ("DeleteSubscription", "subscription", PULLED),
        ("DeleteSnapshot", "snapshot", world.call("CreateSnapshot", subscription=PULLED).name),
    ):
        world.call(method, **{field: name})
        with pytest.raises(PubsubError) as refusal:
            world.call(method, **{field: name})
        assert refusal.value.code is Code.NOT_FOUND
