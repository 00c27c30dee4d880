"""Whether costs stay what they are when there is more of everything; only for this server, and mostly in the engine."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Final

from bench import in_process
from bench.client import GET_TOPIC, Client, client_of, subscription_of
from bench.context import Bench, Sample, undisturbed
from bench.servers import OURS, ROOT
from bench.wire import BenchError
from emulator.api import pb

DEPTH_OPERATIONS: Final = ("publish", "pull", "ack", "nack", "expiry")

_FANOUTS: Final = (1, 10, 100)
_PATIENCE_S: Final = 120.0

_DEADLINE_S: Final = 10
_MARGIN_S: Final = 0.7
_PULLED: Final = 1_000


def in_process_of(bench: Bench, what: str, size: int, messages: int) -> Mapping[str, float]:
    """Nanoseconds by operation, measured in a process whose memory holds nothing else."""
    slow_down = ("--slow-down", bench.launcher.slow_down) if bench.launcher.slow_down else ()
    command = bench.launcher.python("bench.in_process", what, str(size), str(messages), *slow_down)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode != 0:
        raise BenchError(f"bench.in_process failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _growth(costs: Mapping[int, float]) -> Sample:
    """How much more the last costs than the first, and all of them in words."""
    first, *_, last = costs.values()
    told = ", ".join(f"{nanoseconds / 1_000:.2f} µs at {size:,}" for size, nanoseconds in costs.items())
    return Sample(last / first, told)


def depth(bench: Bench, _name: str) -> Mapping[str, Sample]:
    """By operation, what a message costs with the most queued, as a multiple of what it costs with the fewest."""
    found = {size: in_process_of(bench, in_process.DEPTH, size, bench.scale.sampled) for size in bench.scale.depths}
    return {
        f"growth-{operation}": _growth({size: costs[operation] for size, costs in found.items()})
        for operation in DEPTH_OPERATIONS
    }


def fanout(bench: Bench, _name: str) -> Mapping[str, Sample]:
    """What a copy costs with many subscriptions, as a multiple of what it costs with one."""
    messages = 20 * bench.scale.sampled
    return {
        "growth-fanout": _growth(
            {size: in_process_of(bench, in_process.FANOUT, size, messages)["fanout"] for size in _FANOUTS}
        )
    }


def topics(bench: Bench, _name: str) -> Mapping[str, Sample]:
    """What a message and a topic cost with many topics, as a multiple of what they cost with few."""
    few = bench.scale.topics // 10
    found = {
        size: in_process_of(bench, in_process.TOPICS, size, 20 * bench.scale.sampled)
        for size in (few, bench.scale.topics)
    }
    return {
        f"growth-{what}": _growth({size: costs[what] for size, costs in found.items()})
        for what in ("topics-publish", "topics-create")
    }


def stall(bench: Bench, _name: str) -> Mapping[str, Sample]:
    """The longest that another call takes, in milliseconds, while a great many leases end at once.

    They are made to end at once by stopping the server's process until the last of them is due.
    """
    if not hasattr(signal, "SIGSTOP"):
        raise BenchError("this system can't stop a process")
    count = bench.scale.leases
    with (
        bench.launcher.serve(OURS) as server,
        subscription_of(server, "stall", _DEADLINE_S) as (topic, subscription),
        client_of(server) as client,
        client_of(server) as other,
    ):
        client.publish(topic, count, 100)
        begun = time.monotonic()
        _pull_all(client, subscription, count)
        pulled = time.monotonic()
        _sleep_until(begun + _DEADLINE_S - _MARGIN_S)
        os.kill(server.process.pid, signal.SIGSTOP)
        _sleep_until(pulled + _DEADLINE_S + _MARGIN_S)
        os.kill(server.process.pid, signal.SIGCONT)
        longest, calls = _longest_call(other, topic, bench.scale.stall_s)
        _pull_all(client, subscription, count)
    late = "" if pulled - begun < _DEADLINE_S - _MARGIN_S else "; some leases ended before the others"
    return {"stall": Sample(longest * 1_000, f"of {calls:,} calls{late}")}


def _pull_all(client: Client, subscription: str, count: int) -> None:
    """Raises BenchError when there are not so many."""
    pulled = 0
    while pulled < count:
        found = len(client.pull(subscription, _PULLED))
        if not found:
            raise BenchError(f"only {pulled:,} of {count:,} messages are there")
        pulled += found


def _longest_call(client: Client, topic: str, seconds: float) -> tuple[float, int]:
    longest, calls = 0.0, 0
    with undisturbed():
        until = time.perf_counter() + seconds
        while (begun := time.perf_counter()) < until:
            client.call(GET_TOPIC, pb.GetTopicRequest(topic=topic), pb.Topic)
            longest = max(longest, time.perf_counter() - begun)
            calls += 1
    return longest, calls


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
