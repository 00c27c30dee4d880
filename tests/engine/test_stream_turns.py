"""Streams in turn: who gets a message, and who gets it again."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.engine import soundness
from tests.engine.helpers import OTHER, World
from tests.engine.streams import Reader, bodies, body, cost, outbox


@pytest.fixture(autouse=True)
def all_is_sound_at_the_end(empty: World) -> Iterator[None]:
    yield
    for subscription in empty.broker.subscriptions:
        soundness.check_subscription(subscription)


class TestLateAcks:
    @pytest.mark.rule("C18", "V5")
    def test_of_a_message_that_was_not_handed_out_again_ends_it(self, world: World) -> None:
        reader = Reader(world, messages=1)
        world.publish(b"a")
        reader.read()
        reader.close()
        world.advance(10)

        world.ack(*reader.ack_ids)

        assert (world.held(), world.pull().bodies) == (0, [])

    @pytest.mark.rule("C19", "V5")
    def test_of_a_message_that_was_ends_it_and_the_second_does_nothing(self, world: World) -> None:
        first, second = Reader(world), Reader(world)
        world.publish(b"a")
        first.read()
        world.advance(10)
        again = second.read()

        world.ack(*first.ack_ids)
        held = world.held()
        world.ack(*second.ack_ids)
        world.advance(10)

        assert (again, held, second.outstanding) == ([b"a"], 0, (0, 0))
        assert (first.read(), second.read()) == ([], [])

    @pytest.mark.rule("S7.1.7")
    def test_a_late_nack_leaves_the_new_lease_alone(self, world: World) -> None:
        first, second = Reader(world), Reader(world)
        world.publish(b"a")
        first.read()
        world.advance(10)
        second.read()

        world.nack(*first.ack_ids)

        assert (first.read(), second.read(), second.outstanding[0]) == ([], [], 1)


@pytest.mark.rule("V13")
class TestRedelivery:
    @pytest.mark.rule("V3", "C12")
    def test_a_nacked_message_goes_to_another_stream_at_once(self, world: World) -> None:
        first, second = Reader(world), Reader(world)
        world.publish(b"a")
        first.read()

        world.nack(*first.ack_ids)

        assert (first.read(), second.read(), world.failures()) == ([], [b"a"], [1])

    @pytest.mark.rule("V4")
    def test_an_expired_message_goes_to_another_stream(self, world: World) -> None:
        first, second = Reader(world), Reader(world)
        world.publish(b"a")
        first.read()

        world.advance(10)

        assert (first.read(), second.read()) == ([], [b"a"])

    @pytest.mark.rule("V3")
    def test_a_lone_stream_gets_it_again(self, world: World) -> None:
        reader = Reader(world)
        world.publish(b"a")
        reader.read()

        world.nack(*reader.ack_ids)

        assert reader.read() == [b"a"]
        assert len(set(reader.ack_ids)) == 2

    @pytest.mark.parametrize("why", ["credit", "window"])
    def test_the_same_stream_gets_it_when_the_other_has_no_room(self, world: World, why: str) -> None:
        full = Reader(world, messages=1 if why == "credit" else 0, space=0)
        world.publish(b"occupied")
        full.read()
        reader = Reader(world)
        world.publish(b"a")
        reader.read()

        world.nack(reader.ack_ids[-1])

        assert reader.read() == [b"a"]

    def test_back_and_forth_between_two(self, world: World) -> None:
        first, second = Reader(world), Reader(world)
        world.publish(b"a")
        got = []

        for _ in range(3):
            for each in (first, second):
                got.append((first.read(), second.read()))
                world.nack(each.ack_ids[-1])

        assert got == [([b"a"], []), ([], [b"a"])] * 3

    def test_any_other_of_three_but_not_the_same(self, world: World) -> None:
        readers = [Reader(world) for _ in range(3)]
        world.publish(b"a")
        holders = []

        for _ in range(9):
            (holder,) = [reader for reader in readers if reader.read()]
            holders.append(holder)
            world.nack(holder.ack_ids[-1])

        assert all(before is not after for before, after in pairwise(holders))

    def test_a_waiting_pull_gets_it_before_the_stream_that_lost_it(self, world: World) -> None:
        reader = Reader(world, messages=1)
        world.publish(b"a")
        reader.read()
        waiting = world.pull(wait=True)

        world.nack(*reader.ack_ids)

        assert (waiting.bodies, reader.read()) == ([b"a"], [])

    def test_the_stream_that_lost_one_keeps_its_turn_for_others(self, world: World) -> None:
        readers = [Reader(world) for _ in range(3)]
        world.publish(b"a", b"b", b"c")
        for reader in readers:
            reader.read()

        world.nack(readers[0].ack_ids[0])
        world.publish(b"d")

        assert [reader.read() for reader in readers] == [[b"d"], [b"a"], []]

    def test_after_its_stream_has_closed_anybody_may_have_it(self, world: World) -> None:
        first, second = Reader(world), Reader(world)
        world.publish(b"a")
        first.read()
        first.close()

        world.nack(*first.ack_ids)

        assert (first.read(), second.read()) == ([], [b"a"])


@pytest.mark.rule("S7.3.11")
class TestTurns:
    def test_streams_share_message_by_message(self, world: World) -> None:
        readers = [Reader(world) for _ in range(3)]

        world.publish(*bodies(7))

        assert [reader.read() for reader in readers] == [[b"0", b"3", b"6"], [b"1", b"4"], [b"2", b"5"]]

    def test_the_turn_goes_on_where_it_stopped(self, world: World) -> None:
        first, second = Reader(world), Reader(world)

        for text in bodies(4):
            world.publish(text)

        assert (first.read(), second.read()) == ([b"0", b"2"], [b"1", b"3"])

    def test_each_message_goes_to_one(self, world: World) -> None:
        readers = [Reader(world, messages=most) for most in (7, 1, 30, 2)]

        world.publish(*bodies(40))

        got = [text for reader in readers for text in reader.read()]
        assert sorted(got) == sorted(bodies(40))

    @pytest.mark.rule("A9")
    def test_one_without_credit_is_passed_over(self, world: World) -> None:
        small, large = Reader(world, messages=5, space=0), Reader(world)

        world.publish(*bodies(100))

        assert (small.pile.count, len(large.read())) == (5, 95)

    def test_one_that_has_credit_again_joins_in(self, world: World) -> None:
        small, large = Reader(world, messages=1), Reader(world)
        world.publish(b"a", b"b", b"c")
        small.read()
        large.read()

        world.ack(*small.ack_ids)
        world.publish(b"d", b"e")

        assert sorted(small.read() + large.read()) == [b"d", b"e"]
        assert small.bodies in ([b"a", b"d"], [b"a", b"e"])

    @pytest.mark.rule("O17", "V7")
    def test_a_stalled_one_is_passed_over_and_resumes(self, world: World) -> None:
        stalled, other = Reader(world, space=0), Reader(world)
        world.publish(b"a", b"b")
        stalled.read()
        other.read()

        world.publish(*bodies(10))
        while_stalled = (stalled.pile.count, other.read())
        stalled.grow()
        resumed = stalled.read()
        world.publish(b"c", b"d")

        assert while_stalled == (1, bodies(10))
        assert resumed == [b"a"]
        assert sorted(stalled.read() + other.read()) == [b"c", b"d"]
        assert len(stalled.bodies) == 2

    @pytest.mark.rule("V7", "O17")
    def test_a_stalled_one_still_acknowledges_and_takes_more_when_it_resumes(self, world: World) -> None:
        reader = Reader(world, messages=1, space=1)
        world.publish(b"a", b"b")
        first = reader.read()

        world.ack(*reader.ack_ids)
        stalled = (reader.read(), world.held(), reader.outstanding[0])
        reader.grow()

        assert (first, stalled, reader.read()) == ([b"a"], ([], 1, 0), [b"b"])

    @pytest.mark.rule("O17", "A10")
    def test_a_stalled_one_does_not_hold_up_another_of_its_connection(self, world: World) -> None:
        box = outbox()
        stalled, other = Reader(world, box, messages=5, space=0), Reader(world, box)

        world.publish(*bodies(50))
        other.read()

        assert (len(other.bodies), stalled.bodies) == (45, [])

    @pytest.mark.rule("O9", "O17")
    def test_backlog_that_nobody_had_room_for_comes_when_somebody_has(self, world: World) -> None:
        reader = Reader(world, messages=1, space=0)
        world.publish(*bodies(3))
        reader.read()

        reader.grow()
        first = reader.read()
        world.ack(*reader.ack_ids)

        assert (first, reader.read()) == ([b"0"], [b"1"])

    def test_a_stream_gets_the_backlog_that_was_there_before_it(self, world: World) -> None:
        world.publish(*bodies(3))

        assert Reader(world).read() == bodies(3)

    @pytest.mark.rule("B004")
    def test_a_stream_gets_what_is_published_later_without_any_time_passing(self, world: World) -> None:
        reader = Reader(world)
        reader.read()

        world.publish(b"a")

        assert reader.read() == [b"a"]

    @pytest.mark.rule("S7.1.10")
    def test_what_was_lost_comes_before_what_is_newer(self, world: World) -> None:
        reader = Reader(world, messages=2)
        world.publish(*bodies(4))
        reader.read()

        world.nack(*reversed(reader.ack_ids))

        assert reader.read() == [b"0", b"1"]

    def test_streams_of_two_subscriptions_each_get_all(self, world: World) -> None:
        world.subscribe(OTHER)
        here, there = Reader(world), Reader(world, name=OTHER)

        world.publish(*bodies(3))

        assert (here.read(), there.read()) == (bodies(3), bodies(3))


class TestResponses:
    @pytest.mark.rule("O18", "S7.1.12")
    def test_many_messages_leave_in_one(self, world: World) -> None:
        reader = Reader(world)

        world.publish(*bodies(500))
        reader.read()

        assert [len(response) for response in reader.responses] == [500]

    @pytest.mark.rule("O18", "S7.1.12")
    def test_none_holds_more_bytes_than_allowed(self, world: World) -> None:
        reader = Reader(world, outbox(max_bytes=1_000))
        world.publish(*[body(460)] * 3, body(2_000), *[body(100)] * 8)

        reader.read()

        assert [len(response) for response in reader.responses] == [2, 1, 1, 7, 1]
        assert all(
            sum(cost(delivery.lease) for delivery in response) <= 1_000
            for response in reader.responses
            if len(response) > 1
        )


class TestBesidePulls:
    @pytest.mark.rule("S7.3.11", "S7.2.2")
    def test_a_pull_gets_what_streams_have_left(self, world: World) -> None:
        reader = Reader(world, messages=2)
        world.publish(*bodies(5))

        assert (world.pull().bodies, reader.read()) == (bodies(5)[2:], bodies(2))

    @pytest.mark.rule("S7.2.3")
    def test_a_pull_that_waits_gets_its_turn(self, world: World) -> None:
        reader = Reader(world)
        waiting = world.pull(wait=True)

        world.publish(b"a")
        world.publish(b"b")

        assert sorted(reader.read() + waiting.bodies) == [b"a", b"b"]
        assert waiting.times == 1

    @pytest.mark.rule("S7.2.3")
    def test_in_its_turn_a_pull_takes_all_it_can(self, world: World) -> None:
        reader = Reader(world)
        waiting = world.pull(3, wait=True)

        world.publish(*bodies(6))

        assert (reader.read(), waiting.bodies) == ([b"0", b"4", b"5"], [b"1", b"2", b"3"])

    @pytest.mark.rule("V11")
    def test_what_a_stream_got_may_be_nacked_to_a_pull(self, world: World) -> None:
        reader = Reader(world, messages=1)
        world.publish(b"a")
        reader.read()
        reader.close()

        world.nack(*reader.ack_ids)

        assert world.pull().bodies == [b"a"]

    def test_a_stalled_stream_leaves_a_pull_everything(self, world: World) -> None:
        stalled = Reader(world, space=0, messages=1)
        world.publish(b"a")
        stalled.read()

        world.publish(*bodies(3))

        assert world.pull().bodies == bodies(3)


@pytest.mark.rule("V13", "V9")
def test_the_stream_that_lost_a_message_gets_it_when_the_others_have_no_room(world: World) -> None:
    first, second = Reader(world), Reader(world)
    world.publish(b"a", b"b")
    assert (first.read(), second.read()) == ([b"a"], [b"b"])
    second.pile.shut = True

    world.nack(*first.ack_ids)

    assert (first.read(), second.outstanding[0]) == ([b"a"], 1)


def test_consumers_and_letters_show_themselves_in_a_line(world: World) -> None:
    reader = Reader(world)
    world.pull(wait=True)
    reader.outbox.add_subscription("feed", max_pending=1)
    reader.outbox.send_event("feed", {})
    reader.outbox.send_event("feed", {})

    assert repr(world.subscription()._consumers) == "<Consumers waits=1 streams=1 line=2>"
    assert repr(reader.outbox._letters["feed"]) == "<_Letters 'feed' waiting=1 dropped=1>"
