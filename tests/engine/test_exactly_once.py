"""Exactly-once: only the latest ack id of a message counts, and whoever uses another one is told."""

from dataclasses import replace

import pytest

from emulator.engine.holdings import UNKNOWN
from emulator.engine.values import AckFailure, Draft
from emulator.errors import Code, PubsubError
from emulator.limits import STRICT
from tests.engine.helpers import SUBSCRIPTION, TOPIC, Delivery, World, settings

INVALID = "PERMANENT_FAILURE_INVALID_ACK_ID"
UNORDERED = "TRANSIENT_FAILURE_UNORDERED_ACK_ID"

ONCE = replace(settings(), exactly_once=True)


@pytest.fixture
def once() -> World:
    """A world whose one subscription has exactly-once."""
    world = World()
    world.create_topic()
    world.subscribe(to=ONCE)
    return world


@pytest.fixture
def ordered() -> World:
    """The same with ordering too."""
    world = World()
    world.create_topic()
    world.subscribe(to=replace(ONCE, ordered=True))
    return world


def publish_in_order(world: World, *bodies: bytes, key: str = "k") -> None:
    world.broker.publish(TOPIC, [Draft(body, {}, key, len(body)) for body in bodies])


def refusals(world: World, seconds: int | None, *ack_ids: str) -> dict[str, str]:
    """What an Acknowledge, or a ModifyAckDeadline by so many seconds, refuses of these."""
    try:
        if seconds is None:
            world.ack(*ack_ids)
        else:
            world.extend(seconds, *ack_ids)
    except PubsubError as problem:
        if (problem.code, problem.reason) != (Code.INVALID_ARGUMENT, "EXACTLY_ONCE_ACKID_FAILURE"):
            raise
        return dict(problem.metadata) or {"none": "named"}
    return {}


def one(world: World) -> Delivery:
    (delivery,) = world.pull().deliveries
    return delivery


def expired(world: World) -> str:
    """The id of a delivery whose deadline has passed; the message waits."""
    world.publish(b"expired")
    delivery = one(world)
    world.advance(10)
    return delivery.ack_id


def superseded(world: World) -> str:
    """The id of a delivery after which there was another, which is out."""
    old = expired(world)
    one(world)
    return old


def acked(world: World) -> str:
    world.publish(b"acked")
    delivery = one(world)
    world.ack(delivery.ack_id)
    return delivery.ack_id


def nacked(world: World) -> str:
    world.publish(b"nacked")
    delivery = one(world)
    world.nack(delivery.ack_id)
    return delivery.ack_id


def unknown(world: World) -> str:
    """An id of another run of the server."""
    stranger = World()
    stranger.broker._ack_ids._run = world.broker._ack_ids._run ^ 1
    stranger.create_topic()
    stranger.subscribe()
    stranger.publish(b"elsewhere")
    return one(stranger).ack_id


INVALIDS = [expired, superseded, acked, nacked, unknown]


class TestWhatCounts:
    @pytest.mark.rule("S8.1")
    def test_an_ack_of_the_latest_delivery_is_the_end_of_a_message(self, once: World) -> None:
        once.publish(b"a")

        assert refusals(once, None, one(once).ack_id) == {}
        once.advance(100)
        assert (once.held(), once.pull().bodies) == (0, [])

    @pytest.mark.rule("S8.1")
    def test_nothing_is_delivered_again_before_its_deadline(self, once: World) -> None:
        once.publish(b"a")
        one(once)

        once.advance(9.999)
        assert once.pull().bodies == []
        once.advance(0.001)
        assert once.pull().bodies == [b"a"]

    @pytest.mark.rule("S8.1")
    def test_a_redelivery_can_be_acked_by_its_own_id(self, once: World) -> None:
        old = expired(once)
        new = one(once).ack_id

        assert refusals(once, None, old, new) == {old: INVALID}
        assert once.held() == 0

    @pytest.mark.rule("S8.12")
    def test_a_nack_succeeds_and_the_message_comes_again(self, once: World) -> None:
        once.publish(b"a")

        assert refusals(once, 0, one(once).ack_id) == {}
        assert (once.failures(), once.pull().bodies) == ([1], [b"a"])

    def test_a_deadline_can_be_moved_again_and_again(self, once: World) -> None:
        once.publish(b"a")
        ack_id = one(once).ack_id

        for _ in range(5):
            once.advance(9)
            assert refusals(once, 10, ack_id) == {}
        assert once.pull().bodies == []


class TestWhatIsRefused:
    @pytest.mark.rule("S8.2", "S8.4", "S8.5", "V6", "C20")
    @pytest.mark.parametrize("make", INVALIDS)
    def test_an_ack_of_anything_else_and_it_has_no_effect(self, once: World, make: object) -> None:
        assert callable(make)
        ack_id = make(once)
        before = once.broker.dump()

        assert refusals(once, None, ack_id) == {ack_id: INVALID}
        assert once.broker.dump() == before

    @pytest.mark.rule("S8.2", "S8.9")
    @pytest.mark.parametrize("seconds", [0, 10, 600])
    @pytest.mark.parametrize("make", INVALIDS)
    def test_a_modack_of_anything_else_and_it_has_no_effect(self, once: World, make: object, seconds: int) -> None:
        assert callable(make)
        ack_id = make(once)
        before = once.broker.dump()

        assert refusals(once, seconds, ack_id) == {ack_id: INVALID}
        assert once.broker.dump() == before

    @pytest.mark.rule("S8.3", "V6")
    def test_an_ack_in_the_moment_of_the_deadline_is_late(self, once: World) -> None:
        once.publish(b"a")
        ack_id = one(once).ack_id

        once.advance(10)

        assert refusals(once, None, ack_id) == {ack_id: INVALID}
        assert once.pull().bodies == [b"a"]

    @pytest.mark.rule("S8.3")
    def test_the_clock_decides_not_the_sweep(self, once: World) -> None:
        """A timer may come late on a busy machine; the deadline is over all the same."""
        once.publish(b"a", b"b")
        first, second = once.pull().ack_ids
        once.clock._now += 10_000_000_000

        assert refusals(once, None, first) == {first: INVALID}
        assert refusals(once, 10, second) == {second: INVALID}

    @pytest.mark.rule("S8.2")
    def test_without_exactly_once_the_same_is_ok(self, world: World) -> None:
        for make in INVALIDS:
            ack_id = make(world)
            assert refusals(world, 10, ack_id) == {}
            assert refusals(world, None, ack_id) == {}

    @pytest.mark.rule("S8.6")
    @pytest.mark.parametrize("seconds", [None, 0, 100])
    def test_the_good_ids_of_a_request_are_processed(self, once: World, seconds: int | None) -> None:
        bad = expired(once)
        once.publish(b"a", b"b")
        again, first, second = once.pull().ack_ids

        assert refusals(once, seconds, first, bad, second) == {bad: INVALID}

        once.extend(10, again)
        once.advance(50)
        left = {None: [b"expired"], 0: [b"expired", b"a", b"b"], 100: [b"expired"]}[seconds]
        assert once.pull().bodies == left

    @pytest.mark.rule("S8.6")
    @pytest.mark.parametrize("seconds", [None, 0, 100])
    def test_an_id_that_stands_twice_in_a_request_is_one(self, once: World, seconds: int | None) -> None:
        once.publish(b"a")
        ack_id = one(once).ack_id

        assert refusals(once, seconds, ack_id, ack_id) == {}

    @pytest.mark.rule("S8.11")
    @pytest.mark.parametrize("seconds", [None, 10])
    def test_a_malformed_id_refuses_the_request_and_is_no_ack_failure(self, once: World, seconds: int | None) -> None:
        once.publish(b"a")
        ack_id = one(once).ack_id
        before = once.broker.dump()

        with pytest.raises(PubsubError) as caught:
            refusals(once, seconds, ack_id, "nonsense")

        problem = caught.value
        assert (problem.code, problem.reason, dict(problem.metadata)) == (Code.INVALID_ARGUMENT, "", {})
        assert once.broker.dump() == before

    @pytest.mark.rule("V12", "S8.6")
    def test_three_thousand_ids_at_once(self, once: World) -> None:
        once.publish(*[b"x"] * 1_000)
        once.publish(*[b"x"] * 500)
        late = [*once.pull(1_000).ack_ids, *once.pull(1_000).ack_ids]
        once.advance(10)
        good = [*once.pull(1_000).ack_ids, *once.pull(1_000).ack_ids]

        assert refusals(once, None, *late, *good) == dict.fromkeys(late, INVALID)
        assert once.held() == 0


class TestWithOrdering:
    @pytest.mark.rule("S8.8", "S8.5")
    def test_an_ack_before_an_earlier_message_is_acked_fails_for_the_time_being(self, ordered: World) -> None:
        publish_in_order(ordered, b"1", b"2")
        first, second = ordered.pull().ack_ids

        assert refusals(ordered, None, second) == {second: UNORDERED}
        assert ordered.leases() == 2
        assert refusals(ordered, None, first) == {}
        assert refusals(ordered, None, second) == {}
        assert ordered.held() == 0

    @pytest.mark.rule("S8.8")
    def test_acks_in_one_request_may_stand_in_any_order(self, ordered: World) -> None:
        publish_in_order(ordered, b"1", b"2", b"3")
        first, second, third = ordered.pull().ack_ids

        assert refusals(ordered, None, third, first, second) == {}
        assert ordered.held() == 0

    @pytest.mark.rule("S8.8")
    def test_other_keys_and_messages_without_one_are_no_matter(self, ordered: World) -> None:
        publish_in_order(ordered, b"a1", key="a")
        publish_in_order(ordered, b"b1", key="b")
        ordered.publish(b"plain")
        _, other, plain = ordered.pull().ack_ids

        assert refusals(ordered, None, plain, other) == {}

    @pytest.mark.rule("S8.8")
    def test_what_is_transient_is_named_before_what_is_not(self, ordered: World) -> None:
        bad = expired(ordered)
        publish_in_order(ordered, b"1", b"2")
        second = ordered.pull().ack_ids[2]

        assert list(refusals(ordered, None, bad, second).items()) == [(second, UNORDERED), (bad, INVALID)]

    @pytest.mark.rule("S9.4", "S8.2")
    def test_a_failure_takes_the_ids_of_later_messages_with_it(self, ordered: World) -> None:
        publish_in_order(ordered, b"1", b"2")
        first, second = ordered.pull().ack_ids
        ordered.nack(first)

        assert refusals(ordered, None, second) == {second: INVALID}
        assert refusals(ordered, 10, second) == {second: INVALID}
        assert ordered.pull().bodies == [b"1", b"2"]

    @pytest.mark.rule("S8.12", "S9.4")
    def test_nacks_of_a_whole_batch_all_succeed(self, ordered: World) -> None:
        publish_in_order(ordered, b"1", b"2", b"3")

        assert refusals(ordered, 0, *ordered.pull().ack_ids) == {}
        assert (ordered.failures(), ordered.pull().bodies) == ([1, 1, 1], [b"1", b"2", b"3"])


class TestSwitching:
    @pytest.mark.rule("S8.10")
    def test_on_it_holds_for_later_calls_on_messages_that_are_out(self, world: World) -> None:
        old = expired(world)
        world.subscription().update(ONCE)

        assert refusals(world, None, old) == {old: INVALID}
        assert refusals(world, None, one(world).ack_id) == {}

    @pytest.mark.rule("S8.10")
    def test_off_late_acks_are_ok_again(self, once: World) -> None:
        old = expired(once)
        once.subscription().update(settings())

        assert refusals(once, None, old) == {}
        assert once.held() == 0


def test_the_unknown_delivery_is_refused_once_however_often_it_is_named(once: World) -> None:
    assert once.subscription().acknowledge([UNKNOWN, UNKNOWN]) == {UNKNOWN: AckFailure.INVALID}


@pytest.mark.rule("S8.8")
def test_clients_retry_what_starts_with_transient_alone() -> None:
    assert {failure for failure in AckFailure if failure.value.startswith("TRANSIENT_")} == {AckFailure.UNORDERED}


def test_the_default_deadline_is_longer() -> None:
    assert (STRICT.ack_deadline_exactly_once_default_s, STRICT.ack_deadline_default_s) == (60, 10)


@pytest.mark.rule("S8.1")
def test_its_pull_subscription_alone(once: World) -> None:
    """Another subscription of the topic has its own ids and its own rules."""
    once.subscribe("projects/p/subscriptions/others")
    once.publish(b"a")
    mine = one(once).ack_id
    theirs = once.pull(name="projects/p/subscriptions/others").ack_ids[0]
    once.advance(10)

    once.ack(theirs, name="projects/p/subscriptions/others")
    assert refusals(once, None, mine) == {mine: INVALID}
    assert (once.held(SUBSCRIPTION), once.held("projects/p/subscriptions/others")) == (1, 0)
