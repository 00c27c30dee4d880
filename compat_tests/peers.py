"""What the gRPC libraries of other languages do to a server: one plan for all of them, and what has to come of it.

A peer is a small program that reads a plan and writes a report, both JSON, and knows nothing of Pub/Sub. It gets their
paths and the server's address as arguments, and makes every call of the plan on one channel:

- step: name, path ("/package.Service/Method"), request (a file of bytes), count, in_flight, and optionally timeout_ms
  (the deadline), cancel_ms (cancel so long after the start), metadata (texts; `-bin` ones as base64), gzip.
- report: by the step's name, codes (number -> how often), message (of the last failure), replies (as base64).
"""

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compat_tests import grpc_calls
from compat_tests.grpc_calls import PUBLISHER, SUBSCRIBER
from compat_tests.rest import Project
from compat_tests.targets import Target

# How long a peer may take for its plan, in seconds.
PATIENCE_S = 40

# How long its libraries may take to come, in seconds.
FETCH_S = 240

OK, CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED = 0, 1, 3, 4, 5, 8, 12

CODES = {
    "many": {OK: 1_000},
    "plain": {OK: 100},
    "squeezed": {OK: 1},
    "large": {OK: 1},
    "too large": {INVALID_ARGUMENT: 1},
    "far too large": {RESOURCE_EXHAUSTED: 1},
    "missing": {NOT_FOUND: 1},
    "malformed": {INVALID_ARGUMENT: 1},
    "unknown": {UNIMPLEMENTED: 1},
    "cancelled": {CANCELLED: 100},
    "waiting": {OK: 1},
    "received": {OK: 1},
    "afterwards": {OK: 1},
}

SQUEEZED = b"squeezed " * 1_000

METADATA = {
    "x-goog-request-params": "topic=projects/other/topics/other",
    "x-goog-pubsub-client-telemetry-bin": b64encode(bytes(range(256))).decode(),
    "authorization": "Bearer anything",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a step."""

    codes: Mapping[int, int]
    message: str
    replies: Sequence[bytes]


def run(command: Sequence[str | Path], server: Target, project: Project, directory: Path) -> Mapping[str, Outcome]:
    """Have a peer carry out the plan, in a project that is still empty."""
    for name in ("topic", "squeezed", "quiet"):
        project.subscription(project.topic(name), name)
    steps = plan(project)
    for one in steps:
        request = directory / one["name"]
        request.write_bytes(one["request"])
        one["request"] = str(request)
    script, report = directory / "plan.json", directory / "report.json"
    script.write_text(json.dumps(steps), encoding="utf-8")

    done = subprocess.run(
        [*command, server.host_port, str(script), str(report)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text(encoding="utf-8"))
    return {name: _read(outcome) for name, outcome in found.items()}


def fetch(command: Sequence[str | Path], directory: Path, what: str, env: Mapping[str, str] | None = None) -> None:
    """Have a language's own tool fetch what a peer is made of; skips the test where it can't."""
    try:
        done = subprocess.run(
            command, cwd=directory, env=env, capture_output=True, text=True, timeout=FETCH_S, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what} was not to be had within {FETCH_S} s")
    if done.returncode != 0:
        pytest.skip(f"{what} is not to be had here: {(done.stdout + done.stderr).strip()[:300]}")


def _read(outcome: Any) -> Outcome:
    codes = {int(code): count for code, count in outcome["codes"].items()}
    return Outcome(codes, outcome["message"], [b64decode(reply) for reply in outcome["replies"]])


def plan(project: Project) -> Sequence[dict[str, Any]]:
    publish, get_topic, pull = f"{PUBLISHER}/Publish", f"{PUBLISHER}/GetTopic", f"{SUBSCRIBER}/Pull"
    topic, squeezed = project.topic_name(), project.topic_name("squeezed")
    from_topic, from_nothing = (grpc_calls.pull(project.subscription_name(name)) for name in ("topic", "quiet"))
    missing, malformed = (grpc_calls.get_topic(topic + end) for end in ("-100%", "-é"))
    return [
        step("many", publish, grpc_calls.publish(topic, b"many"), 1_000, timeout_ms=20_000, metadata=METADATA),
        step("plain", get_topic, grpc_calls.get_topic(topic), 100),
        step("squeezed", publish, grpc_calls.publish(squeezed, SQUEEZED), gzip=True),
        step("large", publish, grpc_calls.publish(topic, bytes(9_900_000))),
        step("too large", publish, grpc_calls.publish(topic, bytes(10_000_001))),
        step("far too large", publish, grpc_calls.publish(topic, bytes(33 * 2**20))),
        step("missing", get_topic, missing),
        step("malformed", get_topic, malformed),
        step("unknown", f"{PUBLISHER}/NoSuchMethod", b""),
        step("cancelled", pull, from_nothing, 100, in_flight=100, cancel_ms=200),
        step("waiting", pull, from_nothing, timeout_ms=700),
        step("in a hurry", publish, grpc_calls.publish(squeezed, b"x"), 50, timeout_ms=1),
        step("received", pull, from_topic, timeout_ms=20_000),
        step("afterwards", get_topic, grpc_calls.get_topic(topic)),
    ]


def step(
    name: str, path: str, request: bytes, count: int = 1, *, in_flight: int = 32, **options: Any
) -> dict[str, Any]:
    return {"name": name, "path": path, "request": request, "count": count, "in_flight": in_flight, **options}


def check(outcomes: Mapping[str, Outcome], project: Project) -> None:
    """Everything that the plan has to lead to."""
    codes = {name: dict(outcome.codes) for name, outcome in outcomes.items()}
    in_a_hurry = codes.pop("in a hurry")
    assert codes == CODES
    assert in_a_hurry.keys() <= {OK, DEADLINE_EXCEEDED}
    assert sum(in_a_hurry.values()) == 50

    published = [*outcomes["many"].replies, *outcomes["squeezed"].replies, *outcomes["large"].replies]
    assert len({identifier for reply in published for identifier in grpc_calls.message_ids(reply)}) == 1_002
    assert grpc_calls.received(outcomes["received"].replies[0]) == [b"many"]
    assert grpc_calls.received(outcomes["waiting"].replies[0]) == []
    assert SQUEEZED in project.data(project.subscription_name("squeezed"))

    assert outcomes["missing"].message == f"Resource not found (resource={project.topic_name()}-100%)."
    assert f"{project.topic_name()}-é" in outcomes["malformed"].message
    assert "at most 10000000 bytes" in outcomes["too large"].message

    # Nobody waits any more who could take it away.
    project.publish(project.topic_name("quiet"), b"at last")
    assert project.pull_one(project.subscription_name("quiet")).data == b"at last"
