"""From exec to the first answer, and the memory of a server that rests or holds a backlog."""

import time
from collections.abc import Mapping
from typing import Final

from bench.client import client_of, subscription_of
from bench.context import Bench, Sample

_MESSAGE_BYTES: Final = 1_024


def start(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Milliseconds from exec to the end of the first call that was answered with OK."""
    with bench.launcher.serve(name) as server:
        return {"start": Sample(server.start_s * 1_000)}


def idle_memory(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Resident megabytes some seconds after the first answer."""
    with bench.launcher.serve(name) as server:
        time.sleep(bench.scale.idle_s)
        return {"memory-idle": Sample(server.resident_bytes() / 1e6)}


def queued_memory(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Resident bytes that each queued message adds."""
    with bench.launcher.serve(name) as server, subscription_of(server, "queue") as (topic, _):
        with client_of(server) as client:
            client.publish(topic, 1_000, _MESSAGE_BYTES)
            before = server.resident_bytes()
            client.publish(topic, bench.scale.queued, _MESSAGE_BYTES)
            added = server.resident_bytes() - before
        return {"memory-message": Sample(added / bench.scale.queued)}
