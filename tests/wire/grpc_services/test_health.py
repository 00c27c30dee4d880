"""grpc.health.v1.Health in memory: one server, any number of callers, no socket."""

from collections.abc import Callable
from typing import Any

import pytest
from hyperframe.frame import DataFrame

from emulator.api import pb
from emulator.api.catalogue import RPCS, SERVICES
from emulator.api.dispatch import Dispatcher
from emulator.errors import Code
from emulator.wire.grpc import health
from emulator.wire.grpc.health import Health
from emulator.wire.grpc.server import GrpcServer
from tests.wire.grpc.memory import Lab, Peer, Reply, Served, framed

CHECK, LIST, WATCH = (f"/grpc.health.v1.Health/{method}" for method in ("Check", "List", "Watch"))

SERVING = pb.HealthCheckResponse.SERVING
NOT_SERVING = pb.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = pb.HealthCheckResponse.SERVICE_UNKNOWN

KNOWN = ("", *SERVICES)
INITIAL_WINDOW_SIZE = 4


class HealthServer(Served):
    """A server with nothing but health on it."""

    def __init__(self, lab: Lab) -> None:
        self.health = Health(SERVICES)
        dispatcher = Dispatcher({health.SERVICE: self.health})
        super().__init__(lab, GrpcServer(dispatcher, RPCS, self.health.openers, wait_s=5))


@pytest.fixture
def served(lab: Lab) -> HealthServer:
    return HealthServer(lab)


@pytest.fixture
def peer(served: HealthServer) -> Peer:
    return served.peer()


def asking_for(service: str) -> bytes:
    return framed(pb.HealthCheckRequest(service=service).SerializeToString())


def watch(peer: Peer, service: str) -> int:
    """The stream of a Watch whose request has been sent whole."""
    stream = peer.open(WATCH)
    peer.send(stream, asking_for(service), end=True)
    return stream


def statuses(reply: Reply) -> list[int]:
    return [pb.HealthCheckResponse.FromString(message).status for message in reply.messages]


def told(served: HealthServer, peer: Peer) -> None:
    """Let what the server has to say arrive."""
    served.lab.turn(3)
    peer.exchange()


class TestCheck:
    """The unary call."""

    @pytest.mark.rule("T15")
    @pytest.mark.parametrize("service", KNOWN)
    def test_every_service_and_the_server_itself_are_serving(self, peer: Peer, service: str) -> None:
        reply = peer.call(CHECK, asking_for(service))

        assert (reply.status, statuses(reply)) == (Code.OK, [SERVING])

    @pytest.mark.rule("T15")
    @pytest.mark.parametrize("service", ["nope", "google.pubsub.v1", "google.pubsub.v1.publisher"])
    def test_an_unknown_service_is_not_found(self, peer: Peer, service: str) -> None:
        reply = peer.call(CHECK, asking_for(service))

        assert (reply.alone, reply.status, service in reply.message) == (True, Code.NOT_FOUND, True)

    @pytest.mark.rule("T15")
    @pytest.mark.parametrize("service", KNOWN)
    def test_a_stopping_server_is_not_serving(self, served: HealthServer, peer: Peer, service: str) -> None:
        served.health.stop()

        assert statuses(peer.call(CHECK, asking_for(service))) == [NOT_SERVING]

    @pytest.mark.rule("T15")
    def test_list_says_what_check_says_of_each(self, served: HealthServer, peer: Peer) -> None:
        def listed() -> dict[str, int]:
            (message,) = peer.call(LIST, framed(b"")).messages
            return {name: found.status for name, found in pb.HealthListResponse.FromString(message).statuses.items()}

        before = listed()
        served.health.stop()

        assert before == dict.fromkeys(KNOWN, SERVING)
        assert listed() == dict.fromkeys(KNOWN, NOT_SERVING)


class TestWatch:
    """The call that stays."""

    @pytest.mark.rule("T15")
    @pytest.mark.parametrize("service", KNOWN)
    def test_the_status_comes_at_once_and_the_call_stays(self, peer: Peer, service: str) -> None:
        reply = peer.replies[watch(peer, service)]

        assert (statuses(reply), reply.ended) == ([SERVING], False)

    @pytest.mark.rule("T15")
    def test_it_comes_before_the_caller_has_half_closed(self, peer: Peer) -> None:
        stream = peer.open(WATCH)
        peer.send(stream, asking_for(""))

        assert statuses(peer.replies[stream]) == [SERVING]

    @pytest.mark.rule("T15")
    def test_a_change_is_told_once(self, served: HealthServer, peer: Peer) -> None:
        streams = [watch(peer, service) for service in KNOWN]

        served.health.stop()
        served.health.stop()
        told(served, peer)

        assert [statuses(peer.replies[stream]) for stream in streams] == [[SERVING, NOT_SERVING]] * len(KNOWN)

    @pytest.mark.rule("T15")
    def test_an_unknown_service_can_be_watched_and_stays_unknown(self, served: HealthServer, peer: Peer) -> None:
        reply = peer.replies[watch(peer, "nope")]

        served.health.stop()
        told(served, peer)

        assert (statuses(reply), reply.ended) == ([SERVICE_UNKNOWN], False)

    @pytest.mark.rule("T15", "T10")
    def test_a_server_that_goes_says_so_before_it_ends_the_call(self, served: HealthServer) -> None:
        raw = served.raw_peer()  # h2 takes nothing in after a GOAWAY
        raw.request(1, WATCH, asking_for(""))
        raw.arrived()

        served.health.stop()
        served.connections[0].say_goodbye()
        served.lab.turn(3)

        data, trailers = (each for each in raw.arrived() if each.frame.stream_id == 1)
        assert isinstance(data.frame, DataFrame)
        assert data.frame.data == framed(pb.HealthCheckResponse(status=NOT_SERVING).SerializeToString())
        assert trailers.fields["grpc-status"] == str(int(Code.UNAVAILABLE))
        served.lab.advance(0.2)

    @pytest.mark.rule("T15")
    def test_a_slow_caller_is_told_the_newest_only(self, served: HealthServer, peer: Peer) -> None:
        peer.h2.update_settings({INITIAL_WINDOW_SIZE: 0})
        peer.exchange()
        stream = watch(peer, "")
        waiting = peer.replies[stream]
        assert (waiting.initial is not None, waiting.data) == (True, b"")

        served.health.stop()
        peer.h2.increment_flow_control_window(1_000, stream)
        peer.exchange()
        told(served, peer)

        assert statuses(peer.replies[stream]) == [NOT_SERVING]

    @pytest.mark.rule("T26")
    def test_a_second_request_is_refused(self, peer: Peer) -> None:
        stream = peer.open(WATCH)
        peer.send(stream, asking_for("") * 2)

        reply = peer.replies[stream]
        assert (reply.status, "more than one" in reply.message) == (Code.INTERNAL, True)

    @pytest.mark.rule("T26")
    @pytest.mark.parametrize("at_once", [True, False])
    def test_no_request_is_refused(self, peer: Peer, at_once: bool) -> None:
        stream = peer.open(WATCH, end=at_once)
        if not at_once:
            peer.send(stream, b"", end=True)

        reply = peer.replies[stream]
        assert (reply.status, "no message" in reply.message) == (Code.INTERNAL, True)

    @pytest.mark.parametrize(
        "leave",
        [
            lambda served, peer, stream: peer.cancel(stream),
            lambda served, peer, stream: peer.transport.die(),
            lambda served, peer, stream: served.lab.advance(1),
        ],
        ids=["cancelled", "connection lost", "deadline"],
    )
    @pytest.mark.rule("T15")
    def test_nothing_is_left_of_a_caller_that_has_gone(
        self, served: HealthServer, peer: Peer, leave: Callable[[HealthServer, Peer, int], None]
    ) -> None:
        stream = peer.open(WATCH, ("grpc-timeout", "1S"))
        peer.send(stream, asking_for(""), end=True)
        assert repr(served.health) == "<Health serving watches=1>"

        leave(served, peer, stream)
        served.lab.turn(3)

        assert repr(served.health) == "<Health serving watches=0>"
        assert served.is_empty()


def test_the_handlers_are_those_of_the_unary_rpcs(served: HealthServer) -> None:
    unary = {rpc.name: rpc.response for rpc in RPCS if rpc.service == health.SERVICE and not rpc.server_streaming}
    requests: dict[str, Any] = {"check": pb.HealthCheckRequest(), "list": pb.HealthListRequest()}

    answers = {name: getattr(served.health, name)(request) for name, request in requests.items()}

    assert {name: type(answer) for name, answer in answers.items()} == unary
