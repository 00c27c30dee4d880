"""A loop turned by hand for each test."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from emulator.wire import postie as postie_module
from emulator.wire.grpc import server as server_module
from tests.wire.grpc.memory import Lab


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, a turn is over when there is nothing left to do."""
    for module in (server_module, postie_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 0.0))


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    lab.close()
    assert lab.problems == []
