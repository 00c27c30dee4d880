"""Ordering keys: publish order, one consumer at a time, and what a failure brings back (service.md §9)."""

from dataclasses import replace

import pytest

from tests.engine.helpers import DEAD, NOTHING_HELD, OTHER, SUBSCRIPTION, Answer, World, settings
from tests.engine.streams import Reader

A1, A2, A3, A4 = b"a1", b"a2", b"a3", b"a4"


@pytest.fixture
def ordered(empty: World) -> World:
    """A broker with one topic and one ordered subscription of it, whose ack deadline is 10 s."""
    empty.create_topic()
    empty.subscribe(to=settings(ordered=True))
    return empty


def publish_a(world: World, *bodies: bytes) -> None:
    world.publish(*(bodies or (A1, A2, A3, A4)), key="a")


def pull_one_by_one(world: World) -> list[bytes]:
    """Everything that comes, in Pulls of one message, each acked before the next."""
    came: list[bytes] = []
    while bodies := (answer := world.pull(1)).bodies:
        came += bodies
        world.ack(*answer.ack_ids)
    return came


def places(world: World) -> list[str]:
    """Where each message is that is held, oldest first."""
    return [entry.place.value for entry in world.subscription()._holdings._entries.values()]


class TestWhatIsOrdered:
    @pytest.mark.rule("S9.1")
    def test_a_subscription_without_the_option_ignores_keys(self, world: World) -> None:
        publish_a(world, A1, A2)
        first, second = world.pull(1), world.pull(1)

        world.nack(*first.ack_ids)

        assert (second.bodies, world.pull().bodies) == ([A2], [A1])

    @pytest.mark.rule("S9.1")
    def test_messages_without_a_key_are_each_for_themselves(self, ordered: World) -> None:
        ordered.publish(b"x", b"y", b"z")
        first, second = ordered.pull(1), ordered.pull(1)

        ordered.nack(*first.ack_ids)

        assert (first.bodies, second.bodies) == ([b"x"], [b"y"])
        assert ordered.pull().bodies == [b"x", b"z"]

    @pytest.mark.rule("S9.1", "S9.3")
    def test_a_key_holds_up_neither_other_keys_nor_messages_without_one(self, ordered: World) -> None:
        publish_a(ordered, A1)
        ordered.publish(b"b1", key="b")
        ordered.publish(b"x")
        publish_a(ordered, A2)
        ordered.pull(1)

        assert ordered.pull().bodies == [b"b1", b"x"]

    @pytest.mark.rule("S9.1")
    def test_each_subscription_has_its_own_order(self, ordered: World) -> None:
        ordered.subscribe(OTHER, to=settings(ordered=True))
        publish_a(ordered, A1, A2)

        ordered.pull(1)

        assert ordered.pull(name=OTHER).bodies == [A1, A2]


@pytest.mark.rule("S9.2")
class TestPublishOrder:
    def test_a_reply_holds_several_of_a_key_in_order(self, ordered: World) -> None:
        publish_a(ordered, A1, A2, A3)

        assert ordered.pull().bodies == [A1, A2, A3]

    @pytest.mark.rule("B029", "B031")
    def test_twelve_of_a_key_come_in_order(self, ordered: World) -> None:
        twelve = [b"%d" % number for number in range(12)]
        for one in twelve:
            publish_a(ordered, one)

        assert ordered.pull().bodies == twelve

    @pytest.mark.rule("B038")
    @pytest.mark.parametrize("most", [1, 3, 7])
    def test_a_backlog_keeps_its_order_from_reply_to_reply(self, ordered: World, most: int) -> None:
        hundred = [b"%d" % number for number in range(100)]
        for one in hundred:
            publish_a(ordered, one)
            ordered.advance(0.001)

        came: list[bytes] = []
        while bodies := (answer := ordered.pull(most)).bodies:
            came += bodies
            ordered.ack(*answer.ack_ids)

        assert came == hundred

    def test_keys_share_a_reply_by_age(self, ordered: World) -> None:
        for number in (b"1", b"2", b"3"):
            ordered.publish(b"a" + number, key="a")
            ordered.publish(b"b" + number, key="b")
            ordered.publish(b"x" + number)

        assert ordered.pull(8).bodies == [b"a1", b"b1", b"x1", b"a2", b"b2", b"x2", b"a3", b"b3"]

    def test_a_stream_gets_several_of_a_key_and_more_as_they_are_published(self, ordered: World) -> None:
        reader = Reader(ordered)
        publish_a(ordered, A1, A2)
        first = reader.read()

        publish_a(ordered, A3)

        assert (first, reader.read()) == ([A1, A2], [A3])

    def test_a_small_credit_brings_them_one_by_one(self, ordered: World) -> None:
        reader = Reader(ordered, messages=1)
        publish_a(ordered)

        for _ in range(4):
            reader.read()
            ordered.ack(*reader.ack_ids[-1:])

        assert reader.responses == [[one] for one in reader.deliveries]
        assert reader.bodies == [A1, A2, A3, A4]


@pytest.mark.rule("S9.3")
class TestOneConsumerAtATime:
    @pytest.mark.rule("B034")
    def test_another_pull_gets_nothing_of_a_key_that_is_out(self, ordered: World) -> None:
        publish_a(ordered)
        ordered.pull(1)

        assert ordered.pull().bodies == []

    def test_a_pull_that_waits_gets_nothing_of_it_either(self, ordered: World) -> None:
        publish_a(ordered, A1)
        ordered.pull()
        waiting = ordered.pull(wait=True)

        publish_a(ordered, A2)

        assert (waiting.bodies, waiting.pull.done) == ([], False)

    def test_a_pull_that_waits_gets_the_next_when_all_that_is_out_is_acked(self, ordered: World) -> None:
        publish_a(ordered)
        held = ordered.pull(2)
        waiting = ordered.pull(wait=True)

        ordered.ack(held.ack_ids[1])
        between = waiting.pull.done
        ordered.ack(held.ack_ids[0])

        assert (between, waiting.bodies) == (False, [A3, A4])

    def test_the_next_goes_to_the_stream_that_has_the_key(self, ordered: World) -> None:
        first, second = Reader(ordered), Reader(ordered)
        for number in (b"1", b"2", b"3"):
            ordered.publish(b"a" + number, key="a")
            ordered.publish(b"b" + number, key="b")

        assert (first.read(), second.read()) == ([b"a1", b"a2", b"a3"], [b"b1", b"b2", b"b3"])

    def test_it_waits_for_that_stream_although_another_has_room(self, ordered: World) -> None:
        full, idle = Reader(ordered, messages=1), Reader(ordered)
        publish_a(ordered, A1, A2)
        before = full.read(), idle.read()

        ordered.ack(*full.ack_ids)

        assert before == ([A1], [])
        # The key is free now: whose turn it is may have it.
        assert sorted([*full.read(), *idle.read()]) == [A2]

    def test_another_consumer_may_have_it_when_all_that_was_out_is_acked(self, ordered: World) -> None:
        reader = Reader(ordered, messages=1)
        publish_a(ordered, A1, A2)
        reader.read()
        reader.close()
        blocked = ordered.pull().bodies

        ordered.ack(*reader.ack_ids)

        assert (blocked, ordered.pull().bodies) == ([], [A2])

    @pytest.mark.rule("V14", "B166")
    def test_a_lost_streams_key_waits_until_its_lease_ends_and_then_comes_whole(self, ordered: World) -> None:
        lost, other = Reader(ordered), Reader(ordered)
        publish_a(ordered)
        lost.read()
        lost.close()
        ordered.advance(9.999)
        before = other.read()

        ordered.advance(0.001)

        assert (before, other.read()) == ([], [A1, A2, A3, A4])

    @pytest.mark.rule("O16")
    def test_what_a_lost_stream_never_wrote_stays_behind_what_it_wrote(self, ordered: World) -> None:
        lost = Reader(ordered)
        publish_a(ordered, A1, A2)
        lost.read()
        publish_a(ordered, A3, A4)

        lost.close()
        before = ordered.pull().bodies
        ordered.ack(*lost.ack_ids)

        again = ordered.pull()
        assert (before, again.bodies, again.attempts) == ([], [A3, A4], [1, 1])

    @pytest.mark.rule("O16")
    def test_what_a_lost_stream_never_wrote_at_all_is_free_at_once(self, ordered: World) -> None:
        lost = Reader(ordered)
        publish_a(ordered)

        lost.close()

        again = ordered.pull()
        assert (again.bodies, again.attempts) == ([A1, A2, A3, A4], [1, 1, 1, 1])


# Of four messages that are out: which are acked, in this order, which one fails, and what comes again.
FAILURES = [
    pytest.param([], A1, [A1, A2, A3, A4], id="the first"),
    pytest.param([], A2, [], id="one behind another that is out"),
    pytest.param([A1], A2, [A2, A3, A4], id="the first that is left"),
    pytest.param([A1, A2, A3], A4, [A4], id="the last"),
    pytest.param([A2], A1, [A1, A2, A3, A4], id="one before an acked one"),
    pytest.param([A4, A2, A3], A1, [A1, A2, A3, A4], id="one before nothing but acked ones"),
    pytest.param([A1, A3, A4], A2, [A2, A3, A4], id="one between acked ones"),
]


class TestFailure:
    @pytest.mark.rule("S9.4", "S9.5", "B034")
    @pytest.mark.parametrize("way", ["nack", "expiry"])
    @pytest.mark.parametrize(("acked", "failed", "again"), FAILURES)
    def test_brings_back_everything_from_the_failed_one_on(
        self, ordered: World, way: str, acked: list[bytes], failed: bytes, again: list[bytes]
    ) -> None:
        publish_a(ordered)
        held = ordered.pull()
        ordered.extend(600, *held.ack_ids)
        for ack_id in held.of(*acked):
            ordered.ack(ack_id)

        if way == "nack":
            ordered.nack(*held.of(failed))
        else:
            ordered.extend(1, *held.of(failed))
            ordered.advance(1)

        assert ordered.pull().bodies == again

    @pytest.mark.rule("S9.4")
    def test_of_one_behind_another_waits_for_that(self, ordered: World) -> None:
        publish_a(ordered)
        held = ordered.pull()
        ordered.nack(*held.of(A2))
        before = ordered.pull().bodies

        ordered.ack(*held.of(A1))

        assert (before, ordered.pull().bodies) == ([], [A2, A3, A4])

    @pytest.mark.rule("S9.4")
    def test_of_one_behind_another_comes_again_to_the_stream_that_has_that(self, ordered: World) -> None:
        reader, other = Reader(ordered), Reader(ordered)
        publish_a(ordered)
        reader.read()

        ordered.nack(reader.ack_ids[1])

        assert (reader.read(), other.read()) == ([A2, A3, A4], [])

    @pytest.mark.rule("S9.4")
    def test_brings_nothing_back_that_is_acked_and_all_before_it(self, ordered: World) -> None:
        publish_a(ordered)
        held = ordered.pull()
        ordered.ack(*held.of(A2, A1))

        ordered.nack(*held.of(A3))

        assert ordered.pull().bodies == [A3, A4]

    @pytest.mark.rule("S9.4")
    def test_counts_as_an_attempt_of_the_failed_one_alone(self, ordered: World) -> None:
        publish_a(ordered)
        held = ordered.pull()

        ordered.nack(*held.of(A1))

        assert ordered.pull().attempts == [2, 1, 1, 1]

    @pytest.mark.rule("S9.4", "S7.1.11")
    def test_counts_for_all_whose_deadline_has_come(self, ordered: World) -> None:
        publish_a(ordered)
        held = ordered.pull()
        ordered.extend(20, *held.of(A3))

        ordered.advance(10)

        assert ordered.pull().attempts == [2, 2, 1, 2]

    @pytest.mark.rule("S9.4", "S7.1.11")
    def test_counts_for_all_that_one_request_nacks(self, ordered: World) -> None:
        publish_a(ordered)
        held = ordered.pull()

        ordered.nack(*held.of(A1, A2, A4))

        assert ordered.pull().attempts == [2, 2, 1, 2]

    @pytest.mark.rule("S9.4")
    def test_leaves_other_keys_alone(self, ordered: World) -> None:
        publish_a(ordered, A1, A2)
        ordered.publish(b"b1", b"b2", key="b")
        held = ordered.pull()

        ordered.nack(*held.of(A1))

        assert ordered.pull().bodies == [A1, A2]
        assert ordered.leases() == 4

    @pytest.mark.rule("S9.4", "B031")
    def test_after_failure_the_order_holds(self, ordered: World) -> None:
        publish_a(ordered)
        ordered.nack(*ordered.pull().of(A1))
        publish_a(ordered, b"a5")
        held = ordered.pull()
        ordered.nack(*held.of(A3))
        ordered.ack(*held.of(A1))
        ordered.advance(10)

        assert pull_one_by_one(ordered) == [A2, A3, A4, b"a5"]

    @pytest.mark.rule("S9.4", "V13")
    def test_sends_the_whole_sequence_to_another_stream(self, ordered: World) -> None:
        first, second = Reader(ordered), Reader(ordered)
        publish_a(ordered)
        first.read()

        ordered.nack(first.ack_ids[0])

        assert (first.read(), second.read()) == ([], [A1, A2, A3, A4])
        assert (first.outstanding[0], second.outstanding[0]) == (0, 4)

    @pytest.mark.rule("S9.4", "O15")
    def test_of_a_written_one_takes_unwritten_ones_with_it_and_they_count_no_attempt(self, ordered: World) -> None:
        reader = Reader(ordered)
        publish_a(ordered, A1)
        reader.read()
        publish_a(ordered, A2, A3)

        ordered.nack(*reader.ack_ids)

        assert reader.read() == [A1, A2, A3]
        assert ordered.failures() == [1, 0, 0]

    @pytest.mark.rule("S6.5", "S9.4")
    def test_is_not_what_leaving_by_age_is(self, ordered: World) -> None:
        ordered.subscription().update(settings(ordered=True, retention=600))
        publish_a(ordered, A1)
        ordered.advance(590)
        publish_a(ordered, A2, A3)
        held = ordered.pull(2)
        ordered.extend(600, *held.ack_ids)

        ordered.advance(11)

        assert (ordered.pull().bodies, places(ordered)) == ([], ["leased", "behind"])
        ordered.ack(*held.of(A2))
        assert ordered.pull().bodies == [A3]


@pytest.mark.rule("S9.4")
class TestVoidAckIds:
    """Those of the later messages of a key, once one before them has failed."""

    @pytest.fixture
    def held(self, ordered: World) -> Answer:
        publish_a(ordered)
        answer = ordered.pull()
        ordered.nack(*answer.of(A1))
        return answer

    @pytest.mark.parametrize("out", [False, True], ids=["waiting", "handed out again"])
    def test_ack_nothing(self, ordered: World, held: Answer, out: bool) -> None:
        again = ordered.pull().ack_ids if out else []

        ordered.ack(*held.of(A2, A3, A4))
        ordered.ack(*held.of(A2))

        for ack_id in reversed(again):
            ordered.nack(ack_id)
        assert pull_one_by_one(ordered) == [A1, A2, A3, A4]

    @pytest.mark.parametrize("seconds", [0, 600])
    def test_move_no_deadline(self, ordered: World, held: Answer, seconds: int) -> None:
        ordered.pull()

        ordered.extend(seconds, *held.of(A2, A3, A4))

        ordered.advance(9.999)
        before = ordered.pull().bodies
        ordered.advance(0.001)
        assert (before, ordered.pull().bodies) == ([], [A1, A2, A3, A4])

    @pytest.mark.rule("V5", "S7.1.7")
    @pytest.mark.parametrize("out", [False, True], ids=["waiting", "handed out again"])
    def test_are_not_that_of_the_failed_one(self, ordered: World, held: Answer, out: bool) -> None:
        again = ordered.pull().ack_ids if out else []

        ordered.ack(*held.of(A1))

        for ack_id in reversed(again):
            ordered.nack(ack_id)
        assert pull_one_by_one(ordered) == [A2, A3, A4]

    def test_are_not_those_of_the_next_round(self, ordered: World, held: Answer) -> None:
        again = ordered.pull()

        ordered.ack(*again.ack_ids)

        assert (ordered.held(), ordered.pull().bodies) == (0, [])


@pytest.mark.rule("S9.6")
class TestAcksOutOfOrder:
    def test_are_remembered(self, ordered: World) -> None:
        publish_a(ordered)
        held = ordered.pull()
        ordered.ack(*held.of(A2))
        ordered.advance(9)

        ordered.ack(*held.of(A1))
        ordered.advance(10)

        assert ordered.pull().bodies == [A3, A4]

    def test_outlast_their_deadline(self, ordered: World) -> None:
        publish_a(ordered, A1, A2)
        held = ordered.pull()
        ordered.extend(600, *held.of(A1))
        ordered.ack(*held.of(A2))

        ordered.advance(100)
        ordered.ack(*held.of(A1))

        assert (ordered.held(), ordered.pull().bodies) == (0, [])

    def test_are_neither_leased_nor_waiting(self, ordered: World) -> None:
        publish_a(ordered)

        ordered.ack(*ordered.pull().of(A3, A2))

        assert places(ordered) == ["leased", "acked", "acked", "leased"]
        assert (ordered.leases(), ordered.waiting()) == (2, 0)

    def test_give_their_stream_its_credit_back(self, ordered: World) -> None:
        reader = Reader(ordered, messages=2)
        publish_a(ordered)
        reader.read()

        ordered.ack(reader.ack_ids[1])

        assert (reader.read(), reader.outstanding[0]) == ([A3], 2)

    def test_let_the_next_go_to_the_same_consumer_only(self, ordered: World) -> None:
        publish_a(ordered)

        ordered.ack(*ordered.pull(2).of(A2))

        assert ordered.pull().bodies == []

    def test_are_done_with_when_all_before_them_is(self, ordered: World) -> None:
        publish_a(ordered)
        held = ordered.pull()

        for body, left in ((A4, 4), (A2, 4), (A1, 2), (A3, 0)):
            ordered.ack(*held.of(body))
            assert len(places(ordered)) == left

    def test_twice_are_one(self, ordered: World) -> None:
        publish_a(ordered, A1, A2)
        held = ordered.pull()

        ordered.ack(*held.of(A2, A2))
        ordered.ack(*held.of(A2))

        assert places(ordered) == ["leased", "acked"]
        ordered.ack(*held.of(A1))
        assert places(ordered) == []

    @pytest.mark.rule("V5")
    def test_late_ones_count_until_one_before_them_fails(self, ordered: World) -> None:
        publish_a(ordered, A1, A2)
        held = ordered.pull()
        ordered.nack(*held.of(A2))

        ordered.ack(*held.of(A2))
        places_then = places(ordered)
        ordered.nack(*held.of(A1))

        assert (places_then, ordered.pull().bodies) == (["leased", "acked"], [A1, A2])


@pytest.mark.rule("S9.7")
class TestBackoff:
    @pytest.fixture
    def ordered(self, empty: World) -> World:
        empty.create_topic()
        empty.subscribe(to=settings(ordered=True, backoff=(1, 600)))
        return empty

    def test_of_its_head_holds_up_a_key(self, ordered: World) -> None:
        publish_a(ordered)
        ordered.nack(*ordered.pull().of(A1))

        ordered.advance(0.999)
        before = ordered.pull().bodies
        ordered.advance(0.001)

        assert (before, ordered.pull().bodies) == ([], [A1, A2, A3, A4])

    def test_holds_up_what_is_published_meanwhile(self, ordered: World) -> None:
        publish_a(ordered, A1)
        ordered.nack(*ordered.pull().ack_ids)

        publish_a(ordered, A2)
        before = ordered.pull().bodies
        ordered.advance(1)

        assert (before, ordered.pull().bodies) == ([], [A1, A2])

    def test_holds_up_no_other_key(self, ordered: World) -> None:
        publish_a(ordered, A1)
        ordered.nack(*ordered.pull().ack_ids)

        ordered.publish(b"b1", key="b")
        ordered.publish(b"x")

        assert ordered.pull().bodies == [b"b1", b"x"]

    def test_is_the_failed_ones_alone(self, ordered: World) -> None:
        publish_a(ordered)
        ordered.nack(*ordered.pull().of(A1))
        ordered.advance(1)

        ordered.nack(*ordered.pull().of(A1))
        ordered.advance(2)
        ordered.ack(*(again := ordered.pull()).of(A1))
        ordered.nack(*again.of(A2))
        ordered.advance(1)

        assert ordered.pull().attempts == [2, 1, 1]

    def test_of_one_in_the_middle_waits_for_the_consumer_that_has_the_head(self, ordered: World) -> None:
        reader, other = Reader(ordered, deadline=600), Reader(ordered)
        publish_a(ordered)
        reader.read()

        ordered.nack(reader.ack_ids[1])
        before = reader.read()
        ordered.advance(1)

        assert (before, reader.read(), other.read()) == ([], [A2, A3, A4], [])

    def test_that_both_are_in_has_the_key_wait_for_the_head_first(self, ordered: World) -> None:
        publish_a(ordered, A1, A2, A3)
        held = ordered.pull()

        ordered.nack(*held.of(A2, A1))
        ordered.advance(0.999)
        before = ordered.pull().bodies
        ordered.advance(0.001)

        assert (before, ordered.pull().attempts) == ([], [2, 2, 1])

    def test_ends_with_a_late_ack(self, ordered: World) -> None:
        publish_a(ordered, A1, A2)
        held = ordered.pull()
        ordered.nack(*held.of(A1))

        ordered.ack(*held.of(A1))

        again = ordered.pull().bodies
        ordered.advance(9)
        assert (again, ordered.pull().bodies) == ([A2], [])

    def test_of_one_outlasts_that_another_fails_whose_late_ack_is_undone(self, ordered: World) -> None:
        publish_a(ordered, A1, A2, A3)
        held = ordered.pull()
        ordered.nack(*held.of(A2, A3))
        ordered.ack(*held.of(A3))

        ordered.nack(*held.of(A1))
        places_then = places(ordered)
        ordered.advance(1)

        assert places_then == ["delayed", "delayed", "behind"]
        assert ordered.pull().attempts == [2, 2, 2]

    def test_of_one_that_is_acked_late_behind_another_is_over(self, ordered: World) -> None:
        publish_a(ordered, A1, A2, A3)
        held = ordered.pull()
        ordered.extend(600, *held.of(A1))
        ordered.nack(*held.of(A2))

        ordered.ack(*held.of(A2))
        ordered.advance(10)
        ordered.ack(*held.of(A1))

        assert ordered.pull().bodies == [A3]


@pytest.mark.rule("S9.7", "B035")
class TestDeadLettering:
    @pytest.fixture
    def ordered(self, empty: World) -> World:
        empty.create_topic()
        dead = empty.create_topic(DEAD)
        empty.subscribe(OTHER, dead.name, to=settings(ordered=True))
        empty.subscribe(to=settings(ordered=True, dead_letter=5))
        return empty

    def test_of_its_head_frees_a_key(self, ordered: World) -> None:
        publish_a(ordered)

        for _ in range(5):
            ordered.nack(*ordered.pull().of(A1))

        again = ordered.pull()
        assert (again.bodies, again.attempts) == ([A2, A3, A4], [1, 1, 1])

    @pytest.mark.parametrize("exactly_once", [False, True])
    def test_leaves_what_is_published_later_deliverable(self, ordered: World, exactly_once: bool) -> None:
        subscription = ordered.subscription()
        subscription.update(replace(subscription.settings, exactly_once=exactly_once))
        publish_a(ordered, A1)
        for _ in range(5):
            ordered.nack(*ordered.pull().ack_ids)

        publish_a(ordered, A2)

        assert ordered.pull().bodies == [A2]

    def test_of_one_in_the_middle_lets_the_rest_follow_the_head(self, ordered: World) -> None:
        reader, other = Reader(ordered, deadline=600), Reader(ordered)
        publish_a(ordered, A1, A2, A3)

        for _ in range(5):
            reader.read()
            ordered.nack(*[one.ack_id for one in reader.deliveries if one.body == A2][-1:])

        assert (reader.read(), other.read()) == ([A3], [])
        assert ordered.pull(name=OTHER).bodies == [A2]

    @pytest.mark.rule("V13")
    def test_sends_the_rest_of_the_key_to_another_stream(self, ordered: World) -> None:
        publish_a(ordered, A1, A2)
        for _ in range(4):
            ordered.nack(*ordered.pull().of(A1))
        first, second = Reader(ordered), Reader(ordered)
        before = first.read()

        ordered.nack(first.ack_ids[0])

        assert before == [A1, A2]
        assert (first.read(), second.read()) == ([], [A2])

    def test_of_all_at_once_keeps_their_order_and_key(self, ordered: World) -> None:
        publish_a(ordered)

        for _ in range(5):
            ordered.nack(*ordered.pull().ack_ids)

        dead = ordered.pull(name=OTHER)
        assert dead.bodies == [A1, A2, A3, A4]
        assert {one.message.ordering_key for one in dead.deliveries} == {"a"}
        assert ordered.pull().bodies == []


class TestLeftovers:
    def test_nothing_is_kept_of_a_key_without_messages(self, ordered: World) -> None:
        for turn in range(300):
            ordered.publish(b"x", b"y", key=f"{turn}")
            ordered.ack(*reversed(ordered.pull().ack_ids))

        lanes = ordered.subscription()._holdings.lanes
        assert lanes is not None
        assert (len(lanes), lanes.acked, lanes.claimants()) == (0, 0, [])

    def test_a_long_key_keeps_what_is_unfinished_only(self, ordered: World) -> None:
        for _ in range(1_000):
            publish_a(ordered, A1)
            ordered.ack(*ordered.pull().ack_ids)
            publish_a(ordered, A2)

        lanes = ordered.subscription()._holdings.lanes
        assert lanes is not None
        assert len(lanes._by_key["a"].entries) < 200

    @pytest.mark.parametrize("way", ["delete", "detach"])
    def test_of_every_place_leave_with_the_subscription(self, empty: World, way: str) -> None:
        empty.create_topic()
        empty.subscribe(to=settings(ordered=True, backoff=(10, 600)))
        publish_a(empty)
        held = empty.pull(3)
        empty.ack(*held.of(A2))
        empty.nack(*held.of(A3))

        getattr(empty.broker, f"{way}_subscription")(SUBSCRIPTION)

        counts = empty.broker.counts()
        assert {**counts, **NOTHING_HELD} == counts
        assert empty.clock.timer_count() <= counts["subscriptions"]
