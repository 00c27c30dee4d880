"""What a subscription's options cost, as shares of what the same costs without them; only for this server."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from bench.client import PROJECT, PUBLISH, client_of, publish_request, subscription_of, topic_of
from bench.context import Bench, Sample, undisturbed
from bench.loads.pulling import drained
from emulator.api import pb

_KEYS: Final = 1_000
_SIZE: Final = 100
_FILTERED: Final = 100
_BATCH: Final = 100


def drains(bench: Bench, name: str) -> Mapping[str, Sample]:
    """A drain with ordering keys, and one under exactly-once, against one without either in the same minute."""
    plain = _drain(bench, name, 0)
    ordered = _drain(bench, name, _KEYS, enable_message_ordering=True)
    once = _drain(bench, name, 0, enable_exactly_once_delivery=True)
    return {
        "drain-ordered": Sample(ordered / plain, f"{ordered:,.0f} of {plain:,.0f} messages/s, {_KEYS:,} keys"),
        "drain-exactly-once": Sample(once / plain, f"{once:,.0f} of {plain:,.0f} messages/s"),
    }


def _drain(bench: Bench, name: str, keys: int, **options: bool) -> float:
    server = bench.server(name)
    with subscription_of(server, bench.fresh_name("option"), **options) as (topic, subscription):
        with client_of(server) as client:
            client.publish(topic, bench.scale.drained, _SIZE, keys=keys)
        return drained(server, subscription, bench.scale.drained, 1)


def filters(bench: Bench, name: str) -> Mapping[str, Sample]:
    """What a Publish costs with a hundred filtered subscriptions, as a multiple of what it costs with one."""
    one = _publish_to_filtered(bench, name, 1)
    many = _publish_to_filtered(bench, name, _FILTERED)
    told = f"{1_000_000 * one:.0f} and {1_000_000 * many:.0f} µs for {_BATCH} messages"
    return {"filters": Sample(many / one, told)}


def _publish_to_filtered(bench: Bench, name: str, count: int) -> float:
    """Seconds for a Publish, of which each subscription wants another hundredth."""
    server = bench.server(name)
    unique = bench.fresh_name("filter")
    calls = max(10, bench.scale.sampled // 5)
    with ExitStack() as stack:
        topic = stack.enter_context(topic_of(server, unique))
        client = stack.enter_context(client_of(server))
        for number in range(count):
            subscription = f"{PROJECT}/subscriptions/{unique}-{number}"
            wanted = f'attributes.kind = "{number}"'
            client.create_subscription(subscription, topic, filter=wanted)
            stack.callback(client.delete_subscription, subscription)
        request = publish_request(topic, _BATCH, _SIZE)
        for number, message in enumerate(request.messages):
            message.attributes["kind"] = str(number % _FILTERED)
        with undisturbed():
            begun = time.perf_counter()
            for _ in range(calls):
                client.call(PUBLISH, request, pb.PublishResponse)
            return (time.perf_counter() - begun) / calls
