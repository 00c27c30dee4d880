"""StreamingPull of google-cloud-pubsub's asyncio client: `SubscriberAsyncClient.streaming_pull`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest
from google.api_core import exceptions
from google.pubsub_v1 import SubscriberAsyncClient, types

from compat_tests.rest import Project
from compat_tests.targets import Target

CLIENT = "google-cloud-pubsub"

# How long a stream may last at most, in seconds; whatever a test waits for then fails.
PATIENCE_S = 50


class Stream:
    """A stream and the requests that it is to send."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[Any] = asyncio.Queue()
        self.responses: Any = None

    async def open(self, client: Any, subscription: str, *, timeout: float = PATIENCE_S, **first: Any) -> "Stream":  # noqa: ASYNC109  # the client's own
        self.send(subscription=subscription, **{"stream_ack_deadline_seconds": 600, **first})
        self.responses = await client.streaming_pull(self._sent(), timeout=timeout)
        return self

    async def _sent(self) -> AsyncIterator[Any]:
        while (request := await self.requests.get()) is not None:
            yield request

    def send(self, **fields: Any) -> None:
        self.requests.put_nowait(types.StreamingPullRequest(**fields))

    def half_close(self) -> None:
        self.requests.put_nowait(None)

    async def next(self) -> Any:
        """The next response."""
        return await anext(aiter(self.responses))

    async def take(self, count: int) -> list[Any]:
        """So many messages, however many responses they come in."""
        taken: list[Any] = []
        while len(taken) < count:
            taken += (await self.next()).received_messages
        assert len(taken) == count
        return taken

    async def rest(self) -> list[Any]:
        """The messages until the end."""
        return [one async for response in self.responses for one in response.received_messages]

    async def leave(self) -> None:
        """Half-close, and see the stream end well; all that was sent has been heard by then."""
        self.half_close()
        assert await self.rest() == []

    def __repr__(self) -> str:
        return f"<Stream {self.responses!r}>"


Open: TypeAlias = Callable[..., Awaitable[Stream]]


@pytest.fixture
async def client(server: Target, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """Made the way a user does: the variable, and no argument."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.host_port)
    client = SubscriberAsyncClient()
    yield client
    await client.transport.close()


@pytest.fixture
async def connect(client: Any) -> AsyncIterator[Open]:
    streams: list[Stream] = []

    async def make(subscription: str, **options: Any) -> Stream:
        streams.append(Stream())
        return await streams[-1].open(client, subscription, **options)

    yield make
    for stream in streams:
        stream.half_close()
        stream.responses.cancel()


def data(messages: list[Any]) -> list[bytes]:
    return [one.message.data for one in messages]


def ack_ids(messages: list[Any]) -> list[str]:
    return [one.ack_id for one in messages]


def check_that_all_are_acked(project: Project, subscription: str, ids: list[str]) -> None:
    """What isn't would come back now; there must be no stream any more."""
    project.modify(subscription, ids, 0).ok()
    assert project.data(subscription) == []


@pytest.mark.rule("V1", "V11", "C13", "O5")
@pytest.mark.parametrize("how", ["on the stream", "by calls"])
async def test_a_thousand_messages_come_once_and_are_acked(
    client: Any, connect: Open, project: Project, how: str
) -> None:
    topic, subscription = project.pair()
    bodies = [b"%d" % number for number in range(1_000)]
    stream = await connect(subscription, max_outstanding_messages=100)
    project.publish(topic, *bodies)

    received: list[Any] = []
    while len(received) < 1_000:
        some = list((await stream.next()).received_messages)
        received += some
        if how == "by calls":
            await client.acknowledge(subscription=subscription, ack_ids=ack_ids(some))
        else:
            stream.send(ack_ids=ack_ids(some))
    await stream.leave()

    assert data(received) == bodies
    check_that_all_are_acked(project, subscription, ack_ids(received))


@pytest.mark.rule("V3", "V11")
@pytest.mark.parametrize("how", ["on the stream", "by calls"])
async def test_a_nacked_message_comes_again(client: Any, connect: Open, project: Project, how: str) -> None:
    topic, subscription = project.pair()
    stream = await connect(subscription)
    project.publish(topic, b"message")
    (first,) = await stream.take(1)

    if how == "by calls":
        await client.modify_ack_deadline(subscription=subscription, ack_ids=[first.ack_id], ack_deadline_seconds=0)
    else:
        stream.send(modify_deadline_ack_ids=[first.ack_id], modify_deadline_seconds=[0])
    (second,) = await stream.take(1)

    assert second.message == first.message
    assert second.ack_id != first.ack_id


@pytest.mark.rule("B004")
async def test_messages_come_as_they_are_published(connect: Open, project: Project) -> None:
    topic, subscription = project.pair()
    stream = await connect(subscription)

    for number in range(5):
        await asyncio.to_thread(project.publish, topic, b"%d" % number)

        assert data(await stream.take(1)) == [b"%d" % number]


@pytest.mark.rule("K3", "S7.3.5", "S7.3.6", "B001")
async def test_pings_are_answered(connect: Open, project: Project) -> None:
    _, subscription = project.pair(enableMessageOrdering=True)
    stream = await connect(subscription, protocol_version=1)

    for _ in range(20):
        stream.send()
        response = await stream.next()

        assert not response.received_messages
        assert response.subscription_properties.message_ordering_enabled


@pytest.mark.rule("S7.3.11", "O7")
async def test_streams_of_one_client_share_the_messages(connect: Open, project: Project) -> None:
    topic, subscription = project.pair()
    streams = [await connect(subscription, max_outstanding_messages=10) for _ in range(10)]
    numbers = {b"%d" % number for number in range(100)}
    project.publish(topic, *numbers)

    shares = await asyncio.gather(*(stream.take(10) for stream in streams))

    assert {one for share in shares for one in data(share)} == numbers


@pytest.mark.rule("K16", "S7.3.7")
async def test_a_stream_ends_well_when_its_requests_do(connect: Open, project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"message")
    stream = await connect(subscription)

    stream.half_close()

    assert data(await stream.rest()) == [b"message"]


@pytest.mark.rule("O16", "T23", "V14")
async def test_a_cancelled_stream_gets_nothing_more_and_keeps_what_it_has(
    client: Any, connect: Open, project: Project
) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"before")
    stream = await connect(subscription)
    held = await stream.take(1)

    assert stream.responses.cancel()
    await client.get_subscription(subscription=subscription)  # the server has heard of the end before this
    project.publish(topic, b"after")

    with pytest.raises(asyncio.CancelledError):
        await stream.next()
    after = project.pull_one(subscription)
    assert after.data == b"after"
    assert project.data(subscription) == []
    await client.acknowledge(subscription=subscription, ack_ids=ack_ids(held))
    check_that_all_are_acked(project, subscription, ack_ids(held))


@pytest.mark.rule("T4", "K16")
async def test_a_stream_ends_at_its_deadline(client: Any, connect: Open, project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"before")
    stream = await connect(subscription, timeout=1)
    assert data(await stream.take(1)) == [b"before"]

    with pytest.raises(exceptions.DeadlineExceeded):
        await stream.next()

    await client.get_subscription(subscription=subscription)  # the server has heard of the end before this
    project.publish(topic, b"after")
    assert project.pull_one(subscription).data == b"after"


@pytest.mark.rule("K16", "S7.2.6", "S7.3.7")
@pytest.mark.parametrize(
    ("verb", "path", "error"),
    [("DELETE", "", exceptions.NotFound), ("POST", ":detach", exceptions.FailedPrecondition)],
    ids=["deleted", "detached"],
)
async def test_a_stream_ends_with_its_subscription(
    connect: Open, project: Project, verb: str, path: str, error: type[Exception]
) -> None:
    topic, subscription = project.pair()
    stream = await connect(subscription)
    project.publish(topic, b"message")
    await stream.take(1)

    project.rest.call(verb, f"{subscription}{path}").ok()

    with pytest.raises(error, match=subscription):
        await stream.next()


@pytest.mark.rule("S7.3.1")
@pytest.mark.parametrize("seconds", [0, 9, 601])
async def test_a_stream_needs_a_deadline_in_range(connect: Open, project: Project, seconds: int) -> None:
    _, subscription = project.pair()
    stream = await connect(subscription, stream_ack_deadline_seconds=seconds)

    with pytest.raises(exceptions.InvalidArgument, match="stream_ack_deadline_seconds"):
        await stream.next()


@pytest.mark.rule("K11", "S7.3.1")
async def test_a_missing_subscription(connect: Open, project: Project) -> None:
    stream = await connect(project.subscription_name())

    with pytest.raises(exceptions.NotFound, match="Resource not found"):
        await stream.next()
