"""A loop turned by hand for each test."""

from collections.abc import Iterator

import pytest

from tests.wire.grpc.memory import Lab


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    lab.close()
    assert lab.problems == []
