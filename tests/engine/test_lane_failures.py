"""What the failure of one message of an ordering key does to acks of later ones."""

import pytest

from emulator.engine.values import Draft
from tests.engine.helpers import TOPIC, World, settings


@pytest.mark.rule("S9.4")
@pytest.mark.parametrize("acked", [[1, 2], [2]])
def test_an_ack_that_was_undone_stays_so_when_it_is_repeated(empty: World, acked: list[int]) -> None:
    """A client that repeats its ack must not keep the message from coming again, whatever waits before it."""
    empty.create_topic()
    empty.subscribe(to=settings(ordered=True))
    empty.broker.publish(TOPIC, [Draft(body, {}, "k") for body in (b"1", b"2", b"3")])
    ids = empty.pull().ack_ids
    empty.nack(*ids[1:])
    late = [ids[place] for place in acked]
    empty.ack(*late)
    empty.nack(ids[0])

    empty.ack(*late)

    assert empty.pull().bodies == [b"1", b"2", b"3"]
