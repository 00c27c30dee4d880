"""The h2 library as a client: frame sizes, windows and header tables at their extremes, and unusual requests."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pytest
from h2.settings import SettingCodes

from compat_tests.grpc_calls import PUBLISHER, SUBSCRIBER, get_topic, message_ids, publish, pull, received
from compat_tests.h2_peer import Peer, framed
from compat_tests.rest import Project
from compat_tests.targets import Target

CLIENT = "h2"

MEGABYTE = 1_000_000
LARGEST_WINDOW = 2**31 - 1


Connect: TypeAlias = Callable[..., Peer]


@pytest.fixture
def connect(server: Target) -> Iterator[Connect]:
    peers: list[Peer] = []

    def make(settings: Mapping[SettingCodes, int] | None = None, *, generous: bool = True) -> Peer:
        peers.append(Peer(server, settings or {}, generous=generous))
        return peers[-1]

    yield make
    for peer in peers:
        peer.close()


@pytest.fixture
def subscription(project: Project) -> str:
    """Of the topic `topic`; it holds one message of 3 MB."""
    topic, subscription = project.pair(ackDeadlineSeconds=600)
    project.publish(topic, bytes(3 * MEGABYTE))
    return subscription


class TestReplies:
    @pytest.mark.rule("T3", "T28")
    def test_a_success_is_headers_data_trailers(self, connect: Connect, project: Project) -> None:
        topic = project.topic()

        reply = connect().call(f"{PUBLISHER}/GetTopic", get_topic(topic))

        assert reply.headers == {":status": "200", "content-type": "application/grpc"}
        assert reply.trailers == {"grpc-status": "0"}
        assert len(reply.data) == 1

    @pytest.mark.rule("T3", "T31")
    def test_a_failure_is_headers_alone(self, connect: Connect, project: Project) -> None:
        reply = connect().call(f"{PUBLISHER}/GetTopic", get_topic(project.topic_name()))

        assert reply.headers == {
            ":status": "200",
            "content-type": "application/grpc",
            "grpc-status": "5",
            "grpc-message": f"Resource not found (resource={project.topic_name()}).",
        }
        assert (reply.data, reply.trailers, reply.ended) == ([], {}, True)

    @pytest.mark.rule("T4", "T36")
    def test_a_deadline_that_has_passed(self, connect: Connect, project: Project) -> None:
        topic, subscription = project.pair()

        peer = connect()

        stream = peer.open(f"{PUBLISHER}/Publish", ("grpc-timeout", "1m"))
        peer.flush()
        peer.ping()
        time.sleep(0.02)  # the server's clock has to reach the deadline between headers and message
        peer.send(stream, framed(publish(topic, b"late")), end=True)

        assert peer.reply(stream).status == 4
        assert project.data(subscription) == []


class TestFrameSizes:
    @pytest.mark.rule("T27")
    @pytest.mark.parametrize(
        ("size", "largest"), [(16_384, 16_384), (100_000, 100_000), (16_777_215, 3 * MEGABYTE)], ids=str
    )
    def test_data_frames_are_as_large_as_the_peer_allows(
        self, connect: Connect, subscription: str, size: int, largest: int
    ) -> None:
        peer = connect({SettingCodes.MAX_FRAME_SIZE: size, SettingCodes.INITIAL_WINDOW_SIZE: LARGEST_WINDOW})
        peer.h2.increment_flow_control_window(LARGEST_WINDOW - 65_535)

        reply = peer.call(f"{SUBSCRIBER}/Pull", pull(subscription))

        assert received(reply.message) == [bytes(3 * MEGABYTE)]
        assert largest <= max(map(len, reply.data)) <= size

    @pytest.mark.rule("T27", "T29")
    def test_headers_of_60_000_bytes_come_in_many_frames(self, connect: Connect, project: Project) -> None:
        topic = project.topic()
        peer = connect()

        reply = peer.call(f"{PUBLISHER}/GetTopic", get_topic(topic), ("x-large", "~" * 60_000))

        assert reply.status == 0

    @pytest.mark.rule("T29")
    def test_headers_beyond_what_is_announced_fail_their_call_only(self, connect: Connect, project: Project) -> None:
        topic = project.topic()
        peer = connect()

        reply = peer.call(f"{PUBLISHER}/GetTopic", get_topic(topic), ("x-large", "~" * 66_000))

        assert reply.status == 8
        assert peer.still_works(topic)


class TestWindows:
    @pytest.mark.rule("T9", "T27")
    @pytest.mark.parametrize("window", [0, 1, 65_535, LARGEST_WINDOW])
    def test_any_initial_window_is_respected(self, connect: Connect, subscription: str, window: int) -> None:
        peer = connect({SettingCodes.INITIAL_WINDOW_SIZE: window}, generous=False)
        stream = peer.open(f"{SUBSCRIBER}/Pull")
        peer.send(stream, framed(pull(subscription)), end=True)

        first = min(window, 65_535)  # the connection has a window as well
        peer.wait(lambda: len(b"".join(peer.replies[stream].data)) == first and peer.replies[stream].headers != {})
        peer.ping()
        assert len(b"".join(peer.replies[stream].data)) == first

        peer.generous = True
        peer.h2.increment_flow_control_window(LARGEST_WINDOW - 65_535)
        if window < LARGEST_WINDOW:
            peer.h2.increment_flow_control_window(4 * MEGABYTE, stream)
        peer.flush()
        assert received(peer.reply(stream).message) == [bytes(3 * MEGABYTE)]

    @pytest.mark.rule("T27")
    def test_a_window_opens_byte_by_byte(self, connect: Connect, project: Project) -> None:
        topic = project.topic()
        peer = connect({SettingCodes.INITIAL_WINDOW_SIZE: 0}, generous=False)
        stream = peer.open(f"{PUBLISHER}/GetTopic")
        peer.send(stream, framed(get_topic(topic)), end=True)

        reply = peer.replies[stream]
        while not reply.ended:
            peer.h2.increment_flow_control_window(1, stream)
            peer.flush()
            peer.ping()

        assert topic.encode() in reply.message
        assert set(map(len, reply.data)) == {1}

    @pytest.mark.rule("T27")
    def test_a_window_can_become_negative(self, connect: Connect, subscription: str) -> None:
        peer = connect({SettingCodes.INITIAL_WINDOW_SIZE: 50_000}, generous=False)
        stream = peer.open(f"{SUBSCRIBER}/Pull")
        peer.send(stream, framed(pull(subscription)), end=True)
        reply = peer.replies[stream]
        peer.wait(lambda: len(b"".join(reply.data)) == 50_000)

        peer.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 10_000})
        peer.flush()
        peer.ping()
        peer.h2.increment_flow_control_window(40_000, stream)
        peer.flush()
        peer.ping()
        assert len(b"".join(reply.data)) == 50_000

        peer.h2.increment_flow_control_window(7, stream)
        peer.flush()
        peer.ping()
        assert len(b"".join(reply.data)) == 50_007

    @pytest.mark.rule("T9", "T22")
    def test_uploads_are_given_their_window_back(self, connect: Connect, project: Project) -> None:
        """More than the connection's window, on streams that fail early: too large, cancelled, of no known method."""
        topic = project.topic()
        peer = connect()
        for path in (f"{PUBLISHER}/Publish", "/no.such.Service/Method") * 6:
            stream = peer.open(path)
            peer.send(stream, framed(bytes(MEGABYTE)))
            peer.h2.reset_stream(stream, 8)
        peer.flush()

        reply = peer.call(f"{PUBLISHER}/Publish", publish(topic, bytes(9 * MEGABYTE)))

        assert message_ids(reply.message)


class TestHeaderTables:
    @pytest.mark.rule("T20")
    @pytest.mark.parametrize("size", [0, 1_024, 4_096, 65_536])
    def test_a_table_of_any_size(self, connect: Connect, project: Project, size: int) -> None:
        topic = project.topic()
        peer = connect({SettingCodes.HEADER_TABLE_SIZE: size})

        assert [peer.still_works(topic) for _ in range(3)] == [True] * 3

    @pytest.mark.rule("T20")
    @pytest.mark.parametrize("sizes", [(0, 4_096), (4_096, 0), (65_536, 1_024, 0, 100), (0, 65_536)], ids=str)
    def test_a_table_that_changes_size(self, connect: Connect, project: Project, sizes: Sequence[int]) -> None:
        topic = project.topic()
        peer = connect()

        for size in sizes:
            peer.h2.update_settings({SettingCodes.HEADER_TABLE_SIZE: size})
            assert peer.still_works(topic)


class TestRequests:
    @pytest.mark.rule("T26")
    def test_no_message_at_all(self, connect: Connect, project: Project) -> None:
        topic = project.topic()
        peer = connect()

        stream = peer.open(f"{PUBLISHER}/GetTopic", end=True)
        peer.flush()

        assert peer.reply(stream).status == 13
        assert peer.still_works(topic)

    @pytest.mark.rule("T26")
    @pytest.mark.parametrize("slice_bytes", [1, 3, 5, 16_384])
    def test_a_message_in_pieces_with_an_empty_end(self, connect: Connect, project: Project, slice_bytes: int) -> None:
        topic = project.topic()
        peer = connect()

        stream = peer.open(f"{PUBLISHER}/GetTopic")
        peer.send(stream, framed(get_topic(topic)), slice_bytes=slice_bytes)
        peer.h2.end_stream(stream)
        peer.flush()

        assert peer.reply(stream).status == 0

    @pytest.mark.rule("T22", "T28")
    def test_padding_and_priorities_mean_nothing(self, connect: Connect, project: Project) -> None:
        topic = project.topic()
        peer = connect()

        stream = peer.open(f"{PUBLISHER}/GetTopic", priority_weight=200, priority_depends_on=0, priority_exclusive=True)
        peer.send(stream, framed(get_topic(topic)), end=True, pad_length=200)

        assert peer.reply(stream).status == 0

    @pytest.mark.rule("T9", "T34")
    def test_a_hundred_uploads_in_turns(self, connect: Connect, project: Project) -> None:
        topic, subscription = project.pair()
        peer = connect()
        bodies = {peer.open(f"{PUBLISHER}/Publish"): framed(publish(topic, b"%d" % n * 100)) for n in range(100)}

        for start in range(0, 400, 50):
            for stream, body in bodies.items():
                peer.send(stream, body[start : start + 50])
        for stream in bodies:
            peer.h2.end_stream(stream)
        peer.flush()

        assert {peer.reply(stream).status for stream in bodies} == {0}
        assert len(project.pull(subscription)) == 100


@pytest.mark.rule("K7", "T8")
def test_any_number_of_pings_is_answered(connect: Connect, project: Project) -> None:
    topic = project.topic()
    peer = connect()

    for _ in range(50):
        peer.ping()
    for _ in range(1_000):
        peer.h2.ping(b"in a row")
    peer.flush()
    peer.wait(lambda: peer.pongs == 1_050)

    assert peer.still_works(topic)
