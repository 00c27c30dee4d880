"""How a StreamingPull stalls, and how it ends (service.md §7.3.7, outbox.md O14 to O17)."""

from typing import Any

import pytest

from emulator.api import received as received_api
from emulator.api import streaming_pull
from emulator.engine.entries import Leases
from emulator.engine.outbox import Outbox
from emulator.engine.subscription import Subscription
from emulator.errors import Code
from emulator.limits import STRICT
from tests.api.streaming import Client, attempts, messages, publish_bytes
from tests.api.world import ORDERS, PULLED, World, texts

OTHER = "projects/acme/subscriptions/other"
PUSH = {"pushEndpoint": "https://example.com/"}


class TestWindows:
    @pytest.mark.rule("O17", "V7", "A10")
    def test_a_stream_without_one_holds_up_nobody(self, world: World) -> None:
        outbox = Outbox(lambda: None, STRICT.reply_max_bytes)
        stalled = Client.opened(world, outbox, window=0, maxOutstandingMessages=2)
        other = Client.opened(world, outbox)

        world.publish(ORDERS, *"abcdef")

        assert (other.read_texts(), stalled.read()) == (["b", "d", "e", "f"], [])

    @pytest.mark.rule("O17", "V7")
    def test_a_stream_that_has_used_its_own_up_gets_nothing_more_assigned(self, world: World) -> None:
        client = Client.opened(world, window=200)
        world.publish(ORDERS, "a", "b", "c", "d", "e")
        some = client.read_texts()

        world.publish(ORDERS, "f")

        assert 0 < len(some) < 5
        assert texts(world.pull(PULLED)) == ["f"]

    @pytest.mark.rule("O17", "V7")
    def test_it_goes_on_where_it_stopped_when_the_window_grows(self, world: World) -> None:
        client = Client.opened(world, window=200)
        world.publish(ORDERS, *"abcde")
        some = client.read_texts()

        client.grow()

        assert some + client.read_texts() == [*"abcde"]

    @pytest.mark.rule("V7")
    def test_acks_on_a_stalled_stream_are_heard(self, world: World) -> None:
        client = Client.opened(world, window=1, maxOutstandingMessages=1)
        world.publish(ORDERS, "one", "two")
        client.read()

        client.send(ackIds=client.ack_ids)
        stalled = client.read()
        client.grow()

        assert (stalled, client.read_texts()) == ([], ["two"])

    @pytest.mark.rule("O18", "O17")
    def test_a_message_larger_than_the_window_leaves_in_parts_and_alone(self, world: World) -> None:
        client = Client.opened(world, window=1_000)
        publish_bytes(world, 5_000, 10, 10)

        first = [len(response.received_messages) for response in client.read()]
        waits = client.call.unsent
        client.grow(2_000)
        meanwhile = client.read()
        client.grow()

        assert (first, waits > 0, meanwhile) == ([1], True, [])
        assert [len(response.received_messages) for response in client.read()] == [2]

    @pytest.mark.rule("O16", "A11")
    def test_a_message_that_has_left_in_part_was_not_written(self, world: World) -> None:
        client = Client.opened(world, window=1_000)
        publish_bytes(world, 5_000)
        client.read()

        client.disconnect()

        assert (len(world.pull(PULLED)), attempts(world)) == (1, [0])

    @pytest.mark.rule("O15")
    def test_one_that_expires_while_it_has_left_in_part_counts_no_attempt(self, world: World) -> None:
        client = Client.opened(world, window=1_000)
        publish_bytes(world, 5_000)
        client.read()

        world.clock.advance(10)

        assert (attempts(world), len(world.pull(PULLED))) == ([0], 1)

    @pytest.mark.rule("O16", "V14")
    def test_one_that_has_left_whole_was_written(self, world: World) -> None:
        client = Client.opened(world, window=1_000)
        publish_bytes(world, 5_000)
        client.read()
        client.grow()

        client.disconnect()
        at_once = len(world.pull(PULLED))
        world.clock.advance(10)

        assert (at_once, attempts(world), len(world.pull(PULLED))) == (0, [1], 1)

    @pytest.mark.rule("O14")
    def test_the_lease_runs_while_a_message_waits_for_a_window(self, world: World) -> None:
        client = Client.opened(world, window=0)
        world.publish(ORDERS, "hello")
        client.read()

        world.clock.advance(9.999)
        before = len(world.pull(PULLED))
        world.clock.advance(0.001)

        assert (before, texts(world.pull(PULLED))) == (0, ["hello"])


class TestHalfClose:
    @pytest.mark.rule("S7.3.7", "K16")
    def test_ends_with_ok(self, world: World) -> None:
        client = Client.opened(world)

        client.half_close()

        assert (client.call.ended, client.call.error, client.read()) == (Code.OK, None, [])

    @pytest.mark.rule("S7.3.7")
    def test_ends_after_what_is_queued_has_left(self, world: World) -> None:
        client = Client.opened(world, protocolVersion=1)
        world.publish(ORDERS, "one", "two")
        client.send()

        client.half_close()
        client.read()

        assert (client.texts_by_response, client.call.ended) == ([[], ["one", "two"]], Code.OK)

    @pytest.mark.rule("S7.3.7", "S7.3.6")
    def test_a_ping_before_it_is_still_answered(self, world: World) -> None:
        client = Client.opened(world, protocolVersion=1)

        client.send()
        client.half_close()

        assert (len(client.read()), client.call.ended) == (1, Code.OK)

    @pytest.mark.rule("S7.3.7", "S7.3.6")
    def test_a_ping_that_waits_for_a_window_is_answered_before_the_end(self, world: World) -> None:
        client = Client.opened(world, protocolVersion=1, window=0)
        client.send()
        client.read()

        client.half_close()

        assert (len(client.call.sent), client.call.ended) == (1, Code.OK)

    @pytest.mark.rule("S7.3.7")
    def test_nothing_new_comes_after_it(self, world: World) -> None:
        client = Client.opened(world)
        world.publish(ORDERS, "one")

        client.half_close()
        world.publish(ORDERS, "two")

        assert client.read_texts() == ["one"]
        assert texts(world.pull(PULLED)) == ["two"]

    @pytest.mark.rule("S7.3.7", "O16")
    @pytest.mark.parametrize("its_turn", ["was before", "comes after"])
    def test_what_has_no_room_is_given_back(self, world: World, its_turn: str) -> None:
        client = Client.opened(world, window=0)
        world.publish(ORDERS, "one", "two")
        if its_turn == "was before":
            client.read()

        client.half_close()
        client.read()

        assert (client.call.ended, texts(world.pull(PULLED)), attempts(world)) == (Code.OK, ["one", "two"], [0, 0])

    @pytest.mark.rule("S7.3.7", "O16")
    def test_what_has_no_room_after_the_first_response_is_given_back(self, world: World) -> None:
        client = Client.opened(world, window=200)
        world.publish(ORDERS, *"abcdef")

        client.half_close()
        some = client.read_texts()

        assert client.call.ended is Code.OK
        assert some
        assert some + texts(world.pull(PULLED)) == [*"abcdef"]

    @pytest.mark.rule("S7.3.7")
    def test_a_message_that_has_left_in_part_leaves_whole(self, world: World) -> None:
        client = Client.opened(world, window=1_000)
        publish_bytes(world, 5_000, 10)
        client.read()

        client.half_close()

        assert (client.call.ended, len(client.received), len(world.pull(PULLED))) == (Code.OK, 1, 1)

    @pytest.mark.rule("O15")
    def test_one_whose_queued_messages_have_all_ended_ends(self, world: World) -> None:
        client = Client.opened(world, window=0)
        world.publish(ORDERS, "hello")
        client.read()
        world.clock.advance(600)

        client.half_close()
        client.grow()
        client.read()

        assert (client.call.ended, client.received, len(world.pull(PULLED))) == (Code.OK, [], 1)

    @pytest.mark.rule("V14")
    def test_what_was_delivered_stays_leased(self, world: World) -> None:
        client = Client.opened(world)
        world.publish(ORDERS, "hello")
        client.read()

        client.half_close()
        at_once = world.pull(PULLED)
        world.call("Acknowledge", subscription=PULLED, ackIds=client.ack_ids)

        assert (client.call.ended, at_once, messages(world)) == (Code.OK, [], [])

    @pytest.mark.rule("S7.3.7")
    def test_the_subscription_may_go_afterwards(self, world: World) -> None:
        client = Client.opened(world)
        world.publish(ORDERS, "hello")

        client.half_close()
        world.call("DeleteSubscription", subscription=PULLED)
        client.read()

        assert (len(client.received), client.call.ended) == (1, Code.OK)


ENDINGS = [
    pytest.param("DeleteSubscription", {}, Code.NOT_FOUND, marks=pytest.mark.rule("S6.3")),
    pytest.param("DetachSubscription", {}, Code.FAILED_PRECONDITION, marks=pytest.mark.rule("S6.2")),
    pytest.param("ModifyPushConfig", {"pushConfig": PUSH}, Code.FAILED_PRECONDITION, marks=pytest.mark.rule("S7.2.5")),
    pytest.param(None, {}, Code.UNAVAILABLE, marks=pytest.mark.rule("B008")),
]


def bring_about(world: World, method: str | None, fields: dict[str, Any]) -> None:
    """An RPC on PULLED, or the end of the server."""
    if method is None:
        world.broker.close()
    else:
        world.call(method, subscription=PULLED, **fields)


@pytest.mark.rule("K16", "S7.3.7")
class TestTheEnd:
    @pytest.mark.parametrize(("method", "fields", "code"), ENDINGS)
    def test_never_is_ok_of_the_servers_own_accord(
        self, world: World, method: str | None, fields: dict[str, Any], code: Code
    ) -> None:
        clients = [
            Client.opened(world),
            Client.opened(world, window=0),
            Client.opened(world, maxOutstandingMessages=1, protocolVersion=1),
        ]
        world.publish(ORDERS, *"abcdefg")
        for client in clients[:2]:
            client.read()

        bring_about(world, method, fields)

        assert [client.call.ended for client in clients] == [code] * 3
        assert [len(client.outbox._piles) for client in clients] == [0] * 3
        assert [client.outbox.deliveries for client in clients] == [0] * 3

    @pytest.mark.parametrize(("method", "fields", "code"), ENDINGS)
    def test_cuts_a_message_that_has_left_in_part(
        self, world: World, method: str | None, fields: dict[str, Any], code: Code
    ) -> None:
        client = Client.opened(world, window=1_000)
        publish_bytes(world, 5_000, 10)
        client.read()

        bring_about(world, method, fields)

        assert client.call.ended is code
        assert world.broker.counts()["leases"] == 0

    @pytest.mark.rule("O16", "S7.2.5")
    def test_by_a_push_config_lets_unwritten_messages_wait_again(self, world: World) -> None:
        client = Client.opened(world, window=0)
        world.publish(ORDERS, "one", "two")
        client.read()

        world.call("ModifyPushConfig", subscription=PULLED, pushConfig=PUSH)
        world.call("ModifyPushConfig", subscription=PULLED, pushConfig={})

        assert (texts(world.pull(PULLED)), attempts(world)) == (["one", "two"], [0, 0])

    @pytest.mark.rule("S6.4")
    def test_comes_no_sooner_for_a_stream_that_is_idle(self, world: World) -> None:
        client = Client.opened(world)

        world.clock.advance(40 * 86_400)
        world.publish(ORDERS, "hello")

        assert (client.call.ended, client.read_texts()) == (None, ["hello"])


class TestTheClientGoes:
    @pytest.mark.rule("O16", "V14", "A11")
    def test_what_was_not_written_waits_again_and_what_was_stays_leased(self, world: World) -> None:
        client = Client.opened(world)
        world.publish(ORDERS, "a", "b", "c")
        client.read()
        world.publish(ORDERS, "d", "e", "f", "g")

        client.disconnect()
        at_once = texts(world.pull(PULLED))
        unwritten = attempts(world)
        world.clock.advance(10)

        assert (at_once, unwritten) == (["d", "e", "f", "g"], [0] * 7)
        assert (texts(world.pull(PULLED)), attempts(world)) == ([*"abcdefg"], [1] * 7)

    @pytest.mark.rule("O16")
    def test_another_stream_gets_what_was_not_written_in_the_same_turn(self, world: World) -> None:
        client, other = Client.opened(world), Client.opened(world, maxOutstandingMessages=3)
        world.publish(ORDERS, "a", "b", "c")

        client.disconnect()

        assert other.read_texts() == ["b", "a", "c"]

    @pytest.mark.rule("V14", "V5")
    def test_what_was_written_may_still_be_acknowledged(self, world: World) -> None:
        client = Client.opened(world)
        world.publish(ORDERS, "hello")
        client.read()
        client.disconnect()

        Client.opened(world).send(ackIds=client.ack_ids)

        assert messages(world) == []

    @pytest.mark.rule("O16")
    def test_counts_return_to_the_start(self, world: World) -> None:
        start = dict(world.broker.counts())
        clients = [Client.opened(world, window=window, protocolVersion=1) for window in (0, 1, 200, 10_000)]
        world.publish(ORDERS, *"abcdefghijklmnopqrstuvwxyz")
        for client in clients:
            client.send()
            client.read()

        for client in clients:
            client.disconnect()
            client.disconnect()
        for client in clients:
            if client.ack_ids:
                world.broker.acknowledge(PULLED, client.ack_ids)
        world.broker.acknowledge(PULLED, [each.ack_id for each in world.pull(PULLED, 100)])

        assert dict(world.broker.counts()) == start
        assert [client.outbox.deliveries for client in clients] == [0] * 4


@pytest.mark.rule("O8", "S7.3.7")
class TestAResponseThatCannotBeBuilt:
    @pytest.fixture
    def broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def received(*_: object) -> None:
            raise RuntimeError("a fault of ours")

        monkeypatch.setattr(streaming_pull, "received", received)

    @pytest.mark.usefixtures("broken")
    def test_ends_the_call_and_gives_the_messages_back(self, world: World) -> None:
        client = Client.opened(world)
        world.publish(ORDERS, "one", "two")

        client.read()

        assert client.call.ended is Code.INTERNAL
        assert world.broker.counts()["pull_streams"] == 0
        assert (texts(world.pull(PULLED)), attempts(world)) == (["one", "two"], [0, 0])

    @pytest.mark.usefixtures("broken")
    def test_gives_back_what_was_queued_behind_it_too(self, world: World) -> None:
        client = Client.opened(world, window=200)
        world.publish(ORDERS, *"abcdef")

        client.read()

        assert (client.call.ended, texts(world.pull(PULLED))) == (Code.INTERNAL, [*"abcdef"])

    def test_is_no_trouble_for_other_streams_of_the_connection(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        build = received_api.received
        world.call("CreateSubscription", name=OTHER, topic=ORDERS)
        outbox = Outbox(lambda: None, STRICT.reply_max_bytes)
        bad, good = Client.opened(world, outbox), Client.opened(world, outbox, subscription=OTHER)

        def received(subscription: Subscription, leases: Leases) -> bytes:
            if subscription.name == PULLED:
                raise RuntimeError("a fault of ours")
            return build(subscription, leases)

        monkeypatch.setattr(streaming_pull, "received", received)
        world.publish(ORDERS, "hello")

        assert (good.read_texts(), good.call.ended, bad.call.ended) == (["hello"], None, Code.INTERNAL)
