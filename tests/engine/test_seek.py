"""Seek: what is retained is unacked again, or all of it acked, and nothing of what was going on is left (§12)."""

from dataclasses import replace

import pytest

from emulator.clock import NS_PER_S
from emulator.engine.filters import parse
from emulator.engine.snapshot import Snapshot
from emulator.engine.values import DeadLetterPolicy, Draft, RetryPolicy, SubscriptionSettings, TopicSettings
from emulator.errors import Code
from emulator.limits import Limits
from tests.engine.helpers import NOTHING_AT_ALL, OTHER, SUBSCRIPTION, TOPIC, World, refused, settings
from tests.engine.streams import Reader

SNAPSHOT = "projects/p/snapshots/kept"

KEPT = replace(settings(), retain_acked=True)


@pytest.fixture
def keeping() -> World:
    """A world whose one subscription retains what is acked."""
    return world_of(KEPT)


def world_of(
    to: SubscriptionSettings | None = None, topic: TopicSettings | None = None, limits: Limits | None = None
) -> World:
    world = World(limits or Limits())
    world.broker.create_topic(TOPIC, topic or TopicSettings())
    world.subscribe(to=to)
    return world


def take(world: World, name: str = SUBSCRIPTION) -> list[bytes]:
    """Pull and ack all there is."""
    answer = world.pull(name=name)
    if answer.ack_ids:
        world.ack(*answer.ack_ids, name=name)
    return answer.bodies


def seek(world: World, seconds: float, name: str = SUBSCRIPTION) -> None:
    """To so many seconds before now."""
    world.subscription(name).seek_to_time(world.clock.now() - round(seconds * NS_PER_S))


def snapshot(world: World, name: str = SNAPSHOT, of: str = SUBSCRIPTION) -> Snapshot:
    return world.broker.create_snapshot(name, world.subscription(of), b"")


def return_to(world: World, kept: Snapshot, name: str = SUBSCRIPTION) -> None:
    world.subscription(name).seek_to_snapshot(kept)


class TestToATime:
    @pytest.mark.rule("S12.1", "S12.2", "B073")
    def test_in_the_past_what_was_acked_comes_again(self, keeping: World) -> None:
        keeping.publish(b"a", b"b")
        take(keeping)
        keeping.advance(10)

        seek(keeping, 20)

        assert take(keeping) == [b"a", b"b"]

    @pytest.mark.rule("S12.1")
    def test_without_retention_of_acked_messages_nothing_comes_again(self) -> None:
        world = world_of()
        world.publish(b"a", b"b")
        first, _ = world.pull().ack_ids
        world.ack(first)

        seek(world, 20)

        assert take(world) == [b"b"]

    @pytest.mark.rule("S12.2")
    def test_what_was_published_before_it_is_acked_and_the_rest_is_not(self, keeping: World) -> None:
        for body in (b"1", b"2", b"3", b"4"):
            keeping.publish(body)
            keeping.advance(1)
        (first,) = keeping.pull(1).ack_ids
        keeping.ack(first)

        seek(keeping, 2)

        assert take(keeping) == [b"3", b"4"]

    @pytest.mark.rule("S12.2")
    def test_what_was_published_in_that_very_moment_is_unacked(self, keeping: World) -> None:
        keeping.publish(b"a")

        seek(keeping, 0)

        assert take(keeping) == [b"a"]

    @pytest.mark.rule("S12.2", "B074")
    def test_now_drops_what_was_published_before(self) -> None:
        world = world_of()
        world.publish(b"a", b"b")
        world.advance(0.001)

        seek(world, 0)

        assert take(world) == []
        assert world.broker.counts() == {**NOTHING_AT_ALL, "topics": 1, "subscriptions": 1}

    @pytest.mark.rule("S12.2")
    def test_in_the_future_what_is_there_is_acked_and_what_comes_is_not(self, keeping: World) -> None:
        keeping.publish(b"a")

        seek(keeping, -3_600)
        keeping.publish(b"b")

        assert take(keeping) == [b"b"]
        seek(keeping, 60)
        assert take(keeping) == [b"a", b"b"]

    @pytest.mark.rule("S12.2", "S6.5")
    def test_nothing_comes_back_that_retention_has_dropped(self) -> None:
        world = world_of(replace(settings(retention=600), retain_acked=True))
        world.publish(b"old")
        take(world)
        world.advance(400)
        world.publish(b"new")
        take(world)
        world.advance(201)

        seek(world, 10_000)

        assert take(world) == [b"new"]

    @pytest.mark.rule("S12.1")
    def test_retention_that_is_switched_off_forgets_at_once(self, keeping: World) -> None:
        keeping.publish(b"a", b"b")
        (first,) = keeping.pull(1).ack_ids
        keeping.ack(first)

        keeping.subscription().update(settings())

        assert keeping.broker.counts()["retained"] == 0
        seek(keeping, 10)
        assert take(keeping) == [b"b"]

    @pytest.mark.rule("S12.1", "S7.1.6")
    def test_an_ack_that_is_repeated_changes_nothing(self, keeping: World) -> None:
        keeping.publish(b"a")
        ack_ids = keeping.pull().ack_ids
        keeping.ack(*ack_ids)
        before = keeping.broker.dump()

        keeping.ack(*ack_ids)
        keeping.nack(*ack_ids)

        assert keeping.broker.dump() == before
        assert keeping.broker.counts()["retained"] == 1

    @pytest.mark.rule("S12.1", "S10.4")
    def test_what_was_forwarded_as_a_dead_letter_counts_as_acked(self) -> None:
        world = world_of(replace(KEPT, dead_letter=DeadLetterPolicy("projects/p/topics/dead", 1)))
        world.create_topic("projects/p/topics/dead")
        world.publish(b"a")
        world.nack(*world.pull().ack_ids)

        seek(world, 10)

        again = world.pull()
        assert (again.bodies, world.failures()) == ([b"a"], [0])


class TestWhatWasGoingOn:
    @pytest.mark.rule("S12.4", "S7.1.7", "V5")
    def test_leases_end_and_their_ids_are_expired_ones(self, keeping: World) -> None:
        keeping.publish(b"a", b"b")
        first, second = keeping.pull().ack_ids

        seek(keeping, 10)

        assert (keeping.leases(), keeping.waiting()) == (0, 2)
        keeping.extend(600, first)
        keeping.ack(second)
        assert take(keeping) == [b"a"]

    @pytest.mark.rule("S12.4")
    def test_ids_of_what_is_acked_now_have_no_effect(self, keeping: World) -> None:
        keeping.publish(b"a")
        ack_ids = keeping.pull().ack_ids

        seek(keeping, -10)
        keeping.nack(*ack_ids)

        assert take(keeping) == []

    @pytest.mark.rule("S12.4", "S10.2")
    def test_back_off_is_over_and_attempts_start_anew(self) -> None:
        world = world_of(replace(KEPT, retry=RetryPolicy(100 * NS_PER_S, 600 * NS_PER_S)))
        world.publish(b"a")
        world.nack(*world.pull().ack_ids)
        assert (world.failures(), world.waiting()) == ([1], 0)

        seek(world, 10)

        assert (world.failures(), take(world)) == ([0], [b"a"])

    @pytest.mark.rule("S12.4", "V8")
    def test_a_stream_gets_its_credit_back_and_the_messages_again(self, keeping: World) -> None:
        reader = Reader(keeping, messages=2)
        keeping.publish(b"a", b"b", b"c")
        assert reader.read() == [b"a", b"b"]

        seek(keeping, 10)

        assert reader.read() == [b"a", b"b"]

    @pytest.mark.rule("S12.4", "O15")
    def test_what_a_stream_has_not_written_yet_is_not_written_twice(self, keeping: World) -> None:
        reader = Reader(keeping)
        keeping.publish(b"a", b"b")

        seek(keeping, 10)

        assert reader.read() == [b"a", b"b"]

    def test_a_waiting_pull_gets_what_comes_back(self, keeping: World) -> None:
        keeping.publish(b"a")
        take(keeping)
        waiting = keeping.pull(wait=True)

        seek(keeping, 10)

        assert waiting.bodies == [b"a"]

    @pytest.mark.rule("S9.9", "S9.2")
    def test_keys_come_in_their_order_again(self) -> None:
        world = world_of(replace(KEPT, ordered=True))
        world.broker.publish(TOPIC, [Draft(b"1", {}, "k"), Draft(b"2", {}, "k"), Draft(b"3", {}, "k")])
        first, _, third = world.pull().ack_ids
        world.ack(first, third)

        seek(world, 10)

        assert world.pull(2).bodies == [b"1", b"2"]
        assert world.pull().bodies == []  # another consumer has the key

    @pytest.mark.rule("S12.4", "S8.2")
    def test_exactly_once_has_only_new_ids(self) -> None:
        world = world_of(replace(KEPT, exactly_once=True))
        world.publish(b"a")
        old = world.pull().ack_ids
        seek(world, 10)

        refusals = world.subscription().acknowledge(world.broker.decode(world.subscription(), old))

        assert len(refusals) == 1
        assert take(world) == [b"a"]

    @pytest.mark.rule("S6.2")
    def test_a_detached_subscription_can_not_be_sought(self, keeping: World) -> None:
        kept = snapshot(keeping)
        keeping.broker.detach_subscription(SUBSCRIPTION)

        with refused(keeping, Code.FAILED_PRECONDITION, "detached"):
            seek(keeping, 10)
        with refused(keeping, Code.FAILED_PRECONDITION, "detached"):
            return_to(keeping, kept)
        with refused(keeping, Code.FAILED_PRECONDITION, "detached"):
            snapshot(keeping, "projects/p/snapshots/other")


class TestTopicRetention:
    @pytest.fixture
    def topic_keeps(self) -> World:
        return world_of(topic=TopicSettings(retention=3_600 * NS_PER_S))

    @pytest.mark.rule("S12.1", "S12.3")
    def test_a_subscription_can_go_back_beyond_its_creation(self, topic_keeps: World) -> None:
        topic_keeps.publish(b"a", b"b")
        topic_keeps.advance(10)
        topic_keeps.subscribe(OTHER)

        seek(topic_keeps, 60, OTHER)

        assert take(topic_keeps, OTHER) == [b"a", b"b"]

    @pytest.mark.rule("S12.1", "S12.3")
    def test_what_was_acked_comes_again_once(self, topic_keeps: World) -> None:
        topic_keeps.publish(b"a", b"b")
        (first,) = topic_keeps.pull(1).ack_ids
        topic_keeps.ack(first)

        seek(topic_keeps, 60)

        assert take(topic_keeps) == [b"a", b"b"]

    @pytest.mark.rule("S6.5", "S12.1")
    def test_it_ends(self, topic_keeps: World) -> None:
        topic_keeps.publish(b"a")
        take(topic_keeps)
        topic_keeps.advance(3_600.001)

        seek(topic_keeps, 10_000)

        assert take(topic_keeps) == []
        assert topic_keeps.broker.counts()["in_topics"] == 0

    @pytest.mark.rule("S6.5")
    def test_the_longer_of_both_decides_what_can_come_back(self) -> None:
        world = world_of(settings(retention=600), TopicSettings(retention=3_600 * NS_PER_S))
        world.publish(b"old")
        world.advance(601)
        world.publish(b"new")
        assert take(world) == [b"new"]

        seek(world, 3_000)

        assert take(world) == [b"old", b"new"]

    @pytest.mark.rule("S6.5")
    def test_what_came_back_from_beyond_the_subscriptions_own_stays_as_long_as_the_topic_says(self) -> None:
        world = world_of(settings(retention=600), TopicSettings(retention=3_600 * NS_PER_S))
        world.publish(b"old")
        world.advance(700)
        seek(world, 3_000)

        world.advance(2_899)
        assert world.held() == 1
        world.advance(2)
        assert world.held() == 0

    @pytest.mark.rule("S6.5")
    def test_what_is_newer_than_what_came_back_goes_by_the_subscriptions_own(self) -> None:
        world = world_of(settings(retention=600), TopicSettings(retention=3_600 * NS_PER_S))
        world.publish(b"old")
        world.advance(700)
        seek(world, 3_000)
        world.publish(b"new")

        world.publish(b"acked")
        world.ack(world.pull().ack_ids[2])

        world.advance(600)
        assert world.held() == 2
        world.advance(0.001)
        assert world.pull().bodies == [b"old"]

    @pytest.mark.rule("S6.5")
    def test_nor_does_it_stay_when_that_is_gone(self) -> None:
        world = world_of(settings(retention=600), TopicSettings(retention=3_600 * NS_PER_S))
        world.publish(b"old")
        world.advance(700)
        seek(world, 3_000)
        assert take(world) == [b"old"]
        world.publish(b"new")

        world.advance(600)
        assert world.held() == 1
        world.advance(0.001)
        assert world.held() == 0

    @pytest.mark.rule("S6.5", "S12.1")
    def test_a_second_seek_brings_back_what_was_outlived_since_the_first(self) -> None:
        world = world_of(settings(retention=600), TopicSettings(retention=3_600 * NS_PER_S))
        world.publish(b"old")
        world.advance(700)
        seek(world, 3_000)
        world.publish(b"new")
        world.advance(700)
        assert world.held() == 1

        seek(world, 3_000)

        world.advance(1)
        assert take(world) == [b"old", b"new"]

    @pytest.mark.rule("S6.5", "S12.1")
    def test_a_second_seek_that_reaches_less_far_changes_no_retention(self) -> None:
        world = world_of(settings(retention=600), TopicSettings(retention=3_600 * NS_PER_S))
        world.publish(b"old")
        world.advance(700)
        seek(world, 3_000)
        world.publish(b"new", b"newer")
        world.advance(300)

        seek(world, 3_000)

        assert world.held() == 3
        world.advance(300.001)
        assert world.pull().bodies == [b"old"]

    def test_of_what_is_newer_nothing_is_remembered_in_vain(self) -> None:
        world = world_of(settings(retention=600), TopicSettings(retention=3_600 * NS_PER_S))
        world.publish(b"old")
        world.advance(700)
        seek(world, 3_000)
        (old,) = world.pull().ack_ids
        for _ in range(100):
            world.publish(b"new")
            take(world)
        assert len(world.subscription()._since) == 1

        world.ack(old)
        world.advance(601)
        world.publish(b"newest")

        assert len(world.subscription()._since) == 0

    @pytest.mark.rule("S6.5")
    def test_however_much_is_newer_leaves_at_once(self) -> None:
        world = world_of(settings(retention=600), TopicSettings(retention=3_600 * NS_PER_S))
        world.publish(b"old")
        world.advance(700)
        seek(world, 3_000)
        for _ in range(3):
            world.publish(*[b"new"] * 400)

        world.advance(600.001)

        assert world.held() == 1

    @pytest.mark.rule("S11.6", "S12.11")
    def test_the_filter_still_applies(self, topic_keeps: World) -> None:
        topic_keeps.broker.publish(TOPIC, [Draft(b"a", {"k": "1"}), Draft(b"b", {"k": "2"})])
        topic_keeps.subscribe(OTHER, to=replace(settings(), filter=parse('attributes.k = "2"', 256)))

        seek(topic_keeps, 10, OTHER)

        assert take(topic_keeps, OTHER) == [b"b"]

    def test_it_can_be_shortened_and_switched_off(self, topic_keeps: World) -> None:
        topic = topic_keeps.broker.topics.get(TOPIC)
        topic_keeps.publish(b"a")
        topic_keeps.advance(1_000)
        topic_keeps.publish(b"b")

        topic.update(TopicSettings(retention=600 * NS_PER_S))
        assert topic_keeps.broker.counts()["in_topics"] == 1
        topic.update(TopicSettings())
        assert topic_keeps.broker.counts()["in_topics"] == 0

    @pytest.mark.rule("S6.1", "B079")
    def test_a_deleted_topics_messages_do_not_come_back_nor_do_those_of_the_next(self, topic_keeps: World) -> None:
        topic_keeps.publish(b"a", b"b")
        (first,) = topic_keeps.pull(1).ack_ids
        topic_keeps.ack(first)
        topic_keeps.broker.delete_topic(TOPIC)
        topic_keeps.broker.create_topic(TOPIC, TopicSettings(retention=3_600 * NS_PER_S))
        topic_keeps.publish(b"next")

        seek(topic_keeps, 60)

        assert take(topic_keeps) == [b"b"]

    @pytest.mark.rule("S6.5")
    def test_it_ends_for_however_many_at_once(self, topic_keeps: World) -> None:
        for _ in range(12):
            topic_keeps.publish(*[b"a"] * 500)

        topic_keeps.advance(3_600.001)

        assert topic_keeps.broker.counts()["in_topics"] == 0

    def test_no_timer_outlives_the_topic(self, topic_keeps: World) -> None:
        topic_keeps.publish(b"a")
        topic_keeps.broker.delete_subscription(SUBSCRIPTION)

        topic_keeps.broker.delete_topic(TOPIC)

        assert topic_keeps.clock.timer_count() == 0
        assert topic_keeps.broker.counts() == NOTHING_AT_ALL


class TestSnapshots:
    @pytest.mark.rule("S12.7", "B080")
    def test_bring_back_what_was_unacked_then_and_what_came_later(self) -> None:
        world = world_of()
        world.publish(b"a", b"b", b"c")
        (first,) = world.pull(1).ack_ids
        world.ack(first)
        kept = snapshot(world)
        world.publish(b"d")
        assert take(world) == [b"b", b"c", b"d"]

        return_to(world, kept)

        assert take(world) == [b"b", b"c", b"d"]

    @pytest.mark.rule("S12.7")
    def test_have_what_is_leased_and_delayed_in_them(self) -> None:
        world = world_of(replace(settings(), retry=RetryPolicy(100 * NS_PER_S, 600 * NS_PER_S)))
        world.publish(b"delayed", b"leased", b"waiting")
        delayed, _ = world.pull(2).ack_ids
        world.nack(delayed)

        kept = snapshot(world)

        assert [message.data for message in kept.messages] == [b"delayed", b"leased", b"waiting"]
        return_to(world, kept)
        assert take(world) == [b"delayed", b"leased", b"waiting"]

    @pytest.mark.rule("S12.7")
    def test_leave_acked_what_was_acked_before_them(self, keeping: World) -> None:
        keeping.publish(b"a")
        take(keeping)
        kept = snapshot(keeping)

        seek(keeping, 10)
        return_to(keeping, kept)

        assert take(keeping) == []
        seek(keeping, 10)
        assert take(keeping) == [b"a"]

    @pytest.mark.rule("S12.7")
    def test_can_be_used_again_and_again(self) -> None:
        world = world_of()
        world.publish(b"a")
        kept = snapshot(world)

        for _ in range(3):
            assert take(world) == [b"a"]
            return_to(world, kept)

    @pytest.mark.rule("S12.10")
    def test_serve_another_subscription_of_the_topic(self) -> None:
        world = world_of()
        world.publish(b"a")
        kept = snapshot(world)
        world.subscribe("projects/q/subscriptions/elsewhere")
        world.publish(b"b")

        return_to(world, kept, "projects/q/subscriptions/elsewhere")

        assert take(world, "projects/q/subscriptions/elsewhere") == [b"a", b"b"]

    @pytest.mark.rule("S12.10")
    def test_do_not_serve_a_subscription_of_another_topic(self) -> None:
        world = world_of()
        world.create_topic("projects/p/topics/other")
        world.subscribe(OTHER, "projects/p/topics/other")
        kept = snapshot(world)

        with refused(world, Code.FAILED_PRECONDITION, SNAPSHOT, OTHER):
            return_to(world, kept, OTHER)

    @pytest.mark.rule("S6.1", "S12.10")
    def test_of_a_deleted_topic_do_not_serve_the_next_of_its_name(self) -> None:
        world = world_of()
        world.publish(b"a")
        kept = snapshot(world)
        take(world)
        world.broker.delete_topic(TOPIC)
        world.create_topic()
        world.subscribe(OTHER)
        world.publish(b"next")

        with refused(world, Code.FAILED_PRECONDITION, SNAPSHOT):
            return_to(world, kept, OTHER)

        assert kept.topic is None
        return_to(world, kept)
        assert take(world) == [b"a"]

    @pytest.mark.rule("S11.7", "S12.11")
    def test_change_a_filter_and_lose_nothing(self) -> None:
        """As Google documents it: a snapshot, another subscription with the new filter, a seek of that one."""
        world = world_of(replace(settings(), filter=parse("attributes:k", 256)))
        publish = [Draft(b"1", {"k": "old"}), Draft(b"2", {"k": "new"}), Draft(b"3", {"other": "new"})]
        world.broker.publish(TOPIC, publish)
        kept = snapshot(world)
        world.broker.publish(TOPIC, publish)
        world.subscribe(OTHER, to=replace(settings(), filter=parse('attributes.k = "new" OR attributes:other', 256)))
        world.broker.publish(TOPIC, publish)

        return_to(world, kept, OTHER)

        assert take(world, OTHER) == [b"2", b"2", b"3", b"2", b"3"]

    @pytest.mark.rule("S12.8")
    @pytest.mark.parametrize(("age", "days"), [(0, 7), (86_400, 6), (6 * 86_400, 1)])
    def test_expire_a_week_after_their_oldest_message(self, age: int, days: int) -> None:
        world = world_of(settings(retention=10 * 86_400))
        world.publish(b"a")
        world.advance(age)

        assert snapshot(world).expires == world.clock.now() + days * 86_400 * NS_PER_S

    @pytest.mark.rule("S12.8")
    def test_expire_after_a_week_if_there_is_none(self) -> None:
        world = world_of()

        assert snapshot(world).expires == world.clock.now() + 7 * 86_400 * NS_PER_S

    @pytest.mark.rule("S12.8")
    def test_that_would_not_last_an_hour_are_not_made(self) -> None:
        world = world_of(settings(retention=10 * 86_400))
        world.publish(b"a")
        world.advance(7 * 86_400 - 3_599)

        with refused(world, Code.FAILED_PRECONDITION, SNAPSHOT, "3599s", "3600s"):
            snapshot(world)

    @pytest.mark.rule("S12.9")
    def test_expire_and_let_go_of_their_messages(self) -> None:
        world = world_of()
        world.publish(b"a")
        snapshot(world)
        take(world)

        world.advance(7 * 86_400 - 1)
        assert world.broker.counts()["in_snapshots"] == 1
        world.advance(1)

        assert world.broker.snapshots.find(SNAPSHOT) is None
        assert world.broker.counts() == {**NOTHING_AT_ALL, "topics": 1, "subscriptions": 1}
        world.publish(b"b")
        assert world.broker.counts()["in_snapshots"] == 0

    @pytest.mark.rule("S12.9", "S6.3")
    def test_outlive_their_subscription(self) -> None:
        world = world_of()
        world.publish(b"a")
        kept = snapshot(world)
        world.broker.delete_subscription(SUBSCRIPTION)
        world.publish(b"b")
        world.subscribe(OTHER)

        return_to(world, kept, OTHER)

        assert take(world, OTHER) == [b"a", b"b"]

    @pytest.mark.rule("S12.9")
    def test_bring_back_what_is_older_than_the_subscription_retains(self) -> None:
        world = world_of(settings(retention=600))
        world.publish(b"a")
        kept = snapshot(world)
        world.advance(3_600)
        assert take(world) == []

        return_to(world, kept)

        world.advance(60)
        assert take(world) == [b"a"]

    def test_are_deleted_with_their_timer(self) -> None:
        world = world_of()
        snapshot(world)
        world.broker.delete_subscription(SUBSCRIPTION)

        world.broker.delete_snapshot(SNAPSHOT)

        assert world.clock.timer_count() == 0

    def test_have_names_of_their_own(self) -> None:
        world = world_of()
        snapshot(world)

        with refused(world, Code.ALREADY_EXISTS, SNAPSHOT):
            snapshot(world)

    def test_a_reset_forgets_them(self) -> None:
        world = world_of()
        snapshot(world)

        world.broker.reset()

        assert (world.broker.counts(), world.clock.timer_count()) == (NOTHING_AT_ALL, 0)

    def test_they_say_what_they_hold(self) -> None:
        world = world_of()
        world.publish(b"a", b"b")

        assert repr(snapshot(world)) == f"<Snapshot {SNAPSHOT} messages=2>"

    def test_one_of_a_deleted_topic_s_subscription_belongs_to_none(self) -> None:
        world = world_of()
        world.publish(b"a")
        world.broker.delete_topic(TOPIC)

        kept = snapshot(world)

        assert kept.topic is None
        take(world)
        return_to(world, kept)
        assert take(world) == [b"a"]

    def test_they_can_be_deleted_when_the_server_has_stopped(self) -> None:
        world = world_of()
        snapshot(world)
        world.broker.close()

        world.broker.delete_snapshot(SNAPSHOT)

        assert (len(world.broker.snapshots), world.clock.timer_count()) == (0, 0)

    def test_the_server_stops_with_no_timer_left(self) -> None:
        world = world_of(topic=TopicSettings(retention=3_600 * NS_PER_S))
        world.publish(b"a")
        snapshot(world)

        world.broker.close()

        assert world.clock.timer_count() == 0


class TestBodies:
    def test_are_held_once_and_let_go_when_nothing_needs_them(self) -> None:
        world = world_of(KEPT, TopicSettings(retention=3_600 * NS_PER_S))
        world.subscribe(OTHER)
        world.publish(b"a body")
        kept = snapshot(world)
        (body,) = (message.data for message in kept.messages)
        topic = world.broker.topics.get(TOPIC)
        everywhere = [
            *world.subscription()._holdings.messages(),
            *world.subscription(OTHER)._holdings.messages(),
            *topic.retained(),
        ]
        assert all(message.data is body for message in everywhere)

        take(world)
        take(world, OTHER)
        topic.update(TopicSettings())
        assert (len(kept.messages), world.broker.counts()["retained"]) == (1, 1)
        world.broker.delete_snapshot(SNAPSHOT)
        world.subscription().update(settings())

        assert world.broker.counts() == {**NOTHING_AT_ALL, "topics": 1, "subscriptions": 2}
        assert list(topic.retained()) == []


class TestTheLongestLease:
    @pytest.fixture
    def capped(self) -> World:
        return world_of(limits=Limits(lease_max_s=30))

    def test_cannot_be_extended_beyond_the_cap(self, capped: World) -> None:
        capped.publish(b"a")
        ack_ids = capped.pull().ack_ids
        for _ in range(3):
            capped.advance(9)
            capped.extend(600, *ack_ids)

        capped.advance(2.999)
        assert capped.pull().bodies == []
        capped.advance(0.001)
        assert (capped.failures(), capped.pull().bodies) == ([1], [b"a"])

    def test_caps_the_first_deadline_too(self) -> None:
        world = world_of(settings(ack_deadline=60), limits=Limits(lease_max_s=30))
        world.publish(b"a")
        world.pull()

        world.advance(30)

        assert world.pull().bodies == [b"a"]

    @pytest.mark.rule("V5")
    def test_a_late_ack_counts_as_ever(self, capped: World) -> None:
        capped.publish(b"a")
        ack_ids = capped.pull().ack_ids
        capped.extend(600, *ack_ids)
        capped.advance(30)

        capped.ack(*ack_ids)

        assert capped.held() == 0

    def test_a_deadline_below_the_cap_is_what_was_asked_for(self, capped: World) -> None:
        capped.publish(b"a")
        capped.extend(20, *capped.pull().ack_ids)

        capped.advance(19.999)
        assert capped.pull().bodies == []
        capped.advance(0.001)
        assert capped.pull().bodies == [b"a"]

    def test_each_delivery_counts_from_its_own_grant(self, capped: World) -> None:
        capped.publish(b"a")
        for _ in range(3):
            ack_ids = capped.pull().ack_ids
            capped.extend(600, *ack_ids)
            capped.advance(30)

        assert capped.failures() == [3]
