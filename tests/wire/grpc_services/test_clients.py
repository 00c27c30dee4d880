"""The clients that gRPC's own packages bring, against a server on a port."""

import queue
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from emulator import Emulator
from emulator.api import pb
from emulator.api.catalogue import RPCS, SERVICES
from emulator.wire.grpc.reflection import PATHS

PATIENCE_S = 20

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


# Any: generated, without types.
stub: Any = health_pb2_grpc.HealthStub


@pytest.fixture
def health(channel: grpc.Channel) -> Any:
    return stub(channel)


def ask(service: str) -> health_pb2.HealthCheckRequest:
    return health_pb2.HealthCheckRequest(service=service)


@pytest.mark.rule("T15")
@pytest.mark.parametrize("service", ["", *SERVICES])
def test_check(health: Any, service: str) -> None:
    assert health.Check(ask(service), timeout=PATIENCE_S).status == SERVING


@pytest.mark.rule("T15")
def test_check_of_an_unknown_service(health: Any) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        health.Check(ask("nope"), timeout=PATIENCE_S)

    found: Any = failure.value
    assert found.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.rule("T15")
def test_list(health: Any) -> None:
    reply = health.List(health_pb2.HealthListRequest(), timeout=PATIENCE_S)

    assert {name: found.status for name, found in reply.statuses.items()} == dict.fromkeys(["", *SERVICES], SERVING)


@pytest.mark.rule("T15", "T10")
def test_watch_sees_the_server_stop() -> None:
    with Emulator() as server:
        channel = grpc.insecure_channel(server.host_port)
        watch = stub(channel).Watch(ask(""), timeout=PATIENCE_S)
        statuses = [next(watch).status]

    with channel, pytest.raises(grpc.RpcError) as failure:
        statuses.extend(each.status for each in watch)

    found: Any = failure.value
    assert statuses == [SERVING, NOT_SERVING]
    assert found.code() == grpc.StatusCode.UNAVAILABLE


@pytest.mark.rule("T15")
def test_a_cancelled_watch_leaves_nothing_behind(server: Emulator, health: Any) -> None:
    watch = health.Watch(ask(""), timeout=PATIENCE_S)
    assert next(watch).status == SERVING
    assert server.debug_counts()["streams"] == 1

    watch.cancel()

    while server.debug_counts()["streams"]:
        pass


@pytest.mark.rule("T15")
def test_every_method_is_resolved_by_the_reflection_client(channel: grpc.Channel) -> None:
    database: Any = ProtoReflectionDescriptorDatabase(channel)
    pool: Any = descriptor_pool.DescriptorPool(database)

    assert sorted(database.get_services()) == sorted(SERVICES)
    for rpc in RPCS:
        method = pool.FindServiceByName(rpc.service).FindMethodByName(rpc.method)
        assert method.input_type.full_name == rpc.request.DESCRIPTOR.full_name
        assert method.output_type.full_name == rpc.response.DESCRIPTOR.full_name
    message = pool.FindMessageTypeByName("google.protobuf.MethodOptions")
    assert [extension.full_name for extension in pool.FindAllExtensions(message)] == ["google.api.http"]
    with pytest.raises(KeyError):
        pool.FindMessageTypeByName("google.pubsub.v1.Nope")


@pytest.mark.rule("T15")
@pytest.mark.parametrize("path", PATHS)
def test_a_call_of_either_version_answers_as_long_as_it_is_asked(channel: grpc.Channel, path: str) -> None:
    questions: queue.SimpleQueue[pb.ServerReflectionRequest | None] = queue.SimpleQueue()

    def asked() -> Iterator[pb.ServerReflectionRequest]:
        while (question := questions.get()) is not None:
            yield question

    answers = channel.stream_stream(
        path,
        request_serializer=pb.ServerReflectionRequest.SerializeToString,
        response_deserializer=pb.ServerReflectionResponse.FromString,
    )(asked(), timeout=PATIENCE_S)
    kinds = []
    for question in (
        pb.ServerReflectionRequest(list_services=""),
        pb.ServerReflectionRequest(file_containing_symbol="google.pubsub.v1.Publisher"),
        pb.ServerReflectionRequest(file_containing_symbol="nope"),
    ):
        questions.put(question)
        kinds.append(next(answers).WhichOneof("message_response"))
    questions.put(None)

    assert kinds == ["list_services_response", "file_descriptor_response", "error_response"]
    assert list(answers) == []
    assert answers.code() == grpc.StatusCode.OK
