"""google-cloud-pubsub for Java, its high-level subscriber."""

import shutil
from pathlib import Path

import pytest

from compat_tests import peers, subscribers
from compat_tests.rest import Project
from compat_tests.subscribers import ACKNOWLEDGE, Launcher
from compat_tests.targets import Target

CLIENT = "Java"

HERE = Path(__file__).parent / "java_pubsub"
CACHE = Path(__file__).parents[1] / ".cache/java"

# The library pings at once and every 30 s from then on, and every 10 s looks whether a ping is 15 s old: without an
# answer it would open a second stream after 20 s, and a third after 50 s.
PINGS, IDLE_S = 3, 90

pytestmark = [pytest.mark.slow, pytest.mark.timeout(peers.FETCH_S + IDLE_S + 60)]


@pytest.fixture(scope="module")
def class_path() -> str:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("Maven is not installed")
    listed = CACHE / "class-path-pubsub"
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
    what = "google-cloud-pubsub for Java"
    peers.fetch([maven, "--batch-mode", "--quiet", goal, f"-Dmdep.outputFile={listed}"], HERE, what)
    return listed.read_text(encoding="utf-8").strip()


@pytest.fixture
def launch(class_path: str, server: Target, project: Project, tmp_path: Path) -> Launcher:
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        pytest.skip("no Java development kit is installed")
    return Launcher([java, "-cp", class_path, HERE / "Receive.java"], server, project, tmp_path)


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


@pytest.mark.rule("O16")
def test_a_stopped_subscriber_gets_nothing_more(launch: Launcher, project: Project) -> None:
    subscribers.check_that_a_closed_one_gets_nothing_more(launch, project)


@pytest.mark.rule("S7.3.6", "B002")
def test_an_idle_stream_is_never_opened_anew(launch: Launcher, project: Project) -> None:
    subscribers.check_that_an_idle_stream_stays(launch, project, PINGS, IDLE_S)
