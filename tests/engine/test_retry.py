"""Back-off: how long a message waits after it failed (service.md §10.1, §10.2)."""

import pytest

from emulator.clock import NS_PER_S
from emulator.engine.values import RetryPolicy
from tests.engine.helpers import OTHER, SUBSCRIPTION, World, settings
from tests.engine.streams import Reader

# The least and the most, and the waits after each failure, in seconds.
WAITS = [
    pytest.param((1, 600), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600], id="up to the most"),
    pytest.param((10, 600), [10, 20, 40, 80, 160, 320, 600, 600], id="the defaults"),
    pytest.param((10, 10), [10, 10, 10], id="always the same"),
    pytest.param((10, 25), [10, 20, 25, 25], id="a most between two"),
    pytest.param((0.5, 3), [0.5, 1, 2, 3, 3], id="fractions"),
    pytest.param((0, 600), [0, 0, 0], id="no least"),
    pytest.param((0, 0), [0, 0], id="none"),
]


@pytest.fixture
def retrying(empty: World) -> World:
    """A broker with one topic and one subscription: ack deadline 10 s, back-off 1 s to 600 s."""
    empty.create_topic()
    empty.subscribe(to=settings(backoff=(1, 600)))
    return empty


class TestWaits:
    @pytest.mark.rule("S10.1", "S10.9", "B064", "B065", "B161")
    @pytest.mark.parametrize(("backoff", "waits"), WAITS)
    def test_double_from_the_least_to_the_most(
        self, empty: World, backoff: tuple[float, float], waits: list[float]
    ) -> None:
        empty.create_topic()
        empty.subscribe(to=settings(ack_deadline=600, backoff=backoff))
        empty.publish(b"a")
        held = empty.pull()

        early: list[bytes] = []
        for wait in waits:
            empty.nack(*held.ack_ids)
            if wait:
                empty.advance(wait - 0.001)
                early += empty.pull().bodies
                empty.advance(0.001)
            held = empty.pull()
            assert held.bodies == [b"a"], f"not there after {wait} s"

        assert early == []

    @pytest.mark.rule("S10.1")
    @pytest.mark.parametrize("failures", [1, 2, 41, 42, 1_000, 10**6])
    def test_never_pass_the_most_however_often_a_message_failed(self, failures: int) -> None:
        policy = RetryPolicy(1, 600 * NS_PER_S)

        assert policy.backoff(failures) == min(600 * NS_PER_S, 2 ** min(failures - 1, 100))

    @pytest.mark.rule("S10.1", "B017", "S7.1.4")
    def test_are_none_without_a_policy(self, world: World) -> None:
        world.publish(b"a")

        for _ in range(10):
            held = world.pull()
            assert held.bodies == [b"a"]
            world.nack(*held.ack_ids)

    @pytest.mark.rule("S10.1", "S7.1.5", "V4")
    def test_begin_when_a_deadline_passes(self, retrying: World) -> None:
        retrying.publish(b"a")
        retrying.pull()

        retrying.advance(10.999)
        before = retrying.pull().bodies
        retrying.advance(0.001)

        assert (before, retrying.pull().bodies) == ([], [b"a"])

    @pytest.mark.rule("S10.1")
    def test_grow_by_nacks_and_expiries_alike(self, retrying: World) -> None:
        retrying.publish(b"a")
        retrying.nack(*retrying.pull().ack_ids)
        retrying.advance(1)
        retrying.pull()
        retrying.advance(10 + 2)
        retrying.nack(*retrying.pull().ack_ids)

        retrying.advance(3.999)
        before = retrying.pull().bodies
        retrying.advance(0.001)

        assert (before, retrying.pull().attempts) == ([], [4])

    @pytest.mark.rule("S10.1")
    def test_are_each_messages_own(self, retrying: World) -> None:
        retrying.publish(b"a", b"b", b"c")
        held = retrying.pull()
        retrying.nack(*held.of(b"a"))
        retrying.advance(1)
        retrying.nack(*retrying.pull().ack_ids)

        retrying.nack(*held.of(b"b"))

        assert retrying.pull().bodies == []
        retrying.advance(1)
        assert retrying.pull().bodies == [b"b"]
        retrying.advance(1)
        assert retrying.pull().bodies == [b"a"]

    @pytest.mark.rule("S10.1")
    def test_are_each_subscriptions_own(self, retrying: World) -> None:
        retrying.subscribe(OTHER)
        retrying.publish(b"a")
        retrying.nack(*retrying.pull().ack_ids)

        retrying.nack(*retrying.pull(name=OTHER).ack_ids, name=OTHER)

        assert (retrying.pull().bodies, retrying.pull(name=OTHER).bodies) == ([], [b"a"])

    @pytest.mark.rule("S10.1")
    def test_end_with_the_message_going_to_who_waits(self, retrying: World) -> None:
        reader, other = Reader(retrying), Reader(retrying)
        retrying.publish(b"a")
        reader.read()
        retrying.nack(*reader.ack_ids)
        waiting = reader.read(), other.read()

        retrying.advance(1)

        assert (waiting, reader.read(), other.read()) == (([], []), [], [b"a"])

    @pytest.mark.rule("S10.1", "S7.1.10")
    def test_that_end_together_bring_messages_in_publish_order(self, retrying: World) -> None:
        retrying.publish(b"a", b"b", b"c")
        held = retrying.pull(2)
        retrying.nack(*held.of(b"b", b"a"))

        retrying.advance(1)

        assert retrying.pull().bodies == [b"a", b"b", b"c"]

    @pytest.mark.rule("S10.1")
    def test_hold_up_no_other_message(self, retrying: World) -> None:
        retrying.publish(b"a", b"b")
        retrying.nack(*retrying.pull(1).ack_ids)

        retrying.publish(b"c")

        assert retrying.pull().bodies == [b"b", b"c"]

    @pytest.mark.rule("S10.9")
    def test_are_the_same_each_time(self, empty: World) -> None:
        empty.create_topic()
        empty.subscribe(to=settings(ack_deadline=600, backoff=(1, 600)))
        empty.publish(*(b"%d" % number for number in range(50)))
        empty.nack(*empty.pull().ack_ids)

        empty.advance(0.999)
        before = empty.pull().bodies
        empty.advance(0.001)

        assert (before, len(empty.pull().bodies)) == ([], 50)


class TestNoWait:
    @pytest.mark.rule("S10.2")
    def test_before_a_first_delivery(self, retrying: World) -> None:
        retrying.publish(b"a")

        assert retrying.pull().bodies == [b"a"]

    @pytest.mark.rule("S10.2", "O16")
    def test_for_what_a_lost_stream_never_wrote(self, retrying: World) -> None:
        lost = Reader(retrying)
        retrying.publish(b"a")

        lost.close()

        assert retrying.pull().bodies == [b"a"]

    @pytest.mark.rule("S10.2", "O15")
    def test_for_what_expired_before_it_was_written(self, retrying: World) -> None:
        stalled = Reader(retrying)
        retrying.publish(b"a")
        stalled.pile.shut = True

        retrying.advance(10)

        assert retrying.pull().attempts == [1]

    @pytest.mark.rule("S7.2.4")
    def test_for_what_a_pull_whose_caller_went_away_had(self, retrying: World) -> None:
        answer = retrying.pull(wait=True)
        retrying.subscription().cancel(answer.pull)
        retrying.publish(b"a")

        assert retrying.pull().bodies == [b"a"]


class TestWhileAMessageWaits:
    @pytest.fixture(autouse=True)
    def late(self, retrying: World) -> str:
        """The ack id of a message that was nacked a moment ago."""
        retrying.publish(b"a")
        (ack_id,) = retrying.pull().ack_ids
        retrying.nack(ack_id)
        return ack_id

    @pytest.mark.rule("V5", "C18")
    def test_a_late_ack_ends_it(self, retrying: World, late: str) -> None:
        retrying.ack(late)

        retrying.advance(100)
        assert retrying.pull().bodies == []
        assert retrying.subscription().dump()["messages"] == []

    @pytest.mark.rule("S7.1.7")
    @pytest.mark.parametrize("seconds", [0, 600])
    def test_a_late_modack_changes_nothing(self, retrying: World, late: str, seconds: int) -> None:
        retrying.extend(seconds, late)

        retrying.advance(0.999)
        before = retrying.pull().bodies
        retrying.advance(0.001)
        assert (before, retrying.pull().attempts) == ([], [2])

    def test_it_counts_as_delayed(self, retrying: World) -> None:
        counts = retrying.subscription().counts()

        assert (counts["waiting"], counts["delayed"], counts["leases"]) == (0, 1, 0)

    @pytest.mark.rule("S6.5")
    def test_it_leaves_when_it_is_too_old(self, retrying: World) -> None:
        retrying.subscription().update(settings(retention=600, backoff=(600, 600)))
        retrying.advance(1)
        retrying.nack(*retrying.pull().ack_ids)

        retrying.advance(600)

        counts = retrying.subscription().counts()
        assert (counts["waiting"], counts["delayed"]) == (0, 0)

    @pytest.mark.rule("S4.subscription.retry_policy")
    @pytest.mark.parametrize("backoff", [None, (100, 600)], ids=["taken away", "longer"])
    def test_another_policy_is_for_later_failures(self, retrying: World, backoff: tuple[float, float] | None) -> None:
        retrying.subscription().update(settings(backoff=backoff))

        retrying.advance(0.999)
        before = retrying.pull().bodies
        retrying.advance(0.001)
        held = retrying.pull()
        retrying.nack(*held.ack_ids)

        assert (before, held.bodies) == ([], [b"a"])
        assert retrying.pull().bodies == ([b"a"] if backoff is None else [])

    @pytest.mark.rule("S10.1")
    def test_a_subscription_that_goes_leaves_no_timer(self, retrying: World) -> None:
        retrying.broker.delete_subscription(SUBSCRIPTION)

        assert retrying.clock.timer_count() == 0


@pytest.mark.rule("S10.1", "B071")
def test_a_stream_of_one_message_at_a_time_goes_on_after_nacks(retrying: World) -> None:
    reader = Reader(retrying, messages=1)
    retrying.publish(b"a", b"b")
    reader.read()
    retrying.nack(*reader.ack_ids)
    second = reader.read()
    retrying.ack(*reader.ack_ids[-1:])

    retrying.advance(1)

    assert (second, reader.read(), reader.outstanding[0]) == ([b"b"], [b"a"], 1)


@pytest.mark.rule("S10.1")
def test_an_alarm_ends_a_thousand_waits(retrying: World) -> None:
    retrying.subscription().update(settings(ack_deadline=600, backoff=(1, 600)))
    retrying.publish(*(b"%d" % number for number in range(1_000)))
    retrying.nack(*retrying.pull().ack_ids)

    retrying.advance(1)

    assert retrying.pull().bodies == [b"%d" % number for number in range(1_000)]
