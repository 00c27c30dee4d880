"""A loop turned by hand for tests in memory, a server on a port for real clients."""

from collections.abc import Iterator

import grpc
import pytest

from emulator import Emulator
from tests.wire.grpc.memory import Lab


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    lab.close()
    assert lab.problems == []


@pytest.fixture
def server() -> Iterator[Emulator]:
    with Emulator() as server:
        yield server


@pytest.fixture
def channel(server: Emulator) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.host_port) as channel:
        yield channel
