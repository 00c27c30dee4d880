"""gcloud-aio-pubsub's subscribe() from end to end (K5)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from gcloud.aio.pubsub import SubscriberClient, SubscriberMessage, subscribe

from compat_tests.rest import Project

CLIENT = "gcloud-aio-pubsub"

Handler = Callable[[SubscriberMessage], Awaitable[None]]

# The library collects acks for this long, in real time; its default is 0.3 s.
WINDOW_S = 0.1
WAKE = b"wake up"


class Recorder(SubscriberClient):
    """The library's client, with a record of the ids of every Acknowledge."""

    acknowledged: list[list[str]]

    async def acknowledge(self, subscription: str, ack_ids: list[str], **options: Any) -> None:
        self.acknowledged.append(list(ack_ids))
        await super().acknowledge(subscription, ack_ids, **options)


@pytest.fixture
async def client(project: Project, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Recorder]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", project.rest.target.host_port)
    async with Recorder() as client:
        client.acknowledged = []
        yield client


@asynccontextmanager
async def subscribed(
    project: Project, client: SubscriberClient, handler: Handler, **options: Any
) -> AsyncIterator["asyncio.Task[None]"]:
    """Run subscribe() on the project's pair, and cancel it when the block ends.

    A cancelled producer first waits for the Pull that is under way, up to 5 s; a last message answers that Pull.
    """

    async def handle(message: SubscriberMessage) -> None:
        if message.data != WAKE:
            await handler(message)

    windows = {"ack_window": WINDOW_S, "nack_window": WINDOW_S}
    task = asyncio.ensure_future(subscribe(project.subscription_name(), handle, client, **{**windows, **options}))
    try:
        yield task
    finally:
        if not task.cancelling():
            task.cancel()
        project.publish(project.topic_name(), WAKE)
        with pytest.raises(asyncio.CancelledError):
            await task


def still_there(project: Project, ack_ids: list[str]) -> list[bytes]:
    """What is left of messages that came with these ack ids: available already, or leased and now given back."""
    subscription = project.subscription_name()
    if ack_ids:
        project.modify(subscription, ack_ids, 0).ok()
    return sorted(one.data for one in project.pull(subscription) if one.data != WAKE)


@pytest.mark.rule("K5", "S7.1.6")
async def test_what_the_handler_returns_from_is_acknowledged(project: Project, client: Recorder) -> None:
    topic, _ = project.pair(ackDeadlineSeconds=600)
    sent = [str(n).encode() for n in range(20)]
    project.publish(topic, *sent)
    seen: dict[bytes, str] = {}
    done = asyncio.Event()

    async def handler(message: SubscriberMessage) -> None:
        assert message.data is not None
        seen[message.data] = message.ack_id
        if len(seen) == len(sent):
            done.set()

    async with subscribed(project, client, handler, ack_window=0.3):
        await done.wait()

    assert sorted(seen) == sorted(sent)
    assert still_there(project, list(seen.values())) == []


@pytest.mark.rule("K5", "S7.1.4", "B016")
@pytest.mark.parametrize("way", ["exception", "nack"])
async def test_what_the_handler_fails_on_is_redelivered(project: Project, client: Recorder, way: str) -> None:
    topic, _ = project.pair(ackDeadlineSeconds=600)
    project.publish(topic, b"good", b"bad")
    deliveries: Counter[bytes] = Counter()
    ack_ids: list[str] = []
    done = asyncio.Event()

    async def handler(message: SubscriberMessage) -> None:
        assert message.data is not None
        deliveries[message.data] += 1
        ack_ids.append(message.ack_id)
        if message.data == b"bad":
            if deliveries[b"bad"] == 1 and way == "exception":
                raise RuntimeError("on purpose")
            if deliveries[b"bad"] == 1:
                message.nack()
            else:
                done.set()

    async with subscribed(project, client, handler):
        await done.wait()

    assert deliveries == {b"good": 1, b"bad": 2}
    assert len(set(ack_ids)) == 3
    assert still_there(project, ack_ids) == []


@pytest.mark.rule("K5", "S7.2.4")
async def test_cancelling_while_messages_are_handled_loses_none(project: Project, client: Recorder) -> None:
    topic, _ = project.pair(ackDeadlineSeconds=600)
    sent = [str(n).encode() for n in range(5)]
    project.publish(topic, *sent)
    seen: dict[bytes, str] = {}
    started, go_on = asyncio.Event(), asyncio.Event()

    async def handler(message: SubscriberMessage) -> None:
        assert message.data is not None
        seen[message.data] = message.ack_id
        started.set()
        await go_on.wait()

    async with subscribed(project, client, handler) as task:
        await started.wait()
        task.cancel()
        go_on.set()

    assert sorted(seen) == sorted(sent)
    assert still_there(project, list(seen.values())) == []


@pytest.mark.rule("K5", "S7.2.4")
async def test_cancelling_while_a_pull_waits_loses_none(project: Project, client: Recorder) -> None:
    topic, _ = project.pair(ackDeadlineSeconds=600)
    seen: dict[bytes, str] = {}
    handled = asyncio.Event()

    async def handler(message: SubscriberMessage) -> None:
        assert message.data is not None
        seen[message.data] = message.ack_id
        handled.set()

    async with subscribed(project, client, handler) as task:
        project.publish(topic, b"first")
        await handled.wait()
        task.cancel()
        project.publish(topic, b"last")

    left = still_there(project, list(seen.values()))
    assert sorted([*seen, *left]) == [b"first", b"last"]


@pytest.mark.rule("K5", "S7.1.8")
async def test_one_bad_ack_id_in_a_batch_spoils_no_other(project: Project, client: Recorder) -> None:
    topic, _ = project.pair(ackDeadlineSeconds=600)
    sent = [b"good", b"spoilt", b"fine"]
    project.publish(topic, *sent)
    given: dict[bytes, str] = {}
    done = asyncio.Event()

    async def handler(message: SubscriberMessage) -> None:
        assert message.data is not None
        given[message.data] = message.ack_id
        if message.data == b"spoilt":
            message.ack_id = "nonsense"
        if len(given) == len(sent):
            done.set()

    async with subscribed(project, client, handler, ack_window=0.3, num_tasks_per_consumer=3):
        await done.wait()

    batch, *alone = client.acknowledged
    assert {given[b"good"], "nonsense", given[b"fine"]} <= set(batch)
    assert sorted(alone[: len(batch)]) == sorted([one] for one in batch)
    assert still_there(project, list(given.values())) == [b"spoilt"]
