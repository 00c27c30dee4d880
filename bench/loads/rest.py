"""The same over REST, beside an aiohttp server that does nothing."""

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from bench import generators, http1
from bench.client import Address, Place, client_of, subscription_of, topic_of
from bench.context import Bench, Sample, undisturbed
from bench.install import GENERATOR_LIMITS
from bench.servers import HOST, OFFICIAL, OURS, free_port, helper

_CONNECTIONS: Final = 32
_PULLERS: Final = 4
_PULLED: Final = 10
_SIZE: Final = 100

_ACK_ID = re.compile(rb'"ackId": *"([^"]+)"')


@contextmanager
def _empty_server() -> Iterator[Address]:
    port = free_port()
    with helper([sys.executable, "-m", "bench.empty_aiohttp", str(port)], port):
        yield Place(HOST, port)


def rest_publish(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Requests a second with one message each; beside ours, those to the empty server."""
    server = bench.rest_server(name)
    with topic_of(server, bench.fresh_name("rest")) as topic:
        target, body = http1.publish_call(topic, _SIZE)
        http1.repeat(server, target, body, connections=1, count=1)
        found = _rate(bench, server, target, body)
    note = "" if bench.tools.wrk else GENERATOR_LIMITS
    samples = {"rest-publish": Sample(found, note)}
    if name == OURS:
        with _empty_server() as empty:
            samples["rest-publish-share"] = Sample(found / _rate(bench, empty, target, body), note)
    return samples


def _rate(bench: Bench, server: Address, target: str, body: str) -> float:
    if bench.tools.wrk is None:
        with undisturbed():
            return http1.rate(server, target, body, connections=_CONNECTIONS, seconds=bench.scale.seconds)
    url = f"http://{server.host}:{server.port}{target}"
    connections, seconds = _CONNECTIONS, bench.scale.seconds
    return generators.wrk(bench.tools.wrk, url, body, bench.directory, connections=connections, seconds=seconds)[0]


class Puller:
    """Connections that pull and acknowledge in turn."""

    def __init__(self, subscription: str) -> None:
        self._pull = http1.request(
            f"/v1/{subscription}:pull", json.dumps({"maxMessages": _PULLED, "returnImmediately": True})
        )
        self._target = f"/v1/{subscription}:acknowledge"
        self._under_way: dict[http1.Http1, int] = {}
        self.acked = 0
        self.requests = 0

    def begin(self, connection: http1.Http1) -> None:
        self._under_way[connection] = 0
        connection.send(self._pull)

    def on_reply(self, connection: http1.Http1, body: bytes) -> None:
        self.requests += 1
        self.acked += self._under_way[connection]
        ids = [] if self._under_way[connection] else _ACK_ID.findall(body)
        self._under_way[connection] = len(ids)
        if ids:
            listed = ",".join(f'"{ack_id.decode()}"' for ack_id in ids)
            connection.send(http1.request(self._target, f'{{"ackIds":[{listed}]}}'))
        else:
            connection.send(self._pull)

    def __repr__(self) -> str:
        return f"<Puller acked={self.acked}>"


def rest_pull_and_ack(bench: Bench, name: str) -> Mapping[str, Sample]:
    """Messages a second, ten a pull; beside ours, what share its requests have of those to the empty server."""
    server = bench.rest_server(name)
    count = (bench.scale.pulled_official if name == OFFICIAL else bench.scale.pulled) // 2
    with subscription_of(server, bench.fresh_name("rest")) as (topic, subscription):
        with client_of(server) as client:
            client.publish(topic, count, _SIZE)
        puller = Puller(subscription)
        begun = time.perf_counter()
        with undisturbed():
            connections = [http1.Http1(server, puller.on_reply) for _ in range(_PULLERS)]
            for connection in connections:
                puller.begin(connection)
            http1.drive(connections, lambda: puller.acked >= count)
        taken = time.perf_counter() - begun
        for connection in connections:
            connection.close()
    samples = {"rest-pull-ack": Sample(count / taken)}
    if name == OURS:
        with _empty_server() as empty, undisturbed():
            most = http1.rate(empty, "/v1/x:pull", "{}", connections=_PULLERS, seconds=bench.scale.seconds)
        samples["rest-pull-ack-share"] = Sample(puller.requests / taken / most)
    return samples
