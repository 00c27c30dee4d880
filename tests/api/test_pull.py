"""Pull, Acknowledge and ModifyAckDeadline where they succeed (service.md §7.1, §7.2)."""

from base64 import b64encode
from typing import Any

import pytest

from emulator.api.replies import Parked, Undoable
from emulator.errors import Code, PubsubError
from tests.api.world import ORDERS, PULLED, World, parse, texts

PUSH = {"pushEndpoint": "https://example.com/"}


def wait(world: World, most: int = 10) -> Parked[Any]:
    """A Pull that finds nothing and waits."""
    outcome = world.send("Pull", parse("Pull", {"subscription": PULLED, "maxMessages": most}))
    assert isinstance(outcome, Parked)
    assert not outcome.done
    return outcome


@pytest.mark.rule("S7.1.1", "S7.1.11", "B022", "B068")
def test_a_message_comes_with_an_ack_id_and_no_delivery_attempt(world: World) -> None:
    (number,) = world.publish(ORDERS, "hello")

    (received,) = world.pull(PULLED)
    world.clock.advance(10)
    (again,) = world.pull(PULLED)

    assert received.message == again.message
    assert (received.message.message_id, received.message.attributes) == (number, {"text": "hello"})
    assert (received.delivery_attempt, again.delivery_attempt) == (0, 0)
    assert received.ack_id != again.ack_id
    for each in (received, again):
        assert each.ack_id.isascii()
        assert each.ack_id.isprintable()
        assert 0 < len(each.ack_id) <= 24


@pytest.mark.rule("S7.2.1", "S7.2.2")
@pytest.mark.parametrize(("asked", "given"), [(1, 1), (999, 999), (1000, 1000), (1001, 1000), (2**31 - 1, 1000)])
def test_a_pull_gives_at_most_what_was_asked_and_never_more_than_1000(world: World, asked: int, given: int) -> None:
    for _ in range(2):
        world.publish(ORDERS, *["x"] * 1000)

    assert len(world.pull(PULLED, asked)) == given


@pytest.mark.rule("S7.2.3")
def test_a_pull_that_shall_return_immediately_does(world: World) -> None:
    outcome = world.send("Pull", parse("Pull", {"subscription": PULLED, "maxMessages": 1, "returnImmediately": True}))

    assert isinstance(outcome, Undoable)
    assert not outcome.message.ListFields()


@pytest.mark.rule("S7.2.3")
def test_a_pull_that_finds_messages_does_not_wait(world: World) -> None:
    world.publish(ORDERS, "hello")

    reply = world.call("Pull", subscription=PULLED, maxMessages=10)

    assert texts(reply.received_messages) == ["hello"]


@pytest.mark.rule("S7.2.3")
def test_a_waiting_pull_gets_the_first_message(world: World) -> None:
    waiting = wait(world)

    world.publish(ORDERS, "first", "second")

    assert texts(waiting.result().message.received_messages) == ["first", "second"]


@pytest.mark.rule("S7.2.3")
def test_a_waiting_pull_ends_empty_after_5_seconds_of_service_time(world: World) -> None:
    waiting = wait(world)

    world.clock.advance(4.999999999)
    assert not waiting.done

    world.clock.advance_ns(1)
    assert not waiting.result().message.ListFields()


@pytest.mark.rule("S7.2.3")
def test_a_waiting_pull_ends_empty_when_it_is_hurried(world: World) -> None:
    waiting = wait(world)

    waiting.hurry()

    assert not waiting.result().message.ListFields()
    assert world.broker.counts()["waiting_pulls"] == 0


@pytest.mark.rule("S7.2.4")
def test_a_caller_that_goes_away_while_waiting_holds_nothing(world: World) -> None:
    waiting = wait(world)

    waiting.cancel()
    world.publish(ORDERS, "hello")

    assert texts(world.pull(PULLED)) == ["hello"]
    assert world.broker.counts()["waiting_pulls"] == 0


@pytest.mark.rule("S7.2.4", "S7.1.10")
def test_a_reply_that_was_not_written_is_given_back_at_once(world: World) -> None:
    world.publish(ORDERS, "first", "second", "third")
    request = parse("Pull", {"subscription": PULLED, "maxMessages": 2})
    unwritten = world.send("Pull", request)
    assert isinstance(unwritten, Undoable)

    unwritten.give_back()

    assert texts(world.pull(PULLED)) == ["first", "second", "third"]


@pytest.mark.rule("S7.2.4")
def test_what_was_acknowledged_meanwhile_is_not_given_back(world: World) -> None:
    waiting = wait(world)
    world.publish(ORDERS, "first", "second")
    reply = waiting.result()
    first, _ = reply.message.received_messages
    world.call("Acknowledge", subscription=PULLED, ackIds=[first.ack_id])

    reply.give_back()

    assert texts(world.pull(PULLED)) == ["second"]


@pytest.mark.rule("S7.2.5", "S7.2.6")
@pytest.mark.parametrize(
    ("method", "request_fields", "code"),
    [
        ("DetachSubscription", {}, Code.FAILED_PRECONDITION),
        ("DeleteSubscription", {}, Code.NOT_FOUND),
        ("ModifyPushConfig", {"pushConfig": PUSH}, Code.FAILED_PRECONDITION),
    ],
)
def test_a_waiting_pull_fails_when_there_is_nothing_to_pull_any_more(
    world: World, method: str, request_fields: dict[str, Any], code: Code
) -> None:
    waiting = wait(world)

    world.call(method, subscription=PULLED, **request_fields)

    with pytest.raises(PubsubError, match=PULLED) as refusal:
        waiting.result()
    assert refusal.value.code is code


@pytest.mark.rule("S7.2.5", "S4.subscription.push_config")
def test_the_backlog_of_a_push_subscription_can_be_pulled_once_it_is_none(world: World) -> None:
    world.call("ModifyPushConfig", subscription=PULLED, pushConfig=PUSH)
    world.publish(ORDERS, "kept")
    world.call("ModifyPushConfig", subscription=PULLED, pushConfig={})

    assert texts(world.pull(PULLED)) == ["kept"]


@pytest.mark.rule("S7.1.12")
@pytest.mark.parametrize("size", [4_000, 40_000, 100_000, 1_999_900, 3_999_900])
def test_a_reply_stays_below_four_million_bytes(world: World, size: int) -> None:
    count = 4_000_000 // size + 5
    for _ in range(count):
        message = {"data": b64encode(bytes(size)).decode(), "attributes": {"k": "v"}, "orderingKey": "k"}
        world.call("Publish", topic=ORDERS, messages=[message])

    reply = world.call("Pull", subscription=PULLED, maxMessages=1000)

    # The engine may guess what a delivery adds to a message, but not by much and never too little.
    assert 4_000_000 - size - 100 * count < reply.ByteSize() <= 4_000_000


@pytest.mark.rule("S7.1.12")
def test_a_message_larger_than_a_reply_travels_alone(world: World) -> None:
    for size in (5_000_000, 1):
        world.call("Publish", topic=ORDERS, messages=[{"data": b64encode(bytes(size)).decode()}])

    first, second = (world.call("Pull", subscription=PULLED, maxMessages=10).received_messages for _ in range(2))

    assert [len(each.message.data) for each in first] == [5_000_000]
    assert [len(each.message.data) for each in second] == [1]


@pytest.mark.rule("S7.1.6", "S7.1.7", "S7.1.8")
def test_acknowledging_again_late_or_out_of_nowhere_is_ok(world: World) -> None:
    world.publish(ORDERS, "first", "second")
    first, second = world.pull(PULLED)
    other = World.empty()
    other.call("CreateTopic", name=ORDERS)
    other.call("CreateSubscription", name=PULLED, topic=ORDERS)
    other.publish(ORDERS, "elsewhere")
    (stranger,) = other.pull(PULLED)

    world.call("Acknowledge", subscription=PULLED, ackIds=[first.ack_id, first.ack_id])
    world.call("Acknowledge", subscription=PULLED, ackIds=[first.ack_id])
    world.clock.advance(11)
    world.call("ModifyAckDeadline", subscription=PULLED, ackIds=[second.ack_id], ackDeadlineSeconds=600)
    world.call("Acknowledge", subscription=PULLED, ackIds=[stranger.ack_id])

    assert texts(world.pull(PULLED)) == ["second"]


@pytest.mark.rule("S7.1.3")
@pytest.mark.parametrize("seconds", [1, 10, 599, 600])
def test_a_deadline_is_moved_to_so_many_seconds_from_now(world: World, seconds: int) -> None:
    world.publish(ORDERS, "hello")
    (received,) = world.pull(PULLED)
    world.clock.advance(5)

    world.call("ModifyAckDeadline", subscription=PULLED, ackIds=[received.ack_id], ackDeadlineSeconds=seconds)

    world.clock.advance_ns(seconds * 1_000_000_000 - 1)
    assert world.pull(PULLED) == []
    world.clock.advance_ns(1)
    assert texts(world.pull(PULLED)) == ["hello"]


@pytest.mark.rule("S7.1.4", "B017")
def test_a_deadline_of_nothing_gives_the_message_back_at_once(world: World) -> None:
    world.publish(ORDERS, "hello")
    (received,) = world.pull(PULLED)

    world.call("ModifyAckDeadline", subscription=PULLED, ackIds=[received.ack_id], ackDeadlineSeconds=0)

    assert texts(world.pull(PULLED)) == ["hello"]


@pytest.mark.rule("S7.1.9", "V12")
@pytest.mark.parametrize("method", ["Acknowledge", "ModifyAckDeadline"])
def test_an_ack_request_of_exactly_524288_bytes_is_accepted(world: World, method: str) -> None:
    # 26 bytes an id, and a name as long as it takes to make the sum come out.
    name = next(
        candidate
        for length in range(3, 40)
        for candidate in [f"projects/acme/subscriptions/{'s' * length}"]
        if (524_288 - parse(method, {"subscription": candidate}).ByteSize()) % 26 == 0
    )
    world.call("CreateSubscription", name=name, topic=ORDERS)
    world.publish(ORDERS, "hello")
    (received,) = world.pull(name)
    request = parse(method, {"subscription": name, "ackIds": [received.ack_id] * 20_162})
    request.ack_ids.extend([received.ack_id] * ((524_288 - request.ByteSize()) // 26))

    assert request.ByteSize() == 524_288
    world.send(method, request)
    if method == "ModifyAckDeadline":
        assert texts(world.pull(name)) == ["hello"]
    else:
        assert world.broker.subscriptions.get(name).counts()["leases"] == 0

    request.ack_ids.append("")
    with pytest.raises(PubsubError, match="524290 bytes"):
        world.send(method, request)
