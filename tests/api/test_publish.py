"""What Publish accepts, and what a subscriber gets of it (service.md §5)."""

from base64 import b64encode
from typing import Any

import pytest

from emulator.api import pb, publisher
from emulator.api.drafts import draft
from emulator.clock import FakeClock
from emulator.errors import PubsubError
from tests.api.world import ORDERS, PULLED, World, parse, texts

GOOD = {"data": "eA=="}


def publish(world: World, *messages: dict[str, Any], topic: str = ORDERS) -> list[str]:
    return list(world.call("Publish", topic=topic, messages=list(messages)).message_ids)


@pytest.mark.rule("S5.2", "S5.9")
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_each_message_gets_an_id_in_order(world: World, count: int) -> None:
    ids = world.publish(ORDERS, *map(str, range(count)))

    received = {each.message.message_id: each.message.attributes["text"] for each in world.pull(PULLED, 1000)}

    assert len(set(ids)) == count
    assert all(each.isascii() and each.isdecimal() for each in ids)
    assert [received[each] for each in ids] == [str(number) for number in range(count)]


@pytest.mark.rule("S5.9")
def test_ids_never_come_twice(world: World) -> None:
    world.call("CreateTopic", name=f"{ORDERS}2")
    ids = world.publish(ORDERS, "a", "b") + world.publish(f"{ORDERS}2", "c")
    world.call("DeleteTopic", topic=ORDERS)
    world.call("CreateTopic", name=ORDERS)
    ids += world.publish(ORDERS, "d")

    assert len(set(ids)) == 4


@pytest.mark.rule("S5.3", "B151")
def test_a_request_of_ten_million_bytes_is_accepted_and_one_byte_more_is_not(world: World) -> None:
    def of_data(size: int) -> Any:
        return parse("Publish", {"topic": ORDERS, "messages": [{"data": b64encode(bytes(size)).decode()}]})

    around_data = of_data(9_000_000).ByteSize() - 9_000_000
    largest, too_large = of_data(10_000_000 - around_data), of_data(10_000_001 - around_data)

    assert (largest.ByteSize(), too_large.ByteSize()) == (10_000_000, 10_000_001)
    world.send("Publish", largest)
    with pytest.raises(PubsubError, match="10000001 bytes"):
        world.send("Publish", too_large)


@pytest.mark.rule("S5.1", "S5.2")
def test_too_many_messages_are_told_before_too_many_bytes_and_before_any_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = pb.PubsubMessage(data=bytes(10_000))
    request = pb.PublishRequest(topic=ORDERS, messages=[message] * 1_001)
    assert request.ByteSize() > 10_000_000
    monkeypatch.setattr(publisher, "draft", None)

    with pytest.raises(PubsubError, match="1001 messages"):
        world.send("Publish", request)


ACCEPTED = {
    "attribute with an empty value": {"attributes": {"k": ""}},
    "data alone": {"data": "AA=="},
    "100 attributes": {"attributes": {f"k{number}": "v" for number in range(100)}},
    "key of 256 bytes": {"attributes": {"é" * 128: "v"}},
    "value of 1,024 bytes": {"attributes": {"k": "😀" * 256}},
    "key that only looks reserved": {"attributes": {"Google": "", "go": "", "x-goog": "", "GOOG": "", " goog": ""}},
    "ordering key of 1,024 bytes": {"data": "AA==", "orderingKey": "é" * 512},
    "key with a line break": {"attributes": {"\n": "\0"}},
}


@pytest.mark.rule("S5.4", "S5.5", "S5.6", "B037")
@pytest.mark.parametrize("message", ACCEPTED.values(), ids=ACCEPTED)
def test_a_message_at_the_edge_is_accepted_and_comes_back_the_same(world: World, message: dict[str, Any]) -> None:
    publish(world, GOOD | {"orderingKey": message.get("orderingKey", "")}, message)

    received = world.pull(PULLED)[1].message

    expected = parse("Publish", {"messages": [message]}).messages[0]
    assert (received.data, received.attributes, received.ordering_key) == (
        expected.data,
        expected.attributes,
        expected.ordering_key,
    )


@pytest.mark.rule("S5.7")
def test_a_request_may_have_one_ordering_key(world: World) -> None:
    keyed = {**GOOD, "orderingKey": "k"}

    assert len(publish(world, keyed, keyed)) == 2
    assert len(publish(world, GOOD, GOOD)) == 2


@pytest.mark.rule("S5.8")
def test_ids_and_times_of_the_caller_are_overwritten(world: World) -> None:
    (given,) = publish(world, {**GOOD, "messageId": "mine", "publishTime": "2001-01-01T00:00:00Z"})

    (received,) = world.pull(PULLED)

    assert received.message.message_id == given != "mine"
    assert received.message.publish_time.ToNanoseconds() == world.clock.now()


@pytest.mark.rule("S5.10", "B092")
def test_all_messages_of_a_request_share_a_time_in_milliseconds(world: World) -> None:
    world.call("CreateSubscription", name=f"{PULLED}2", topic=ORDERS)
    world.clock.advance_ns(1_234_567_891)
    start = FakeClock().now()

    publish(world, GOOD, GOOD)

    for subscription in (PULLED, f"{PULLED}2"):
        times = [each.message.publish_time.ToNanoseconds() for each in world.pull(subscription)]
        assert times == [start + 1_234_000_000] * 2


@pytest.mark.rule("S5.11")
def test_publishing_without_a_subscription_succeeds(world: World) -> None:
    world.call("DeleteSubscription", subscription=PULLED)

    assert len(publish(world, GOOD)) == 1


@pytest.mark.rule("S5.12")
def test_a_subscription_gets_what_was_published_after_it_was_created(world: World) -> None:
    world.publish(ORDERS, "before")
    world.call("CreateSubscription", name=f"{PULLED}2", topic=ORDERS)
    world.publish(ORDERS, "after")

    assert texts(world.pull(f"{PULLED}2")) == ["after"]
    assert texts(world.pull(PULLED)) == ["before", "after"]


@pytest.mark.rule("S5.14")
def test_requests_are_stored_in_the_order_in_which_they_came(world: World) -> None:
    for number in range(5):
        world.publish(ORDERS, f"{number}a", f"{number}b")

    assert texts(world.pull(PULLED)) == [f"{number}{letter}" for number in range(5) for letter in "ab"]


@pytest.mark.rule("S5.1")
def test_a_refused_request_uses_no_id_up(world: World) -> None:
    first = int(publish(world, GOOD)[0])
    with pytest.raises(PubsubError, match="messages"):
        publish(world, GOOD, {})

    assert int(publish(world, GOOD)[0]) == first + 1
    assert len(world.pull(PULLED)) == 2


@pytest.mark.rule("V8")
@pytest.mark.parametrize("size", [1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152])
@pytest.mark.parametrize("more", [{}, {"attributes": {"key": "value"}}, {"ordering_key": "key"}])
def test_a_message_counts_with_its_serialized_size(size: int, more: dict[str, Any]) -> None:
    message = pb.PubsubMessage(data=bytes(size), **more)

    assert draft(message).size == message.ByteSize()
