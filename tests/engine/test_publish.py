"""Publishing: what is refused, in which order, and what is stored."""

from dataclasses import dataclass, field

import pytest

from emulator.clock import FakeClock
from emulator.engine.broker import Broker
from emulator.engine.drafts import PlainDrafts, messages_of
from emulator.engine.values import Draft, TopicSettings
from emulator.errors import Code
from emulator.limits import STRICT
from tests.engine.helpers import OTHER, SUBSCRIPTION, TOPIC, World, drafts, refused, settings

GOOD = Draft(b"good", {})
MS = 1_000_000


def keyed(key: str) -> Draft:
    return Draft(b"x", {}, ordering_key=key)


@dataclass(frozen=True, slots=True)
class Bad:
    """A message that no topic takes, and what the answer must name."""

    draft: Draft
    named: list[str] = field(default_factory=list)


BAD = [
    pytest.param(Bad(Draft(b"", {})), marks=pytest.mark.rule("S5.4"), id="nothing in it"),
    pytest.param(Bad(Draft(b"", {}, ordering_key="k")), marks=pytest.mark.rule("S5.4"), id="only an ordering key"),
    pytest.param(
        Bad(Draft(b"x", {f"k{n}": "" for n in range(101)}), ["attributes", "101", "100"]),
        marks=pytest.mark.rule("S5.5"),
        id="101 attributes",
    ),
    pytest.param(
        Bad(Draft(b"x", {"": "v"}), ["attributes", "empty"]), marks=pytest.mark.rule("S5.5"), id="an empty key"
    ),
    pytest.param(
        Bad(Draft(b"x", {"googclient": "v"}), ["attributes", "googclient"]),
        marks=pytest.mark.rule("S5.5"),
        id="a reserved key",
    ),
    pytest.param(
        Bad(Draft(b"x", {"k" * 257: "v"}), ["attributes", "257", "256"]),
        marks=pytest.mark.rule("S5.5"),
        id="a key of 257 bytes",
    ),
    pytest.param(
        Bad(Draft(b"x", {"é" * 129: "v"}), ["attributes", "258", "256"]),
        marks=pytest.mark.rule("S5.5"),
        id="a key of 129 characters and 258 bytes",
    ),
    pytest.param(
        Bad(Draft(b"x", {"k": "v" * 1_025}), ["attributes", "'k'", "1025", "1024"]),
        marks=pytest.mark.rule("S5.5"),
        id="a value of 1,025 bytes",
    ),
    pytest.param(
        Bad(Draft(b"x", {"k": "€" * 342}), ["attributes", "'k'", "1026", "1024"]),
        marks=pytest.mark.rule("S5.5"),
        id="a value of 342 characters and 1,026 bytes",
    ),
    pytest.param(
        Bad(keyed("k" * 1_025), ["ordering_key", "kkk", "1025", "1024"]),
        marks=pytest.mark.rule("S5.6"),
        id="an ordering key of 1,025 bytes",
    ),
    pytest.param(
        Bad(keyed("🔑" * 257), ["ordering_key", "1028", "1024"]),
        marks=pytest.mark.rule("S5.6"),
        id="an ordering key of 257 characters and 1,028 bytes",
    ),
]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_message_is_refused_by_its_place_and_its_fault(world: World, bad: Bad) -> None:
    with refused(world, Code.INVALID_ARGUMENT, "messages[0]", *bad.named):
        world.broker.publish(TOPIC, [bad.draft])


@pytest.mark.rule("S5.1")
@pytest.mark.parametrize("bad", BAD)
def test_one_bad_message_keeps_the_good_ones_from_being_stored(world: World, bad: Bad) -> None:
    with refused(world, Code.INVALID_ARGUMENT, "messages[1]"):
        world.broker.publish(TOPIC, [GOOD, bad.draft, GOOD])

    assert world.pull().bodies == []


@pytest.mark.parametrize(
    "draft",
    [
        pytest.param(Draft(b"", {"k": ""}), marks=pytest.mark.rule("S5.4"), id="no data, an empty attribute"),
        pytest.param(
            Draft(b"x", {f"k{n}": "" for n in range(100)}), marks=pytest.mark.rule("S5.5"), id="100 attributes"
        ),
        pytest.param(Draft(b"x", {"k" * 256: "v"}), marks=pytest.mark.rule("S5.5"), id="a key of 256 bytes"),
        pytest.param(Draft(b"x", {"é" * 128: "v"}), marks=pytest.mark.rule("S5.5"), id="a key of 128 wide characters"),
        pytest.param(Draft(b"x", {"Goog": "v"}), marks=pytest.mark.rule("S5.5"), id="a key in capitals"),
        pytest.param(Draft(b"x", {"k": "v" * 1_024}), marks=pytest.mark.rule("S5.5"), id="a value of 1,024 bytes"),
        pytest.param(Draft(b"x", {"k": "€" * 341}), marks=pytest.mark.rule("S5.5"), id="a value of 1,023 bytes"),
        pytest.param(keyed("k" * 1_024), marks=pytest.mark.rule("S5.6"), id="an ordering key of 1,024 bytes"),
        pytest.param(keyed("🔑" * 256), marks=pytest.mark.rule("S5.6"), id="an ordering key of 256 wide characters"),
    ],
)
def test_a_message_at_its_limit_is_delivered_as_it_came(world: World, draft: Draft) -> None:
    world.broker.publish(TOPIC, [draft])

    (delivery,) = world.pull().deliveries
    assert delivery.lease.entry is not None
    held = delivery.lease.entry.message
    assert (held.data, held.attributes, held.ordering_key) == (draft.data, draft.attributes, draft.ordering_key)


@pytest.mark.rule("S5.2")
def test_a_request_without_messages_is_refused(world: World) -> None:
    with refused(world, Code.INVALID_ARGUMENT, "messages", "0 messages"):
        world.publish()


@pytest.mark.rule("S5.2")
def test_a_request_of_1001_messages_is_refused(world: World) -> None:
    with refused(world, Code.INVALID_ARGUMENT, "messages", "1001", "1000"):
        world.publish(*[b"x"] * 1_001)


@pytest.mark.rule("S5.2")
def test_a_request_of_1000_messages_is_stored(world: World) -> None:
    assert len(world.publish(*[b"x"] * 1_000)) == 1_000
    assert world.waiting() == 1_000


@pytest.mark.rule("S5.7")
@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("", "a"), ("a", "")])
def test_different_ordering_keys_in_a_request_are_refused(world: World, first: str, second: str) -> None:
    with refused(world, Code.FAILED_PRECONDITION, "messages[2].ordering_key", repr(first), repr(second)):
        world.broker.publish(TOPIC, [keyed(first), keyed(first), keyed(second)])


@pytest.mark.rule("S5.7", "B037")
def test_one_ordering_key_for_all_messages_is_kept(world: World) -> None:
    world.broker.publish(TOPIC, [keyed("a"), keyed("a")])

    keys = [lease.entry and lease.entry.message.ordering_key for lease in world.pull().leases]
    assert keys == ["a", "a"]


@pytest.mark.rule("S5.1")
class TestChecksComeInOneOrder:
    def test_the_topic_before_the_count(self, world: World) -> None:
        with refused(world, Code.NOT_FOUND, "projects/p/topics/none"):
            world.broker.publish("projects/p/topics/none", [])

    def test_the_count_before_each_message(self, world: World) -> None:
        with refused(world, Code.INVALID_ARGUMENT, "1001 messages"):
            world.broker.publish(TOPIC, [Draft(b"", {})] * 1_001)

    def test_each_message_before_the_ordering_keys(self, world: World) -> None:
        with refused(world, Code.INVALID_ARGUMENT, "messages[2]"):
            world.broker.publish(TOPIC, [keyed("a"), keyed("b"), Draft(b"", {})])

    def test_the_earlier_message_before_the_later(self, world: World) -> None:
        with refused(world, Code.INVALID_ARGUMENT, "messages[0]"):
            world.broker.publish(TOPIC, [keyed("k" * 1_025), Draft(b"", {})])


@pytest.mark.rule("S5.9")
class TestIds:
    def test_answer_the_messages_in_order(self, world: World) -> None:
        ids = world.publish(b"a", b"b", b"c")

        assert dict(zip(ids, [b"a", b"b", b"c"], strict=True)) == {
            delivery.number: delivery.body for delivery in world.pull().deliveries
        }

    def test_count_on_over_all_topics(self, world: World) -> None:
        world.create_topic("projects/q/topics/other")

        ids = [*world.publish(b"a", b"b"), *world.publish(b"c", topic="projects/q/topics/other"), *world.publish(b"d")]

        assert ids == [1, 2, 3, 4]

    def test_are_not_used_up_by_a_refused_request(self, world: World) -> None:
        with refused(world, Code.INVALID_ARGUMENT):
            world.broker.publish(TOPIC, [GOOD, Draft(b"", {})])

        assert world.publish(b"a") == [1]

    def test_never_come_twice_though_the_topic_is_made_anew(self, world: World) -> None:
        before = world.publish(b"a")

        world.broker.delete_topic(TOPIC)
        world.create_topic()

        assert world.publish(b"a")[0] > before[0]


@pytest.mark.rule("S5.10")
class TestPublishTime:
    @pytest.mark.parametrize(
        ("now", "told"), [(0, 0), (1, 0), (MS - 1, 0), (MS, MS), (1_700_000_000_123_456_789, 1_700_000_000_123_000_000)]
    )
    def test_is_the_clocks_in_whole_milliseconds(self, now: int, told: int) -> None:
        broker = Broker(FakeClock(now))
        topic = broker.create_topic(TOPIC, TopicSettings())
        subscription = broker.create_subscription(OTHER, topic, settings())

        broker.publish(TOPIC, drafts(b"x"))

        (lease,) = subscription.pull(1, wait=False).leases
        assert lease.entry is not None
        assert lease.entry.message.publish_time == told

    def test_is_one_for_the_whole_request_and_moves_with_the_clock(self, world: World) -> None:
        world.publish(b"a", b"b")
        world.advance(1.5)
        world.publish(b"c")

        first, second, third = [delivery.publish_time for delivery in world.pull().deliveries]
        assert first == second
        assert third - first == 1_500 * MS


@pytest.mark.rule("S5.11")
def test_a_topic_without_subscriptions_takes_messages_and_keeps_none(empty: World) -> None:
    empty.create_topic()

    ids = empty.publish(b"a")
    empty.subscribe()

    assert ids == [1]
    assert empty.held() == 0


@pytest.mark.rule("S5.12")
def test_a_subscription_gets_only_what_is_published_after_it_was_made(empty: World) -> None:
    empty.create_topic()
    empty.publish(b"before")

    empty.subscribe()
    empty.publish(b"after")

    assert empty.pull().bodies == [b"after"]


@pytest.mark.rule("S5.14", "B092")
def test_every_subscription_gets_every_message_in_the_order_of_publishing(world: World) -> None:
    world.subscribe(OTHER)

    world.publish(b"a", b"b")
    world.publish(b"c")

    first, other = world.pull(), world.pull(name=OTHER)
    assert first.bodies == other.bodies == [b"a", b"b", b"c"]
    assert [d.publish_time for d in first.deliveries] == [d.publish_time for d in other.deliveries]


def test_one_body_is_shared_by_all_subscriptions(world: World) -> None:
    world.subscribe(OTHER)
    body = b"large"

    world.publish(body)

    assert world.pull().deliveries[0].body is world.pull(name=OTHER).deliveries[0].body is body


@pytest.mark.rule("S5.1")
def test_limits_are_the_brokers_own() -> None:
    world = World(limits=type(STRICT)(publish_max_messages=2))
    world.create_topic()

    with refused(world, Code.INVALID_ARGUMENT, "3 messages", "at most 2"):
        world.publish(b"a", b"b", b"c")


class TestPlainDrafts:
    """Drafts of data alone, given as parts of a request."""

    @pytest.mark.rule("S5.9")
    def test_they_become_what_drafts_become(self, world: World) -> None:
        ids = world.broker.publish(TOPIC, PlainDrafts(b"..one.two", [(2, 5, 5), (6, 9, 7)]))

        stored = [
            lease.entry.message for lease in world.broker.pull(SUBSCRIPTION, 9, wait=False).hand_over() if lease.entry
        ]
        expected = messages_of([Draft(b"one", {}, size=5), Draft(b"two", {}, size=7)], ids[0], stored[0].publish_time)
        assert [each.number for each in stored] == ids
        assert [(each.data, each.size, each.ordering_key) for each in stored] == [
            (each.data, each.size, each.ordering_key) for each in expected
        ]

    @pytest.mark.rule("S5.2")
    def test_none_of_them_are_no_messages(self, world: World) -> None:
        with refused(world, Code.INVALID_ARGUMENT):
            world.broker.publish(TOPIC, PlainDrafts(b"", []))

    def test_they_say_how_many_they_are(self) -> None:
        assert repr(PlainDrafts(b"x", [(0, 1, 3)])) == "<PlainDrafts 1>"
