"""Streams: their credit in messages and bytes, and the lease clock of what they take."""

from collections.abc import Iterator

import pytest

from tests.engine import soundness
from tests.engine.helpers import SUBSCRIPTION, World, settings
from tests.engine.streams import Reader, bodies, body

MIB = 1_048_576


@pytest.fixture(autouse=True)
def all_is_sound_at_the_end(empty: World) -> Iterator[None]:
    yield
    for subscription in empty.broker.subscriptions:
        soundness.check_subscription(subscription)


@pytest.mark.rule("V8", "O9", "S7.3.8", "B011")
class TestCreditInMessages:
    @pytest.mark.parametrize(("most", "given"), [(1, 1), (2, 2), (9, 9), (10, 10), (11, 10), (1_000, 10)])
    def test_no_more_are_out_than_allowed(self, world: World, most: int, given: int) -> None:
        reader = Reader(world, messages=most)

        world.publish(*bodies(10))

        assert (len(reader.read()), world.waiting(), reader.outstanding[0]) == (given, 10 - given, given)

    @pytest.mark.rule("V10")
    @pytest.mark.parametrize("most", [0, -1])
    def test_none_or_less_is_no_limit(self, world: World, most: int) -> None:
        reader = Reader(world, messages=most, max_bytes=most)

        world.publish(*bodies(500))

        assert len(reader.read()) == 500

    @pytest.mark.rule("A9")
    def test_holds_although_nothing_was_written_yet(self, world: World) -> None:
        reader = Reader(world, messages=5, space=0)

        world.publish(*bodies(100))
        reader.read()

        assert (reader.pile.count, world.waiting(), world.leases()) == (5, 95, 5)

    @pytest.mark.rule("C15", "B010")
    @pytest.mark.parametrize("how", ["ack", "nack", "expiry"])
    def test_with_one_the_second_comes_when_the_first_has_ended(self, world: World, how: str) -> None:
        reader = Reader(world, messages=1)
        world.publish(b"a", b"b", b"c")
        first = reader.read()
        before = reader.read()

        self._end(world, how, *reader.ack_ids)

        expected = [b"b"] if how == "ack" else [b"a"]
        assert (first, before, reader.read(), reader.outstanding[0]) == ([b"a"], [], expected, 1)

    def _end(self, world: World, how: str, *ack_ids: str) -> None:
        if how == "ack":
            world.ack(*ack_ids)
        elif how == "nack":
            world.nack(*ack_ids)
        else:
            world.advance(10)

    @pytest.mark.rule("O16", "V14")
    @pytest.mark.parametrize("how", ["ack", "nack", "expiry", "detach", "delete", "retention"])
    def test_returns_to_nothing_when_leases_end(self, world: World, how: str) -> None:
        reader = Reader(world, messages=3, deadline=10 if how == "expiry" else 600)
        world.publish(*bodies(3))
        reader.read()
        full = reader.outstanding[0]

        if how in ("detach", "delete"):
            getattr(world.broker, f"{how}_subscription")(SUBSCRIPTION)
        elif how == "retention":
            world.subscription().update(settings(retention=60))
            world.advance(61)
        else:
            world.subscription().stop_stream(reader.stream)
            self._end(world, how, *reader.ack_ids)

        assert (full, reader.outstanding) == (3, (0, 0))

    def test_is_each_streams_own(self, world: World) -> None:
        small, large = Reader(world, messages=2), Reader(world, messages=5)

        world.publish(*bodies(20))

        assert (len(small.read()), len(large.read()), world.waiting()) == (2, 5, 13)

    def test_returns_to_the_stream_that_had_the_message(self, world: World) -> None:
        reader, other = Reader(world, messages=1), Reader(world, messages=1)
        world.publish(b"a", b"b", b"c")
        reader.read()
        other.read()

        world.ack(*reader.ack_ids)

        assert (reader.read(), other.read()) == ([b"c"], [])

    def test_is_counted_from_what_is_queued_not_only_what_is_written(self, world: World) -> None:
        reader = Reader(world, messages=3)
        world.publish(b"a", b"b")
        reader.read()

        world.publish(b"c", b"d")

        assert (reader.pile.count, world.waiting(), reader.outstanding[0]) == (1, 1, 3)


@pytest.mark.rule("V8", "O9", "S7.3.8")
class TestCreditInBytes:
    @pytest.mark.rule("C16")
    def test_another_one_is_taken_below_the_limit_whatever_its_size(self, world: World) -> None:
        reader = Reader(world, max_bytes=100)
        world.publish(body(60, b"a"), body(60, b"b"), body(500, b"c"))

        first = reader.read()
        one, two = reader.ack_ids
        full = reader.outstanding
        world.ack(one)
        second = reader.read()
        world.ack(two)
        third = reader.read()

        assert [text[:1] for text in first] == [b"a", b"b"]
        assert full == (2, 120)
        # 60 are out after the first ack: below the limit, so the large one comes.
        assert ([text[:1] for text in second], third, reader.outstanding) == ([b"c"], [], (1, 500))

    @pytest.mark.rule("V9", "C16")
    def test_a_message_larger_than_the_limit_comes_when_nothing_is_out(self, world: World) -> None:
        reader = Reader(world, max_bytes=100)

        world.publish(body(5_000, b"a"), body(40, b"b"))
        first = reader.read()
        world.ack(*reader.ack_ids)

        assert ([text[:1] for text in first], [text[:1] for text in reader.read()]) == ([b"a"], [b"b"])

    @pytest.mark.parametrize(
        ("limit", "given"), [(1, 1), (50, 1), (51, 2), (99, 2), (100, 2), (101, 3), (250, 5), (9_999, 5)]
    )
    def test_counts_the_serialized_message(self, world: World, limit: int, given: int) -> None:
        reader = Reader(world, max_bytes=limit)

        world.publish(*[body(50)] * 5)

        assert (len(reader.read()), reader.outstanding) == (given, (given, 50 * given))

    @pytest.mark.parametrize("how", ["ack", "nack", "expiry"])
    def test_returns_when_a_lease_ends(self, world: World, how: str) -> None:
        reader = Reader(world, max_bytes=50)
        world.publish(body(50, b"a"), body(50, b"b"))
        reader.read()
        world.subscription().stop_stream(reader.stream)

        if how == "ack":
            world.ack(*reader.ack_ids)
        elif how == "nack":
            world.nack(*reader.ack_ids)
        else:
            world.advance(10)

        assert reader.outstanding == (0, 0)

    @pytest.mark.parametrize(("messages", "max_bytes", "given"), [(2, 1_000, 2), (10, 100, 2), (3, 101, 3), (1, 1, 1)])
    def test_both_limits_hold(self, world: World, messages: int, max_bytes: int, given: int) -> None:
        reader = Reader(world, messages=messages, max_bytes=max_bytes)

        world.publish(*[body(50)] * 5)

        assert len(reader.read()) == given

    def test_of_a_queued_message_returns_when_it_is_dropped(self, world: World) -> None:
        reader = Reader(world, max_bytes=50, space=0)
        world.publish(body(50, b"a"), body(50, b"b"))
        reader.read()

        reader._subscription.acknowledge([(1, 0)])
        reader.grow()

        assert (reader.bodies, reader.read(), reader.outstanding) == ([], [body(50, b"b")], (1, 50))


@pytest.mark.rule("O9")
class TestUnwrittenCap:
    def test_a_stream_without_a_limit_holds_a_thousand_unwritten(self, world: World) -> None:
        reader = Reader(world, space=0)

        for _ in range(3):
            world.publish(*[b"x"] * 500)

        assert (reader.pile.count, world.waiting()) == (1_000, 500)

    def test_a_stream_with_a_higher_limit_does_too(self, world: World) -> None:
        reader = Reader(world, messages=5_000, space=0)

        for _ in range(3):
            world.publish(*[b"x"] * 500)

        assert reader.pile.count == 1_000

    def test_it_takes_more_as_they_are_written(self, world: World) -> None:
        reader = Reader(world)

        for _ in range(5):
            world.publish(*[b"x"] * 500)

        assert (len(reader.read()), world.waiting(), reader.outstanding[0]) == (2_500, 0, 2_500)

    def test_of_bytes_it_holds_no_more_than_100_mib_and_a_message(self, world: World) -> None:
        reader = Reader(world, space=0)
        large = body(10 * MIB - 1_000_000)

        for _ in range(14):
            world.publish(large)

        # Eleven are below 100 MiB, and the next one takes it beyond.
        assert (reader.pile.count, world.waiting(), reader.pile.bytes > 100 * MIB) == (12, 2, True)

    def test_what_expires_unwritten_no_longer_counts(self, world: World) -> None:
        reader = Reader(world, space=0)
        for _ in range(3):
            world.publish(*[b"x"] * 500)
        reader.read()

        world.advance(10)

        assert (reader.pile.count, world.waiting(), reader.outstanding) == (0, 1_500, (0, 0))


class TestLeaseClock:
    @pytest.mark.rule("O14", "S7.1.2", "V1")
    @pytest.mark.parametrize("deadline", [10, 42, 600])
    def test_runs_for_the_streams_own_deadline(self, world: World, deadline: int) -> None:
        reader = Reader(world, deadline=deadline)
        world.publish(b"a")
        reader.read()

        world.advance(deadline - 0.001)
        before = reader.read()
        world.advance(0.001)

        assert (before, reader.read()) == ([], [b"a"])

    @pytest.mark.rule("O14")
    def test_starts_when_a_message_is_queued_not_when_it_is_written(self, world: World) -> None:
        reader = Reader(world, space=0)
        world.publish(b"a")
        world.advance(6)
        reader.grow()
        reader.read()

        world.advance(3.999)
        before = reader.read()
        world.advance(0.001)

        assert (before, reader.read(), world.failures()) == ([], [b"a"], [1])

    @pytest.mark.rule("S7.1.2")
    def test_a_deadline_changed_later_is_for_messages_taken_later(self, world: World) -> None:
        reader = Reader(world, deadline=10)
        world.publish(b"old")
        reader.read()

        reader.stream.ack_deadline = 60_000_000_000
        world.publish(b"new")
        reader.read()
        world.advance(10)
        at_ten = reader.read()
        world.advance(50)

        assert (at_ten, b"new" in reader.read()) == ([b"old"], True)

    @pytest.mark.rule("C11", "V2")
    def test_extended_every_five_seconds_a_message_stays_where_it_is(self, world: World) -> None:
        reader, other = Reader(world), Reader(world)
        world.publish(b"a")
        reader.read()
        again = []

        for _ in range(12):
            world.advance(5)
            world.extend(10, *reader.ack_ids)
            again += reader.read() + other.read()
        world.advance(10)

        assert (again, other.read()) == ([], [b"a"])

    @pytest.mark.rule("C21", "V2")
    def test_an_extension_replaces_the_one_before(self, world: World) -> None:
        reader = Reader(world)
        world.publish(b"a")
        reader.read()
        world.extend(600, *reader.ack_ids)
        world.advance(1)

        world.extend(10, *reader.ack_ids)
        world.advance(9.999)
        before = reader.read()
        world.advance(0.001)

        assert (before, reader.read()) == ([], [b"a"])

    @pytest.mark.rule("C13")
    def test_what_is_acknowledged_never_comes_again(self, world: World) -> None:
        reader = Reader(world)
        world.publish(b"a")
        reader.read()

        world.ack(*reader.ack_ids)
        world.advance(3_600)

        assert (reader.read(), world.held()) == ([], 0)

    @pytest.mark.rule("C10", "V1", "V4")
    @pytest.mark.parametrize(("seconds", "again"), [(9.9, []), (9.999999999, []), (10, [b"a"])])
    def test_a_message_is_nobody_elses_before_the_deadline(
        self, world: World, seconds: float, again: list[bytes]
    ) -> None:
        reader = Reader(world)
        world.publish(b"a")
        reader.read()
        other = Reader(world)

        world.advance(seconds)

        assert (reader.read(), other.read()) == ([], again)
