"""Calls that come before the first measurement, so that a JVM has compiled what it will be measured with."""

import time
from pathlib import Path
from typing import Final

from bench import frames, http1, unary
from bench.client import PUBLISH, publish_request, topic_of
from bench.generators import wrk
from bench.servers import Server

ENOUGH_FOR_OURS: Final = 2_000

_CONNECTIONS: Final = 4
_IN_FLIGHT: Final = 8
_REST_CONNECTIONS: Final = 32
_SLICE_S: Final = 5.0
_REST_MAX_S: Final = 60.0


def warm_grpc(server: Server, count: int) -> str:
    """Publish `count` times; says how many calls that were."""
    with topic_of(server, "warm") as topic:
        body = publish_request(topic, 1, 100).SerializeToString()
        calls = frames.prepare_calls(PUBLISH, body, count // _CONNECTIONS, fresh_timeouts=False)
        unary.finish(server, calls, connections=_CONNECTIONS, in_flight=_IN_FLIGHT)
    return f"{server.name}: warmed with {len(calls) * _CONNECTIONS:,} unary calls"


def warm_rest(server: Server, count: int, program: str | None, directory: Path) -> str:
    """The same over REST, but no longer than a minute."""
    done = 0
    until = time.monotonic() + _REST_MAX_S
    with topic_of(server, "warm-rest") as topic:
        target, body = http1.publish_call(topic, 100)
        while done < count and time.monotonic() < until:
            if program is None or count <= ENOUGH_FOR_OURS:
                done += http1.repeat(server, target, body, connections=_CONNECTIONS, count=min(count - done, 5_000))
            else:
                url = f"http://{server.host}:{server.port}{target}"
                done += wrk(program, url, body, directory, connections=_REST_CONNECTIONS, seconds=_SLICE_S)[1]
    return f"{server.name}: warmed with {done:,} REST calls"
