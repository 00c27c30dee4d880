"""Streams: what becomes of their messages when they stall, and how they end."""

from collections.abc import Iterator

import pytest

from emulator.engine.entries import RECEIVED_BYTES
from emulator.engine.values import DeliveryKind
from emulator.errors import Code, PubsubError
from tests.engine import soundness
from tests.engine.helpers import NOTHING_HELD, SUBSCRIPTION, World, settings
from tests.engine.streams import ENVELOPE, Reader, bodies, body, outbox


@pytest.fixture(autouse=True)
def all_is_sound_at_the_end(empty: World) -> Iterator[None]:
    yield
    for subscription in empty.broker.subscriptions:
        soundness.check_subscription(subscription)


class TestUnwritten:
    @pytest.mark.rule("O15", "S7.1.11")
    def test_an_expiry_counts_no_attempt_and_the_entry_is_skipped(self, world: World) -> None:
        reader = Reader(world, space=0)
        world.publish(b"a", b"b")
        reader.read()

        world.advance(10)
        held = (world.failures(), reader.pile.count, world.waiting())
        world.advance(1)
        reader.grow()

        assert held == ([0, 0], 0, 2)
        assert reader.read() == [b"a", b"b"]
        assert len(reader.responses) == 1

    @pytest.mark.rule("O15", "S7.1.11")
    def test_a_nack_counts_no_attempt(self, world: World) -> None:
        reader = Reader(world, messages=1, space=0)
        world.publish(b"a")
        lease = world.subscription()._holdings._entries[1].lease
        assert lease is not None

        world.subscription().modify_ack_deadline([(1, lease.number)], 0)

        assert (world.failures(), reader.outstanding[0]) == ([0], 1)

    @pytest.mark.rule("O15", "S7.1.11")
    def test_an_expiry_of_a_written_one_counts(self, world: World) -> None:
        reader = Reader(world)
        world.publish(b"a")

        reader.read()
        world.advance(10)

        assert world.failures() == [1]

    @pytest.mark.rule("O15")
    @pytest.mark.parametrize("how", ["ack", "detach", "delete", "retention"])
    def test_one_that_is_dropped_is_not_written(self, world: World, how: str) -> None:
        reader = Reader(world, deadline=600)
        world.publish(b"a", b"b")

        if how == "ack":
            world.subscription().acknowledge([(1, 0), (2, 0)])
        elif how == "detach":
            world.broker.detach_subscription(SUBSCRIPTION)
        elif how == "delete":
            world.broker.delete_subscription(SUBSCRIPTION)
        else:
            world.subscription().update(settings(retention=60))
            world.advance(61)

        assert (reader.pile.count, reader.pile.bytes, reader.read(), reader.responses) == (0, 0, [], [])

    @pytest.mark.rule("O15")
    def test_expired_ones_go_to_a_stream_that_reads(self, world: World) -> None:
        stalled = Reader(world, space=0, messages=3)
        world.publish(b"a", b"b", b"c")
        stalled.read()
        reading = Reader(world)

        before = reading.read()
        world.advance(10)

        assert (before, reading.read(), stalled.outstanding) == ([], [b"a", b"b", b"c"], (0, 0))

    @pytest.mark.rule("O16", "V14", "A11")
    def test_given_back_at_once_when_the_stream_closes_and_written_ones_after_their_deadline(
        self, world: World
    ) -> None:
        reader = Reader(world, space=3 * (ENVELOPE + 1 + RECEIVED_BYTES))
        world.publish(*bodies(7))
        written = reader.read()

        reader.close()
        at_once = world.pull().bodies
        failures = world.failures()
        world.advance(10)

        assert (written, at_once) == (bodies(3), bodies(7)[3:])
        assert failures == [0] * 7
        assert (world.pull().bodies, world.failures()) == (bodies(7), [1] * 7)

    @pytest.mark.rule("O16")
    def test_given_back_at_their_old_places(self, world: World) -> None:
        reader = Reader(world, messages=2, space=0)
        world.publish(b"a", b"b", b"c")

        reader.close()

        assert world.pull().bodies == [b"a", b"b", b"c"]

    @pytest.mark.rule("O16", "O1")
    def test_of_a_connection_that_closes_go_to_no_other_stream_of_it(self, world: World) -> None:
        box = outbox()
        first, second = Reader(world, box), Reader(world, box)
        elsewhere = Reader(world, messages=1)
        world.publish(*bodies(6))

        for parcel in box.close():
            parcel.recipient.give_back(parcel.leases)

        assert (first.read(), second.read(), first.outstanding, second.outstanding) == ([], [], (0, 0), (0, 0))
        assert (elsewhere.read(), world.waiting(), world.failures()) == ([b"2"], 5, [0] * 6)

    @pytest.mark.rule("O16")
    def test_given_back_go_to_another_stream_in_the_same_call(self, world: World) -> None:
        stalled, other = Reader(world, space=0), Reader(world)
        world.publish(*bodies(4))
        first = other.read()

        stalled.close()

        assert (first, other.read()) == ([b"1", b"3"], [b"0", b"2"])

    @pytest.mark.rule("O16", "V14", "V5")
    def test_a_written_one_may_be_acknowledged_after_its_stream_is_gone(self, world: World) -> None:
        reader = Reader(world)
        world.publish(b"a")
        reader.read()

        reader.close()
        world.ack(*reader.ack_ids)

        assert (world.held(), reader.outstanding) == (0, (0, 0))


class TestTheEnd:
    @pytest.mark.parametrize(
        ("how", "code"),
        [
            pytest.param("delete", Code.NOT_FOUND, marks=pytest.mark.rule("S6.3")),
            pytest.param("detach", Code.FAILED_PRECONDITION, marks=pytest.mark.rule("S6.2")),
            pytest.param("push", Code.FAILED_PRECONDITION, marks=pytest.mark.rule("S7.2.5")),
            pytest.param("close", Code.UNAVAILABLE, marks=pytest.mark.rule("S7.3.7")),
            pytest.param("reset", Code.NOT_FOUND, marks=pytest.mark.rule("S6.3")),
        ],
    )
    def test_every_stream_is_told_once_and_takes_nothing_more(self, world: World, how: str, code: Code) -> None:
        readers = [Reader(world), Reader(world, messages=1), Reader(world, space=0)]
        world.publish(*bodies(9))
        readers[0].read()
        readers[2].read()

        if how == "push":
            world.subscription().update(settings(delivery=DeliveryKind.PUSH))
        elif how in ("close", "reset"):
            getattr(world.broker, how)()
        else:
            getattr(world.broker, f"{how}_subscription")(SUBSCRIPTION)

        assert [[error.code for error in reader.errors] for reader in readers] == [[code]] * 3
        assert world.broker.counts()["pull_streams"] == 0
        assert [reader.pile.count for reader in readers] == [0, 0, 0]
        assert readers[1].read() == []

    @pytest.mark.rule("S6.3")
    def test_after_a_delete_nothing_is_left_of_anything(self, world: World) -> None:
        reader = Reader(world)
        world.publish(*bodies(5))
        reader.read()

        world.broker.delete_subscription(SUBSCRIPTION)

        assert (reader.outstanding, world.clock.timer_count()) == ((0, 0), 0)
        assert {key: world.broker.counts()[key] for key in NOTHING_HELD} == NOTHING_HELD

    @pytest.mark.rule("O16", "S7.2.5")
    def test_when_the_subscription_becomes_push_unwritten_messages_wait_again(self, world: World) -> None:
        reader = Reader(world, space=0)
        world.publish(*bodies(3))

        world.subscription().update(settings(delivery=DeliveryKind.PUSH))

        assert (world.waiting(), world.leases(), world.failures(), reader.outstanding) == (3, 0, [0, 0, 0], (0, 0))

    @pytest.mark.rule("S6.1")
    def test_deleting_the_topic_leaves_streams_open(self, world: World) -> None:
        reader = Reader(world, messages=1)
        world.publish(b"a", b"b")
        reader.read()

        world.broker.delete_topic("projects/p/topics/news")
        world.ack(*reader.ack_ids)

        assert (reader.read(), reader.errors) == ([b"b"], [])

    @pytest.mark.rule("S7.2.5", "S6.2", "B014")
    @pytest.mark.parametrize("how", ["push", "detach", "close"])
    def test_none_is_opened_where_nothing_can_be_pulled(self, world: World, how: str) -> None:
        subscription = world.subscription()
        if how == "push":
            subscription.update(settings(delivery=DeliveryKind.PUSH))
        elif how == "detach":
            world.broker.detach_subscription(SUBSCRIPTION)
        else:
            world.broker.close()
        box = outbox()

        with pytest.raises(PubsubError) as caught:
            Reader(world, box)

        expected = Code.UNAVAILABLE if how == "close" else Code.FAILED_PRECONDITION
        assert (caught.value.code, subscription.counts()["pull_streams"]) == (expected, 0)

    def test_a_stream_that_was_stopped_takes_nothing_more_and_keeps_what_it_has(self, world: World) -> None:
        reader = Reader(world)
        world.publish(b"a", b"b")

        world.subscription().stop_stream(reader.stream)
        world.publish(b"c")

        assert (reader.read(), world.waiting(), reader.outstanding[0]) == ([b"a", b"b"], 1, 2)

    def test_closing_again_changes_nothing(self, world: World) -> None:
        reader = Reader(world, space=0)
        world.publish(b"a")
        reader.close()
        before = world.broker.dump()

        reader.close()
        world.broker.delete_subscription(SUBSCRIPTION)

        assert (before["messages"], reader.errors) == (1, [])

    @pytest.mark.rule("O16")
    def test_counts_return_to_the_start_when_all_have_gone(self, world: World) -> None:
        readers = [Reader(world, messages=most, space=space) for most in (0, 3) for space in (0, 10_000)]
        world.publish(*bodies(50))
        for reader in readers:
            reader.read()

        for reader in readers:
            reader.close()
        world.ack(*[ack_id for reader in readers for ack_id in reader.ack_ids])
        world.ack(*world.pull().ack_ids)
        world.advance(604_801)

        assert {key: world.broker.counts()[key] for key in NOTHING_HELD} == NOTHING_HELD
        assert (world.clock.timer_count(), [reader.outstanding for reader in readers]) == (0, [(0, 0)] * 4)


class TestCounts:
    def test_tell_open_streams_and_what_waits_in_outboxes(self, world: World) -> None:
        reader, stalled = Reader(world), Reader(world, space=0)
        world.publish(*bodies(5))
        reader.read()
        stalled.read()

        counts = world.subscription().counts()

        assert counts == {**NOTHING_HELD, "leases": 5, "pull_streams": 2, "unwritten": 2}
        assert (stalled.stream.unwritten, world.broker.counts()["unwritten"]) == (2, 2)

    @pytest.mark.rule("B146")
    def test_an_idle_stream_has_no_timer(self, world: World) -> None:
        for _ in range(20):
            Reader(world)

        assert world.clock.timer_count() == 0

    @pytest.mark.rule("B146")
    def test_streams_add_no_timers_to_the_subscriptions(self, world: World) -> None:
        readers = [Reader(world, deadline=10 + number) for number in range(5)]
        world.publish(*bodies(50))

        for reader in readers:
            reader.read()

        assert world.clock.timer_count() == 1

    def test_a_stream_shows_itself(self, world: World) -> None:
        reader = Reader(world)
        world.publish(body(50), body(60))

        assert repr(reader.stream) == "<Stream 1 outstanding=2 bytes=110 <Pile waiting=2 bytes=110>>"


@pytest.mark.rule("S6.4")
class TestExpiration:
    @pytest.fixture
    def short(self, empty: World) -> World:
        """A subscription that expires after a day."""
        empty.create_topic()
        empty.subscribe(to=settings(ttl=86_400))
        return empty

    def test_an_open_stream_keeps_its_subscription(self, short: World) -> None:
        reader = Reader(short)

        for _ in range(10):
            short.advance(86_400)

        assert (reader.errors, short.broker.counts()["subscriptions"]) == ([], 1)

    def test_so_does_one_without_credit_or_window(self, short: World) -> None:
        Reader(short, messages=1, deadline=600, space=0).read()
        short.publish(b"a", b"b")

        short.advance(5 * 86_400)

        assert short.broker.counts()["subscriptions"] == 1

    def test_its_time_starts_when_the_last_stream_is_gone(self, short: World) -> None:
        reader, last = Reader(short), Reader(short)
        short.advance(3 * 86_400 + 1_000)
        reader.close()
        short.advance(5_000)
        last.close()

        short.advance(86_399.999)
        before = short.broker.counts()["subscriptions"]
        short.advance(0.001)

        assert (before, short.broker.counts()["subscriptions"], short.clock.timer_count()) == (1, 0, 0)


class TestChanges:
    @pytest.mark.rule("O19")
    def test_every_open_stream_hears_of_other_settings(self, world: World) -> None:
        first, second, gone = Reader(world), Reader(world), Reader(world)
        gone.close()

        world.subscription().update(settings(ack_deadline=60))

        assert [reader.changes for reader in (first, second, gone)] == [1, 1, 0]

    @pytest.mark.rule("S7.1.2")
    def test_another_ack_deadline_of_the_subscription_is_not_the_streams(self, world: World) -> None:
        reader = Reader(world, deadline=20)

        world.subscription().update(settings(ack_deadline=60))
        world.publish(b"a")
        reader.read()
        world.advance(20)

        assert reader.read() == [b"a"]
