"""The worlds that the tests of the API room start from."""

import pytest

from tests.api.world import DEAD, ORDERS, PULLED, World


@pytest.fixture
def world() -> World:
    """Two topics, ORDERS and DEAD, and PULLED, a subscription of the first with every default."""
    world = World.empty()
    world.call("CreateTopic", name=ORDERS)
    world.call("CreateTopic", name=DEAD)
    world.call("CreateSubscription", name=PULLED, topic=ORDERS)
    return world
