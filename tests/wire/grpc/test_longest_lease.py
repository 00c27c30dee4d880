"""A longest duration of leases (`Limits.lease_max_s`): no way of asking moves a deadline beyond, over either face."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from emulator.api import pb
from emulator.api.dispatch import Dispatcher
from emulator.api.services import build_services
from emulator.limits import STRICT
from emulator.wire.rest import Rest, RestRequest, RestResponse
from tests.wire.grpc.memory import Lab
from tests.wire.grpc.streams import READERS, Service, Subscriber

LONGEST_S = 30


@pytest.fixture
def capped(lab: Lab) -> Service:
    return Service(lab, replace(STRICT, lease_max_s=LONGEST_S))


def by_rpc(service: Service, _stream: Subscriber, ack_id: str) -> None:
    request = pb.ModifyAckDeadlineRequest(subscription=READERS, ack_ids=[ack_id], ack_deadline_seconds=600)
    service.admin.rpc("ModifyAckDeadline", request)


def by_rest(service: Service, _stream: Subscriber, ack_id: str) -> None:
    body = json.dumps({"ackIds": [ack_id], "ackDeadlineSeconds": 600}).encode()
    request = RestRequest("POST", f"/v1/{READERS}:modifyAckDeadline", "", {}, body)
    response = Rest(Dispatcher(build_services(service.broker))).handle(request)
    assert isinstance(response, RestResponse)
    assert response.status == 200, response.body


def on_the_stream(_service: Service, stream: Subscriber, ack_id: str) -> None:
    stream.ask(modify_deadline_ack_ids=[ack_id], modify_deadline_seconds=[600])


EXTENSIONS: dict[str, Callable[[Service, Subscriber, str], None]] = {
    "gRPC": by_rpc,
    "REST": by_rest,
    "stream": on_the_stream,
}


@pytest.mark.rule("S7.1.3")
@pytest.mark.parametrize("extend", EXTENSIONS.values(), ids=EXTENSIONS)
def test_a_modack_beyond_it_is_cut_and_is_no_error(
    capped: Service, extend: Callable[[Service, Subscriber, str], None]
) -> None:
    stream = capped.client().subscribe(messages=1)
    capped.publish(b"a")
    capped.settle()
    for _ in range(3):
        capped.advance(9)
        extend(capped, stream, stream.ack_ids[0])
        capped.settle()

    capped.advance(2.999)
    assert (stream.bodies, capped.failures()) == ([b"a"], [0])
    capped.advance(0.001)

    assert (stream.bodies, capped.failures()) == ([b"a", b"a"], [1])
    assert stream.attempts == [1, 2]


@pytest.mark.rule("S7.1.2")
def test_a_streams_own_deadline_is_cut_too(capped: Service) -> None:
    stream = capped.client().subscribe(deadline=600)
    capped.publish(b"a")
    capped.settle()

    capped.advance(29.999)
    assert stream.bodies == [b"a"]
    capped.advance(0.001)
    assert stream.bodies == [b"a", b"a"]


@pytest.mark.rule("V5")
def test_an_ack_that_comes_after_it_counts_although_the_message_is_out_again(capped: Service) -> None:
    stream = capped.client().subscribe(deadline=600)
    capped.publish(b"a")
    capped.settle()
    capped.advance(LONGEST_S)
    assert len(stream.received) == 2

    stream.ack(stream.ack_ids[0])
    capped.settle()

    assert capped.held() == (0, 0, 0)


@pytest.mark.rule("S8.2")
def test_under_exactly_once_an_ack_that_comes_after_it_is_refused(lab: Lab) -> None:
    service = Service(lab, replace(STRICT, lease_max_s=LONGEST_S))
    name = f"{READERS}-once"
    service.create_subscription(name, enable_exactly_once_delivery=True)
    stream = service.client().subscribe(name=name, deadline=600, messages=1)
    service.publish(b"a")
    service.settle()
    service.advance(LONGEST_S)

    stream.ack(stream.ack_ids[0])
    service.settle()

    refused = [ack_id for response in stream.responses for ack_id in response.acknowledge_confirmation.invalid_ack_ids]
    assert refused == [stream.ack_ids[0]]
    assert service.held(name) == (0, 1, 0)
