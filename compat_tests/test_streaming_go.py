"""cloud.google.com/go/pubsub, the high-level subscriber for Go."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from compat_tests import peers, subscribers
from compat_tests.rest import Project
from compat_tests.subscribers import ACKNOWLEDGE, Launcher
from compat_tests.targets import Target

CLIENT = "Go"

HERE = Path(__file__).parent / "go_pubsub"
CACHE = Path(__file__).parents[1] / ".cache/go"

# A first build compiles the library and all that it stands on.
BUILD_S = 400

# The library pings after 30 s and every 30 s from then on, and every 10 s looks whether a ping is 15 s old: without an
# answer it would open a second stream after 50 s.
PINGS, IDLE_S = 2, 90

pytestmark = [pytest.mark.slow, pytest.mark.timeout(peers.FETCH_S + BUILD_S + IDLE_S + 60)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOCACHE": str(CACHE), "GOFLAGS": "-mod=readonly"}
    peers.fetch([go, "mod", "download"], HERE, "cloud.google.com/go/pubsub", environment)
    built = tmp_path_factory.mktemp("go") / "subscriber"
    subprocess.run(
        [go, "build", "-buildvcs=false", "-o", built, "."], cwd=HERE, env=environment, check=True, timeout=BUILD_S
    )
    return built


@pytest.fixture
def launch(program: Path, server: Target, project: Project, tmp_path: Path) -> Launcher:
    return Launcher([program], server, project, tmp_path)


@pytest.mark.rule("V1", "V11", "V12", "S7.3.5", "S7.3.7")
def test_a_thousand_messages_come_once_and_are_acked(launch: Launcher, project: Project) -> None:
    relay = subscribers.check_that_a_thousand_come_once_and_are_acked(launch, project)

    assert len(relay.streams()) == 1
    assert relay.calls(ACKNOWLEDGE), "the library acks by calls of their own"


@pytest.mark.rule("V3", "C12")
def test_a_nacked_message_comes_again(launch: Launcher, project: Project) -> None:
    subscribers.check_that_a_nacked_message_comes_again(launch, project)


@pytest.mark.rule("O9", "V8", "C15", "B010", "B011")
def test_a_limit_of_one_message_leaves_the_rest_to_others(launch: Launcher, project: Project) -> None:
    subscribers.check_that_a_limit_of_one_leaves_the_rest_to_others(launch, project)


@pytest.mark.rule("S7.3.7", "O16")
def test_a_cancelled_receive_gets_nothing_more(launch: Launcher, project: Project) -> None:
    subscribers.check_that_a_closed_one_gets_nothing_more(launch, project)


@pytest.mark.rule("S7.3.6", "B001")
def test_an_idle_stream_is_never_opened_anew(launch: Launcher, project: Project) -> None:
    subscribers.check_that_an_idle_stream_stays(launch, project, PINGS, IDLE_S)
