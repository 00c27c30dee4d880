"""Leases: how long a delivery belongs to who took it, and every way in which it ends."""

import pytest

from emulator.errors import Code
from tests.engine.helpers import OTHER, World, refused, settings


@pytest.mark.rule("S7.1.2", "V1", "C10")
@pytest.mark.parametrize(("seconds", "again"), [(0, []), (9.9, []), (9.999999999, []), (10, [b"a"]), (11, [b"a"])])
def test_a_delivery_is_hidden_for_the_ack_deadline(world: World, seconds: float, again: list[bytes]) -> None:
    world.publish(b"a")
    world.pull()

    world.advance(seconds)

    assert world.pull().bodies == again


@pytest.mark.rule("S7.1.2")
@pytest.mark.parametrize("deadline", [10, 42, 600])
def test_the_ack_deadline_is_the_subscriptions(empty: World, deadline: int) -> None:
    empty.create_topic()
    empty.subscribe(to=settings(ack_deadline=deadline))
    empty.publish(b"a")
    empty.pull()

    empty.advance(deadline - 0.001)
    before = empty.pull().bodies
    empty.advance(0.001)

    assert (before, empty.pull().bodies) == ([], [b"a"])


@pytest.mark.rule("S4.subscription.ack_deadline_seconds")
def test_a_new_ack_deadline_leaves_leases_that_are_out_alone(world: World) -> None:
    world.publish(b"old", b"new")
    world.pull(1)

    world.subscription().update(settings(ack_deadline=60))
    world.pull(1)
    world.advance(10)

    assert world.pull().bodies == [b"old"]


@pytest.mark.rule("S7.1.5", "V4")
class TestExpiry:
    def test_counts_as_an_attempt(self, world: World) -> None:
        world.publish(b"a")
        world.pull()

        world.advance(10)

        assert world.failures() == [1]

    def test_comes_for_each_lease_at_its_own_time(self, world: World) -> None:
        world.publish(b"a")
        world.pull()
        world.advance(4)
        world.publish(b"b")
        world.pull()

        world.advance(6)
        first = world.pull().bodies
        world.advance(4)

        assert (first, world.pull().bodies) == ([b"a"], [b"b"])

    @pytest.mark.rule("V14")
    def test_frees_a_lease_that_nobody_owns_any_more(self, world: World) -> None:
        answer = world.pull(wait=True)
        world.publish(b"a")
        world.subscription().cancel(answer.pull)
        before = world.pull().bodies

        world.advance(10)

        assert (before, world.pull().bodies) == ([], [b"a"])

    @pytest.mark.rule("B020")
    def test_gives_the_next_delivery_another_ack_id(self, world: World) -> None:
        world.publish(b"a")
        first = world.pull().ack_ids
        world.advance(10)

        second = world.pull().ack_ids

        assert len({*first, *second}) == 2


@pytest.mark.rule("S7.1.4", "V3")
class TestNack:
    @pytest.mark.rule("B017")
    def test_makes_the_message_available_at_once(self, world: World) -> None:
        world.publish(b"a")

        world.nack(*world.pull().ack_ids)

        assert world.pull().bodies == [b"a"]

    def test_counts_as_an_attempt(self, world: World) -> None:
        world.publish(b"a")

        for _ in range(3):
            world.nack(*world.pull().ack_ids)

        assert world.failures() == [3]

    @pytest.mark.rule("C12")
    def test_hands_the_message_to_another_pull_that_waits(self, world: World) -> None:
        world.publish(b"a")
        held = world.pull()
        other = world.pull(wait=True)

        world.nack(*held.ack_ids)

        assert other.bodies == [b"a"]

    def test_of_several_comes_back_in_one_answer(self, world: World) -> None:
        world.publish(b"a", b"b")
        held = world.pull()
        other = world.pull(wait=True)

        world.nack(*reversed(held.ack_ids))

        assert other.bodies == [b"a", b"b"]

    def test_twice_in_a_request_counts_once(self, world: World) -> None:
        world.publish(b"a")
        (ack_id,) = world.pull().ack_ids

        world.nack(ack_id, ack_id)

        assert (world.failures(), world.waiting()) == ([1], 1)

    @pytest.mark.rule("B016")
    def test_then_an_ack_of_the_redelivery_ends_it(self, world: World) -> None:
        world.publish(b"a")
        world.nack(*world.pull().ack_ids)
        again = world.pull()

        world.ack(*again.ack_ids)
        world.advance(60)

        assert (again.bodies, world.pull().bodies) == ([b"a"], [])


class TestExtending:
    @pytest.mark.rule("S7.1.3")
    @pytest.mark.parametrize("seconds", [-1, 601, 715, 2**31 - 1, -(2**31)])
    def test_by_less_than_0_or_more_than_600_seconds_is_refused(self, world: World, seconds: int) -> None:
        world.publish(b"a")
        (ack_id,) = world.pull().ack_ids

        with refused(world, Code.INVALID_ARGUMENT, "ack_deadline_seconds", str(seconds), "between 0 and 600"):
            world.extend(seconds, ack_id)

    @pytest.mark.rule("S7.1.3", "V2")
    @pytest.mark.parametrize("seconds", [1, 5, 20, 600])
    def test_counts_from_the_request_and_replaces_the_old_deadline(self, world: World, seconds: int) -> None:
        world.publish(b"a")
        (ack_id,) = world.pull().ack_ids
        world.advance(3)

        world.extend(seconds, ack_id)
        world.advance(seconds - 0.001)
        before = world.pull().bodies
        world.advance(0.001)

        assert (before, world.pull().bodies) == ([], [b"a"])

    @pytest.mark.rule("C21", "S7.1.3")
    def test_by_600_and_then_by_10_ends_10_seconds_after_the_second(self, world: World) -> None:
        world.publish(b"a")
        (ack_id,) = world.pull().ack_ids
        world.extend(600, ack_id)
        world.advance(1)

        world.extend(10, ack_id)
        world.advance(9.9)
        before = world.pull().bodies
        world.advance(0.1)

        assert (before, world.pull().bodies) == ([], [b"a"])

    @pytest.mark.rule("C11", "S7.1.3")
    def test_every_5_seconds_by_10_keeps_it_until_that_stops(self, world: World) -> None:
        world.publish(b"a")
        (ack_id,) = world.pull().ack_ids
        seen: list[bytes] = []

        for _ in range(12):
            world.extend(10, ack_id)
            world.advance(5)
            seen += world.pull().bodies
        world.advance(5)

        assert (seen, world.pull().bodies) == ([], [b"a"])

    @pytest.mark.rule("S7.1.3")
    def test_may_be_repeated_far_beyond_any_single_deadline(self, world: World) -> None:
        world.publish(b"a")
        (ack_id,) = world.pull().ack_ids

        for _ in range(100):
            world.extend(600, ack_id)
            world.advance(599)

        assert world.pull().bodies == []

    def test_counts_no_attempt(self, world: World) -> None:
        world.publish(b"a")

        world.extend(30, *world.pull().ack_ids)

        assert world.failures() == [0]

    @pytest.mark.rule("S7.1.7")
    def test_after_the_deadline_changes_nothing(self, world: World) -> None:
        world.publish(b"a")
        (ack_id,) = world.pull().ack_ids
        world.advance(10)
        before = world.broker.dump()

        world.extend(60, ack_id)

        assert world.broker.dump() == before

    @pytest.mark.rule("S7.1.7")
    @pytest.mark.parametrize("seconds", [0, 1, 600])
    def test_with_an_old_id_leaves_the_newer_lease_alone(self, world: World, seconds: int) -> None:
        world.publish(b"a")
        (old,) = world.pull().ack_ids
        world.advance(10)
        world.pull()
        before = world.broker.dump()

        world.extend(seconds, old)

        assert world.broker.dump() == before

    @pytest.mark.rule("S7.1.7")
    def test_after_an_ack_does_not_revive_the_message(self, world: World) -> None:
        world.publish(b"a")
        (ack_id,) = world.pull().ack_ids
        world.ack(ack_id)

        world.extend(0, ack_id)

        assert world.held() == 0


class TestAcknowledging:
    @pytest.mark.rule("S7.1.6", "C13")
    def test_ends_the_message_for_good(self, world: World) -> None:
        world.publish(b"a")

        world.ack(*world.pull().ack_ids)
        world.advance(3_600)

        assert (world.pull().bodies, world.held()) == ([], 0)

    @pytest.mark.rule("S7.1.6")
    def test_ends_it_for_this_subscription_only(self, world: World) -> None:
        world.subscribe(OTHER)
        world.publish(b"a")

        world.ack(*world.pull().ack_ids)

        assert world.pull(name=OTHER).bodies == [b"a"]

    @pytest.mark.rule("S7.1.6")
    def test_ends_only_the_messages_it_names(self, world: World) -> None:
        world.publish(b"a", b"b", b"c")

        world.ack(world.pull().ack_ids[1])
        world.advance(10)

        assert world.pull().bodies == [b"a", b"c"]

    @pytest.mark.rule("S7.1.6")
    def test_again_is_ok_in_one_request_or_in_two(self, world: World) -> None:
        world.publish(b"a")
        (ack_id,) = world.pull().ack_ids

        world.ack(ack_id, ack_id)
        world.ack(ack_id)

        assert world.held() == 0

    @pytest.mark.rule("S7.1.7", "V5", "C18")
    def test_after_the_deadline_ends_a_message_that_waits_again(self, world: World) -> None:
        world.publish(b"a", b"b")
        first, _ = world.pull().ack_ids
        world.advance(10)

        world.ack(first)

        assert world.pull().bodies == [b"b"]

    @pytest.mark.rule("S7.1.7", "V5", "C19")
    def test_with_the_old_id_ends_a_message_that_was_handed_out_again(self, world: World) -> None:
        world.publish(b"a")
        (old,) = world.pull().ack_ids
        world.advance(10)
        (new,) = world.pull().ack_ids

        world.ack(old)
        world.ack(new)
        world.advance(60)

        assert (world.pull().bodies, world.held()) == ([], 0)

    @pytest.mark.rule("V12")
    def test_3000_ids_are_handled_whole(self, world: World) -> None:
        for _ in range(3):
            world.publish(*[b"x"] * 1_000)
        ack_ids = [ack_id for _ in range(3) for ack_id in world.pull().ack_ids]

        world.extend(600, *ack_ids)
        world.advance(30)
        kept = world.leases()
        world.ack(*ack_ids)

        assert (len(ack_ids), kept, world.held()) == (3_000, 3_000, 0)


@pytest.mark.rule("S7.1.10")
class TestOrderOfRedelivery:
    def test_what_came_back_goes_out_before_newer_messages(self, world: World) -> None:
        world.publish(b"a", b"b", b"c")
        _, second, _ = world.pull().ack_ids
        world.publish(b"d")

        world.nack(second)

        assert world.pull().bodies == [b"b", b"d"]

    def test_among_what_came_back_the_oldest_publish_is_first(self, world: World) -> None:
        world.publish(b"a", b"b", b"c")

        for ack_id in reversed(world.pull().ack_ids):
            world.nack(ack_id)

        assert [world.pull(1).bodies for _ in range(3)] == [[b"a"], [b"b"], [b"c"]]

    def test_what_was_given_back_takes_its_old_place(self, world: World) -> None:
        world.publish(b"a", b"b", b"c")
        first, second = world.pull(1), world.pull(1)
        world.nack(*second.ack_ids)

        world.subscription().give_back(first.leases)

        assert world.pull().bodies == [b"a", b"b", b"c"]


@pytest.mark.rule("S7.1.11")
def test_attempts_are_counted_per_subscription_and_message(world: World) -> None:
    world.subscribe(OTHER)
    world.publish(b"a", b"b")
    first, second = world.pull().ack_ids

    world.nack(first)
    world.nack(*world.pull().ack_ids)
    world.extend(1, second)
    world.advance(1)

    assert (world.failures(), world.failures(OTHER)) == ([2, 1], [0, 0])
