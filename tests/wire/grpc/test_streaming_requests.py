"""StreamingPull: the shapes in which requests come, and which of them are refused."""

from typing import Any

import pytest

from emulator.api import pb
from emulator.errors import Code
from tests.wire.grpc.memory import Lab, framed
from tests.wire.grpc.streams import OTHERS, READERS, TOPIC, Client, Service, bodies


@pytest.fixture
def service(lab: Lab) -> Service:
    return Service(lab)


@pytest.fixture
def client(service: Service) -> Client:
    return service.client()


class TestShapes:
    @pytest.mark.rule("T26", "S7.3.1")
    def test_end_of_stream_on_the_headers_is_refused(self, service: Service, client: Client) -> None:
        stream = client.open("/google.pubsub.v1.Subscriber/StreamingPull", end=True)

        assert (client.replies[stream].status, client.replies[stream].alone) == (Code.INVALID_ARGUMENT, True)
        assert service.is_empty()

    @pytest.mark.rule("T26", "S7.3.1")
    def test_end_of_stream_before_any_request_is_refused(self, service: Service, client: Client) -> None:
        stream = client.open_stream()
        stream.half_close()

        assert (stream.reply.status, stream.reply.alone) == (Code.INVALID_ARGUMENT, True)
        assert service.is_empty()

    @pytest.mark.rule("T26", "S7.3.7")
    @pytest.mark.parametrize("on_the_last_message", [True, False])
    def test_half_close_ends_with_ok_after_what_waits(
        self, service: Service, client: Client, on_the_last_message: bool
    ) -> None:
        service.publish(*bodies(3))
        stream = client.open_stream()
        stream.ask(subscription=READERS, stream_ack_deadline_seconds=10, end=on_the_last_message)
        if not on_the_last_message:
            stream.half_close()
        service.settle()

        assert (stream.bodies, stream.reply.status) == (bodies(3), Code.OK)
        assert service.held() == (0, 3, 0)

    @pytest.mark.rule("T26", "T25", "S7.3.7")
    def test_the_end_after_a_half_close_waits_for_a_message_that_is_half_sent(self, service: Service) -> None:
        client = service.client(credits=False)
        service.publish(b"x" * 100_000)
        stream = client.subscribe()
        service.settle()
        stream.half_close()
        service.settle()
        assert (len(stream.partial), stream.reply.ended) == (65_535, False)

        client.h2.increment_flow_control_window(100_000)
        client.grow(stream, 100_000)
        service.settle()

        assert (stream.bodies, stream.reply.status) == ([b"x" * 100_000], Code.OK)
        assert service.held() == (0, 1, 0)

    @pytest.mark.rule("T26")
    def test_a_frame_per_byte(self, service: Service, client: Client) -> None:
        stream = client.open_stream()
        for byte in framed(
            pb.StreamingPullRequest(subscription=READERS, stream_ack_deadline_seconds=10).SerializeToString()
        ):
            client.send(stream.id, bytes([byte]))
        service.publish(b"one")
        service.settle()

        assert stream.bodies == [b"one"]

    @pytest.mark.rule("T26", "S7.3.6")
    def test_several_requests_in_a_frame(self, service: Service, client: Client) -> None:
        service.publish(b"one")
        stream = client.open_stream()
        first = pb.StreamingPullRequest(subscription=READERS, stream_ack_deadline_seconds=10, protocol_version=1)
        client.send(stream.id, framed(first.SerializeToString()) + framed(b""))
        service.pong()

        assert [len(response.received_messages) for response in stream.responses] == [1, 0]

    @pytest.mark.rule("T26")
    @pytest.mark.parametrize(("rest", "code"), [(b"\0\0", Code.INTERNAL), (framed(b"\xff\xff"), Code.INTERNAL)])
    def test_what_cannot_be_read_ends_the_stream_and_gives_back(
        self, service: Service, client: Client, rest: bytes, code: Code
    ) -> None:
        stream = client.subscribe()
        service.settle()
        service.publish(*bodies(3))

        client.send(stream.id, rest, end=True)
        service.settle()

        assert (stream.reply.status, stream.bodies) == (code, [])
        assert (service.held(), service.failures()) == ((3, 0, 0), [0, 0, 0])


class TestRefusals:
    @pytest.mark.rule("S7.3.1")
    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({}, Code.INVALID_ARGUMENT),
            ({"subscription": READERS}, Code.INVALID_ARGUMENT),
            ({"subscription": READERS, "stream_ack_deadline_seconds": 9}, Code.INVALID_ARGUMENT),
            ({"subscription": READERS, "stream_ack_deadline_seconds": 601}, Code.INVALID_ARGUMENT),
            ({"stream_ack_deadline_seconds": 10}, Code.INVALID_ARGUMENT),
            ({"subscription": TOPIC, "stream_ack_deadline_seconds": 10}, Code.INVALID_ARGUMENT),
            ({"subscription": OTHERS, "stream_ack_deadline_seconds": 10}, Code.NOT_FOUND),
        ],
    )
    def test_a_first_request_that_opens_nothing(
        self, service: Service, client: Client, fields: dict[str, Any], code: Code
    ) -> None:
        stream = client.open_stream()

        stream.ask(**fields)

        assert (stream.reply.status, stream.reply.alone) == (code, True)
        assert service.is_empty()
        assert service.broker.counts()["pull_streams"] == 0

    @pytest.mark.rule("S7.3.2", "B005")
    @pytest.mark.parametrize(
        "fields",
        [
            {"subscription": READERS},
            {"max_outstanding_messages": 10},
            {"max_outstanding_bytes": 10},
            {"protocol_version": 1},
        ],
    )
    def test_a_later_request_with_what_is_for_the_first(
        self, service: Service, client: Client, fields: dict[str, Any]
    ) -> None:
        stream = client.subscribe()
        service.settle()
        service.publish(*bodies(3))

        stream.ask(**fields)
        service.settle()

        assert (stream.reply.status, stream.bodies) == (Code.INVALID_ARGUMENT, [])
        assert (service.held(), service.failures()) == ((3, 0, 0), [0, 0, 0])
