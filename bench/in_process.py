"""`python -m bench.in_process WHAT …`: the engine alone, on a clock that stands still; prints nanoseconds as JSON.

Every number is the median of a few turns, so that one pause of the machine does not decide it.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from bench import slowed
from emulator.cli import collect_less
from emulator.clock import NS_PER_S, FakeClock
from emulator.engine.broker import Broker
from emulator.engine.values import Draft, SubscriptionSettings, TopicSettings

DEPTH, FANOUT, TOPICS, SEEK = "depth", "fanout", "topics", "seek"

_TURNS: Final = 7
_SEEKS: Final = 3
_BATCH: Final = 100
# What is done once for nothing: the interpreter is slow at first, which would flatter whatever is measured later.
_WARM_UP: Final = 10_000
_LONG_S: Final = 600
_SHORT_S: Final = 10
_RETENTION_S: Final = 604_800
_BODY: Final = b"x" * 100

_TOPIC: Final = "projects/bench/topics/growth"
_SUBSCRIPTION: Final = "projects/bench/subscriptions/growth"

_SETTINGS: Final = SubscriptionSettings(ack_deadline=_LONG_S * NS_PER_S, retention=_RETENTION_S * NS_PER_S)


def _drafts(count: int) -> list[Draft]:
    return [Draft(_BODY, {}, size=len(_BODY) + 2) for _ in range(count)]


def _timed(work: Callable[[], object], count: int) -> float:
    """Nanoseconds for each of `count`."""
    begun = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - begun) / count


class Backlog:
    """A topic with one subscription, and what is done to it."""

    def __init__(self, settings: SubscriptionSettings = _SETTINGS) -> None:
        self.clock = FakeClock()
        self.broker = Broker(self.clock)
        topic = self.broker.create_topic(_TOPIC, TopicSettings())
        self.subscription = self.broker.create_subscription(_SUBSCRIPTION, topic, settings)

    def publish(self, count: int) -> None:
        for _ in range(count // _BATCH):
            self.broker.publish(_TOPIC, _drafts(_BATCH))

    def pull(self, count: int) -> list[str]:
        """Lease them; their ack ids."""
        found: list[str] = []
        for _ in range(count // _BATCH):
            leases = self.broker.pull(_SUBSCRIPTION, _BATCH, wait=False).hand_over()
            found += map(self.subscription.ack_id, leases)
        assert len(found) == count, "a pull came back with less than was asked for"
        return found

    def acknowledge(self, ack_ids: Sequence[str]) -> None:
        for first in range(0, len(ack_ids), _BATCH):
            self.broker.acknowledge(_SUBSCRIPTION, ack_ids[first : first + _BATCH])

    def extend(self, ack_ids: Sequence[str], seconds: int) -> None:
        for first in range(0, len(ack_ids), _BATCH):
            self.broker.modify_ack_deadline(_SUBSCRIPTION, ack_ids[first : first + _BATCH], seconds)

    def __repr__(self) -> str:
        return f"<Backlog {self.subscription!r}>"


def measure_depth(depth: int, sampled: int) -> Mapping[str, float]:
    """What one message costs while `depth` wait (publish, pull) or are leased (ack, nack, expiry)."""
    backlog = Backlog()
    backlog.publish(depth)
    publish = [_timed(partial(backlog.publish, sampled), sampled) for _ in range(_TURNS)]
    pull = [_timed(partial(backlog.pull, sampled), sampled) for _ in range(_TURNS)]
    leased = backlog.pull(depth)
    ack = [_timed(partial(backlog.acknowledge, ids), sampled) for ids in _take(leased, sampled)]
    nack = [_timed(partial(backlog.extend, ids, 0), sampled) for ids in _take(leased, sampled)]
    again = [backlog.pull(sampled) for _ in range(_TURNS)]
    for turn, ids in enumerate(again, 1):
        backlog.extend(ids, turn * _SHORT_S)
    expiry = []
    for _ in again:
        before = backlog.subscription.counts()["leases"]
        expiry.append(_timed(partial(backlog.clock.advance, _SHORT_S), sampled))
        assert backlog.subscription.counts()["leases"] == before - sampled, (
            "other leases ended than those that were due"
        )
    found = {"publish": publish, "pull": pull, "ack": ack, "nack": nack, "expiry": expiry}
    return {name: statistics.median(turns) for name, turns in found.items()}


def _take(ids: list[str], count: int) -> Sequence[Sequence[str]]:
    """The oldest of them, for each turn; they are gone from the list."""
    taken = [ids[turn * count : (turn + 1) * count] for turn in range(_TURNS)]
    del ids[: _TURNS * count]
    return taken


def measure_fanout(subscriptions: int, messages: int) -> Mapping[str, float]:
    """What each copy costs that a publish makes."""
    broker = Broker(FakeClock())
    topic = broker.create_topic(_TOPIC, TopicSettings())
    for number in range(subscriptions):
        broker.create_subscription(f"{_SUBSCRIPTION}-{number}", topic, _SETTINGS)
    batches = max(1, messages // _BATCH // subscriptions)

    def publish() -> None:
        for _ in range(batches):
            broker.publish(_TOPIC, _drafts(_BATCH))

    copies = batches * _BATCH * subscriptions
    return {"fanout": statistics.median(_timed(publish, copies) for _ in range(_TURNS))}


def _create(broker: Broker, first: int, count: int) -> None:
    for number in range(first, first + count):
        topic = broker.create_topic(f"{_TOPIC}-{number}", TopicSettings())
        broker.create_subscription(f"{_SUBSCRIPTION}-{number}", topic, _SETTINGS)


def measure_topics(topics: int, messages: int) -> Mapping[str, float]:
    """What a message costs that goes to one of so many topics, and what the newest topics cost to make."""
    # Few topics would find room in what the warm-up has left, where many need new memory, page by page: a fifth more.
    # So that room is taken first.
    others = Broker(FakeClock())
    _create(others, 0, _WARM_UP // 2)
    broker = Broker(FakeClock())
    last = max(1, min(topics, 1_000) // _TURNS)
    _create(broker, 0, topics - _TURNS * last)
    begins = range(topics - _TURNS * last, topics, last)
    made = [_timed(partial(_create, broker, first, last), last) for first in begins]

    def publish() -> None:
        for number in range(messages // _BATCH):
            broker.publish(f"{_TOPIC}-{number % 10}", _drafts(_BATCH))

    sent = statistics.median(_timed(publish, messages) for _ in range(_TURNS))
    assert len(others.topics) == _WARM_UP // 2, "the room is free again"
    return {"topics-publish": sent, "topics-create": statistics.median(made)}


def measure_seek(retained: int, _messages: int) -> Mapping[str, float]:
    """What a seek to the start costs that brings back so many acked messages."""
    backlog = Backlog(replace(_SETTINGS, retain_acked=True))
    backlog.publish(retained)

    turns = []
    for _ in range(_SEEKS):
        backlog.subscription.seek_to_time(backlog.clock.now() + NS_PER_S)  # acks them all
        assert backlog.subscription.counts()["retained"] == retained, "not all are retained"
        turns.append(_timed(partial(backlog.subscription.seek_to_time, 0), 1))
        assert backlog.subscription.counts()["waiting"] == retained, "not all came back"
    return {"seek": statistics.median(turns)}


_MEASURES: Final[Mapping[str, Callable[[int, int], Mapping[str, float]]]] = MappingProxyType(
    {DEPTH: measure_depth, FANOUT: measure_fanout, TOPICS: measure_topics, SEEK: measure_seek}
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.in_process")
    parser.add_argument("what", choices=tuple(_MEASURES))
    parser.add_argument("size", type=int, help="messages queued or retained, subscriptions, or topics")
    parser.add_argument("messages", type=int, help="messages a turn")
    parser.add_argument("--slow-down", default="", help="as bench.slowed takes it")
    given = parser.parse_args(argv)
    collect_less()  # as the server does
    slowed.slow_down(slowed.parse(given.slow_down))
    measure_depth(_WARM_UP, _WARM_UP // 20)
    print(json.dumps(_MEASURES[given.what](given.size, given.messages)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
