"""Unary calls over a fake service: the reply's shape, its errors, and what a request may look like."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from emulator.api import pb
from emulator.api.dispatch import Outcome
from emulator.errors import Code, PubsubError, internal
from emulator.limits import REQUEST_BODY_MAX_BYTES
from emulator.wire.grpc import server as server_module
from tests.wire.grpc.memory import Fake, Lab, Peer, Reply, framed, path_of

GET_TOPIC = path_of("GetTopic")
PUBLISH = path_of("Publish")
STREAMING_PULL = path_of("StreamingPull")

REQUEST = framed(pb.GetTopicRequest(topic="projects/acme/topics/orders").SerializeToString())
TOPIC = pb.Topic(name="projects/acme/topics/orders", labels={"team": "sales"})


def failing(problem: Exception) -> Any:
    def answer() -> Outcome:
        raise problem

    return answer


@pytest.fixture
def fake(lab: Lab) -> Fake:
    return Fake(lab, get_topic=lambda: TOPIC)


@pytest.fixture
def peer(fake: Fake) -> Peer:
    return fake.peer()


def is_topic(reply: Reply) -> bool:
    return reply.status == Code.OK and reply.messages == [TOPIC.SerializeToString()]


@pytest.mark.rule("T3", "T28")
def test_a_reply_is_headers_one_message_and_trailers(peer: Peer) -> None:
    reply = peer.call(GET_TOPIC, REQUEST)

    assert reply == Reply(
        initial={":status": "200", "content-type": "application/grpc"},
        data=framed(TOPIC.SerializeToString()),
        trailers={"grpc-status": "0"},
        ended=True,
    )


@pytest.mark.rule("T3")
def test_the_handler_is_given_the_request(fake: Fake, peer: Peer) -> None:
    peer.call(GET_TOPIC, REQUEST)

    (call,) = fake.calls
    assert (call.rpc, call.request) == ("get_topic", pb.GetTopicRequest(topic="projects/acme/topics/orders"))


def test_an_empty_message_is_a_request_and_a_reply(fake: Fake, peer: Peer) -> None:
    reply = peer.call(path_of("Acknowledge"), framed(b""))

    assert (reply.status, reply.messages) == (Code.OK, [b""])
    assert fake.calls[0].request == pb.AcknowledgeRequest()


def test_calls_follow_one_another_on_a_connection(fake: Fake, peer: Peer) -> None:
    assert all(is_topic(peer.call(GET_TOPIC, REQUEST)) for _ in range(300))
    assert fake.is_empty()


@pytest.mark.rule("T3", "T31")
def test_an_error_is_trailers_only(lab: Lab) -> None:
    fake = Fake(lab, get_topic=failing(PubsubError(Code.NOT_FOUND, "Resource not found (resource=x).")))

    reply = fake.peer().call(GET_TOPIC, REQUEST)

    assert reply == Reply(
        initial={
            ":status": "200",
            "content-type": "application/grpc",
            "grpc-status": "5",
            "grpc-message": "Resource not found (resource=x).",
        },
        ended=True,
    )


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_every_code_arrives_as_its_number(lab: Lab, code: Code) -> None:
    fake = Fake(lab, get_topic=failing(PubsubError(code, "Why.")))

    reply = fake.peer().call(GET_TOPIC, REQUEST)

    assert (reply.alone, reply.status, reply.message) == (True, code, "Why.")


@pytest.mark.rule("S1.1", "T31")
@pytest.mark.parametrize(
    "path",
    [
        "/google.pubsub.v1.Publisher/Unheard",
        "/google.pubsub.v2.Publisher/GetTopic",
        "/google.pubsub.v1.Publisher",
        "/google.pubsub.v1.Publisher/",
        "/google.pubsub.v1.Publisher/GetTopic/",
        "/google.pubsub.v1.Publisher/gettopic",
        "/v1/projects/acme/topics",
        "/",
        "*",
    ],
)
@pytest.mark.parametrize("body", [b"", REQUEST])
def test_an_unknown_method_is_unimplemented(fake: Fake, peer: Peer, path: str, body: bytes) -> None:
    reply = peer.call(path, body)

    assert (reply.alone, reply.status, path in reply.message) == (True, Code.UNIMPLEMENTED, True)
    assert fake.calls == []


@pytest.mark.rule("S1.1")
def test_a_streaming_method_that_nobody_serves_is_unimplemented(peer: Peer) -> None:
    reply = peer.call(STREAMING_PULL, b"")

    assert (reply.alone, reply.status) == (True, Code.UNIMPLEMENTED)


@pytest.mark.rule("S1.1")
def test_a_request_that_does_not_parse_is_internal(fake: Fake, peer: Peer) -> None:
    reply = peer.call(GET_TOPIC, framed(b"\xff\xff\xff"))

    assert (reply.alone, reply.status) == (True, Code.INTERNAL)
    assert "GetTopic" in reply.message
    assert fake.calls == []


class TestMetadata:
    """Headers that are accepted, ignored, or say that the request is not gRPC's."""

    @pytest.mark.rule("T3", "T28")
    @pytest.mark.parametrize(
        "content_type",
        [
            "application/grpc",
            "application/grpc+proto",
            "application/grpc;charset=utf-8",
            "application/grpc ; x=y",
            "application/grpc+proto; x=y",
            "Application/GRPC",
        ],
    )
    def test_grpc_by_any_of_its_names(self, peer: Peer, content_type: str) -> None:
        assert is_topic(peer.call(GET_TOPIC, REQUEST, content_type=content_type))

    @pytest.mark.rule("T16")
    @pytest.mark.parametrize(
        "content_type",
        ["application/json", "application/grpc-web", "application/grpc+json", "application/grpcx", "text/plain", ""],
    )
    @pytest.mark.parametrize("body", [[], [b"{}"], [b"{", b"}"]])
    def test_another_content_type_is_415_once_the_request_has_ended(
        self, fake: Fake, peer: Peer, content_type: str, body: list[bytes]
    ) -> None:
        stream = peer.open(GET_TOPIC, content_type=content_type, end=not body)
        for part in body:
            assert peer.replies[stream].initial is None
            peer.send(stream, part, end=part is body[-1])

        reply = peer.replies[stream]
        assert (reply.initial, reply.ended, reply.reset) == ({":status": "415"}, True, None)
        assert is_topic(peer.call(GET_TOPIC, REQUEST))
        assert len(fake.calls) == 1

    @pytest.mark.rule("T16")
    def test_no_content_type_is_415(self, peer: Peer) -> None:
        stream = peer.open(GET_TOPIC, content_type=None, end=True)

        assert peer.replies[stream].initial == {":status": "415"}

    @pytest.mark.rule("T11")
    @pytest.mark.parametrize(
        "extra",
        [
            ("x-goog-api-client", "gl-python/3.11 grpc/1.66 gax/2.20"),
            ("x-goog-user-project", "billed"),
            ("x-goog-pubsub-client-telemetry", "v1"),
            ("authorization", "Bearer nonsense"),
            ("google-cloud-resource-prefix", "projects/other"),
            ("grpc-previous-rpc-attempts", "2"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("grpc-accept-encoding", "identity, br, zstd"),
            ("x-goog-request-params", "topic=projects%2Fother%2Ftopics%2Fother"),
            ("x-goog-request-params", "topic=projects/other/topics/other"),
            ("x-goog-request-params", "projects/other/topics/other"),
            ("never-heard-of", "\u00fc"),
        ],
        ids=lambda extra: "=".join(extra),
    )
    def test_what_is_not_known_is_ignored(self, fake: Fake, peer: Peer, extra: tuple[str, str]) -> None:
        assert is_topic(peer.call(GET_TOPIC, REQUEST, extra))
        assert fake.calls[0].request.topic == "projects/acme/topics/orders"  # type: ignore[attr-defined]  # a GetTopicRequest

    @pytest.mark.rule("T11", "T30")
    @pytest.mark.parametrize("values", [["AAE="], ["AAE"], ["AAE,AAE="], ["AAE", "AAE="], ["!"], [""]])
    def test_binary_metadata_in_any_spelling(self, peer: Peer, values: Sequence[str]) -> None:
        extra = [("x-goog-pubsub-client-telemetry-bin", value) for value in values]

        assert is_topic(peer.call(GET_TOPIC, REQUEST, *extra))

    @pytest.mark.rule("T3")
    def test_te_is_not_insisted_on(self, peer: Peer) -> None:
        stream = peer.h2.get_next_available_stream_id()
        peer.h2.send_headers(
            stream,
            [(":method", "POST"), (":scheme", "https"), (":path", GET_TOPIC), ("content-type", "application/grpc")],
        )

        peer.send(stream, REQUEST, end=True)

        assert is_topic(peer.replies[stream])

    @pytest.mark.rule("T7a", "T29")
    def test_sixty_kilobytes_of_headers_are_taken(self, peer: Peer) -> None:
        assert is_topic(peer.call(GET_TOPIC, REQUEST, ("x", "v" * 60_000)))

    @pytest.mark.rule("T29")
    def test_larger_headers_fail_that_call_only(self, fake: Fake, peer: Peer) -> None:
        reply = peer.call(GET_TOPIC, REQUEST, ("x", "v" * 66_000))

        assert (reply.alone, reply.status) == (True, Code.RESOURCE_EXHAUSTED)
        assert is_topic(peer.call(GET_TOPIC, REQUEST))
        assert len(fake.calls) == 1

    @pytest.mark.rule("T29")
    def test_larger_headers_are_431_for_what_is_not_grpc(self, peer: Peer) -> None:
        stream = peer.open(GET_TOPIC, ("x", "v" * 66_000), content_type="text/plain", end=True)

        assert peer.replies[stream].initial == {":status": "431"}


class TestShapes:
    """How the one message of a request is spread over frames."""

    @pytest.mark.rule("T26")
    @pytest.mark.parametrize("cut", range(len(REQUEST) + 1))
    def test_two_frames(self, peer: Peer, cut: int) -> None:
        stream = peer.open(GET_TOPIC)
        peer.send(stream, REQUEST[:cut])
        peer.send(stream, REQUEST[cut:], end=True)

        assert is_topic(peer.replies[stream])

    @pytest.mark.rule("T26")
    def test_a_frame_per_byte_and_an_empty_one_at_the_end(self, fake: Fake, peer: Peer) -> None:
        stream = peer.open(GET_TOPIC)
        for byte in REQUEST:
            peer.send(stream, bytes([byte]))
        assert fake.server.counts()["buffered_bytes"] == len(REQUEST)
        peer.send(stream, b"", end=True)

        assert is_topic(peer.replies[stream])
        assert fake.is_empty()

    @pytest.mark.rule("T26")
    def test_trailers_end_a_request_too(self, peer: Peer) -> None:
        stream = peer.open(GET_TOPIC)
        peer.send(stream, REQUEST)
        peer.h2.send_headers(stream, [("x-checksum", "1")], end_stream=True)
        peer.exchange()

        assert is_topic(peer.replies[stream])

    @pytest.mark.rule("T26")
    @pytest.mark.parametrize(
        "frames", [None, [b""], [b"", b""]], ids=["end on HEADERS", "end on empty DATA", "two empty DATA"]
    )
    def test_no_message(self, fake: Fake, peer: Peer, frames: list[bytes] | None) -> None:
        stream = peer.open(GET_TOPIC, end=frames is None)
        for index, frame in enumerate(frames or ()):
            peer.send(stream, frame, end=index + 1 == len(frames or ()))

        reply = peer.replies[stream]
        assert (reply.alone, reply.status, "no message" in reply.message) == (True, Code.INTERNAL, True)
        assert fake.calls == []

    @pytest.mark.rule("T26")
    @pytest.mark.parametrize("size", range(1, len(REQUEST)))
    @pytest.mark.parametrize("apart", [True, False])
    def test_a_message_that_ends_too_early(self, fake: Fake, peer: Peer, size: int, apart: bool) -> None:
        stream = peer.open(GET_TOPIC)
        peer.send(stream, REQUEST[:size], end=not apart)
        if apart:
            peer.send(stream, b"", end=True)

        reply = peer.replies[stream]
        assert (reply.alone, reply.status, "in the middle" in reply.message) == (True, Code.INTERNAL, True)
        assert fake.calls == []
        assert fake.is_empty()

    @pytest.mark.rule("T26")
    @pytest.mark.parametrize("second", [b"\0", framed(b""), REQUEST])
    @pytest.mark.parametrize("cut", [0, 3, len(REQUEST), len(REQUEST) + 1])
    def test_a_second_message(self, fake: Fake, peer: Peer, second: bytes, cut: int) -> None:
        both = REQUEST + second
        stream = peer.open(GET_TOPIC)
        peer.send(stream, both[:cut])
        peer.exchange()
        if not peer.replies[stream].ended:
            peer.send(stream, both[cut:], end=True)

        reply = peer.replies[stream]
        assert (reply.alone, reply.status, "more than one" in reply.message) == (True, Code.INTERNAL, True)
        assert fake.calls == []
        assert fake.is_empty()

    @pytest.mark.rule("T24", "T26")
    def test_a_second_message_is_refused_before_the_request_ends(self, peer: Peer) -> None:
        stream = peer.open(GET_TOPIC)

        peer.send(stream, REQUEST + b"\0")

        reply = peer.replies[stream]
        assert (reply.status, reply.ended, reply.reset) == (Code.INTERNAL, True, 0)

    @pytest.mark.rule("T26")
    @pytest.mark.parametrize("flag", [2, 0x80, 0xFF])
    def test_a_flag_that_means_nothing(self, peer: Peer, flag: int) -> None:
        reply = peer.call(GET_TOPIC, framed(b"", flag))

        assert (reply.alone, reply.status, str(flag) in reply.message) == (True, Code.INTERNAL, True)


class TestLimits:
    """How large a request may be."""

    @pytest.mark.rule("T6")
    def test_twenty_mebibytes_reach_the_handler(self, fake: Fake, peer: Peer) -> None:
        request = pb.PublishRequest(messages=[pb.PubsubMessage(data=bytes(20 * 1024 * 1024))])

        reply = peer.call(PUBLISH, framed(request.SerializeToString()))

        assert reply.status == Code.OK
        assert fake.calls[0].request == request
        assert fake.is_empty()

    @pytest.mark.rule("T6", "T24")
    @pytest.mark.parametrize("size", [REQUEST_BODY_MAX_BYTES + 1, 2**32 - 1])
    @pytest.mark.parametrize("cut", [1, 4, 5])
    def test_more_than_the_limit_is_refused_at_the_prefix(self, fake: Fake, peer: Peer, size: int, cut: int) -> None:
        prefix = b"\0" + size.to_bytes(4, "big")
        stream = peer.open(PUBLISH)
        peer.send(stream, prefix[:cut])
        if cut < 5:
            peer.send(stream, prefix[cut:])

        reply = peer.replies[stream]
        assert (reply.alone, reply.status) == (True, Code.RESOURCE_EXHAUSTED)
        assert (reply.ended, reply.reset) == (True, 0)
        assert f"{size} vs. {REQUEST_BODY_MAX_BYTES}" in reply.message
        assert fake.is_empty()
        assert is_topic(peer.call(GET_TOPIC, REQUEST))

    @pytest.mark.rule("T6")
    def test_a_promise_of_the_limit_is_waited_for(self, peer: Peer) -> None:
        stream = peer.open(PUBLISH)
        peer.send(stream, b"\0" + REQUEST_BODY_MAX_BYTES.to_bytes(4, "big"))

        assert not peer.replies[stream].ended

    @pytest.mark.rule("T6")
    def test_unfinished_requests_of_a_connection_are_bounded_together(
        self, fake: Fake, peer: Peer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server_module, "_HELD_MAX_BYTES", 1_000)
        begun = [peer.open(PUBLISH) for _ in range(4)]
        for stream in begun[:3]:
            peer.send(stream, framed(bytes(1_000))[:300])

        peer.send(begun[3], framed(bytes(1_000))[:300])

        assert [peer.replies[stream].ended for stream in begun] == [False, False, False, True]
        assert peer.replies[begun[3]].status == Code.RESOURCE_EXHAUSTED
        assert fake.server.counts() == {"connections": 1, "streams": 3, "buffered_bytes": 900}
        peer.cancel(begun[0])
        again = peer.open(PUBLISH)
        peer.send(again, framed(bytes(1_000))[:300])
        assert not peer.replies[again].ended


class TestFailuresOfOurs:
    """What nobody thought of is INTERNAL, and its traceback is in the log."""

    @pytest.mark.rule("S1.6")
    def test_a_handler_that_breaks(self, lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
        fake = Fake(lab, get_topic=failing(ZeroDivisionError("secret")))
        peer = fake.peer()

        reply = peer.call(GET_TOPIC, REQUEST)

        expected = internal(ZeroDivisionError())
        assert (reply.alone, reply.status, reply.message) == (True, Code.INTERNAL, expected.message)
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert record.exc_info is not None
        assert isinstance(record.exc_info[1], ZeroDivisionError)
        assert peer.call(path_of("Acknowledge"), framed(b"")).status == Code.OK

    @pytest.mark.rule("S1.6")
    def test_a_reply_that_cannot_be_serialized(self, lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
        answer: Any = object()
        fake = Fake(lab, get_topic=lambda: answer)
        peer = fake.peer()

        reply = peer.call(GET_TOPIC, REQUEST)

        assert (reply.alone, reply.status) == (True, Code.INTERNAL)
        assert [record.exc_info is not None for record in caplog.records] == [True]
        assert peer.call(path_of("Acknowledge"), framed(b"")).status == Code.OK

    def test_a_failure_below_the_calls_ends_the_connection(
        self, fake: Fake, lab: Lab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        peer = fake.peer()
        other = fake.peer()
        monkeypatch.setattr(fake.connections[0], "request", failing(ZeroDivisionError()))

        peer.open(GET_TOPIC)
        lab.turn()

        assert (peer.transport.aborted, peer.transport.lost) == (True, True)
        assert [record.exc_info is not None for record in caplog.records] == [True]
        assert is_topic(other.call(GET_TOPIC, REQUEST))


def test_it_says_how_it_stands(fake: Fake, peer: Peer) -> None:
    stream = peer.open(GET_TOPIC)

    call = fake.connections[0]._http2._streams[stream].call
    assert repr(call) == f"<UnaryCall GetTopic <Stream {stream} queued=0>>"
    assert repr(fake.server).startswith("<GrpcServer methods=")
    assert repr(fake.connections[0]) == "<GrpcConnection a peer in memory streams=1>"
