"""Ordering keys, retry and dead letters for those who pull with gcloud-aio-pubsub."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from gcloud.aio.pubsub import PublisherClient, PubsubMessage, SubscriberClient, SubscriberMessage, subscribe

from compat_tests.rest import Project

CLIENT = "gcloud-aio-pubsub"

KEYS = "abcde"
PER_KEY = 20

# The library collects acks and nacks for this long, in real time; its default is 0.3 s.
WINDOW_S = 0.05


@pytest.fixture
async def client(project: Project, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SubscriberClient]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", project.rest.target.host_port)
    async with SubscriberClient() as client:
        yield client


def data_of(messages: list[SubscriberMessage]) -> list[bytes | None]:
    return [message.data for message in messages]


async def publish(topic: str, *messages: PubsubMessage) -> None:
    async with PublisherClient() as publisher:
        await publisher.publish(topic, list(messages))


@pytest.mark.rule("S9.2", "S9.3", "S9.4", "B034")
async def test_a_key_is_pulled_in_order_by_one_at_a_time(project: Project, client: SubscriberClient) -> None:
    topic, subscription = project.pair(enableMessageOrdering=True)
    await publish(topic, *(PubsubMessage(b"a%d" % number, ordering_key="a") for number in range(3)))

    held = await client.pull(subscription, max_messages=10)
    project.publish(topic, {"data": "eA=="})
    other = await client.pull(subscription, max_messages=10)
    await client.acknowledge(subscription, [held[1].ack_id])
    await client.modify_ack_deadline(subscription, [held[0].ack_id], 0)
    again = await client.pull(subscription, max_messages=10)

    assert data_of(held) == data_of(again) == [b"a0", b"a1", b"a2"]
    assert data_of(other) == [b"x"]


@pytest.mark.rule("S7.1.11", "S10.3", "S10.5")
async def test_attempts_are_shown_and_the_letter_says_where_it_comes_from(
    project: Project, client: SubscriberClient
) -> None:
    letters = project.subscription(project.topic("dead"), "letters")
    policy = {"deadLetterTopic": project.topic_name("dead"), "maxDeliveryAttempts": 5}
    topic, subscription = project.pair(deadLetterPolicy=policy)
    await publish(topic, PubsubMessage(b"poison", own="kept"))

    attempts: list[int | None] = []
    for _ in range(5):
        (message,) = await client.pull(subscription, max_messages=1)
        attempts.append(message.delivery_attempt)
        await client.modify_ack_deadline(subscription, [message.ack_id], 0)
    (letter,) = await client.pull(letters, max_messages=1)

    assert attempts == [1, 2, 3, 4, 5]
    assert (letter.data, letter.delivery_attempt) == (b"poison", None)
    assert letter.attributes is not None
    assert letter.attributes["own"] == "kept"
    assert letter.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"
    assert letter.attributes["CloudPubSubDeadLetterSourceSubscription"] == "sub"


@pytest.mark.rule("S9.2", "S9.4", "S9.6", "K5")
async def test_subscribe_gets_each_key_in_order_and_again_from_what_failed(
    project: Project, client: SubscriberClient
) -> None:
    topic, subscription = project.pair(enableMessageOrdering=True, ackDeadlineSeconds=600)
    for number in range(PER_KEY):
        for key in KEYS:
            project.publish(topic, {"attributes": {"key": key, "number": str(number)}, "orderingKey": key})
    came: dict[str, list[int]] = defaultdict(list)
    done = asyncio.Event()

    async def handler(message: SubscriberMessage) -> None:
        assert message.attributes is not None
        numbers = came[message.attributes["key"]]
        number = int(message.attributes["number"])
        numbers.append(number)
        if number % 7 == 3 and numbers.count(number) == 1:
            raise RuntimeError("on purpose")
        if all(in_order_at_last(came[key]) for key in KEYS):
            done.set()

    # The library works on what came in one reply in any order.
    task = asyncio.ensure_future(
        subscribe(
            subscription,
            handler,
            client,
            ack_window=WINDOW_S,
            nack_window=WINDOW_S,
            num_producers=1,
            max_messages_per_producer=1,
        )
    )
    async with asyncio.timeout(50):
        await done.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    for key in KEYS:
        assert came[key][0] == 0
        assert [pair for pair in pairwise(came[key]) if pair[1] > pair[0] + 1] == []
        assert [came[key].count(number) > 1 for number in (3, 10, 17)] == [True] * 3


def in_order_at_last(numbers: list[int]) -> bool:
    """Whether each number came, the last time each after the one before."""
    last = {number: position for position, number in enumerate(numbers)}
    return sorted(last, key=lambda number: last[number]) == list(range(PER_KEY))
