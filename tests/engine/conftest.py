"""What every engine test starts from."""

import pytest

from tests.engine.helpers import World


@pytest.fixture
def empty() -> World:
    """A broker without anything in it."""
    return World()


@pytest.fixture
def world(empty: World) -> World:
    """A broker with one topic and one subscription of it: ack deadline 10 s, retention 7 days, never expiring."""
    empty.create_topic()
    empty.subscribe()
    return empty
