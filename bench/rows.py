"""The rows of the table: what each measures, in which unit, and the floor it has to reach."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Final

from bench.context import Bench, Sample
from bench.loads import growth, latency, options, publishing, pulling, replaying, rest, starting


class Better(Enum):
    """Which of two values is the better one."""

    HIGHER = "higher"
    LOWER = "lower"


class Kind(Enum):
    """What a floor is about."""

    TIMES = "times better"  # than the official emulator
    AT_MOST = "at most"
    AT_LEAST = "at least"


@dataclass(frozen=True, slots=True)
class Floor:
    """What a row has to reach."""

    kind: Kind
    value: float


@dataclass(frozen=True, slots=True)
class Load:
    """What is done for one or more rows.

    `rounds`: how often, when that is not for the command line to say. `official`: the other server does it too.
    """

    name: str
    run: Callable[[Bench, str], Mapping[str, Sample]]
    rounds: int | None = None
    official: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `slowed_by` is the kind of work whose delay shows here, for `bench.slowed`."""

    name: str
    what: str
    unit: str
    better: Better
    floor: Floor | None
    load: Load
    slowed_by: str


_START: Final = Load("start", starting.start, rounds=5)
_IDLE: Final = Load("idle memory", starting.idle_memory, rounds=1)
_QUEUED: Final = Load("queued memory", starting.queued_memory, rounds=1)
_UNARY: Final = Load("unary, constant headers", publishing.unary_constant)
_FRESH: Final = Load("unary, fresh timeouts", publishing.unary_fresh)
_BATCH: Final = Load("batches", publishing.batch)
_DRAIN_1: Final = Load("drain, 1 stream", pulling.drain_1)
_DRAIN_10: Final = Load("drain, 10 streams", pulling.drain_10)
_PULL: Final = Load("pull and ack", pulling.pull_and_ack)
_SLOW: Final = Load("latency at 100/s", latency.latency_100)
_FAST: Final = Load("latency at 2,000/s", latency.latency_2000)
_REST_PUBLISH: Final = Load("REST publish", rest.rest_publish)
_REST_PULL: Final = Load("REST pull and ack", rest.rest_pull_and_ack)
_DEPTH: Final = Load("growth with the backlog", growth.depth, official=False)
_FANOUT: Final = Load("growth with subscriptions", growth.fanout, official=False)
_TOPICS: Final = Load("growth with topics", growth.topics, official=False)
_OPTIONS: Final = Load("drains with options", options.drains, official=False)
_FILTERS: Final = Load("filters", options.filters, official=False)
_SEEK: Final = Load("seek", replaying.seek, rounds=1, official=False)
_RETAINED: Final = Load("retained memory", replaying.retained_memory, rounds=1, official=False)
_STALL: Final = Load("stall", growth.stall, rounds=2, official=False)

_FLAT: Final = Floor(Kind.AT_MOST, 1.2)


def _times(value: float) -> Floor:
    return Floor(Kind.TIMES, value)


def _rate(name: str, what: str, unit: str, floor: float | None, load: Load, slowed_by: str) -> Row:
    return Row(name, what, f"{unit}/s", Better.HIGHER, None if floor is None else _times(floor), load, slowed_by)


def _share(name: str, what: str, floor: float | None, load: Load, slowed_by: str) -> Row:
    least = None if floor is None else Floor(Kind.AT_LEAST, floor)
    return Row(name, what, "share", Better.HIGHER, least, load, slowed_by)


def _milliseconds(name: str, what: str, floor: float | None, load: Load, slowed_by: str) -> Row:
    return Row(name, what, "ms", Better.LOWER, None if floor is None else _times(floor), load, slowed_by)


def _growth(name: str, what: str, load: Load, slowed_by: str) -> Row:
    return Row(f"growth-{name}", what, "×", Better.LOWER, _FLAT, load, slowed_by)


def _seek(name: str, retained: str, floor_ms: float) -> Row:
    what = f"seek to the start of {retained} retained messages, all of them acked"
    return Row(f"seek-{name}", what, "ms", Better.LOWER, Floor(Kind.AT_MOST, floor_ms), _SEEK, "seek")


_MORE: Final = "cost of a message, most queued : fewest queued; "

ROWS: Final[Sequence[Row]] = (
    _milliseconds("start", "exec to first OK call", 3, _START, "start"),
    Row("memory-idle", "memory 5 s after it is ready", "MB", Better.LOWER, Floor(Kind.AT_MOST, 60), _IDLE, ""),
    Row(
        "memory-message",
        "memory per queued message of 1 KB",
        "B",
        Better.LOWER,
        Floor(Kind.AT_MOST, 2_048),
        _QUEUED,
        "",
    ),
    _rate("unary-constant", "unary Publish of 100 B, 4 × 8 in flight, constant headers", "calls", 3, _UNARY, "publish"),
    _share("unary-constant-share", "the same, share of nghttpd's", None, _UNARY, "publish"),
    _rate("unary-fresh", "the same with a fresh grpc-timeout per call, raw generator", "calls", 2, _FRESH, "publish"),
    _share("unary-fresh-share", "the same, share of nghttpd's", None, _FRESH, "publish"),
    _rate("batch", "Publish of 100 messages of 1 KB, 4 × 2 in flight", "messages", 2, _BATCH, "publish"),
    _rate("drain-1", "StreamingPull + Acknowledge, 100 B, 1 stream", "messages", 40, _DRAIN_1, "stream"),
    _rate("drain-10", "the same from 10 streams, a connection each", "messages", 40, _DRAIN_10, "stream"),
    _rate("pull-ack", "Pull(100) + Acknowledge, 100 B, 4 connections", "messages", 1.5, _PULL, "pull"),
    _milliseconds("latency-100-p50", "publish → open stream at 100/s, median", 10, _SLOW, "stream"),
    _milliseconds("latency-100-p99", "the same, 99th percentile", None, _SLOW, "stream"),
    _milliseconds("latency-2000-p50", "publish → open stream at 2,000/s, median", 10, _FAST, "stream"),
    _milliseconds("latency-2000-p99", "the same, 99th percentile", None, _FAST, "stream"),
    _rate("rest-publish", "REST publish of 100 B, 32 connections", "calls", None, _REST_PUBLISH, "rest"),
    _share("rest-publish-share", "the same, share of an empty aiohttp handler", 0.55, _REST_PUBLISH, "rest"),
    _rate("rest-pull-ack", "REST pull(10) + acknowledge, 4 connections", "messages", None, _REST_PULL, "rest"),
    _share(
        "rest-pull-ack-share", "the same, its calls as share of an empty aiohttp handler's", None, _REST_PULL, "rest"
    ),
    _share("drain-ordered", "drain with 1,000 ordering keys, share of one without", 0.6, _OPTIONS, "stream"),
    _share("drain-exactly-once", "drain under exactly-once, share of one without", 0.6, _OPTIONS, "stream"),
    Row(
        "filters",
        "cost of a Publish with 100 filtered subscriptions : with one",
        "×",
        Better.LOWER,
        Floor(Kind.AT_MOST, 15),
        _FILTERS,
        "publish",
    ),
    _seek("1e5", "100,000", 1_000),
    _seek("1e6", "1,000,000", 10_000),
    Row(
        "memory-retained",
        "memory per acked message of 100 B that is retained, of 1,000,000",
        "B",
        Better.LOWER,
        Floor(Kind.AT_MOST, 1_024),
        _RETAINED,
        "",
    ),
    _growth("publish", f"{_MORE}publish", _DEPTH, "publish"),
    _growth("pull", f"{_MORE}pull", _DEPTH, "pull"),
    _growth("ack", f"{_MORE}ack (all are leased)", _DEPTH, "ack"),
    _growth("nack", f"{_MORE}nack (all are leased)", _DEPTH, "nack"),
    _growth("expiry", f"{_MORE}expiry (all are leased)", _DEPTH, "expiry"),
    _growth("fanout", "cost of a copy, publish to 100 subscriptions : to 1", _FANOUT, "publish"),
    _growth("topics-publish", "cost of a message, 10,000 topics : 1,000", _TOPICS, "publish"),
    _growth("topics-create", "cost of the newest topic and subscription, 10,000 topics : 1,000", _TOPICS, "topic"),
    Row(
        "stall",
        "longest other call while 100,000 leases end at once",
        "ms",
        Better.LOWER,
        Floor(Kind.AT_MOST, 100),
        _STALL,
        "expiry",
    ),
)


def chosen(patterns: str) -> Sequence[Row]:
    """The rows that a comma-separated list of names and globs means, in the table's order. Raises ValueError."""
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    for pattern in wanted:
        if not any(fnmatchcase(row.name, pattern) for row in ROWS):
            raise ValueError(f"no row is called {pattern!r}; there are {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if any(fnmatchcase(row.name, pattern) for pattern in wanted)]


def loads_of(rows: Sequence[Row]) -> Sequence[Load]:
    """What has to be done for these rows, each once."""
    return list(dict.fromkeys(row.load for row in rows))
