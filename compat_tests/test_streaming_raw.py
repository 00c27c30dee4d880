"""StreamingPull call by call: grpcio with nothing above it, and h2 where a window is the point."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from google.pubsub_v1 import types
from h2.events import DataReceived

from compat_tests import targets
from compat_tests.grpc_calls import PUBLISHER, SUBSCRIBER, Calls, publish, serialized
from compat_tests.h2_peer import Peer, framed
from compat_tests.rest import Project, Received, Rest
from compat_tests.targets import Target

CLIENT = "grpcio"

STREAMING_PULL = f"{SUBSCRIBER}/StreamingPull"
PUBLISH = f"{PUBLISHER}/Publish"

# How long a stream may last at most, in seconds; whatever a test waits for then fails.
PATIENCE_S = 50

# What a client counts as a connection that is lost: no answer to a ping for so long, in seconds.
PONG_S = 15

KILOBYTE, MEGABYTE = 1_000, 1_000_000

# So much more than the 64 KiB that a client takes in without being asked to read: it doesn't grow its windows here.
OPTIONS = {"grpc.http2.bdp_probe": 0}

PUSHED = {"pushConfig": {"pushEndpoint": "http://localhost:1/push"}}


class Stream:
    """One StreamingPull: a test says what is sent, and when the next response is read."""

    def __init__(self, calls: Calls, subscription: str, *, patience: float = PATIENCE_S, **first: Any) -> None:
        self._requests: SimpleQueue[Any] = SimpleQueue()
        method = calls.channel.stream_stream(
            STREAMING_PULL,
            request_serializer=types.StreamingPullRequest.serialize,
            response_deserializer=types.StreamingPullResponse.deserialize,
        )
        self.call: Any = method(iter(self._requests.get, None), timeout=patience)
        self.send(subscription=subscription, **{"stream_ack_deadline_seconds": 600, **first})
        self.call.initial_metadata()  # comes when the first request was taken, or with the end

    def send(self, **fields: Any) -> None:
        """A request; without fields, a ping."""
        self._requests.put(types.StreamingPullRequest(**fields))

    def half_close(self) -> None:
        self._requests.put(None)

    def next(self) -> Any:
        """The next response."""
        return next(self.call)

    def take(self, count: int) -> list[Any]:
        """So many messages, however many responses they come in."""
        taken: list[Any] = []
        while len(taken) < count:
            taken += self.next().received_messages
        assert len(taken) == count
        return taken

    def end(self) -> tuple[grpc.StatusCode, str]:
        """How the stream ends, to which no message may come any more."""
        try:
            for response in self.call:
                assert not response.received_messages
        except grpc.RpcError:
            pass
        return self.call.code(), self.call.details()

    def leave(self) -> None:
        """Half-close, and see the stream end well; all that was sent has been heard by then."""
        self.half_close()
        assert self.end() == (grpc.StatusCode.OK, "")

    def close(self) -> None:
        self.call.cancel()
        self.half_close()

    def __repr__(self) -> str:
        return f"<Stream {self.call!r}>"


Open = Callable[..., Stream]


@pytest.fixture
def calls(server: Target) -> Iterator[Calls]:
    calls = Calls(server.host_port, OPTIONS)
    yield calls
    calls.close()


@pytest.fixture
def connect(calls: Calls) -> Iterator[Open]:
    """Opens streams, all on one connection."""
    streams: list[Stream] = []

    def make(subscription: str, **first: Any) -> Stream:
        streams.append(Stream(calls, subscription, **first))
        return streams[-1]

    yield make
    for stream in streams:
        stream.close()


@pytest.fixture
def peer(server: Target) -> Iterator["Choosy"]:
    """A connection of h2's."""
    with closing(Choosy(server)) as peer:
        yield peer


def data(messages: list[Any]) -> list[bytes]:
    return [one.message.data for one in messages]


def ack_ids(messages: list[Any]) -> list[str]:
    return [one.ack_id for one in messages]


def refusal(calls: Calls, subscription: str) -> tuple[grpc.StatusCode, str]:
    """How a Pull is refused."""
    with pytest.raises(grpc.RpcError) as failure:
        calls.pull(subscription)
    problem: Any = failure.value
    return problem.code(), problem.details()


def pull_so_many(project: Project, subscription: str, count: int) -> list[Received]:
    """Pull until there were so many, as soon as they are there."""
    pulled: list[Received] = []
    while len(pulled) < count:
        some = project.pull(subscription, wait=True)
        assert some, f"only {len(pulled)} of {count} came"
        pulled += some
    assert len(pulled) == count
    return pulled


def give_the_others_back(project: Project, subscription: str, expected: list[bytes]) -> None:
    """What a stream must have left to others, by the data: they get it now, and return it."""
    others = project.pull(subscription)
    assert [one.data for one in others] == expected
    project.modify(subscription, [one.ack_id for one in others], 0).ok()


class TestHeartbeats:
    @pytest.mark.rule("K3", "S7.3.5", "S7.3.6", "B001", "B002", "B013")
    @pytest.mark.parametrize("ordered", [False, True])
    @pytest.mark.parametrize("exactly_once", [False, True])
    def test_every_ping_is_answered_with_the_properties(
        self, connect: Open, project: Project, *, ordered: bool, exactly_once: bool
    ) -> None:
        _, subscription = project.pair(enableMessageOrdering=ordered, enableExactlyOnceDelivery=exactly_once)
        stream = connect(subscription, protocol_version=1)

        responses = []
        for _ in range(20):
            stream.send()
            responses.append(stream.next())

        properties = types.StreamingPullResponse.SubscriptionProperties(
            exactly_once_delivery_enabled=exactly_once, message_ordering_enabled=ordered
        )
        assert responses == [types.StreamingPullResponse(subscription_properties=properties)] * 20
        assert all("subscription_properties" in response for response in responses)

    @pytest.mark.slow
    @pytest.mark.timeout(200)
    @pytest.mark.rule("K3", "S7.3.6", "B001", "B002")
    def test_an_idle_stream_stays_for_100_seconds(self, connect: Open, project: Project) -> None:
        topic, subscription = project.pair()
        stream = connect(subscription, protocol_version=1, patience=180)
        over = threading.Event()
        assert stream.call.add_callback(over.set)

        with ThreadPoolExecutor(1) as reader:
            for idle_s in (30, 30, 30, 10):
                stream.send()
                response = reader.submit(stream.next).result(PONG_S)
                assert not response.received_messages
                assert not over.wait(idle_s)

        project.publish(topic, b"at last")
        assert data(stream.take(1)) == [b"at last"]

    @pytest.mark.rule("K4", "S7.3.6")
    def test_an_old_client_gets_no_answers_to_its_pings(self, connect: Open, project: Project) -> None:
        topic, subscription = project.pair()
        stream = connect(subscription)

        for _ in range(20):
            stream.send()
        project.publish(topic, b"message")
        stream.half_close()
        responses = list(stream.call)

        assert [data(response.received_messages) for response in responses] == [[b"message"]]

    @pytest.mark.rule("S7.3.5", "B013")
    @pytest.mark.parametrize("field", ["message_ordering", "exactly_once_delivery"])
    def test_messages_come_with_the_properties(self, connect: Open, project: Project, field: str) -> None:
        enable = {"message_ordering": "enableMessageOrdering", "exactly_once_delivery": "enableExactlyOnceDelivery"}
        topic, subscription = project.pair(**{enable[field]: True})
        project.publish(topic, b"message")

        response = connect(subscription).next()

        assert data(response.received_messages) == [b"message"]
        assert getattr(response.subscription_properties, f"{field}_enabled")


class TestRequests:
    @pytest.mark.rule("B005", "S7.3.2")
    @pytest.mark.parametrize("field", ["max_outstanding_messages", "max_outstanding_bytes", "protocol_version"])
    def test_what_belongs_into_the_first_request_ends_the_stream_later(
        self, connect: Open, project: Project, field: str
    ) -> None:
        _, subscription = project.pair()
        stream = connect(subscription)

        stream.send(**{field: 10})

        code, details = stream.end()
        assert code == grpc.StatusCode.INVALID_ARGUMENT
        assert field in details

    @pytest.mark.rule("B005", "S7.3.2")
    def test_a_later_request_that_names_the_subscription_ends_the_stream(self, connect: Open, project: Project) -> None:
        _, subscription = project.pair()
        stream = connect(subscription)

        stream.send(subscription=subscription)

        assert stream.end()[0] == grpc.StatusCode.INVALID_ARGUMENT

    @pytest.mark.rule("B005", "S7.3.2")
    def test_a_later_client_id_is_ignored(self, connect: Open, project: Project) -> None:
        topic, subscription = project.pair()
        stream = connect(subscription, client_id="mine", protocol_version=1)

        stream.send(client_id="mine")
        assert not stream.next().received_messages
        project.publish(topic, b"message")

        assert data(stream.take(1)) == [b"message"]

    @pytest.mark.rule("K15", "S7.3.1")
    def test_modacks_of_messages_that_are_gone_in_the_first_request(self, connect: Open, project: Project) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"gone")
        gone = project.pull_one(subscription).ack_id
        project.acknowledge(subscription, [gone]).ok()

        stream = connect(subscription, modify_deadline_ack_ids=[gone], modify_deadline_seconds=[60])
        project.publish(topic, b"message")

        assert data(stream.take(1)) == [b"message"]

    @pytest.mark.rule("K15", "S7.3.1", "V11", "V14")
    def test_modacks_in_the_first_request_count(self, connect: Open, project: Project) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"message")
        first = connect(subscription)
        (held,) = first.take(1)
        first.close()

        second = connect(subscription, modify_deadline_ack_ids=[held.ack_id], modify_deadline_seconds=[0])

        assert data(second.take(1)) == [b"message"]

    @pytest.mark.rule("K15", "S7.3.4")
    @pytest.mark.parametrize("later", [False, True], ids=["first", "later"])
    @pytest.mark.parametrize(
        "fields",
        [
            {"ack_ids": ["no such thing"]},
            {"modify_deadline_ack_ids": ["no such thing"], "modify_deadline_seconds": [10]},
            {"modify_deadline_seconds": [10]},
        ],
        ids=["ack", "modack", "lengths"],
    )
    def test_malformed_ids_end_the_stream(
        self, connect: Open, project: Project, fields: dict[str, Any], *, later: bool
    ) -> None:
        _, subscription = project.pair()

        stream = connect(subscription, **({} if later else fields))
        stream.send(**(fields if later else {}))

        assert stream.end()[0] == grpc.StatusCode.INVALID_ARGUMENT

    @pytest.mark.rule("K11")
    def test_a_missing_subscription(self, calls: Calls, connect: Open, project: Project) -> None:
        subscription = project.subscription_name()

        code, details = refusal(calls, subscription)

        assert code == grpc.StatusCode.NOT_FOUND
        assert connect(subscription).end() == (code, details)

    @pytest.mark.rule("B014", "S7.2.5")
    def test_a_subscription_that_is_pushed(self, calls: Calls, connect: Open, project: Project) -> None:
        _, subscription = project.pair(**PUSHED)

        code, details = refusal(calls, subscription)

        assert code == grpc.StatusCode.FAILED_PRECONDITION
        assert connect(subscription).end() == (code, details)


class TestEnds:
    """K16: no reason of the server's own ends a stream with OK."""

    @pytest.mark.rule("K16", "S7.3.7", "S7.2.6")
    @pytest.mark.parametrize(
        ("verb", "path", "body", "code"),
        [
            ("DELETE", "", None, grpc.StatusCode.NOT_FOUND),
            ("POST", ":detach", None, grpc.StatusCode.FAILED_PRECONDITION),
            ("POST", ":modifyPushConfig", PUSHED, grpc.StatusCode.FAILED_PRECONDITION),
        ],
        ids=["deleted", "detached", "pushed"],
    )
    def test_of_the_subscription(
        self, connect: Open, project: Project, verb: str, path: str, body: object, code: grpc.StatusCode
    ) -> None:
        _, subscription = project.pair()
        streams = [connect(subscription) for _ in range(3)]

        project.rest.call(verb, f"{subscription}{path}", body).ok()

        assert [stream.end()[0] for stream in streams] == [code] * 3

    @pytest.mark.rule("K16", "K13", "S7.3.7", "T10")
    def test_of_the_server(self, tmp_path: Path) -> None:
        with targets.ours(tmp_path) as server:
            _, subscription = Project(Rest(server), "project").pair()
            calls = Calls(server.host_port)
            stream = Stream(calls, subscription)

        end = stream.end()
        stream.close()
        calls.close()

        # Its own words: for a connection that just broke down, the client has the same code.
        assert end == (grpc.StatusCode.UNAVAILABLE, "The emulator is shutting down.")

    @pytest.mark.rule("K16", "T4")
    def test_of_its_time(self, connect: Open, project: Project) -> None:
        _, subscription = project.pair()

        assert connect(subscription, patience=1).end()[0] == grpc.StatusCode.DEADLINE_EXCEEDED

    @pytest.mark.rule("S7.3.7")
    def test_of_a_client_that_has_said_all_it_has_to(self, connect: Open, project: Project) -> None:
        topic, subscription = project.pair()
        stream = connect(subscription)
        project.publish(topic, b"message")
        (message,) = stream.take(1)

        stream.send(ack_ids=[message.ack_id])
        stream.leave()

        project.modify(subscription, [message.ack_id], 0).ok()
        assert project.data(subscription) == []


class TestDelivery:
    @pytest.mark.rule("B004")
    def test_an_open_stream_gets_what_is_published_later(self, connect: Open, project: Project) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"before")
        stream = connect(subscription)
        assert data(stream.take(1)) == [b"before"]

        for number in range(3):
            project.publish(topic, b"%d" % number)

            assert data(stream.take(1)) == [b"%d" % number]

    @pytest.mark.rule("C15", "V8", "O9", "B010")
    @pytest.mark.parametrize(("how", "follows"), [("ack", b"1"), ("nack", b"0"), ("expiry", b"0")])
    @pytest.mark.parametrize("unary", [False, True], ids=["stream", "unary"])
    def test_at_most_one_message_at_a_time(
        self, connect: Open, project: Project, how: str, follows: bytes, *, unary: bool
    ) -> None:
        topic, subscription = project.pair(ackDeadlineSeconds=600)
        stream = connect(subscription, max_outstanding_messages=1)
        project.publish(topic, b"0", b"1", b"2")
        (first,) = stream.take(1)
        assert first.message.data == b"0"
        give_the_others_back(project, subscription, [b"1", b"2"])

        seconds = {"nack": 0, "expiry": 1}.get(how)
        if seconds is None and unary:
            project.acknowledge(subscription, [first.ack_id]).ok()
        elif seconds is None:
            stream.send(ack_ids=[first.ack_id])
        elif unary:
            project.modify(subscription, [first.ack_id], seconds).ok()
        else:
            stream.send(modify_deadline_ack_ids=[first.ack_id], modify_deadline_seconds=[seconds])
        (second,) = stream.take(1)

        assert second.message.data == follows
        assert second.ack_id != first.ack_id
        assert len(project.pull(subscription)) == (1 if how == "ack" else 2)

    @pytest.mark.rule("B011", "O9", "V8")
    def test_at_most_two_of_ten(self, connect: Open, project: Project) -> None:
        topic, subscription = project.pair(ackDeadlineSeconds=600)
        numbers = [b"%d" % number for number in range(10)]
        project.publish(topic, *numbers)

        held = connect(subscription, max_outstanding_messages=2).take(2)

        assert data(held) == numbers[:2]
        assert project.data(subscription) == numbers[2:]

    @pytest.mark.rule("C16", "V8", "V9", "O9")
    def test_another_message_is_sent_while_there_are_bytes_left(self, connect: Open, project: Project) -> None:
        topic, subscription = project.pair(ackDeadlineSeconds=600)
        small, large = bytes(40), bytes(500)
        stream = connect(subscription, max_outstanding_bytes=100)
        project.publish(topic, small, small, large)

        first, second = stream.take(2)
        sizes = [types.PubsubMessage.pb(one.message).ByteSize() for one in (first, second)]
        assert max(sizes) < 100 <= sum(sizes)
        give_the_others_back(project, subscription, [large])

        stream.send(ack_ids=[first.ack_id])
        assert data(stream.take(1)) == [large]

    @pytest.mark.rule("C16", "V9")
    def test_a_message_beyond_the_limit_is_sent_to_a_stream_without_others(
        self, connect: Open, project: Project
    ) -> None:
        topic, subscription = project.pair(ackDeadlineSeconds=600)
        project.publish(topic, bytes(500), bytes(501))

        held = connect(subscription, max_outstanding_bytes=100).take(1)

        assert data(held) == [bytes(500)]
        assert project.data(subscription) == [bytes(501)]

    @pytest.mark.rule("V11", "V14")
    @pytest.mark.parametrize("delivered", ["by a stream", "by a call"])
    @pytest.mark.parametrize("acked", ["on a stream", "in a first request", "by a call"])
    def test_an_ack_counts_whoever_brings_it(self, connect: Open, project: Project, delivered: str, acked: str) -> None:
        topic, subscription = project.pair(ackDeadlineSeconds=600)
        project.publish(topic, b"message")
        if delivered == "by a call":
            ack_id = project.pull_one(subscription).ack_id
        else:
            first = connect(subscription)
            (ack_id,) = ack_ids(first.take(1))
            first.leave()

        if acked == "by a call":
            project.acknowledge(subscription, [ack_id]).ok()
        elif acked == "in a first request":
            connect(subscription, ack_ids=[ack_id]).leave()
        else:
            second = connect(subscription)
            second.send(ack_ids=[ack_id])
            second.leave()

        project.modify(subscription, [ack_id], 0).ok()
        assert project.data(subscription) == []


class TestClientsThatDoNotRead:
    @pytest.mark.rule("V7", "C17", "O17")
    def test_only_their_stream_stalls_and_it_goes_on_by_itself(self, connect: Open, project: Project) -> None:
        topic, subscription = project.pair()
        slow = connect(subscription)
        project.publish(topic, b"small")
        (small,) = slow.take(1)
        large = [bytes([number]) * MEGABYTE for number in range(3)]
        project.publish(topic, *large)
        assert project.data(subscription) == []  # all of it is the stream's, and stays so

        quick = connect(subscription)
        project.publish(topic, *(b"%d" % number for number in range(100)))
        assert data(quick.take(100)) == [b"%d" % number for number in range(100)]

        slow.send(modify_deadline_ack_ids=[small.ack_id], modify_deadline_seconds=[0])
        assert data(quick.take(1)) == [b"small"]

        assert data(slow.take(3)) == large
        project.publish(topic, b"one", b"the other")
        assert {*data(slow.take(1)), *data(quick.take(1))} == {b"one", b"the other"}

    @pytest.mark.slow
    @pytest.mark.rule("A9", "O9", "V4", "V8")
    def test_at_most_the_stream_s_credit_is_lost_on_them_until_its_deadline(
        self, peer: "Choosy", connect: Open, project: Project
    ) -> None:
        topic, subscription = project.pair()
        open_stream(peer, subscription, stream_ack_deadline_seconds=10, max_outstanding_messages=5)
        peer.ping()
        numbers = {b"%d" % number for number in range(100)}
        project.publish(topic, *numbers)

        other = connect(subscription)
        at_once = set(data(other.take(95)))
        redelivered = set(data(other.take(5)))

        assert at_once | redelivered == numbers

    @pytest.mark.rule("A9", "O9")
    def test_what_they_have_no_credit_for_goes_to_others_at_once(
        self, peer: "Choosy", connect: Open, project: Project
    ) -> None:
        topic, subscription = project.pair()
        stream = open_stream(peer, subscription, stream_ack_deadline_seconds=600, max_outstanding_messages=5)
        peer.ping()
        numbers = [b"%d" % number for number in range(100)]
        project.publish(topic, *numbers)

        assert data(connect(subscription).take(95)) == numbers[5:]
        assert project.data(subscription) == []

        peer.ping()
        held = types.StreamingPullResponse.deserialize(peer.replies[stream].message)
        assert data(held.received_messages) == numbers[:5]

    @pytest.mark.rule("A10", "O17")
    def test_another_stream_of_their_connection_gets_everything(self, peer: "Choosy", project: Project) -> None:
        topic = project.topic()
        first, second = (project.subscription(topic, identifier) for identifier in ("first", "second"))
        bodies = [b"%03d" % number * KILOBYTE for number in range(100)]
        starved, fed = open_stream(peer, first), open_stream(peer, second)
        peer.fed = fed
        peer.ping()
        for start in range(0, 100, 50):
            project.publish(topic, *bodies[start : start + 50])

        peer.wait(lambda: len(delivered(peer, fed)) == 100)
        reply = peer.call(PUBLISH, publish(topic, b"at last"))
        peer.wait(lambda: len(delivered(peer, fed)) == 101)

        assert reply.status == 0
        assert delivered(peer, fed) == [*bodies, b"at last"]
        assert sum(map(len, peer.replies[starved].data)) == peer.h2.local_settings.initial_window_size

    @pytest.mark.rule("A11", "O15", "O16", "V14", "S7.1.11")
    def test_what_a_killed_client_never_got_is_free_at_once(self, server: Target, project: Project) -> None:
        dead_letters = {"deadLetterTopic": project.topic("dead-letters")}
        topic, subscription = project.pair(deadLetterPolicy=dead_letters)
        written, unwritten = [b"%d" % number for number in range(3)], [bytes([n]) * MEGABYTE for n in range(4)]
        project.publish(topic, *written)
        with client_that_stops_after(3, server, subscription) as (process, ids):
            project.publish(topic, *unwritten)
            assert project.data(subscription) == []  # all of it is the stream's

            process.kill()
            free = pull_so_many(project, subscription, 4)

        assert sorted((one.data, one.document["deliveryAttempt"]) for one in free) == [(one, 1) for one in unwritten]
        assert project.data(subscription) == []
        project.modify(subscription, ids, 1).ok()
        late = pull_so_many(project, subscription, 3)
        assert [(one.data, one.document["deliveryAttempt"]) for one in late] == [(one, 2) for one in written]


class Choosy(Peer):
    """Gives new credit to the connection, and to one of its streams."""

    def __init__(self, server: Target) -> None:
        super().__init__(server, {}, generous=False)
        self.fed = 0

    def _on(self, event: Any) -> None:
        super()._on(event)
        if isinstance(event, DataReceived) and event.flow_controlled_length:
            self.h2.increment_flow_control_window(event.flow_controlled_length)
            if event.stream_id == self.fed:
                self.h2.increment_flow_control_window(event.flow_controlled_length, event.stream_id)


def open_stream(peer: Peer, subscription: str, **fields: Any) -> int:
    """A StreamingPull over h2."""
    request = types.StreamingPullRequest(subscription=subscription, **{"stream_ack_deadline_seconds": 600, **fields})
    stream = peer.open(STREAMING_PULL)
    peer.send(stream, framed(serialized(request)))
    return stream


def delivered(peer: Peer, stream: int) -> list[bytes]:
    """The data of the messages that have arrived complete."""
    rest, found = b"".join(peer.replies[stream].data), []
    while len(rest) >= 5 and len(rest) >= (end := 5 + int.from_bytes(rest[1:5])):
        found += data(list(types.StreamingPullResponse.deserialize(rest[5:end]).received_messages))
        rest = rest[end:]
    return found


@contextmanager
def client_that_stops_after(
    count: int, server: Target, subscription: str
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A process with a stream that reads no more once it has so many messages; their ack ids."""
    program = f"from {__name__} import stop_reading; stop_reading({server.host_port!r}, {subscription!r}, {count})"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, [process.stdout.readline().strip() for _ in range(count)]
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def stop_reading(host_port: str, subscription: str, count: int) -> None:
    """What that process does."""
    stream = Stream(Calls(host_port, OPTIONS), subscription)
    for ack_id in ack_ids(stream.take(count)):
        print(ack_id, flush=True)
    sys.stdin.read()
