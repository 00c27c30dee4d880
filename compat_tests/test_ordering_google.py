"""Ordering keys with google-cloud-pubsub at both ends: nacks, a subscriber that is killed, a publisher that pauses."""

import os
import random
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient
from google.cloud.pubsub_v1.publisher.exceptions import PublishToPausedOrderingKeyException
from google.cloud.pubsub_v1.types import FlowControl, PublisherOptions

from compat_tests.rest import Project
from compat_tests.targets import Target

CLIENT = "google-cloud-pubsub"

HOLDER = Path(__file__).with_name("holder.py")

PATIENCE_S = 50

KEYS = [f"key-{number}" for number in range(10)]
PER_KEY = 50
NACKED = 0.15


@pytest.fixture
def publisher(server: Target, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.host_port)
    publisher = PublisherClient(publisher_options=PublisherOptions(enable_message_ordering=True))
    yield publisher
    publisher.stop()
    publisher.transport.close()


def publish_all(publisher: Any, topic: str) -> None:
    """PER_KEY messages of each key, one key after the other; each message's data says which it is."""
    futures = [
        publisher.publish(topic, f"{key} {number}".encode(), ordering_key=key)
        for number in range(PER_KEY)
        for key in KEYS
    ]
    for future in futures:
        future.result(PATIENCE_S)


class Log:
    """What came of each key, in that order, and whether it was acked; several subscribers write it.

    What is nacked is drawn by lot, a message never twice.
    """

    def __init__(self, pause_after: int | None = None) -> None:
        self.came: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        self.ack_ids: list[str] = []
        self._acks: list[Any] = []
        self.go_on = threading.Event()
        self.paused = threading.Event()
        self._pause_after = pause_after
        self._count = 0
        self._lot = random.Random(6)
        self._changed = threading.Condition()

    def take(self, message: Any) -> None:
        """As a callback."""
        with self._changed:
            self.ack_ids.append(message.ack_id)
            acked = self.note(message.data.decode())
            pause = self._pause_after is not None and self._count > self._pause_after
        if pause:
            self.paused.set()
            assert self.go_on.wait(PATIENCE_S)
        if not acked:
            message.nack()
            return
        with self._changed:
            self._acks.append(message.ack_with_response())
            self._changed.notify_all()

    def note(self, text: str, acked: bool | None = None) -> bool:
        """A message came; whether it is to be acked, by lot unless that is said."""
        key, number = text.split()
        with self._changed:
            if acked is None:
                is_new = int(number) not in [other for other, _ in self.came[key]]
                acked = not is_new or self._lot.random() > NACKED
            self.came[key].append((int(number), acked))
            self._count += 1
            self._changed.notify_all()
        return acked

    def wait_until_all_is_done(self) -> None:
        """Until of each key the last that came is everything in order, and acked."""
        with self._changed:
            assert self._changed.wait_for(self._all_is_done, PATIENCE_S), self.came
        for future in self._acks:
            future.result(PATIENCE_S)

    def _all_is_done(self) -> bool:
        acked = sum(acked for came in self.came.values() for _, acked in came)
        return len(self._acks) == acked and all(map(self._is_done, KEYS))

    def _is_done(self, key: str) -> bool:
        last = {number: (position, acked) for position, (number, acked) in enumerate(self.came[key])}
        in_order = sorted(last, key=lambda number: last[number])
        return in_order == list(range(PER_KEY)) and all(acked for _, acked in last.values())

    @property
    def nacks(self) -> int:
        return sum(not acked for came in self.came.values() for _, acked in came)

    def __repr__(self) -> str:
        return f"<Log {self._count} came>"


@contextmanager
def subscribed(subscription: str, log: Log, **flow: int) -> Iterator[None]:
    client = SubscriberClient()
    future = client.subscribe(subscription, log.take, flow_control=FlowControl(**flow))
    try:
        yield
    finally:
        log.go_on.set()
        future.cancel()
        future.result(PATIENCE_S)
        client.close()


def hold_some_and_be_killed(server: Target, project: Project, log: Log) -> int:
    """Have another process hold messages of a few keys and kill it; how many keys those were."""
    command = [sys.executable, str(HOLDER), project.id, "sub"]
    root = str(HOLDER.parents[1])
    environment = {**os.environ, "PUBSUB_EMULATOR_HOST": server.host_port, "PYTHONPATH": root}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline() for _ in range(3)]
        finally:
            process.kill()
        lines += process.stdout.readlines()
    for line in lines:
        log.note(line, acked=False)
    return len(lines)


@pytest.mark.rule("S9.2", "S9.3", "S9.4", "V14")
def test_each_key_comes_in_order_over_nacks_and_a_killed_subscriber(
    server: Target, project: Project, publisher: Any
) -> None:
    topic, subscription = project.pair(enableMessageOrdering=True)
    publish_all(publisher, topic)
    log = Log(pause_after=100)
    one = {"max_messages": 1}

    with (
        subscribed(subscription, log, **one),
        subscribed(subscription, log, **one),
        subscribed(subscription, log, **one),
        subscribed(subscription, log, **one),
    ):
        assert log.paused.wait(PATIENCE_S)
        held = hold_some_and_be_killed(server, project, log)
        log.go_on.set()
        log.wait_until_all_is_done()

    # One message at a time: what comes next is the one after what was acked, or what was not acked again.
    for key in KEYS:
        expected = 0
        for number, acked in log.came[key]:
            assert number == expected, (key, log.came[key])
            expected += acked
        assert expected == PER_KEY
    assert held >= 3
    assert log.nacks > held + 20
    check_that_all_are_acked(project, subscription, log)


@pytest.mark.rule("S9.2", "S9.4", "S9.5", "S9.6", "B029", "B031")
def test_each_key_comes_in_order_to_one_who_takes_many_at_a_time(project: Project, publisher: Any) -> None:
    topic, subscription = project.pair(enableMessageOrdering=True)
    publish_all(publisher, topic)
    log = Log()

    with subscribed(subscription, log):
        log.wait_until_all_is_done()

    # It starts again at or before what failed, and never skips a message.
    for key in KEYS:
        numbers = [number for number, _ in log.came[key]]
        assert numbers[0] == 0
        assert [pair for pair in pairwise(numbers) if pair[1] > pair[0] + 1] == []
    assert log.nacks > 20
    check_that_all_are_acked(project, subscription, log)


def check_that_all_are_acked(project: Project, subscription: str, log: Log) -> None:
    for start in range(0, len(log.ack_ids), 1_000):
        project.modify(subscription, log.ack_ids[start : start + 1_000], 0).ok()
    assert project.data(subscription) == []


@pytest.mark.rule("S9.10")
def test_a_key_whose_publish_failed_is_paused_by_the_library_alone(project: Project, publisher: Any) -> None:
    topic = project.topic_name()
    with pytest.raises(exceptions.NotFound):
        publisher.publish(topic, b"lost", ordering_key="a").result(PATIENCE_S)
    project.pair(enableMessageOrdering=True)
    with pytest.raises(PublishToPausedOrderingKeyException):
        publisher.publish(topic, b"refused", ordering_key="a").result(PATIENCE_S)

    project.publish(topic, {"data": "eA==", "orderingKey": "a"})
    publisher.resume_publish(topic, "a")
    publisher.publish(topic, b"resumed", ordering_key="a").result(PATIENCE_S)

    assert project.data(project.subscription_name()) == [b"x", b"resumed"]
