"""A closed loop of prepared unary calls: so many connections, so many calls in flight on each."""

import time
from collections.abc import Sequence
from typing import Final

from bench.client import Address
from bench.frames import Calls, static_block
from bench.wire import PATIENCE_S, BenchError, Connection, run, turn


class Worker:
    """One connection that always has `in_flight` of its calls under way."""

    def __init__(self, server: Address, calls: Calls, in_flight: int) -> None:
        self.connection = Connection(server.host, server.port)
        self.connection.on_end = self._on_end
        self._calls = calls
        self.sent = 0
        self._free = in_flight
        self.done = 0

    @property
    def exhausted(self) -> bool:
        return self.sent == len(self._calls)

    @property
    def idle(self) -> bool:
        """Whether everything that was sent has been answered."""
        return self.sent == self.done

    def _on_end(self, stream: int, replied: bool) -> None:
        if not replied:
            raise BenchError(f"the call on stream {stream} failed")
        self.done += 1
        self._free += 1

    def go_on(self) -> None:
        """Send as many calls as have been answered."""
        if self._free:
            sent = self.connection.send_prepared(self._calls, self.sent, self._free)
            self.sent += sent
            self._free -= sent
            self.connection.flush()

    def __repr__(self) -> str:
        return f"<Worker sent={self.sent} done={self.done}>"


# A first part that does not count: connections open, caches fill.
_WARM_UP_S: Final = 0.2


def rate(server: Address, calls: Calls, *, connections: int, in_flight: int, seconds: float) -> float:
    """Calls a second, for so many seconds or until the prepared ones are used up. Raises BenchError when one fails."""
    workers = [Worker(server, calls, in_flight) for _ in range(connections)]
    try:
        _work(workers, min(_WARM_UP_S, seconds / 10), len(calls) // 10)
        before, begun = _done(workers), time.perf_counter()
        _work(workers, seconds, len(calls))
        taken, done = time.perf_counter() - begun, _done(workers) - before
        run([worker.connection for worker in workers], lambda: all(worker.idle for worker in workers), "the last calls")
    finally:
        for worker in workers:
            worker.connection.close()
    return done / taken


def _done(workers: Sequence[Worker]) -> int:
    return sum(worker.done for worker in workers)


def _work(workers: Sequence[Worker], seconds: float, most: int) -> None:
    """Go on for so long, or until one of them has sent `most` calls."""
    connections = [worker.connection for worker in workers]
    until = time.perf_counter() + seconds
    patience, last = time.monotonic() + PATIENCE_S, _done(workers)
    while time.perf_counter() < until and not any(worker.sent >= most for worker in workers):
        for worker in workers:
            worker.go_on()
        turn(connections, 0.1)
        if time.monotonic() > patience and _done(workers) == last:
            raise BenchError("the server answers no more")


def finish(server: Address, calls: Calls, *, connections: int, in_flight: int) -> None:
    """Make all the prepared calls, on each connection. Raises BenchError when one fails."""
    workers = [Worker(server, calls, in_flight) for _ in range(connections)]

    def over() -> bool:
        for worker in workers:
            worker.go_on()
        return all(worker.exhausted and worker.idle for worker in workers)

    try:
        run([worker.connection for worker in workers], over, "a number of calls")
    finally:
        for worker in workers:
            worker.connection.close()


class LargeWorker:
    """One connection that makes the same call again and again, whatever its size."""

    def __init__(self, server: Address, path: str, body: bytes, in_flight: int) -> None:
        self.connection = Connection(server.host, server.port)
        self.connection.on_end = self._on_end
        self._block = static_block(path)
        self._body = body
        self.done = 0
        for _ in range(in_flight):
            self.connection.open(self._block, self._body)
        self.connection.flush()

    def _on_end(self, stream: int, replied: bool) -> None:
        if not replied:
            raise BenchError(f"the call on stream {stream} failed")
        self.done += 1
        self.connection.open(self._block, self._body)

    def __repr__(self) -> str:
        return f"<LargeWorker done={self.done}>"


def rate_of_large(
    server: Address, path: str, body: bytes, *, connections: int, in_flight: int, seconds: float
) -> float:
    """Calls a second. Raises BenchError when one fails."""
    workers = [LargeWorker(server, path, body, in_flight) for _ in range(connections)]
    open_ones = [worker.connection for worker in workers]
    try:
        begun = time.perf_counter()
        run(open_ones, lambda: time.perf_counter() - begun >= min(_WARM_UP_S, seconds / 10), "a warm-up")
        before, begun = sum(worker.done for worker in workers), time.perf_counter()
        run(open_ones, lambda: time.perf_counter() - begun >= seconds, "a timed load")
        return (sum(worker.done for worker in workers) - before) / (time.perf_counter() - begun)
    finally:
        for connection in open_ones:
            connection.close()
