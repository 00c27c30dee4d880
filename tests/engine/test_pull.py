"""Pull: what it takes, how long it waits, and what is left when its caller goes away."""

import pytest

from emulator.engine import drafts as drafts_module
from emulator.engine import entries as entries_module
from emulator.engine.values import DeliveryKind
from emulator.errors import Code
from emulator.limits import Limits
from tests.engine.helpers import NOTHING_HELD, OTHER, SUBSCRIPTION, World, refused, settings

NOT_PULLED = [kind for kind in DeliveryKind if kind is not DeliveryKind.PULL]


@pytest.mark.rule("S7.2.1")
@pytest.mark.parametrize("most", [0, -1, -(2**31)])
def test_asking_for_less_than_one_message_is_refused(world: World, most: int) -> None:
    world.publish(b"a")

    with refused(world, Code.INVALID_ARGUMENT, "argument=max_messages", str(most)):
        world.pull(most)


@pytest.mark.rule("S7.2.1")
def test_asking_for_more_than_1000_gives_1000(world: World) -> None:
    world.publish(*[b"x"] * 1_000)
    world.publish(b"more")

    assert len(world.pull(2_000).deliveries) == 1_000
    assert world.pull(2_000).bodies == [b"more"]


def test_an_answered_pull_remembers_nobody(world: World) -> None:
    """Leases know their pull, and live longer than the reply."""
    answer = world.pull(wait=True)
    assert answer.pull.on_done is not None

    world.publish(b"a")

    assert repr((answer.times, answer.pull.on_done, answer.pull.leases)) == "(1, None, [])"


@pytest.mark.rule("S7.2.2")
def test_gives_what_is_there_when_that_is_less_than_asked(world: World) -> None:
    world.publish(b"a", b"b")

    assert world.pull(10).bodies == [b"a", b"b"]


def test_gives_no_more_than_asked(world: World) -> None:
    world.publish(b"a", b"b", b"c")

    assert [world.pull(2).bodies, world.pull(2).bodies] == [[b"a", b"b"], [b"c"]]


@pytest.mark.rule("S7.1.10")
def test_gives_the_oldest_first(world: World) -> None:
    world.publish(b"a", b"b")
    world.publish(b"c")

    assert [world.pull(1).bodies, world.pull(1).bodies, world.pull(1).bodies] == [[b"a"], [b"b"], [b"c"]]


@pytest.mark.rule("S7.1.12")
class TestReplySize:
    """With 10,000 bytes allowed; what a message takes in a reply is a little more than its body."""

    @pytest.fixture
    def world(self) -> World:
        world = World(limits=Limits(reply_max_bytes=10_000))
        world.create_topic()
        world.subscribe()
        return world

    def test_a_reply_stops_before_the_message_that_would_pass_the_limit(self, world: World) -> None:
        world.publish(b"a" * 4_000, b"b" * 4_000, b"c" * 4_000)

        assert [len(world.pull().bodies), len(world.pull().bodies)] == [2, 1]

    @pytest.mark.parametrize(("spare", "taken"), [(0, 2), (-1, 1)])
    def test_a_reply_of_exactly_the_limit_is_allowed(self, spare: int, taken: int) -> None:
        each = 100 + drafts_module.ENVELOPE_BYTES + entries_module.RECEIVED_BYTES
        world = World(limits=Limits(reply_max_bytes=2 * each + spare))
        world.create_topic()
        world.subscribe()
        world.publish(b"a" * 100, b"b" * 100, b"c" * 100)

        assert len(world.pull().bodies) == taken

    def test_smaller_messages_behind_it_do_not_overtake(self, world: World) -> None:
        world.publish(b"a" * 6_000, b"b" * 6_000, b"c")

        assert [len(body) for body in world.pull().bodies] == [6_000]
        assert [len(body) for body in world.pull().bodies] == [6_000, 1]

    def test_a_message_above_the_limit_travels_alone(self, world: World) -> None:
        world.publish(b"small", b"x" * 20_000, b"tail")

        assert [len(world.pull().bodies[0]) for _ in range(3)] == [5, 20_000, 4]

    def test_many_small_messages_count_with_all_that_carries_them(self, world: World) -> None:
        world.publish(*[b"x"] * 1_000)

        # A received message of one byte: ack id, message id and publish time with their tags, 50 bytes at least.
        assert len(world.pull().deliveries) * 50 <= 10_000


@pytest.mark.rule("S7.2.3")
class TestWaiting:
    def test_without_waiting_it_answers_at_once(self, world: World) -> None:
        answer = world.pull(wait=False)

        assert answer.pull.done
        assert answer.bodies == []
        assert world.broker.counts()["waiting_pulls"] == 0

    def test_with_something_there_it_does_not_wait(self, world: World) -> None:
        world.publish(b"a")

        answer = world.pull(wait=True)

        assert answer.pull.done
        assert answer.bodies == [b"a"]

    def test_with_nothing_there_it_waits(self, world: World) -> None:
        answer = world.pull(wait=True)

        assert not answer.pull.done
        assert world.broker.counts()["waiting_pulls"] == 1

    def test_the_first_message_ends_the_wait(self, world: World) -> None:
        answer = world.pull(wait=True)
        world.advance(3)

        world.publish(b"a")

        assert answer.bodies == [b"a"]
        assert answer.times == 1
        assert world.broker.counts()["waiting_pulls"] == 0

    def test_all_messages_of_a_request_come_in_one_answer(self, world: World) -> None:
        answer = world.pull(2, wait=True)

        world.publish(b"a", b"b", b"c")

        assert answer.bodies == [b"a", b"b"]
        assert world.waiting() == 1

    @pytest.mark.parametrize(("seconds", "done"), [(4.999, False), (5, True)])
    def test_it_ends_after_five_seconds_with_nothing(self, world: World, seconds: float, done: bool) -> None:
        answer = world.pull(wait=True)

        world.advance(seconds)

        assert (answer.pull.done, answer.pull.error, answer.bodies) == (done, None, [])

    def test_each_wait_has_its_own_five_seconds(self, world: World) -> None:
        first = world.pull(wait=True)
        world.advance(3)
        second = world.pull(wait=True)

        world.advance(2)
        between = (first.pull.done, second.pull.done)
        world.advance(3)

        assert (between, second.pull.done) == ((True, False), True)

    def test_hurried_it_answers_with_nothing_and_takes_nothing_later(self, world: World) -> None:
        answer = world.pull(wait=True)

        world.subscription().hurry(answer.pull)
        world.publish(b"a")

        assert (answer.pull.done, answer.times, answer.bodies) == (True, 1, [])
        assert world.pull().bodies == [b"a"]

    def test_hurried_after_its_answer_nothing_happens(self, world: World) -> None:
        answer = world.pull(wait=True)
        world.publish(b"a")

        world.subscription().hurry(answer.pull)

        assert (answer.times, answer.bodies) == (1, [b"a"])

    def test_who_waits_longest_is_served_first(self, world: World) -> None:
        first, second = world.pull(1, wait=True), world.pull(1, wait=True)

        world.publish(b"a")

        assert (first.bodies, second.pull.done) == ([b"a"], False)

    def test_several_that_wait_share_what_comes(self, world: World) -> None:
        answers = [world.pull(1, wait=True) for _ in range(3)]

        world.publish(b"a", b"b")

        assert [answer.bodies for answer in answers] == [[b"a"], [b"b"], []]

    def test_a_lease_that_runs_out_ends_the_wait(self, world: World) -> None:
        world.publish(b"a")
        world.pull()
        world.advance(8)
        answer = world.pull(wait=True)

        world.advance(2)

        assert answer.bodies == [b"a"]

    def test_what_the_answer_leads_to_finds_everything_at_rest(self, world: World) -> None:
        answer = world.pull(wait=True)
        seen: list[object] = []

        def look() -> None:
            seen.append(world.subscription().counts())
            seen.append(world.pull().bodies)

        answer.pull.on_done = look
        world.publish(b"a", b"b")

        assert seen == [{**NOTHING_HELD, "leases": 2}, []]

    def test_an_answer_may_lead_to_another_caller_going_away(self, world: World) -> None:
        first, second = world.pull(1, wait=True), world.pull(1, wait=True)
        first.pull.on_done = lambda: world.subscription().cancel(second.pull)

        world.publish(b"a", b"b")

        assert second.times == 0
        assert world.pull().bodies == [b"b"]

    def test_an_answer_may_lead_to_its_own_messages_coming_back(self, world: World) -> None:
        first, second = world.pull(wait=True), world.pull(wait=True)
        first.pull.on_done = lambda: world.subscription().give_back(first.pull.hand_over())

        world.publish(b"a", b"b")

        assert second.bodies == [b"a", b"b"]


@pytest.mark.rule("S7.2.4")
class TestTheCallerGoesAway:
    def test_while_waiting_it_takes_nothing_any_more(self, world: World) -> None:
        answer = world.pull(wait=True)

        world.subscription().cancel(answer.pull)
        world.publish(b"a")

        assert (world.leases(), answer.times) == (0, 0)
        assert world.pull().bodies == [b"a"]

    def test_while_waiting_its_five_seconds_end_silently(self, world: World) -> None:
        answer = world.pull(wait=True)
        world.subscription().cancel(answer.pull)

        world.advance(5)

        assert answer.times == 0

    def test_before_it_took_its_answer_the_messages_are_available_at_once(self, world: World) -> None:
        pull = world.broker.pull(SUBSCRIPTION, 10, wait=True)
        world.publish(b"a", b"b")
        before = world.leases()

        world.subscription().cancel(pull)

        assert (before, world.leases()) == (2, 0)
        assert world.pull().bodies == [b"a", b"b"]

    @pytest.mark.rule("V14")
    def test_after_it_took_its_answer_the_messages_stay_leased(self, world: World) -> None:
        answer = world.pull(wait=True)
        world.publish(b"a")

        world.subscription().cancel(answer.pull)

        assert (answer.bodies, world.leases()) == ([b"a"], 1)

    def test_before_the_reply_was_written_the_messages_are_available_at_once(self, world: World) -> None:
        world.publish(b"a", b"b", b"c")
        answer = world.pull(2)

        world.subscription().give_back(answer.leases)

        assert world.pull().bodies == [b"a", b"b", b"c"]

    def test_what_is_given_back_counts_no_attempt(self, world: World) -> None:
        world.publish(b"a")

        world.subscription().give_back(world.pull().leases)

        assert world.failures() == [0]

    def test_what_is_given_back_goes_to_another_that_waits(self, world: World) -> None:
        world.publish(b"a")
        gone = world.pull()
        other = world.pull(wait=True)

        world.subscription().give_back(gone.leases)

        assert other.bodies == [b"a"]

    def test_giving_back_twice_changes_nothing(self, world: World) -> None:
        world.publish(b"a")
        leases = world.pull().leases
        world.subscription().give_back(leases)
        held = world.pull()

        world.subscription().give_back(leases)

        assert (held.bodies, world.leases()) == ([b"a"], 1)

    def test_an_unwritten_delivery_whose_lease_ran_out_stays_available(self, world: World) -> None:
        world.publish(b"a")
        leases = world.pull().leases
        world.advance(10)

        world.subscription().give_back(leases)

        assert world.pull().bodies == [b"a"]
        assert world.held() == 1

    def test_an_unwritten_delivery_that_was_acked_meanwhile_is_not_revived(self, world: World) -> None:
        world.publish(b"a")
        answer = world.pull()
        world.ack(*answer.ack_ids)

        world.subscription().give_back(answer.leases)

        assert world.held() == 0


@pytest.mark.rule("S7.2.5")
@pytest.mark.parametrize("kind", NOT_PULLED)
class TestNotAPullSubscription:
    def test_cannot_be_pulled(self, empty: World, kind: DeliveryKind) -> None:
        empty.create_topic()
        empty.subscribe(to=settings(delivery=kind))

        with refused(empty, Code.FAILED_PRECONDITION, kind.value, SUBSCRIPTION):
            empty.pull()

    def test_keeps_its_backlog_until_it_is_one_again(self, empty: World, kind: DeliveryKind) -> None:
        empty.create_topic()
        subscription = empty.subscribe(to=settings(delivery=kind))
        empty.publish(b"a")

        subscription.update(settings())

        assert empty.pull().bodies == [b"a"]

    def test_becoming_one_ends_the_pulls_that_wait(self, world: World, kind: DeliveryKind) -> None:
        answer = world.pull(wait=True)

        world.subscription().update(settings(delivery=kind))

        assert answer.pull.error is not None
        assert answer.pull.error.code is Code.FAILED_PRECONDITION
        assert (answer.times, world.broker.counts()["waiting_pulls"]) == (1, 0)


@pytest.mark.rule("S7.2.6")
class TestDetachedOrDeleted:
    def test_a_detached_subscription_cannot_be_pulled(self, world: World) -> None:
        world.broker.detach_subscription(SUBSCRIPTION)

        with refused(world, Code.FAILED_PRECONDITION, "detached", SUBSCRIPTION):
            world.pull()

    def test_a_deleted_subscription_is_not_found(self, world: World) -> None:
        world.broker.delete_subscription(SUBSCRIPTION)

        with refused(world, Code.NOT_FOUND, SUBSCRIPTION):
            world.broker.pull(SUBSCRIPTION, 1, wait=False)

    def test_existence_is_checked_before_the_number_of_messages(self, world: World) -> None:
        with refused(world, Code.NOT_FOUND, OTHER):
            world.broker.pull(OTHER, 0, wait=False)

    def test_detaching_ends_the_pulls_that_wait(self, world: World) -> None:
        answer = world.pull(wait=True)

        world.broker.detach_subscription(SUBSCRIPTION)

        assert answer.pull.error is not None
        assert (answer.pull.error.code, answer.times) == (Code.FAILED_PRECONDITION, 1)

    def test_deleting_ends_the_pulls_that_wait(self, world: World) -> None:
        answer = world.pull(wait=True)

        world.broker.delete_subscription(SUBSCRIPTION)

        assert answer.pull.error is not None
        assert (answer.pull.error.code, answer.times) == (Code.NOT_FOUND, 1)
