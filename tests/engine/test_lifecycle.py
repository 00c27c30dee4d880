"""Topics and subscriptions come and go: names, deleting, detaching, expiration, retention."""

import pytest

from emulator.engine.values import TopicSettings
from emulator.errors import Code
from tests.engine.helpers import NOTHING_AT_ALL, NOTHING_HELD, OTHER, SUBSCRIPTION, TOPIC, World, refused, settings

DAY = 86_400
NS = 1e-9


@pytest.mark.rule("S3.6")
class TestNames:
    def test_a_topic_cannot_be_created_twice(self, world: World) -> None:
        with refused(world, Code.ALREADY_EXISTS, TOPIC):
            world.create_topic()

    def test_a_subscription_cannot_be_created_twice(self, world: World) -> None:
        with refused(world, Code.ALREADY_EXISTS, SUBSCRIPTION):
            world.subscribe()

    def test_a_topic_and_a_subscription_may_have_the_same_id(self, empty: World) -> None:
        empty.create_topic("projects/p/topics/same")
        empty.subscribe("projects/p/subscriptions/same", "projects/p/topics/same")

        assert empty.broker.counts()["topics"] == empty.broker.counts()["subscriptions"] == 1

    @pytest.mark.rule("B130")
    def test_a_deleted_name_is_free_at_once_again_and_again(self, empty: World) -> None:
        for _ in range(100):
            empty.create_topic()
            empty.subscribe()
            empty.publish(b"a")
            empty.broker.delete_subscription(SUBSCRIPTION)
            empty.broker.delete_topic(TOPIC)

        assert empty.broker.counts() == NOTHING_AT_ALL
        assert empty.clock.timer_count() == 0

    def test_a_new_subscription_of_the_name_has_nothing_of_the_old_one(self, world: World) -> None:
        world.publish(b"a", b"b")
        world.pull(1)

        world.broker.delete_subscription(SUBSCRIPTION)
        world.subscribe()
        world.advance(60)

        assert world.pull().bodies == []

    @pytest.mark.rule("S6.1")
    def test_a_new_topic_of_the_name_has_nothing_of_the_old_one(self, world: World) -> None:
        world.broker.delete_topic(TOPIC)
        topic = world.create_topic()

        world.publish(b"a")

        assert world.subscription().topic is None
        assert topic.attached() == []
        assert world.pull().bodies == []

    @pytest.mark.rule("S3.5")
    def test_a_subscription_may_live_in_another_project_than_its_topic(self, world: World) -> None:
        elsewhere = "projects/elsewhere/subscriptions/readers"
        world.subscribe(elsewhere)

        world.publish(b"a")

        assert world.pull(name=elsewhere).bodies == [b"a"]


@pytest.mark.rule("S6.1")
class TestDeletingATopic:
    def test_leaves_its_subscriptions_without_topic(self, world: World) -> None:
        topic = world.broker.topics.get(TOPIC)

        world.broker.delete_topic(TOPIC)

        assert world.subscription().topic is None
        assert topic.attached() == []
        assert not world.subscription().detached

    def test_leaves_the_backlog_to_be_pulled_and_acked(self, world: World) -> None:
        world.publish(b"a", b"b")
        held = world.pull(1)

        world.broker.delete_topic(TOPIC)
        world.ack(*held.ack_ids)
        rest = world.pull()
        world.ack(*rest.ack_ids)

        assert (rest.bodies, world.held()) == ([b"b"], 0)

    def test_leaves_leases_that_run_out_as_before(self, world: World) -> None:
        world.publish(b"a")
        world.pull()

        world.broker.delete_topic(TOPIC)
        world.advance(10)

        assert world.pull().bodies == [b"a"]

    def test_leaves_pulls_waiting(self, world: World) -> None:
        answer = world.pull(wait=True)

        world.broker.delete_topic(TOPIC)
        before = answer.pull.done
        world.advance(5)

        assert (before, answer.pull.done, answer.pull.error) == (False, True, None)

    def test_also_cuts_loose_what_is_detached(self, world: World) -> None:
        world.broker.detach_subscription(SUBSCRIPTION)

        world.broker.delete_topic(TOPIC)

        assert world.subscription().topic is None

    def test_makes_publishing_fail(self, world: World) -> None:
        world.broker.delete_topic(TOPIC)

        with refused(world, Code.NOT_FOUND, TOPIC):
            world.publish(b"a")

    def test_that_does_not_exist_is_not_found(self, empty: World) -> None:
        with refused(empty, Code.NOT_FOUND, TOPIC):
            empty.broker.delete_topic(TOPIC)

    def test_then_deleting_or_detaching_its_subscriptions_works(self, world: World) -> None:
        world.subscribe(OTHER)
        world.broker.delete_topic(TOPIC)

        world.broker.delete_subscription(SUBSCRIPTION)
        world.broker.detach_subscription(OTHER)

        assert world.broker.subscriptions.find(SUBSCRIPTION) is None
        assert world.subscription(OTHER).detached


@pytest.mark.rule("S6.2")
class TestDetaching:
    def test_drops_what_waits_and_what_is_leased(self, world: World) -> None:
        world.publish(b"a", b"b")
        world.pull(1)

        world.broker.detach_subscription(SUBSCRIPTION)
        world.advance(60)

        assert (world.held(), world.subscription().detached) == (0, True)

    def test_stops_new_messages(self, world: World) -> None:
        world.broker.detach_subscription(SUBSCRIPTION)

        world.publish(b"a")

        assert world.held() == 0

    def test_keeps_the_topics_name(self, world: World) -> None:
        topic = world.broker.topics.get(TOPIC)

        world.broker.detach_subscription(SUBSCRIPTION)

        assert world.subscription().topic is topic

    @pytest.mark.rule("S1.9.5")
    def test_takes_it_off_the_topics_list(self, world: World) -> None:
        world.subscribe(OTHER)

        world.broker.detach_subscription(SUBSCRIPTION)

        listed, after = world.broker.topics.get(TOPIC).page("", 10)
        assert ([subscription.name for subscription in listed], after) == ([OTHER], "")

    def test_leaves_acks_and_deadline_changes_without_effect(self, world: World) -> None:
        world.publish(b"a")
        ack_ids = world.pull().ack_ids
        world.broker.detach_subscription(SUBSCRIPTION)
        before = world.broker.dump()

        world.ack(*ack_ids)
        world.nack(*ack_ids)
        world.extend(30, *ack_ids)

        assert world.broker.dump() == before

    def test_again_changes_nothing(self, world: World) -> None:
        world.broker.detach_subscription(SUBSCRIPTION)
        before = world.broker.dump()

        world.broker.detach_subscription(SUBSCRIPTION)

        assert world.broker.dump() == before

    def test_cannot_be_undone_by_an_update(self, world: World) -> None:
        world.broker.detach_subscription(SUBSCRIPTION)

        world.subscription().update(settings(ack_deadline=20))
        world.publish(b"a")

        assert (world.subscription().detached, world.held()) == (True, 0)

    def test_leaves_the_topics_other_subscriptions_alone(self, world: World) -> None:
        world.subscribe(OTHER)
        world.publish(b"a")

        world.broker.detach_subscription(SUBSCRIPTION)
        world.publish(b"b")

        assert world.pull(name=OTHER).bodies == [b"a", b"b"]

    def test_what_does_not_exist_is_not_found(self, world: World) -> None:
        with refused(world, Code.NOT_FOUND, OTHER):
            world.broker.detach_subscription(OTHER)

    def test_what_is_detached_can_be_deleted(self, world: World) -> None:
        world.broker.detach_subscription(SUBSCRIPTION)

        world.broker.delete_subscription(SUBSCRIPTION)

        assert world.broker.subscriptions.find(SUBSCRIPTION) is None
        assert world.clock.timer_count() == 0


@pytest.mark.rule("S6.3")
class TestDeletingASubscription:
    def test_drops_its_messages_and_stops_its_timer(self, world: World) -> None:
        world.publish(b"a", b"b")
        world.pull(1)

        world.broker.delete_subscription(SUBSCRIPTION)

        assert (world.broker.counts()["waiting"], world.broker.counts()["leases"]) == (0, 0)
        assert world.clock.timer_count() == 0

    def test_takes_it_off_its_topic(self, world: World) -> None:
        world.broker.delete_subscription(SUBSCRIPTION)

        world.publish(b"a")

        assert world.broker.topics.get(TOPIC).attached() == []

    def test_leaves_a_late_give_back_without_effect(self, world: World) -> None:
        world.publish(b"a")
        subscription, answer = world.subscription(), world.pull()
        world.broker.delete_subscription(SUBSCRIPTION)

        subscription.give_back(answer.leases)

        assert subscription.counts() == NOTHING_HELD
        assert world.clock.timer_count() == 0

    def test_that_does_not_exist_is_not_found(self, world: World) -> None:
        with refused(world, Code.NOT_FOUND, OTHER):
            world.broker.delete_subscription(OTHER)


class TestTheWholeBroker:
    def test_reset_forgets_everything(self, world: World) -> None:
        world.broker.create_topic(OTHER, TopicSettings())
        world.publish(b"a", b"b")
        world.pull(1)

        world.broker.reset()

        assert set(world.broker.counts().values()) == {0}
        assert world.clock.timer_count() == 0

    def test_reset_ends_the_pulls_that_wait(self, world: World) -> None:
        answer = world.pull(wait=True)

        world.broker.reset()

        assert answer.pull.error is not None
        assert answer.pull.error.code is Code.NOT_FOUND

    def test_reset_goes_on_counting_so_that_old_ids_stay_unknown(self, world: World) -> None:
        world.publish(b"a")
        old = world.pull().ack_ids

        world.broker.reset()
        world.create_topic()
        world.subscribe()
        world.publish(b"b")
        world.pull()
        world.ack(*old)

        assert world.leases() == 1

    def test_closing_answers_who_waits_and_leaves_no_timer(self, world: World) -> None:
        world.subscribe(OTHER, to=settings(ttl=DAY))
        world.publish(b"a")
        world.pull()
        answer = world.pull(wait=True)

        world.broker.close()

        assert (answer.pull.done, answer.bodies, answer.times) == (True, [], 1)
        assert world.clock.timer_count() == 0
