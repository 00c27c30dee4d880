"""grpcio's own features on bare channels: keepalive, retries, readiness, sizes, metadata, deadlines, cancelling."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from hyperframe.frame import GoAwayFrame, PingFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame

from compat_tests.grpc_calls import PUBLISHER, SUBSCRIBER, TIMEOUT_S, Calls, get_topic, message_ids, publish, pull
from compat_tests.relay import relay_to
from compat_tests.rest import Project, Rest
from compat_tests.targets import Target
from tests.tools.server import PATIENCE_S, serve

CLIENT = "grpcio"

MEBIBYTE = 2**20

Open: TypeAlias = Callable[..., Calls]

# Neither the process's pool of connections nor a long back-off may hide what a test is about.
OWN_CONNECTION = {"grpc.use_local_subchannel_pool": 1, "grpc.max_reconnect_backoff_ms": 200}


@pytest.fixture
def connect() -> Iterator[Open]:
    """Opens channels, which are closed when the test ends."""
    opened: list[Calls] = []

    def make(target: str, **options: object) -> Calls:
        named = {"grpc." + name: value for name, value in options.items()}
        opened.append(Calls(target, {**OWN_CONNECTION, **named}))
        return opened[-1]

    yield make
    for calls in opened:
        calls.close()


@pytest.fixture
def calls(connect: Open, server: Target) -> Calls:
    return connect(server.host_port)


def code_of(failure: pytest.ExceptionInfo[Any]) -> grpc.StatusCode:
    """A failed call is an exception and a call in one, which grpcio's own types don't say."""
    code: grpc.StatusCode = failure.value.code()
    return code


@pytest.mark.rule("T9", "T19")
def test_the_server_speaks_first_and_is_generous(connect: Open, server: Target, project: Project) -> None:
    topic = project.topic()
    with relay_to(server) as relay:
        calls = connect(relay.host_port)
        calls.get_topic(topic)
        calls.close()
        settings = relay.frames("server", SettingsFrame)
        (window, *_) = relay.frames("server", WindowUpdateFrame)

    announced = settings[0].settings
    assert "ACK" not in settings[0].flags
    assert "ACK" in settings[1].flags
    assert announced[SettingsFrame.MAX_CONCURRENT_STREAMS] >= 1_000
    assert announced[SettingsFrame.INITIAL_WINDOW_SIZE] >= 65_536
    assert announced[SettingsFrame.MAX_HEADER_LIST_SIZE] >= 65_536
    assert (window.stream_id, window.window_increment >= 2**20) == (0, True)


@pytest.mark.rule("T8")
def test_keepalive_pings_are_answered_while_a_call_waits(connect: Open, server: Target, project: Project) -> None:
    _, subscription = project.pair()
    with relay_to(server) as relay:
        calls = connect(
            relay.host_port,
            **{"keepalive_time_ms": 1_000, "keepalive_timeout_ms": 10_000, "http2.max_pings_without_data": 0},
        )
        waiting = calls.unary(f"{SUBSCRIBER}/Pull").future(pull(subscription), timeout=TIMEOUT_S)

        answered = relay.wait(lambda: sum("ACK" in ping.flags for ping in relay.frames("server", PingFrame)) >= 3)

        assert answered
        assert not waiting.done()
        waiting.cancel()
        calls.close()
        assert relay.frames("server", GoAwayFrame) == []


@pytest.mark.rule("T22", "S7.2.4")
def test_cancelled_pulls_hold_nothing_back(connect: Open, server: Target, project: Project) -> None:
    topic, subscription = project.pair()
    with relay_to(server) as relay:
        calls = connect(relay.host_port)
        waiting = [calls.unary(f"{SUBSCRIBER}/Pull").future(pull(subscription)) for _ in range(100)]
        calls.get_topic(topic)  # by its reply they have all arrived

        for one in waiting:
            one.cancel()
        calls.get_topic(topic)
        calls.publish(topic, b"for whoever still waits")

        assert calls.pull(subscription) == [b"for whoever still waits"]
        assert {one.code() for one in waiting} == {grpc.StatusCode.CANCELLED}
        calls.close()
        assert len(relay.frames("client", RstStreamFrame)) == 100


@pytest.mark.rule("T4")
def test_deadlines_of_any_length(calls: Calls, project: Project) -> None:
    """One that is over before the answer is the caller's loss only; one of weeks needs another unit on the wire."""
    topic = project.topic()
    in_a_hurry = [calls.unary(f"{PUBLISHER}/Publish").future(publish(topic, b"x"), timeout=1e-4) for _ in range(100)]

    outcomes = {one.code() for one in in_a_hurry}

    assert outcomes <= {grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED}
    assert calls.get_topic(topic, timeout=10**6) == topic


@pytest.mark.rule("T11", "T30")
def test_metadata_of_all_kinds_changes_nothing(calls: Calls, project: Project) -> None:
    topic = project.topic()
    metadata = [
        ("x-goog-request-params", "topic=projects/other/topics/other"),
        ("x-goog-user-project", "other"),
        ("x-goog-pubsub-client-telemetry-bin", bytes(range(256))),
        ("x-repeated-bin", b"\x00"),
        ("x-repeated-bin", b"\xff\xfe"),
        ("authorization", "Bearer anything"),
        ("grpc-previous-rpc-attempts", "2"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ]

    assert calls.get_topic(topic, metadata=metadata) == topic


@pytest.mark.rule("T7a", "T29")
def test_metadata_may_be_as_large_as_announced(calls: Calls, project: Project) -> None:
    topic = project.topic()

    answered = [calls.get_topic(topic, metadata=[("x-large", letter * 60_000)]) for letter in "aab"]

    assert answered == [topic] * 3


@pytest.mark.rule("T5")
@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_call_may_be_compressed_and_the_next_one_not(
    calls: Calls, project: Project, compression: grpc.Compression
) -> None:
    topic, subscription = project.pair()

    calls.publish(topic, b"a" * 10_000, compression=compression)
    calls.publish(topic, b"b" * 10_000)

    assert sorted(project.data(subscription)) == [b"a" * 10_000, b"b" * 10_000]


@pytest.mark.rule("T6", "K14")
@pytest.mark.parametrize(
    ("size", "code", "text"),
    [
        (10 * MEBIBYTE, grpc.StatusCode.INVALID_ARGUMENT, "at most 10000000 bytes"),
        (20 * MEBIBYTE, grpc.StatusCode.INVALID_ARGUMENT, "at most 10000000 bytes"),
        (33 * MEBIBYTE, grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"),
    ],
)
def test_too_large_a_message_fails_its_call_only(
    calls: Calls, project: Project, size: int, code: grpc.StatusCode, text: str
) -> None:
    topic = project.topic()

    with pytest.raises(grpc.RpcError, match=text) as failure:
        calls.publish(topic, bytes(size))

    assert code_of(failure) is code
    assert calls.publish(topic, b"small")


@pytest.mark.rule("T7")
def test_a_reply_fits_the_channel_when_it_can_be_split(calls: Calls, project: Project) -> None:
    topic, subscription = project.pair(ackDeadlineSeconds=600)
    for n in range(6):
        calls.publish(topic, bytes([n]) * MEBIBYTE)

    got: list[bytes] = []
    while len(got) < 6:
        got += calls.pull(subscription, 100)

    assert sorted(got) == [bytes([n]) * MEBIBYTE for n in range(6)]


@pytest.mark.rule("T7", "T25", "S7.2.4")
def test_a_message_that_the_channel_refuses_goes_to_a_wider_one(
    connect: Open, server: Target, project: Project
) -> None:
    """The refusal comes before the message has left, so that it needs no redelivery."""
    topic, subscription = project.pair(ackDeadlineSeconds=600)
    narrow = connect(server.host_port)
    narrow.publish(topic, bytes(5 * MEBIBYTE))
    with pytest.raises(grpc.RpcError) as failure:
        narrow.pull(subscription)

    wide = connect(server.host_port, max_receive_message_length=-1)

    assert code_of(failure) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert [len(data) for data in wide.pull(subscription)] == [5 * MEBIBYTE]


@pytest.mark.rule("T9", "T32")
def test_a_thousand_calls_at_once_on_one_connection(calls: Calls, project: Project) -> None:
    topic, subscription = project.pair()

    futures = [calls.unary(f"{PUBLISHER}/Publish").future(publish(topic, b"%d" % n)) for n in range(1_000)]
    ids = [identifier for future in futures for identifier in message_ids(future.result(TIMEOUT_S))]

    assert len(set(ids)) == 1_000
    assert len(project.pull(subscription, 1_000)) == 1_000


@pytest.mark.rule("T9", "T32")
async def test_a_thousand_calls_at_once_from_asyncio(server: Target, project: Project) -> None:
    topic = project.topic()

    async with grpc.aio.insecure_channel(server.host_port) as channel:
        call: Any = channel.unary_unary(f"{PUBLISHER}/Publish")
        replies = await asyncio.gather(*(call(publish(topic, b"%d" % n), timeout=TIMEOUT_S) for n in range(1_000)))

    assert len({identifier for reply in replies for identifier in message_ids(reply)}) == 1_000


@pytest.mark.rule("S1", "T31")
@pytest.mark.parametrize("path", [f"{PUBLISHER}/NoSuchMethod", "/no.such.Service/Method", "/"])
def test_an_unknown_method_is_unimplemented(calls: Calls, path: str) -> None:
    with pytest.raises(grpc.RpcError, match="Method not found") as failure:
        calls.unary(path)(b"", timeout=TIMEOUT_S)

    assert code_of(failure) is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.rule("T26")
def test_an_unreadable_request_fails_its_call_only(calls: Calls, project: Project) -> None:
    topic = project.topic()

    with pytest.raises(grpc.RpcError) as failure:
        calls.unary(f"{PUBLISHER}/GetTopic")(b"\xff\xff\xff", timeout=TIMEOUT_S)

    assert code_of(failure) is grpc.StatusCode.INTERNAL
    assert calls.get_topic(topic) == topic


@pytest.mark.rule("K9")
def test_rest_and_grpc_take_turns_on_the_port(calls: Calls, project: Project) -> None:
    topic, subscription = project.pair()

    for n in range(20):
        calls.publish(topic, b"%d" % n)
        assert project.pull_one(subscription).data == b"%d" % n


@pytest.mark.rule("T15")
def test_a_health_check_and_a_watch(calls: Calls) -> None:
    health = HealthStub(calls.channel)

    checked = health.Check(HealthCheckRequest(service="google.pubsub.v1.Publisher"), timeout=TIMEOUT_S)
    watch = health.Watch(HealthCheckRequest(), timeout=TIMEOUT_S)

    assert checked.status == HealthCheckResponse.SERVING
    assert next(iter(watch)).status == HealthCheckResponse.SERVING
    watch.cancel()


@pytest.mark.rule("T15")
def test_a_call_by_what_reflection_says(calls: Calls, project: Project) -> None:
    """As grpcurl does it: no message class but those that the server describes."""
    topic = project.topic()
    pool = DescriptorPool(ProtoReflectionDescriptorDatabase(calls.channel))

    method = pool.FindServiceByName("google.pubsub.v1.Publisher").FindMethodByName("GetTopic")
    request = GetMessageClass(method.input_type)(topic=topic)
    reply = calls.unary(f"{PUBLISHER}/{method.name}")(request.SerializeToString(), timeout=TIMEOUT_S)

    assert getattr(GetMessageClass(method.output_type).FromString(reply), "name", None) == topic


# What is about starts and stops has a server of its own.

RETRYING = json.dumps(
    {
        "methodConfig": [
            {
                "name": [{}],
                "retryPolicy": {
                    "maxAttempts": 5,
                    "initialBackoff": "0.2s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ]
    }
)


def rest_on(port: int) -> Rest:
    return Rest(Target("localhost", port))


@pytest.mark.rule("T10", "T12")
def test_a_client_may_be_there_before_the_server(connect: Open) -> None:
    with serve() as server:
        port = server.port  # free again when it has ended
    calls = connect(f"localhost:{port}")
    with pytest.raises(grpc.RpcError) as failure:
        calls.get_topic("projects/p/topics/topic")
    early = calls.unary(f"{PUBLISHER}/GetTopic").future(
        get_topic("projects/p/topics/topic"), timeout=TIMEOUT_S, wait_for_ready=True
    )

    with serve("--host-port", f"localhost:{port}"):
        problem = early.exception(TIMEOUT_S)

    assert code_of(failure) is grpc.StatusCode.UNAVAILABLE
    assert problem.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.rule("T10")
def test_a_channel_survives_a_restart_of_the_server(connect: Open) -> None:
    """With gRPC's own retries for a server that isn't back yet."""
    project = "projects/p"
    with serve() as server:
        port = server.port
        calls = connect(f"localhost:{port}", service_config=RETRYING, enable_retries=1)
        Project(rest_on(port), "p").topic()
        assert calls.get_topic(f"{project}/topics/topic")

    with serve("--host-port", f"localhost:{port}"):
        Project(rest_on(port), "p").topic("other")

        assert calls.get_topic(f"{project}/topics/other")


@pytest.mark.rule("T10", "T35")
def test_a_waiting_pull_is_answered_when_the_server_stops(connect: Open) -> None:
    with serve() as server:
        _, subscription = Project(rest_on(server.port), "p").pair()
        calls = connect(server.host_port)
        waiting = calls.unary(f"{SUBSCRIBER}/Pull").future(pull(subscription), timeout=TIMEOUT_S)
        with pytest.raises(grpc.RpcError):
            calls.get_topic("projects/p/topics/missing")  # by its reply the Pull has arrived too

        server.process.terminate()

        assert server.process.wait(PATIENCE_S) == 0
        assert waiting.code() in {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
