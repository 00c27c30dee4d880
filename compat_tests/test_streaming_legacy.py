"""google-cloud-pubsub 1.7.2 and gcloud-aio-pubsub 2.1.0, in an environment of their own."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests import peers, subscribers
from compat_tests.rest import Project
from compat_tests.subscribers import ACKNOWLEDGE, Launcher
from compat_tests.targets import Target

CLIENT = "google-cloud-pubsub 1"

PROGRAMS = Path(__file__).parent / "legacy"
REQUIREMENTS = Path(__file__).parent / "legacy-requirements.txt"
CACHE = Path(__file__).parents[1] / ".cache/legacy"

# The README of gcloud-aio-pubsub 2.1.0 has a limit of one message.
README_LIMIT = 1

pytestmark = [pytest.mark.slow, pytest.mark.timeout(peers.FETCH_S + 120)]


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of the environment, which is made anew when the list of requirements has changed."""
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    # Each worker of a run asks for it.
    with CACHE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _installed()


def _installed() -> Path:
    interpreter, installed = CACHE / "bin/python", CACHE / "installed.txt"
    wanted = f"{sys.version}\n{REQUIREMENTS.read_text(encoding='utf-8')}"
    if not installed.exists() or installed.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(CACHE, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", CACHE], check=True, timeout=peers.FETCH_S)
        pip: list[str | Path] = [interpreter, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--no-deps", "--requirement", REQUIREMENTS], check=True, timeout=peers.FETCH_S)
        installed.write_text(wanted, encoding="utf-8")
    return interpreter


@pytest.fixture
def launch(python: Path, server: Target, project: Project, tmp_path: Path) -> Launcher:
    return Launcher([python, PROGRAMS / "subscriber.py"], server, project, tmp_path)


@pytest.mark.rule("K6", "V1", "V11")
def test_a_thousand_messages_come_once_and_are_acked(launch: Launcher, project: Project) -> None:
    relay = subscribers.check_that_a_thousand_come_once_and_are_acked(launch, project, README_LIMIT)

    assert [stream.requests[0].max_outstanding_messages for stream in relay.streams()] == [README_LIMIT]
    assert relay.calls(ACKNOWLEDGE), "the library acks by calls of their own"


@pytest.mark.rule("K6", "V3", "C12")
def test_a_nacked_message_comes_again(launch: Launcher, project: Project) -> None:
    subscribers.check_that_a_nacked_message_comes_again(launch, project)


@pytest.mark.rule("K6", "O9", "V8", "C15")
def test_a_limit_of_one_message_leaves_the_rest_to_others(launch: Launcher, project: Project) -> None:
    subscribers.check_that_a_limit_of_one_leaves_the_rest_to_others(launch, project)


@pytest.mark.rule("K6", "O16")
def test_a_cancelled_subscriber_gets_nothing_more(launch: Launcher, project: Project) -> None:
    subscribers.check_that_a_closed_one_gets_nothing_more(launch, project)


@pytest.mark.rule("K6")
def test_gcloud_aio_creates_a_subscription_that_may_exist_and_publishes(
    python: Path, server: Target, project: Project
) -> None:
    topic, subscription = project.topic(), project.subscription_name()

    done = subprocess.run(
        [python, PROGRAMS / "publisher.py", topic, subscription, "hello", "wörld"],
        env={**os.environ, "PUBSUB_EMULATOR_HOST": server.host_port},
        capture_output=True,
        text=True,
        timeout=subscribers.PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    created = project.rest.call("GET", subscription).ok()
    received = project.pull(subscription)
    assert (created["topic"], created["ackDeadlineSeconds"]) == (topic, 42)
    assert [one.data.decode() for one in received] == ["hello", "wörld"]
    assert [one.message["attributes"] for one in received] == [{"kind": "greeting"}] * 2
    assert [reply["messageIds"] for reply in replies] == [[one.message["messageId"]] for one in received]
