"""What a StreamingPull's requests may say and what they do (service.md §7.3.1 to §7.3.4, lease-policy.md §3)."""

from typing import Any

import pytest

from emulator.engine.ackids import AckIds
from emulator.errors import Code
from tests.api.streaming import Client, first, leases, messages
from tests.api.world import (
    ACK_ID,
    DETACHED,
    ELSEWHERE,
    EXPORTED,
    FOREIGN_ACK_ID,
    ORDERS,
    ORPHAN,
    PULLED,
    PUSHED,
    World,
    populated,
)

UNKNOWN_ACK_ID = AckIds(0).encode(1, 1, 1)

BAD_MODACKS: list[tuple[dict[str, Any], str]] = [
    ({"modifyDeadlineAckIds": [ACK_ID]}, "argument=modify_deadline_ack_ids"),
    ({"modifyDeadlineSeconds": [10]}, "argument=modify_deadline_ack_ids"),
    ({"modifyDeadlineAckIds": [ACK_ID], "modifyDeadlineSeconds": [10, 10]}, "argument=modify_deadline_ack_ids"),
    ({"modifyDeadlineAckIds": [ACK_ID], "modifyDeadlineSeconds": [-1]}, "argument=modify_deadline_seconds"),
    ({"modifyDeadlineAckIds": [ACK_ID], "modifyDeadlineSeconds": [601]}, "argument=modify_deadline_seconds"),
    (
        {"modifyDeadlineAckIds": [ACK_ID, ACK_ID], "modifyDeadlineSeconds": [10, -1]},
        "argument=modify_deadline_seconds",
    ),
]

BAD_ACK_IDS: list[dict[str, Any]] = [
    {"ackIds": ["nonsense"]},
    {"ackIds": [""]},
    {"ackIds": [ACK_ID, "nonsense"]},
    {"ackIds": [FOREIGN_ACK_ID]},
    {"ackIds": [ACK_ID], "modifyDeadlineAckIds": ["nonsense"], "modifyDeadlineSeconds": [10]},
    {"modifyDeadlineAckIds": [ACK_ID, "nonsense"], "modifyDeadlineSeconds": [0, 10]},
    {"modifyDeadlineAckIds": [FOREIGN_ACK_ID], "modifyDeadlineSeconds": [0]},
]


@pytest.fixture
def busy() -> World:
    """A world with a message of PULLED that is leased, one that was nacked, and one that waits."""
    return populated()


class TestTheFirstRequest:
    @pytest.mark.rule("S7.3.1", "S7.1.2")
    @pytest.mark.parametrize("seconds", [10, 11, 42, 600])
    def test_opens_the_stream_with_its_ack_deadline(self, world: World, seconds: int) -> None:
        client = Client.opened(world, streamAckDeadlineSeconds=seconds)
        (number,) = world.publish(ORDERS, "hello")

        client.read()

        assert (client.call.ended, client.call.headers, leases(world)) == (None, 1, {number: seconds})

    @pytest.mark.rule("S7.3.1")
    @pytest.mark.parametrize(
        ("fields", "argument"),
        [
            ({"subscription": None}, "subscription"),
            ({"subscription": "pulled"}, "subscription"),
            ({"subscription": ORDERS}, "subscription"),
            ({"streamAckDeadlineSeconds": None}, "stream_ack_deadline_seconds"),
            ({"streamAckDeadlineSeconds": 9}, "stream_ack_deadline_seconds"),
            ({"streamAckDeadlineSeconds": 601}, "stream_ack_deadline_seconds"),
            ({"streamAckDeadlineSeconds": -1}, "stream_ack_deadline_seconds"),
        ],
    )
    def test_without_what_it_must_say_ends_the_stream(self, busy: World, fields: dict[str, Any], argument: str) -> None:
        before = busy.state()
        client = Client.opened(busy, **fields)

        assert (client.call.ended, client.call.headers, client.read()) == (Code.INVALID_ARGUMENT, 0, [])
        assert f"argument={argument}" in str(client.call.error)
        assert busy.state() == before

    @pytest.mark.rule("S7.2.5", "S7.2.6", "B014")
    @pytest.mark.parametrize(
        ("subscription", "code"),
        [
            (PUSHED, Code.FAILED_PRECONDITION),
            (EXPORTED, Code.FAILED_PRECONDITION),
            (DETACHED, Code.FAILED_PRECONDITION),
            ("projects/acme/subscriptions/nowhere", Code.NOT_FOUND),
        ],
    )
    def test_for_what_cannot_be_pulled_ends_the_stream(self, busy: World, subscription: str, code: Code) -> None:
        before = busy.state()
        client = Client.opened(busy, subscription=subscription)

        assert (client.call.ended, client.call.headers) == (code, 0)
        assert f"resource={subscription}" in str(client.call.error)
        assert busy.state() == before

    @pytest.mark.rule("S6.1")
    def test_may_name_a_subscription_whose_topic_is_gone(self, busy: World) -> None:
        assert Client.opened(busy, subscription=ORPHAN).read_texts() == ["left behind"]

    @pytest.mark.rule("S7.3.1", "V11")
    def test_may_acknowledge(self, busy: World) -> None:
        client = Client.opened(busy, ackIds=[busy.known[ACK_ID]])

        assert client.read_texts() == ["nacked", "waiting"]
        assert len(leases(busy)) == 2

    @pytest.mark.rule("S7.3.1", "V11", "V2")
    def test_may_move_deadlines(self, busy: World) -> None:
        client = Client.opened(busy, modifyDeadlineAckIds=[busy.known[ACK_ID]], modifyDeadlineSeconds=[77])

        assert client.read_texts() == ["nacked", "waiting"]
        assert sorted(leases(busy).values()) == [10, 10, 77]

    @pytest.mark.rule("S7.3.1", "V11", "V3")
    def test_may_nack_and_then_gets_the_message_itself(self, busy: World) -> None:
        client = Client.opened(busy, modifyDeadlineAckIds=[busy.known[ACK_ID]], modifyDeadlineSeconds=[0])

        assert client.read_texts() == ["nacked", "waiting"]
        busy.clock.advance(1)
        assert client.read_texts() == ["leased"]

    @pytest.mark.rule("K15", "S7.1.8")
    def test_may_name_ack_ids_that_nobody_knows(self, world: World) -> None:
        client = Client.opened(
            world,
            ackIds=[UNKNOWN_ACK_ID],
            modifyDeadlineAckIds=[UNKNOWN_ACK_ID, UNKNOWN_ACK_ID],
            modifyDeadlineSeconds=[60, 0],
        )
        world.publish(ORDERS, "hello")

        assert (client.read_texts(), client.call.ended) == (["hello"], None)

    @pytest.mark.rule("S7.3.4")
    @pytest.mark.parametrize(("fields", "argument"), BAD_MODACKS)
    def test_with_wrong_modacks_ends_the_stream_and_changes_nothing(
        self, busy: World, fields: dict[str, Any], argument: str
    ) -> None:
        before = busy.state()
        client = Client.opened(busy, **busy.fill(fields))

        assert (client.call.ended, client.call.headers, client.read()) == (Code.INVALID_ARGUMENT, 0, [])
        assert argument in str(client.call.error)
        assert busy.state() == before

    @pytest.mark.rule("S7.3.4", "S7.1.8", "K15")
    @pytest.mark.parametrize("fields", BAD_ACK_IDS)
    def test_with_a_malformed_or_foreign_ack_id_ends_the_stream_and_changes_nothing(
        self, busy: World, fields: dict[str, Any]
    ) -> None:
        before = busy.state()
        client = Client.opened(busy, **busy.fill(fields))

        assert (client.call.ended, client.call.headers) == (Code.INVALID_ARGUMENT, 0)
        assert "argument=ack_ids" in str(client.call.error)
        assert busy.state() == before

    @pytest.mark.rule("T26")
    def test_that_never_comes_ends_the_stream(self, world: World) -> None:
        client = Client(world)

        client.half_close()

        assert (client.call.ended, client.call.headers) == (Code.INVALID_ARGUMENT, 0)
        assert "argument=subscription" in str(client.call.error)

    @pytest.mark.rule("T26", "S7.3.7")
    def test_that_is_the_only_one_is_enough(self, world: World) -> None:
        world.publish(ORDERS, "hello")
        client = Client.opened(world)

        client.half_close()

        assert (client.read_texts(), client.call.ended) == (["hello"], Code.OK)

    def test_that_was_refused_leaves_nothing_behind(self, world: World) -> None:
        client = Client.opened(world, streamAckDeadlineSeconds=5)

        client.disconnect()
        world.publish(ORDERS, "hello")

        assert (client.outbox.deliveries, client.read(), len(client.outbox._piles)) == (0, [], 0)
        assert world.broker.counts()["pull_streams"] == 0

    def test_that_never_comes_before_the_connection_is_lost_leaves_nothing_behind(self, world: World) -> None:
        client = Client(world)

        client.disconnect()

        assert (client.read(), len(client.outbox._piles)) == ([], 0)


class TestLaterRequests:
    @pytest.mark.rule("S7.3.2", "B005")
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("subscription", PULLED),
            ("subscription", ELSEWHERE),
            ("maxOutstandingMessages", 10),
            ("maxOutstandingMessages", -1),
            ("maxOutstandingBytes", 1),
            ("maxOutstandingBytes", -1),
            ("protocolVersion", 1),
        ],
    )
    def test_may_not_say_again_what_the_first_says(self, world: World, field: str, value: Any) -> None:
        client = Client.opened(world, maxOutstandingMessages=10, protocolVersion=1)

        client.send(**{field: value})

        argument = {"subscription": "subscription", "protocolVersion": "protocol_version"}.get(
            field, "max_outstanding_bytes" if field.endswith("Bytes") else "max_outstanding_messages"
        )
        assert client.call.ended is Code.INVALID_ARGUMENT
        assert f"argument={argument}" in str(client.call.error)

    @pytest.mark.rule("S7.3.2")
    @pytest.mark.parametrize("field", ["maxOutstandingMessages", "maxOutstandingBytes", "protocolVersion"])
    def test_may_say_zero_which_nobody_can_tell_from_nothing(self, world: World, field: str) -> None:
        client = Client.opened(world, maxOutstandingMessages=1)
        world.publish(ORDERS, "one", "two")

        client.send(**{field: 0})

        assert (client.call.ended, client.read_texts()) == (None, ["one"])

    @pytest.mark.rule("S7.3.2")
    def test_may_name_another_client_id(self, world: World) -> None:
        client = Client.opened(world, clientId="one")
        world.publish(ORDERS, "hello")

        client.send(clientId="two")

        assert (client.call.ended, client.read_texts()) == (None, ["hello"])

    @pytest.mark.rule("S7.3.3", "S7.1.2")
    @pytest.mark.parametrize("seconds", [10, 60, 600])
    def test_may_change_the_ack_deadline_of_what_is_sent_from_now_on(self, world: World, seconds: int) -> None:
        client = Client.opened(world, streamAckDeadlineSeconds=20)
        (old,) = world.publish(ORDERS, "old")
        client.read()

        client.send(streamAckDeadlineSeconds=seconds)
        (new,) = world.publish(ORDERS, "new")
        client.read()

        assert leases(world) == {old: 20, new: seconds}

    @pytest.mark.rule("S7.3.3")
    @pytest.mark.parametrize("fields", [{}, {"streamAckDeadlineSeconds": 0}])
    def test_leave_the_ack_deadline_alone_with_zero(self, world: World, fields: dict[str, Any]) -> None:
        client = Client.opened(world, streamAckDeadlineSeconds=20)

        client.send(**fields)
        (number,) = world.publish(ORDERS, "hello")

        assert leases(world) == {number: 20}

    @pytest.mark.rule("S7.3.3")
    @pytest.mark.parametrize("seconds", [-1, 1, 9, 601])
    def test_with_another_ack_deadline_out_of_range_end_the_stream(self, world: World, seconds: int) -> None:
        client = Client.opened(world)

        client.send(streamAckDeadlineSeconds=seconds)

        assert client.call.ended is Code.INVALID_ARGUMENT
        assert "argument=stream_ack_deadline_seconds" in str(client.call.error)

    @pytest.mark.rule("S7.3.4")
    @pytest.mark.parametrize(("fields", "argument"), BAD_MODACKS)
    def test_with_wrong_modacks_end_the_stream_and_move_nothing(
        self, busy: World, fields: dict[str, Any], argument: str
    ) -> None:
        client = Client.opened(busy)
        client.read()
        before = messages(busy)

        client.send(**busy.fill(fields))

        assert client.call.ended is Code.INVALID_ARGUMENT
        assert argument in str(client.call.error)
        assert messages(busy) == before

    @pytest.mark.rule("S7.3.4", "S7.1.8")
    @pytest.mark.parametrize("fields", BAD_ACK_IDS)
    def test_with_a_malformed_or_foreign_ack_id_end_the_stream_and_settle_nothing(
        self, busy: World, fields: dict[str, Any]
    ) -> None:
        client = Client.opened(busy)
        client.read()
        before = messages(busy)

        client.send(streamAckDeadlineSeconds=60, **busy.fill(fields))

        assert client.call.ended is Code.INVALID_ARGUMENT
        assert "argument=ack_ids" in str(client.call.error)
        assert messages(busy) == before

    @pytest.mark.rule("S7.1.9", "B026")
    @pytest.mark.parametrize(("count", "ended"), [(20_164, None), (20_165, Code.INVALID_ARGUMENT)])
    def test_of_more_than_512_kib_end_the_stream_and_settle_nothing(
        self, busy: World, count: int, ended: Code | None
    ) -> None:
        client = Client.opened(busy)
        client.read()
        before = messages(busy)

        client.send(ackIds=[busy.known[ACK_ID]] * count)  # 26 bytes each

        assert client.call.ended is ended
        assert (messages(busy) == before) == (ended is not None)

    @pytest.mark.rule("S7.3.2", "S7.3.3")
    @pytest.mark.parametrize("bad", [{"streamAckDeadlineSeconds": 5}, {"maxOutstandingBytes": 1}])
    def test_that_are_refused_for_anything_acknowledge_nothing(self, busy: World, bad: dict[str, Any]) -> None:
        client = Client.opened(busy)
        client.read()
        before = messages(busy)

        client.send(ackIds=[busy.known[ACK_ID], *client.ack_ids], **bad)

        assert (client.call.ended, messages(busy)) == (Code.INVALID_ARGUMENT, before)

    @pytest.mark.rule("S7.1.8", "K15")
    def test_may_name_ack_ids_that_nobody_knows(self, world: World) -> None:
        client = Client.opened(world)

        client.send(ackIds=[UNKNOWN_ACK_ID], modifyDeadlineAckIds=[UNKNOWN_ACK_ID], modifyDeadlineSeconds=[0])

        assert client.call.ended is None


@pytest.mark.rule("V11")
class TestSettling:
    def test_an_ack_on_the_stream_ends_what_it_delivered(self, world: World) -> None:
        client = Client.opened(world)
        world.publish(ORDERS, "one", "two")
        client.read()

        client.send(ackIds=[client.ack_ids[0]])
        world.clock.advance(10)

        assert client.read_texts() == ["two"]

    def test_an_ack_on_the_stream_ends_what_a_pull_got(self, world: World) -> None:
        world.publish(ORDERS, "hello")
        (received,) = world.pull(PULLED)

        Client.opened(world).send(ackIds=[received.ack_id])

        assert messages(world) == []

    def test_an_ack_on_the_stream_ends_what_another_stream_got(self, world: World) -> None:
        owner, other = Client.opened(world, maxOutstandingMessages=1), Client.opened(world)
        world.publish(ORDERS, "one", "two")
        owner.read()

        other.send(ackIds=owner.ack_ids)
        world.publish(ORDERS, "three")

        assert sorted(owner.read_texts() + other.read_texts()) == ["three", "two"]

    def test_a_unary_ack_ends_what_a_stream_got(self, world: World) -> None:
        client = Client.opened(world, maxOutstandingMessages=1)
        world.publish(ORDERS, "one", "two")
        client.read()

        world.call("Acknowledge", subscription=PULLED, ackIds=client.ack_ids)

        assert client.read_texts() == ["two"]

    @pytest.mark.rule("V2")
    def test_deadlines_are_moved_each_by_its_own(self, world: World) -> None:
        client = Client.opened(world, streamAckDeadlineSeconds=60)
        one, two, three, _ = world.publish(ORDERS, "one", "two", "three", "four")
        client.read()
        world.clock.advance(5)

        client.send(modifyDeadlineAckIds=client.ack_ids[:3], modifyDeadlineSeconds=[10, 600, 10])

        held = leases(world)
        assert [held.pop(number) for number in (one, two, three)] == [10, 600, 10]
        assert list(held.values()) == [55]

    @pytest.mark.rule("V2", "C21")
    def test_a_deadline_may_be_moved_to_an_earlier_time(self, world: World) -> None:
        client = Client.opened(world, maxOutstandingMessages=1)
        world.publish(ORDERS, "hello")
        client.read()
        client.send(modifyDeadlineAckIds=client.ack_ids, modifyDeadlineSeconds=[600])

        client.send(modifyDeadlineAckIds=client.ack_ids, modifyDeadlineSeconds=[10])
        world.clock.advance(9.999)
        before = client.read_texts()
        world.clock.advance(0.001)

        assert (before, client.read_texts()) == ([], ["hello"])

    @pytest.mark.rule("V3")
    def test_a_nack_on_the_stream_has_the_message_delivered_again_at_once(self, world: World) -> None:
        client = Client.opened(world)
        world.publish(ORDERS, "one", "two")
        client.read()

        client.send(modifyDeadlineAckIds=[client.ack_ids[1]], modifyDeadlineSeconds=[0])

        assert client.read_texts() == ["two"]

    @pytest.mark.rule("V5", "S7.1.7", "C19")
    def test_a_late_ack_on_the_stream_ends_the_message(self, world: World) -> None:
        client = Client.opened(world)
        world.publish(ORDERS, "hello")
        client.read()
        world.clock.advance(10)
        client.read()
        old, new = client.ack_ids

        client.send(ackIds=[old])
        client.send(ackIds=[new])

        assert (messages(world), client.call.ended) == ([], None)

    def test_an_ack_and_a_nack_of_one_message_in_one_request_end_it(self, world: World) -> None:
        client = Client.opened(world)
        world.publish(ORDERS, "hello")
        client.read()

        client.send(ackIds=client.ack_ids, modifyDeadlineAckIds=client.ack_ids, modifyDeadlineSeconds=[0])

        assert (messages(world), client.read_texts()) == ([], [])

    @pytest.mark.rule("V12")
    def test_three_thousand_at_once(self, world: World) -> None:
        client = Client.opened(world)
        for _ in range(3):
            world.publish(ORDERS, *["x"] * 1_000)
        client.read()

        client.send(ackIds=client.ack_ids)

        assert (len(client.received), messages(world)) == (3_000, [])


@pytest.mark.rule("S7.3.9")
def test_two_streams_with_one_client_id_both_live(world: World) -> None:
    one, two = Client.opened(world, clientId="same"), Client.opened(world, clientId="same")

    world.publish(ORDERS, "a", "b")

    assert (one.read_texts(), two.read_texts()) == (["a"], ["b"])


def test_a_stream_shows_itself(world: World) -> None:
    client = Client(world)
    before = repr(client.stream)

    client.send(**first())

    assert before == "<StreamingPull None <Pile waiting=0 bytes=0>>"
    assert repr(client.stream) == f"<StreamingPull {PULLED} <Pile waiting=0 bytes=0>>"
