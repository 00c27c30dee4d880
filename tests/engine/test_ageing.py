"""What time alone does: subscriptions that nobody uses expire, and messages outlive their retention."""

from collections.abc import Callable

import pytest

from emulator.engine.ackids import AckIds
from tests.engine.helpers import OTHER, SUBSCRIPTION, TOPIC, World, settings

DAY = 86_400
NS = 1e-9

# Well-formed, but of another run of the server.
FORMER = AckIds(0).encode(1, 1, 1)

USES: list[Callable[[World], object]] = [
    lambda world: world.pull(),
    lambda world: world.ack(FORMER),
    lambda world: world.nack(FORMER),
    lambda world: world.extend(10, FORMER),
    lambda world: world.broker.detach_subscription(SUBSCRIPTION),
    lambda world: world.subscription().update(settings(ttl=DAY)),
    lambda world: world.subscription().touch(),
]


@pytest.mark.rule("S6.4")
class TestExpiration:
    @pytest.fixture
    def world(self, empty: World) -> World:
        empty.create_topic()
        empty.subscribe(to=settings(ttl=DAY))
        return empty

    @pytest.mark.parametrize(("seconds", "there"), [(DAY - NS, True), (DAY, False)])
    def test_deletes_a_subscription_unused_for_its_ttl(self, world: World, seconds: float, there: bool) -> None:
        world.advance(seconds)

        assert (world.broker.subscriptions.find(SUBSCRIPTION) is not None) is there

    def test_frees_name_topic_messages_and_timer(self, world: World) -> None:
        world.publish(b"a")

        world.advance(DAY)

        assert world.broker.topics.get(TOPIC).attached() == []
        assert world.clock.timer_count() == 0
        assert world.subscribe() is world.subscription()
        assert world.held() == 0

    def test_never_comes_without_a_ttl(self, empty: World) -> None:
        empty.create_topic()
        empty.subscribe(to=settings(ttl=None))

        empty.advance(1_000 * DAY)

        assert empty.subscription().name == SUBSCRIPTION

    def test_is_not_put_off_by_publishing(self, world: World) -> None:
        world.advance(DAY - 1)

        world.publish(b"a")
        world.advance(1)

        assert world.broker.subscriptions.find(SUBSCRIPTION) is None

    @pytest.mark.parametrize("use", USES)
    def test_starts_anew_with_every_use(self, world: World, use: Callable[[World], object]) -> None:
        world.publish(b"a")
        world.advance(DAY - 1)

        use(world)
        world.advance(DAY - NS)
        before = world.broker.subscriptions.find(SUBSCRIPTION)
        world.advance(NS)

        assert before is not None
        assert world.broker.subscriptions.find(SUBSCRIPTION) is None

    def test_does_not_come_while_a_pull_waits(self, world: World) -> None:
        world.subscription().update(settings(ttl=4))
        answer = world.pull(wait=True)

        world.advance(4.9)

        assert not answer.pull.done
        assert world.subscription().settings.expiration_ttl == 4_000_000_000

    @pytest.mark.parametrize(
        "end",
        [
            pytest.param(lambda world, answer: world.publish(b"a"), id="a message comes"),
            pytest.param(lambda world, answer: world.subscription().hurry(answer.pull), id="hurried"),
            pytest.param(lambda world, answer: world.subscription().cancel(answer.pull), id="the caller goes away"),
        ],
    )
    def test_starts_anew_when_a_wait_ends(self, world: World, end: Callable[[World, object], None]) -> None:
        answer = world.pull(wait=True)
        world.advance(3)
        end(world, answer)

        world.advance(DAY - NS)
        before = world.broker.subscriptions.find(SUBSCRIPTION)
        world.advance(NS)

        assert before is not None
        assert world.broker.subscriptions.find(SUBSCRIPTION) is None

    def test_follows_a_new_ttl(self, world: World) -> None:
        world.advance(DAY / 2)
        world.subscription().update(settings(ttl=2 * DAY))

        world.advance(2 * DAY - NS)
        before = world.broker.subscriptions.find(SUBSCRIPTION)
        world.advance(NS)

        assert before is not None
        assert world.broker.subscriptions.find(SUBSCRIPTION) is None

    def test_can_be_switched_on_later(self, empty: World) -> None:
        empty.create_topic()
        empty.subscribe(to=settings(ttl=None))
        empty.subscription().update(settings(ttl=DAY))

        empty.advance(DAY)

        assert empty.broker.subscriptions.find(SUBSCRIPTION) is None


@pytest.mark.rule("S6.5")
class TestRetention:
    @pytest.fixture
    def world(self, empty: World) -> World:
        empty.create_topic()
        empty.subscribe(to=settings(retention=600, ack_deadline=600))
        return empty

    @pytest.mark.rule("B062", "B160")
    @pytest.mark.parametrize(("seconds", "bodies"), [(600, [b"a"]), (600 + NS, [])])
    def test_ends_when_a_message_is_older(self, world: World, seconds: float, bodies: list[bytes]) -> None:
        world.publish(b"a")

        world.advance(seconds)

        assert world.pull().bodies == bodies

    def test_ends_leased_messages_too(self, world: World) -> None:
        world.publish(b"a")
        (ack_id,) = world.pull().ack_ids
        world.extend(600, ack_id)
        world.advance(300)
        world.extend(600, ack_id)

        world.advance(300 + NS)

        assert world.held() == 0

    def test_goes_message_by_message(self, world: World) -> None:
        world.publish(b"a")
        world.advance(100)
        world.publish(b"b")

        world.advance(500 + NS)

        assert world.pull().bodies == [b"b"]

    def test_of_many_messages_ends_at_one_moment(self, world: World) -> None:
        for _ in range(3):
            world.publish(*[b"x"] * 1_000)
        world.publish(b"y")

        world.advance(600 + NS)

        assert world.held() == 0

    def test_shortened_ends_what_is_older_at_once(self, world: World) -> None:
        world.publish(b"a")
        world.advance(100)
        world.publish(b"b")

        world.subscription().update(settings(retention=99.9999))

        assert world.pull().bodies == [b"b"]

    def test_lengthened_keeps_what_is_there(self, world: World) -> None:
        world.publish(b"a")
        world.advance(599)
        world.subscription().update(settings(retention=1_200))

        world.advance(601)
        before = world.waiting()
        world.advance(NS)

        assert (before, world.waiting()) == (1, 0)

    def test_is_each_subscriptions_own(self, world: World) -> None:
        world.subscribe(OTHER)
        world.publish(b"a")

        world.advance(600 + NS)

        assert (world.pull().bodies, world.pull(name=OTHER).bodies) == ([], [b"a"])

    def test_counts_from_publishing_not_from_a_redelivery(self, world: World) -> None:
        world.publish(b"a")
        world.advance(500)
        world.nack(*world.pull().ack_ids)

        world.advance(100 + NS)

        assert world.held() == 0
