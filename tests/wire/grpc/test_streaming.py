"""Calls that stream both ways, over a small conversation that echoes."""

import gzip
import logging

import pytest

from emulator.api import pb
from emulator.errors import Code, PubsubError
from emulator.limits import REQUEST_BODY_MAX_BYTES
from emulator.wire.grpc import server as server_module
from emulator.wire.grpc.calls import StreamingCall
from tests.wire.grpc.memory import Fake, Lab, Peer, Reply, framed, path_of

STREAM = path_of("StreamingPull")


def ask(text: str) -> bytes:
    return framed(pb.StreamingPullRequest(subscription=text).SerializeToString())


def answer(text: str) -> pb.StreamingPullResponse:
    message = pb.PubsubMessage(message_id=text)
    return pb.StreamingPullResponse(received_messages=[pb.ReceivedMessage(message=message)])


def answers(messages: list[bytes]) -> list[str]:
    responses = map(pb.StreamingPullResponse.FromString, messages)
    return [each.message.message_id for response in responses for each in response.received_messages]


class Echo:
    """Answers each message with its text; a text of "!" is an order."""

    def __init__(self, call: StreamingCall) -> None:
        self.call = call
        self.events: list[str] = []
        self.sent_count = 0

    def message(self, request: pb.StreamingPullRequest) -> None:
        text = request.subscription
        self.events.append(text)
        match text:
            case "!refuse":
                raise PubsubError(Code.ABORTED, "Why.", "BECAUSE")
            case "!break":
                raise ZeroDivisionError
            case "!fail":
                self.call.fail(PubsubError(Code.ABORTED, "Why."))
            case "!finish":
                self.call.finish()
            case "!headers":
                self.call.send_headers()
            case "!twice":
                self.call.finish()
                self.call.finish()
                self.call.fail(PubsubError(Code.ABORTED, "Too late."))
                self.call.send(answer("too late"))
                self.call.send_headers()
                assert not self.call.ready()
            case _:
                self.call.send(answer(text))

    def half_closed(self) -> None:
        self.events.append("half-closed")
        self.call.finish()

    def sent(self) -> None:
        self.sent_count += 1

    def gone(self) -> None:
        self.events.append("gone")

    def writable(self) -> None:
        self.events.append("writable")


class Echoes:
    """A server that echoes, and its conversations."""

    def __init__(self, lab: Lab) -> None:
        self.all: list[Echo] = []
        self.fake = Fake(lab, {STREAM: self._open})

    def _open(self, call: StreamingCall) -> Echo:
        self.all.append(Echo(call))
        return self.all[-1]

    @property
    def events(self) -> list[str]:
        (only,) = self.all
        return only.events


@pytest.fixture
def echoes(lab: Lab) -> Echoes:
    return Echoes(lab)


@pytest.fixture
def peer(echoes: Echoes) -> Peer:
    return echoes.fake.peer()


class TestTalking:
    """Messages in both directions."""

    def test_each_message_is_answered_as_it_comes(self, peer: Peer) -> None:
        stream = peer.open(STREAM)
        reply = peer.replies[stream]
        assert reply == Reply()

        for text in ("one", "two", "three"):
            peer.send(stream, ask(text))
            assert answers(reply.messages)[-1] == text

        assert reply.initial == {":status": "200", "content-type": "application/grpc"}
        assert (len(reply.messages), reply.ended) == (3, False)

    @pytest.mark.rule("T26")
    def test_several_messages_in_a_frame(self, peer: Peer) -> None:
        stream = peer.open(STREAM)

        peer.send(stream, ask("one") + ask("two") + ask("three")[:4])
        assert answers(peer.replies[stream].messages) == ["one", "two"]
        peer.send(stream, ask("three")[4:])

        assert answers(peer.replies[stream].messages) == ["one", "two", "three"]

    @pytest.mark.rule("T26")
    def test_a_frame_per_byte(self, peer: Peer) -> None:
        stream = peer.open(STREAM)
        for byte in ask("one") + ask("two"):
            peer.send(stream, bytes([byte]))

        assert answers(peer.replies[stream].messages) == ["one", "two"]

    @pytest.mark.rule("T26")
    @pytest.mark.parametrize("on_the_last_message", [True, False])
    def test_half_close_ends_with_ok_after_what_was_sent(
        self, echoes: Echoes, peer: Peer, on_the_last_message: bool
    ) -> None:
        stream = peer.open(STREAM)
        peer.send(stream, ask("one"), end=on_the_last_message)
        if not on_the_last_message:
            peer.send(stream, b"", end=True)

        reply = peer.replies[stream]
        assert (reply.status, reply.trailers, reply.reset) == (Code.OK, {"grpc-status": "0"}, None)
        assert answers(reply.messages) == ["one"]
        assert echoes.events == ["one", "half-closed"]
        assert echoes.fake.is_empty()
        assert echoes.fake.connections[0]._streaming == set()

    @pytest.mark.rule("T26")
    def test_half_close_on_the_headers(self, echoes: Echoes, peer: Peer) -> None:
        stream = peer.open(STREAM, end=True)

        assert echoes.events == ["half-closed"]
        assert peer.replies[stream].status == Code.OK

    @pytest.mark.rule("T24")
    def test_the_server_may_end_first(self, echoes: Echoes, peer: Peer) -> None:
        stream = peer.open(STREAM)
        peer.send(stream, ask("!finish"))

        reply = peer.replies[stream]
        assert (reply.initial, reply.status, reply.reset) == (
            {":status": "200", "content-type": "application/grpc"},
            Code.OK,
            0,
        )
        assert echoes.fake.is_empty()

    def test_headers_may_go_alone(self, peer: Peer) -> None:
        stream = peer.open(STREAM)
        peer.send(stream, ask("!headers"))

        reply = peer.replies[stream]
        assert (reply.initial is not None, reply.data, reply.ended) == (True, b"", False)

    def test_headers_leave_outside_of_a_turn_too(self, lab: Lab, echoes: Echoes, peer: Peer) -> None:
        stream = peer.open(STREAM)
        echoes.all[0].call.send_headers()

        lab.turn()
        peer.exchange()

        assert peer.replies[stream].initial is not None

    def test_what_is_said_outside_of_a_turn_leaves_in_the_next(self, lab: Lab, echoes: Echoes, peer: Peer) -> None:
        stream = peer.open(STREAM)
        echoes.all[0].call.send(answer("one"))
        echoes.all[0].call.send(answer("two"))

        lab.turn()
        peer.exchange()

        assert answers(peer.replies[stream].messages) == ["one", "two"]

    def test_a_compressed_message(self, lab: Lab, peer: Peer) -> None:
        stream = peer.open(STREAM, ("grpc-encoding", "gzip"))
        packed = gzip.compress(pb.StreamingPullRequest(subscription="one").SerializeToString())
        peer.send(stream, framed(packed, 1) + ask("two"))

        assert answers(peer.replies[stream].messages) == ["one", "two"]


class TestErrors:
    """How a conversation fails."""

    def test_before_headers_it_is_trailers_only(self, echoes: Echoes, peer: Peer) -> None:
        stream = peer.open(STREAM)
        peer.send(stream, ask("!refuse"))

        reply = peer.replies[stream]
        assert (reply.alone, reply.status, reply.message, reply.reset) == (True, Code.ABORTED, "Why.", 0)
        assert "grpc-status-details-bin" in reply.end
        assert echoes.events == ["!refuse", "gone"]
        assert echoes.fake.is_empty()

    @pytest.mark.parametrize("order", ["!refuse", "!fail"])
    def test_after_headers_it_is_trailers(self, echoes: Echoes, peer: Peer, order: str) -> None:
        stream = peer.open(STREAM)
        peer.send(stream, ask("one") + ask(order) + ask("unheard"))

        reply = peer.replies[stream]
        assert (reply.alone, reply.status, answers(reply.messages)) == (False, Code.ABORTED, ["one"])
        assert "unheard" not in echoes.events

    def test_who_fails_it_is_not_told(self, echoes: Echoes, peer: Peer) -> None:
        peer.send(peer.open(STREAM), ask("!fail"))

        assert echoes.events == ["!fail"]

    @pytest.mark.rule("S1.6")
    def test_one_that_breaks_is_internal_with_a_traceback(
        self, echoes: Echoes, peer: Peer, caplog: pytest.LogCaptureFixture
    ) -> None:
        stream = peer.open(STREAM)
        peer.send(stream, ask("!break"))

        assert peer.replies[stream].status == Code.INTERNAL
        assert [(record.levelno, record.exc_info is not None) for record in caplog.records] == [(logging.ERROR, True)]
        assert echoes.events == ["!break", "gone"]

    @pytest.mark.rule("T26")
    @pytest.mark.parametrize(
        ("sent", "code"),
        [
            (ask("one")[:3], Code.INTERNAL),
            (ask("one")[:-1], Code.INTERNAL),
            (framed(b"\xff\xff"), Code.INTERNAL),
            (framed(b"", 2), Code.INTERNAL),
            (framed(b"", 1), Code.INTERNAL),
            (b"\0" + (REQUEST_BODY_MAX_BYTES + 1).to_bytes(4, "big"), Code.RESOURCE_EXHAUSTED),
        ],
    )
    def test_what_cannot_be_read(self, echoes: Echoes, peer: Peer, sent: bytes, code: Code) -> None:
        stream = peer.open(STREAM)
        peer.send(stream, sent, end=True)

        reply = peer.replies[stream]
        assert (reply.alone, reply.status) == (True, code)
        assert echoes.events == ["gone"]
        assert echoes.fake.is_empty()

    @pytest.mark.parametrize("order", ["!finish", "!fail"])
    def test_nothing_of_an_ended_call_is_held(self, echoes: Echoes, peer: Peer, order: str) -> None:
        peer.send(peer.open(STREAM), ask(order) + ask("never whole")[:7])

        assert echoes.fake.is_empty()

    @pytest.mark.rule("T6")
    def test_unfinished_messages_count_for_the_connection(
        self, echoes: Echoes, peer: Peer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server_module, "_HELD_MAX_BYTES", 1_000)
        one, two = peer.open(STREAM), peer.open(STREAM)
        peer.send(one, framed(bytes(2_000))[:900])
        assert echoes.fake.server.counts()["buffered_bytes"] == 900

        peer.send(two, framed(bytes(2_000))[:101])

        assert (peer.replies[one].ended, peer.replies[two].status) == (False, Code.RESOURCE_EXHAUSTED)
        peer.cancel(one)
        assert echoes.fake.is_empty()

    def test_whoever_has_ended_says_nothing_more(self, lab: Lab, echoes: Echoes, peer: Peer) -> None:
        stream = peer.open(STREAM)
        peer.send(stream, ask("!twice"))
        lab.turn(2)
        peer.exchange()

        reply = peer.replies[stream]
        assert (reply.status, reply.messages) == (Code.OK, [])
        assert echoes.events == ["!twice"]

    @pytest.mark.parametrize(
        ("problem", "code", "logged"),
        [(PubsubError(Code.ABORTED, "Why."), Code.ABORTED, 0), (ZeroDivisionError(), Code.INTERNAL, 1)],
    )
    def test_an_opener_may_refuse(
        self, lab: Lab, caplog: pytest.LogCaptureFixture, problem: Exception, code: Code, logged: int
    ) -> None:
        def opener(call: StreamingCall) -> Echo:
            raise problem

        fake = Fake(lab, {STREAM: opener})
        peer = fake.peer()
        stream = peer.open(STREAM)

        assert (peer.replies[stream].alone, peer.replies[stream].status) == (True, code)
        assert len(caplog.records) == logged
        assert fake.is_empty()

    def test_an_opener_may_end_the_call(self, lab: Lab) -> None:
        opened: list[Echo] = []

        def opener(call: StreamingCall) -> Echo:
            call.send(answer("x" * 100_000))
            call.finish()
            opened.append(Echo(call))
            return opened[0]

        fake = Fake(lab, {STREAM: opener})
        peer = fake.peer(credits=False)
        stream = peer.open(STREAM)
        peer.send(stream, ask("late"))
        peer.cancel(stream)

        assert len(peer.replies[stream].data) == 65_535
        assert opened[0].events == []
        assert fake.is_empty()


class TestEnds:
    """The call is over though nobody answered."""

    @pytest.mark.rule("T4")
    @pytest.mark.parametrize("talked", [False, True])
    def test_the_deadline(self, lab: Lab, echoes: Echoes, peer: Peer, talked: bool) -> None:
        stream = peer.open(STREAM, ("grpc-timeout", "900S"))
        if talked:
            peer.send(stream, ask("one"))
        lab.advance(899)
        assert "gone" not in echoes.events

        lab.advance(1)
        peer.exchange()

        reply = peer.replies[stream]
        assert (reply.alone, reply.status) == (not talked, Code.DEADLINE_EXCEEDED)
        assert echoes.events[-1] == "gone"
        assert echoes.fake.is_empty()

    @pytest.mark.rule("T4")
    def test_a_deadline_dies_with_its_call(self, lab: Lab, echoes: Echoes, peer: Peer) -> None:
        stream = peer.open(STREAM, ("grpc-timeout", "900S"))
        peer.send(stream, ask("one"), end=True)

        lab.advance(1_000)
        peer.exchange()

        assert peer.replies[stream].status == Code.OK
        assert echoes.events == ["one", "half-closed"]

    @pytest.mark.parametrize("way", ["cancel", "die"])
    def test_the_peer_goes(self, lab: Lab, echoes: Echoes, peer: Peer, way: str) -> None:
        stream = peer.open(STREAM, ("grpc-timeout", "900S"))
        peer.send(stream, ask("one") + ask("two")[:3])

        if way == "cancel":
            peer.cancel(stream)
        else:
            peer.transport.die()
        lab.turn(2)

        assert echoes.events == ["one", "gone"]
        assert echoes.fake.is_empty()


class TestPressure:
    """A peer that does not take what it is sent."""

    def fill(self, echo: Echo) -> int:
        """Send as long as there is room; how often."""
        count = 0
        while echo.call.ready():
            echo.call.send(answer("x" * 1_000))
            count += 1
        return count

    def test_ready_ends_with_the_window_and_comes_back(self, lab: Lab, echoes: Echoes) -> None:
        peer = echoes.fake.peer(credits=False)
        stream = peer.open(STREAM)
        (echo,) = echoes.all

        assert 60 <= self.fill(echo) <= 66
        lab.turn(2)
        peer.exchange()
        assert echo.events == []
        peer.h2.increment_flow_control_window(10_000, stream)
        peer.h2.increment_flow_control_window(10_000)
        peer.exchange()

        assert echo.events == ["writable"]
        assert echo.call.ready()
        assert len(peer.replies[stream].data) > 65_535

    def test_ready_ends_with_the_socket_and_comes_back(self, lab: Lab, echoes: Echoes) -> None:
        peer = echoes.fake.peer(room=100_000, credits=False)
        peer.h2.increment_flow_control_window(2**30)
        streams = [peer.open(STREAM) for _ in range(10)]
        counts = []
        for echo in echoes.all:
            counts.append(self.fill(echo))
            lab.turn(2)

        assert counts[0] > 60
        assert counts[-1] == 0
        assert 262_144 < echoes.fake.server.counts()["buffered_bytes"] < 400_000
        for _ in range(10):
            lab.turn(2)
            peer.exchange()
        assert [echo.events for echo in echoes.all][-1] == ["writable"]
        assert len(peer.replies[streams[0]].data) > 0

    def test_what_breaks_in_writable_ends_the_call(
        self, lab: Lab, echoes: Echoes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        peer = echoes.fake.peer(credits=False)
        stream = peer.open(STREAM)
        (echo,) = echoes.all
        self.fill(echo)
        lab.turn(2)
        peer.exchange()
        monkeypatch.setattr(echo, "writable", lambda: 1 / 0)

        peer.h2.increment_flow_control_window(10_000, stream)
        peer.h2.increment_flow_control_window(10_000)
        peer.exchange()

        assert (peer.replies[stream].status, echo.events) == (Code.INTERNAL, ["gone"])
        assert len(caplog.records) == 1

    @pytest.mark.rule("T25")
    def test_ok_waits_for_what_was_sent(self, lab: Lab, echoes: Echoes) -> None:
        peer, stream, echo = self.blocked(lab, echoes)
        echo.call.finish()
        lab.turn(2)
        peer.exchange()
        assert not peer.replies[stream].ended

        peer.h2.increment_flow_control_window(100_000, stream)
        peer.h2.increment_flow_control_window(100_000)
        peer.exchange()

        assert (peer.replies[stream].status, len(peer.replies[stream].messages)) == (Code.OK, 1)

    @pytest.mark.rule("T25")
    def test_an_error_does_not_wait(self, lab: Lab, echoes: Echoes) -> None:
        peer, stream, echo = self.blocked(lab, echoes)

        echo.call.fail(PubsubError(Code.ABORTED, "Why."))
        lab.turn(2)
        peer.exchange()

        assert (peer.replies[stream].status, len(peer.replies[stream].data)) == (Code.ABORTED, 65_535)
        assert echoes.fake.is_empty()

    def test_a_finished_call_hears_when_all_has_left(self, lab: Lab, echoes: Echoes) -> None:
        peer, stream, echo = self.blocked(lab, echoes)
        echo.call.finish()
        assert echo.sent_count == 0

        peer.h2.increment_flow_control_window(200_000)
        peer.h2.increment_flow_control_window(200_000, stream)
        peer.exchange()

        assert (echo.sent_count, echo.events) == (1, [])
        assert echoes.fake.is_empty()

    def test_a_finished_call_whose_peer_goes_is_over(self, lab: Lab, echoes: Echoes) -> None:
        peer, stream, echo = self.blocked(lab, echoes)
        echo.call.finish()

        peer.send(stream, ask("late"))
        assert echo.events == []
        peer.cancel(stream)

        assert echo.events == ["gone"]
        assert echoes.fake.is_empty()

    def blocked(self, lab: Lab, echoes: Echoes) -> tuple[Peer, int, Echo]:
        """A call with more sent than the peer's window takes."""
        peer = echoes.fake.peer(credits=False)
        stream = peer.open(STREAM)
        (echo,) = echoes.all
        echo.call.send(answer("x" * 100_000))
        lab.turn(2)
        peer.exchange()
        assert len(peer.replies[stream].data) == 65_535
        return peer, stream, echo


def test_it_says_how_it_stands(echoes: Echoes, peer: Peer) -> None:
    stream = peer.open(STREAM)

    assert repr(echoes.all[0].call) == f"<StreamingCall StreamingPull <Stream {stream} queued=0>>"
