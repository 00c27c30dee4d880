"""What every suite below shares: Hypothesis without a wall clock, and engine tests without sleep or sockets."""

import socket
import time
from pathlib import Path

import pytest
from hypothesis import settings

ENGINE_TESTS = Path(__file__).parent / "engine"

# The parent is Hypothesis' own choice: its profile for continuous integration draws the same examples each time.
settings.register_profile("emulator", settings(), deadline=None)
settings.load_profile("emulator")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz-seconds", type=int, default=60, help="how long the slow fuzzing tests go on, all together (default: 60)"
    )


@pytest.fixture(autouse=True)
def engine_tests_stay_pure(request: pytest.FixtureRequest) -> None:
    """Below tests/engine, sleeping and opening a socket fail at once."""
    if ENGINE_TESTS not in request.path.parents:
        return

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("an engine test neither sleeps nor opens a socket; turn a FakeClock instead")

    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    monkeypatch.setattr(time, "sleep", refuse)
    monkeypatch.setattr(socket, "socket", refuse)
