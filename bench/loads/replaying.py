"""Going back to the start of what is retained, and the memory that it takes; only for this server."""

from collections.abc import Mapping
from typing import Final

from bench import in_process
from bench.client import client_of, subscription_of
from bench.context import Bench, Sample
from bench.loads.growth import in_process_of
from bench.wire import BenchError

_MESSAGE_BYTES: Final = 100
_PULLED: Final = 1_000
_WARM: Final = 1_000
_NS_PER_MS: Final = 1_000_000

# By how many messages are retained; the names stay when a quick run has fewer.
ROWS: Final = ("seek-1e5", "seek-1e6")


def seek(bench: Bench, _name: str) -> Mapping[str, Sample]:
    """Milliseconds of a seek that brings back all that was acked, in the engine alone."""
    found = {}
    for row, retained in zip(ROWS, bench.scale.retained, strict=True):
        nanoseconds = in_process_of(bench, in_process.SEEK, retained, 0)[in_process.SEEK]
        told = f"{nanoseconds / retained / 1_000:.2f} µs a message, {retained:,} of {_MESSAGE_BYTES} B"
        found[row] = Sample(nanoseconds / _NS_PER_MS, told)
    return found


def retained_memory(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Resident bytes that each message adds which is acked and retained."""
    retained = max(bench.scale.retained)
    with (
        bench.launcher.serve(name) as server,
        subscription_of(server, "retained", retain_acked_messages=True) as (topic, subscription),
        client_of(server) as client,
    ):

        def publish_and_ack(count: int) -> None:
            client.publish(topic, count, _MESSAGE_BYTES)
            left = count
            while left:
                ack_ids = client.pull(subscription, _PULLED)
                if not ack_ids:
                    raise BenchError(f"{left:,} messages are missing")
                client.acknowledge(subscription, ack_ids)
                left -= len(ack_ids)

        publish_and_ack(_WARM)
        before = server.resident_bytes()
        publish_and_ack(retained)
        added = server.resident_bytes() - before
    return {"memory-retained": Sample(added / retained, f"{retained:,} messages")}
