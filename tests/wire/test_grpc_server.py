"""gRPC on the real port of a whole server: beside HTTP/1.1, under load, and with clients that vanish."""

import json
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hpack import Encoder
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame, SettingsFrame

from emulator.api import pb
from emulator.errors import Code
from emulator.wire.grpc.server import _keep_alive
from tests.test_app import Served
from tests.wire.grpc.memory import PREFACE, MemoryTransport, Peer, RawPeer, Reply, framed, head, path_of
from tests.wire.serving import LOOPS, PATIENCE_S, Client, LoopFactory, LoopOfItsOwn, connected

TOPIC = "projects/p/topics/top"
SUBSCRIPTION = "projects/p/subscriptions/sub"

GET_TOPIC = path_of("GetTopic")
PUBLISH = path_of("Publish")
PULL = path_of("Pull")

GET = framed(pb.GetTopicRequest(topic=TOPIC).SerializeToString())
PULL_ONE = framed(pb.PullRequest(subscription=SUBSCRIPTION, max_messages=1).SerializeToString())

# A client that says what it is given, then waits.
CLIENT = """
import socket, sys, time
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sock.sendall(sys.stdin.buffer.read())
sys.stdout.write("said")
sys.stdout.flush()
time.sleep(600)
"""


def opening(*settings: tuple[int, int]) -> bytes:
    """The preface and the client's settings."""
    return PREFACE + SettingsFrame(0, settings=dict(settings)).serialize()


def call(path: str, body: bytes, *, end: bool = True) -> bytes:
    """A request on the first stream."""
    block = Encoder().encode(head(path))
    frames: list[Frame] = [
        HeadersFrame(1, data=block, flags=["END_HEADERS"]),
        DataFrame(1, data=body, flags=["END_STREAM"] if end else []),
    ]
    return b"".join(frame.serialize() for frame in frames)


class SocketTransport(MemoryTransport):
    """The peer's end of a real connection, with the surface that `Peer` wants."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def deliver(self, data: bytes) -> None:
        self.sock.sendall(data)

    def read(self) -> bytes:
        """What is there; nothing if the server has closed."""
        readable, _, _ = select.select([self.sock], [], [], 0)
        return self.sock.recv(1_000_000) if readable else b""

    def __repr__(self) -> str:
        return f"<SocketTransport {self.sock.getsockname()}>"


class SocketPeer(Peer):
    """An `h2` client on a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        super().__init__(SocketTransport(sock))

    def until(self, condition: Callable[[], bool]) -> None:
        """Take in what comes until the condition holds. Raises AssertionError if the server falls silent."""
        while not condition():
            readable, _, _ = select.select([self._sock], [], [], PATIENCE_S)
            assert readable, "the server says nothing"
            assert self._sock.recv(1, socket.MSG_PEEK), "the server closed the connection"
            self.exchange()

    def finished(self, stream: int) -> Reply:
        """The whole reply on a stream."""
        self.until(lambda: self.replies[stream].ended)
        return self.replies[stream]

    def ask(self, path: str, body: bytes, *extra: tuple[str, str]) -> Reply:
        """A whole call."""
        return self.finished(self.begin(path, body, *extra))

    def begin(self, path: str, body: bytes, *extra: tuple[str, str]) -> int:
        """A whole request, whose reply is not waited for."""
        stream = self.open(path, *extra)
        self.send(stream, body, end=True)
        return stream


@contextmanager
def grpc_peer(port: int) -> Iterator[SocketPeer]:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as sock:
        yield SocketPeer(sock)


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> Iterator[LoopOfItsOwn]:
    factory: LoopFactory = request.param
    with LoopOfItsOwn(factory) as loop:
        yield loop
        assert loop.problems == []


@pytest.fixture
def served(loop: LoopOfItsOwn) -> Iterator[Served]:
    served = Served(loop)
    yield served
    loop.run(served.app.stop())


def serves_grpc(served: Served) -> bool:
    with grpc_peer(served.app.port) as peer:
        return peer.ask(GET_TOPIC, GET).status == Code.OK


class TestOnePort:
    """HTTP/1.1 and HTTP/2 side by side."""

    @pytest.mark.rule("K9", "T1")
    def test_both_protocols_in_turn(self, served: Served) -> None:
        with grpc_peer(served.app.port) as peer, connected(served.app.port) as http:
            for index in range(5):
                update = pb.UpdateTopicRequest(topic=pb.Topic(name=TOPIC, labels={"round": str(index)}))
                update.update_mask.paths.append("labels")
                assert peer.ask(path_of("UpdateTopic"), framed(update.SerializeToString())).status == Code.OK
                http.request("GET", f"/v1/{TOPIC}")
                reply = http.reply()
                assert (reply.status, json.loads(reply.body)["labels"]) == (200, {"round": str(index)})
                http.request("GET", "/")
                assert http.reply().status == 200
            assert served.counts()["connections"] == 2

        assert served.is_as_it_was()

    @pytest.mark.rule("T1", "T18")
    def test_a_preface_split_anywhere(self, served: Served) -> None:
        said = opening() + call(GET_TOPIC, GET)
        for cut in range(1, len(PREFACE) + 1):
            with connected(served.app.port) as client:
                client.send(said[:cut])
                if cut < len(PREFACE):
                    served.loop.until(lambda: served.app._listener.undecided == 1)
                client.send(said[cut:])

                assert answers(client) == {0: "SETTINGS", 1: "HEADERS"}
        assert served.is_as_it_was()

    @pytest.mark.rule("T16")
    def test_rest_is_not_served_over_http2(self, served: Served) -> None:
        with grpc_peer(served.app.port) as peer:
            stream = peer.open("/v1/projects/p/topics", content_type="application/json", end=True)

            assert peer.finished(stream).initial == {":status": "415"}


def answers(client: Client) -> dict[int, str]:
    """The first kind of frame of the connection and of each stream, up to the first reply's headers."""
    found: dict[int, str] = {}
    while 1 not in found:
        frame, length = Frame.parse_frame_header(memoryview(client.read(9)))
        client.read(length)
        found.setdefault(frame.stream_id, type(frame).__name__.removesuffix("Frame").upper())
    return found


class TestManyCalls:
    """Load on one connection."""

    @pytest.mark.rule("T9", "T32")
    def test_a_thousand_calls_at_once(self, served: Served) -> None:
        with grpc_peer(served.app.port) as peer:
            streams = [peer.begin(PULL, PULL_ONE) for _ in range(1_000)]
            served.wait_for(waiting_pulls=1_000, streams=1_000)
            messages = [pb.PubsubMessage(data=b"%d" % index) for index in range(1_000)]
            publish = pb.PublishRequest(topic=TOPIC, messages=messages)
            assert peer.ask(PUBLISH, framed(publish.SerializeToString())).status == Code.OK

            replies = [peer.finished(stream) for stream in streams]

        assert {reply.status for reply in replies} == {Code.OK}
        received = [pb.PullResponse.FromString(reply.messages[0]).received_messages for reply in replies]
        assert sorted(int(each.message.data) for (each,) in received) == list(range(1_000))

    @pytest.mark.rule("T8", "T22")
    def test_a_thousand_cancelled_uploads_then_one_that_works(self, served: Served) -> None:
        with grpc_peer(served.app.port) as peer:
            upload = framed(bytes(100_000))[:60_000]
            for _ in range(1_000):
                stream = peer.open(PUBLISH)
                peer.send(stream, upload)
                peer.cancel(stream)
            request = pb.PublishRequest(topic=TOPIC, messages=[pb.PubsubMessage(data=b"abc")])

            assert peer.ask(PUBLISH, framed(request.SerializeToString())).status == Code.OK
            assert served.counts()["streams"] == 0
        assert served.pull() == [b"abc"]

    def test_a_large_request_and_a_large_reply(self, served: Served) -> None:
        data = bytes(9_900_000)
        request = pb.PublishRequest(topic=TOPIC, messages=[pb.PubsubMessage(data=data)])
        with grpc_peer(served.app.port) as peer:
            peer.h2.increment_flow_control_window(2**30)
            assert peer.ask(PUBLISH, framed(request.SerializeToString())).status == Code.OK
            stream = peer.open(PULL)
            peer.h2.increment_flow_control_window(2**30, stream)
            peer.send(stream, PULL_ONE, end=True)

            (message,) = peer.finished(stream).messages

        assert pb.PullResponse.FromString(message).received_messages[0].message.data == data


@contextmanager
def vanishing(served: Served, said: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """A client of another process, which has said this."""
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(served.app.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(said)
        client.stdin.close()
        assert client.stdout.read(4) == b"said"
        yield client


OPENING = opening()
CALL = call(PULL, PULL_ONE)
HALF_A_BLOCK = HeadersFrame(1, data=Encoder().encode(head(PULL))[:10]).serialize()

PHASES: dict[str, tuple[bytes, dict[str, int]]] = {
    "it has said nothing": (b"", {"connections": 1}),
    "in the preface": (PREFACE[:10], {"connections": 1}),
    "after the preface": (OPENING, {"connections": 1}),
    "in a frame of headers": (OPENING + CALL[:20], {"buffered_bytes": 20}),
    "between frames of headers": (OPENING + HALF_A_BLOCK, {"connections": 1}),
    "in a frame of data": (OPENING + CALL[:-10], {"streams": 1}),
    "between frames of data": (OPENING + call(PULL, PULL_ONE[:-10], end=False), {"streams": 1}),
    "its pull waits": (OPENING + CALL, {"waiting_pulls": 1}),
}


class TestVanishing:
    """Clients killed in every phase; nothing of them stays behind."""

    @pytest.mark.rule("S7.2.4", "T37")
    @pytest.mark.parametrize("phase", PHASES)
    def test_killed(self, served: Served, phase: str) -> None:
        said, counts = PHASES[phase]
        with vanishing(served, said) as client:
            served.wait_for(**counts)

            client.kill()

        assert served.is_as_it_was()
        assert serves_grpc(served)

    @pytest.mark.rule("S7.2.4", "T37")
    def test_killed_while_its_reply_waits_for_the_window(self, served: Served) -> None:
        served.publish(b"abc")
        served.wait_for(connections=0)
        before = served.counts()
        with vanishing(served, opening((0x4, 0)) + CALL) as client:
            served.wait_for(leases=1, streams=1)

            client.kill()

        served.loop.until(lambda: served.app.debug_counts() == before)
        assert served.pull() == [b"abc"]

    def test_a_client_that_stops_sending_is_gone(self, served: Served) -> None:
        with connected(served.app.port) as client:
            client.send(OPENING + CALL)
            served.wait_for(waiting_pulls=1)
            client.stop_sending()

            while not client.is_closed():
                pass

        assert served.is_as_it_was()


class TestKeepAlive:
    """The system looks after peers that are silent."""

    @pytest.mark.rule("T37")
    def test_a_connection_is_kept_alive(self, served: Served) -> None:
        with grpc_peer(served.app.port):
            served.loop.until(lambda: len(served.app._grpc.connections) == 1)
            (connection,) = served.app._grpc.connections
            assert connection._transport is not None
            sock = connection._transport.get_extra_info("socket")

            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60

    def test_a_socket_that_cannot_be_is_served_all_the_same(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            _keep_alive(ours)


class TestStopping:
    """The server stops while clients are there."""

    @pytest.mark.rule("T10")
    def test_a_waiting_pull_is_answered(self, loop: LoopOfItsOwn) -> None:
        served = Served(loop)
        with socket.create_connection(("127.0.0.1", served.app.port), PATIENCE_S) as sock:
            peer = RawPeer(SocketTransport(sock))
            peer.request(1, PULL, PULL_ONE)
            served.wait_for(waiting_pulls=1)

            loop.run(served.app.stop())

            arrived = peer.arrived()
        goaways = [each.frame for each in arrived if isinstance(each.frame, GoAwayFrame)]
        assert [(each.last_stream_id, each.error_code) for each in goaways] == [(2**31 - 1, 0), (1, 0)]
        ends = [each.fields["grpc-status"] for each in arrived if "grpc-status" in each.fields]
        assert ends == ["0"]
        assert served.counts()["connections"] == 0

    @pytest.mark.rule("T10")
    @pytest.mark.parametrize("phase", ["in the preface", "in a frame of headers", "in a frame of data"])
    def test_who_never_finishes_is_not_waited_for(self, loop: LoopOfItsOwn, phase: str) -> None:
        served = Served(loop)
        said, counts = PHASES[phase]
        with connected(served.app.port) as client:
            client.send(said)
            served.wait_for(**counts)

            loop.run(served.app.stop())

        assert (served.counts()["connections"], served.counts()["streams"]) == (0, 0)
