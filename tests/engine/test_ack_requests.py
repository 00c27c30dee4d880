"""The ack ids of a request: which are refused, which are ignored, and that each delivery has its own."""

import random
from collections.abc import Callable

import pytest

from emulator.errors import Code
from tests.engine.helpers import OTHER, SUBSCRIPTION, World, refused, settings

Call = Callable[[World, list[str]], None]

ACK_CALLS = [
    pytest.param(lambda world, ids: world.ack(*ids), id="acknowledge"),
    pytest.param(lambda world, ids: world.nack(*ids), id="nack"),
    pytest.param(lambda world, ids: world.extend(30, *ids), id="extend"),
]


@pytest.mark.rule("S7.1.8")
@pytest.mark.parametrize("call", ACK_CALLS)
class TestAckIdsOfARequest:
    def test_none_at_all_are_refused(self, world: World, call: Call) -> None:
        with refused(world, Code.INVALID_ARGUMENT, "ack_ids", "0 ack ids"):
            call(world, [])

    @pytest.mark.parametrize("bad", ["", "x", "not an ack id", "A" * 24, "é" * 24, "A" * 176])
    def test_a_malformed_one_keeps_the_good_ones_from_taking_effect(self, world: World, call: Call, bad: str) -> None:
        world.publish(b"a", b"b")
        first, second = world.pull().ack_ids

        with refused(world, Code.INVALID_ARGUMENT, "ack_ids", "not an ack id"):
            call(world, [first, bad, second])

    def test_one_of_another_subscription_keeps_the_good_ones_from_taking_effect(self, world: World, call: Call) -> None:
        world.subscribe(OTHER)
        world.publish(b"a")
        (mine,) = world.pull().ack_ids
        (foreign,) = world.pull(name=OTHER).ack_ids

        with refused(world, Code.INVALID_ARGUMENT, "ack_ids", foreign, SUBSCRIPTION):
            call(world, [mine, foreign])

    def test_an_own_one_may_be_spelled_in_standard_base64(self, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(random, "getrandbits", lambda bits: 2**bits - 1)
        world = World()
        world.create_topic()
        world.subscribe()
        world.publish(b"a")
        (ack_id,) = world.pull().ack_ids
        before = world.broker.dump()
        assert ack_id.startswith("____")

        call(world, ["////" + ack_id[4:]])

        assert world.broker.dump() != before

    def test_one_from_another_run_of_the_server_is_unknown(self, world: World, call: Call) -> None:
        former = World()
        former.create_topic()
        former.subscribe()
        former.publish(b"a")
        world.publish(b"a")
        world.pull()
        before = world.broker.dump()

        call(world, former.pull().ack_ids)

        assert world.broker.dump() == before

    def test_one_of_a_deleted_subscription_is_unknown(self, world: World, call: Call) -> None:
        world.subscribe(OTHER)
        world.publish(b"a")
        gone = world.pull(name=OTHER).ack_ids
        world.broker.delete_subscription(OTHER)
        world.pull()
        before = world.broker.dump()

        call(world, gone)

        assert world.broker.dump() == before

    @pytest.mark.rule("S3.6")
    def test_one_of_an_earlier_subscription_of_the_name_is_unknown(self, world: World, call: Call) -> None:
        world.publish(b"a")
        former = world.pull().ack_ids
        world.broker.delete_subscription(SUBSCRIPTION)
        world.subscribe()
        world.publish(b"b")
        world.pull()
        before = world.broker.dump()

        call(world, former)

        assert world.broker.dump() == before

    def test_one_whose_message_was_dropped_is_unknown(self, world: World, call: Call) -> None:
        world.publish(b"a")
        ack_ids = world.pull().ack_ids
        world.subscription().update(settings(retention=600))
        world.advance(601)

        call(world, ack_ids)

        assert world.held() == 0

    @pytest.mark.rule("S1.5a", "S7.2.6")
    def test_whatever_they_are_a_missing_subscription_is_not_found(self, world: World, call: Call) -> None:
        world.broker.delete_subscription(SUBSCRIPTION)

        with refused(world, Code.NOT_FOUND, SUBSCRIPTION):
            call(world, ["not an ack id"])


@pytest.mark.rule("S1.5a")
def test_the_seconds_are_checked_before_the_ack_ids(world: World) -> None:
    with refused(world, Code.INVALID_ARGUMENT, "ack_deadline_seconds"):
        world.extend(601, "not an ack id")


@pytest.mark.rule("S7.1.1", "B022")
def test_every_delivery_has_an_ack_id_of_its_own(world: World) -> None:
    world.subscribe(OTHER)
    world.publish(b"a", b"b")

    ack_ids = [ack_id for _ in range(3) for ack_id in nack_all(world)]
    ack_ids += world.pull(name=OTHER).ack_ids

    assert len(set(ack_ids)) == len(ack_ids) == 8
    assert all(len(ack_id) <= 24 and ack_id.isascii() and ack_id.isprintable() for ack_id in ack_ids)


def nack_all(world: World) -> list[str]:
    """Take everything and give it back; the ack ids that this used up."""
    ack_ids = world.pull().ack_ids
    world.nack(*ack_ids)
    return ack_ids
