"""Publish over gRPC: one message a call with the headers that clients send, and in batches."""

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from bench import frames, generators, unary
from bench.client import PROJECT, PUBLISH, Address, client_of, publish_request, topic_of
from bench.context import Bench, Sample, undisturbed
from bench.install import GENERATOR_LIMITS
from bench.servers import OURS
from emulator.api import pb

# One name, so that the calls prepared for one server serve for the other.
_TOPIC_ID: Final = "unary"

_CONNECTIONS: Final = 4
_IN_FLIGHT: Final = 8
_BATCHES_IN_FLIGHT: Final = 2
_BATCH: Final = 100


def _request(topic: str, count: int, size: int) -> bytes:
    return publish_request(topic, count, size).SerializeToString()


@functools.cache
def _prepared(count: int, fresh_timeouts: bool) -> frames.Calls:
    body = _request(f"{PROJECT}/topics/{_TOPIC_ID}", 1, 100)
    return frames.prepare_calls(PUBLISH, body, count, fresh_timeouts=fresh_timeouts)


def unary_constant(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Calls a second whose headers are always the same; beside ours, what a server in C makes of them."""
    server = bench.server(name)
    with topic_of(server, _TOPIC_ID) as topic:
        with client_of(server) as client:
            client.call(PUBLISH, publish_request(topic, 1, 100), pb.PublishResponse)
        if bench.tools.h2load is None:
            return {"unary-constant": Sample(_raw_rate(bench, server, fresh_timeouts=False), GENERATOR_LIMITS)}
        found = _h2load(bench, bench.tools.h2load, server, topic)
    samples = {"unary-constant": Sample(found)}
    if name == OURS and bench.tools.nghttpd is not None:
        with _nghttpd(bench, bench.tools.nghttpd) as other:
            samples["unary-constant-share"] = Sample(found / _h2load(bench, bench.tools.h2load, other, topic))
    return samples


@contextmanager
def _nghttpd(bench: Bench, program: str) -> Iterator[Address]:
    answer = frames.message(pb.PublishResponse(message_ids=["123456"]).SerializeToString())
    with generators.nghttpd(program, bench.directory, PUBLISH, answer) as server:
        yield server


def _h2load(bench: Bench, program: str, server: Address, topic: str) -> float:
    url = f"http://{server.host}:{server.port}{PUBLISH}"
    body = bench.directory / "request"
    body.write_bytes(frames.message(_request(topic, 1, 100)))
    return generators.h2load(
        program, url, body, connections=_CONNECTIONS, in_flight=_IN_FLIGHT, seconds=bench.scale.seconds
    )


def unary_fresh(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Calls a second that each bring a grpc-timeout of their own."""
    server = bench.server(name)
    with topic_of(server, _TOPIC_ID):
        found = _raw_rate(bench, server, fresh_timeouts=True)
    samples = {"unary-fresh": Sample(found)}
    if name == OURS and bench.tools.nghttpd is not None:
        with _nghttpd(bench, bench.tools.nghttpd) as other:
            most = _raw_rate(bench, other, fresh_timeouts=True)
        samples["unary-fresh-share"] = Sample(found / most, f"with nghttpd, {GENERATOR_LIMITS}")
    return samples


def _raw_rate(bench: Bench, server: Address, *, fresh_timeouts: bool) -> float:
    calls = _prepared(bench.scale.prepared_calls, fresh_timeouts)
    with undisturbed():
        return unary.rate(server, calls, connections=_CONNECTIONS, in_flight=_IN_FLIGHT, seconds=bench.scale.seconds)


def batch(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Messages a second, in requests of a hundred."""
    server = bench.server(name)
    with topic_of(server, bench.fresh_name("batch")) as topic, undisturbed():
        calls = unary.rate_of_large(
            server,
            PUBLISH,
            _request(topic, _BATCH, 1_024),
            connections=_CONNECTIONS,
            in_flight=_BATCHES_IN_FLIGHT,
            seconds=bench.scale.seconds,
        )
    return {"batch": Sample(calls * _BATCH)}
