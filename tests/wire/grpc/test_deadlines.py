"""Deadlines, parked calls and cancellation, on a clock that the test moves."""

import pytest
from hpack import Encoder

from emulator.api import pb
from emulator.api.catalogue import RPCS
from emulator.api.dispatch import Outcome, Reply
from emulator.api.replies import Parked
from emulator.errors import Code, PubsubError
from emulator.wire.grpc.heads import GrpcHead, read
from emulator.wire.grpc.server import GrpcServer
from emulator.wire.http2.heads import HeadDecoder, RequestHead
from tests.api.world import ORDERS, PULLED, World
from tests.wire.grpc.memory import Fake, Lab, Peer, Served, framed, head, path_of

GET_TOPIC = path_of("GetTopic")
PUBLISH = path_of("Publish")
PULL = path_of("Pull")
REQUEST = framed(pb.GetTopicRequest(topic=ORDERS).SerializeToString())
PULL_REQUEST = framed(pb.PullRequest(subscription=PULLED, max_messages=10).SerializeToString())


class Waiting:
    """A handler whose call is parked; `answers`: it answers when it is hurried."""

    def __init__(self, *, answers: bool) -> None:
        self.events: list[str] = []
        self._answers = answers
        self.parked: Parked[Reply] = Parked(lambda: self.events.append("cancel"), self._hurry)

    def __call__(self) -> Outcome:
        return self.parked

    def _hurry(self) -> None:
        self.events.append("hurry")
        if self._answers:
            self.parked.complete(pb.Topic(name="late"))


def with_timeout(text: str) -> GrpcHead:
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/"),
        (b"content-type", b"application/grpc"),
        (b"grpc-timeout", text.encode()),
    ]
    return read(RequestHead(fields, 65_536))


@pytest.mark.rule("T4", "T36")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1H", 3_600),
        ("2M", 120),
        ("30S", 30),
        ("250m", 0.25),
        ("250000u", 0.25),
        ("1000000n", 0.001),
        ("0S", 0),
        ("00000001S", 1),
        ("99999999H", 99_999_999 * 3_600),
        ("99999999n", 0.099_999_999),
    ],
)
def test_a_timeout_in_each_unit(text: str, seconds: float) -> None:
    grpc = with_timeout(text)

    assert grpc.error is None
    assert grpc.timeout == pytest.approx(seconds)


@pytest.mark.rule("T36")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "S",
        "1",
        "100000000S",
        "000000001S",
        "-1S",
        "+1S",
        "1.5S",
        "1 S",
        "1s",
        "1h",
        "1SS",
        "S1",
        "1x",
        "\u0661S",
        "1S,1S",
    ],
)
def test_a_malformed_timeout_is_internal(lab: Lab, text: str) -> None:
    fake = Fake(lab)

    reply = fake.peer().call(GET_TOPIC, REQUEST, ("grpc-timeout", text))

    assert (reply.alone, reply.status, "grpc-timeout" in reply.message) == (True, Code.INTERNAL, True)
    assert fake.calls == []


@pytest.mark.rule("T4", "T36")
@pytest.mark.parametrize(
    ("passed", "status", "handled"),
    [(0.0, Code.OK, 1), (0.9, Code.OK, 1), (1.0, Code.DEADLINE_EXCEEDED, 0), (5.0, Code.DEADLINE_EXCEEDED, 0)],
)
def test_time_counts_from_the_headers(lab: Lab, passed: float, status: Code, handled: int) -> None:
    fake = Fake(lab)
    peer = fake.peer()
    stream = peer.open(GET_TOPIC, ("grpc-timeout", "1S"))

    lab.advance(passed)
    peer.send(stream, REQUEST, end=True)

    reply = peer.replies[stream]
    assert (reply.status, len(fake.calls)) == (status, handled)
    assert reply.alone == (status is not Code.OK)


@pytest.mark.rule("T36")
def test_a_deadline_of_now_has_passed(lab: Lab) -> None:
    fake = Fake(lab)

    assert fake.peer().call(GET_TOPIC, REQUEST, ("grpc-timeout", "0n")).status == Code.DEADLINE_EXCEEDED
    assert fake.calls == []


@pytest.mark.rule("T36")
def test_only_a_waiting_call_has_a_timer(lab: Lab) -> None:
    waiting = Waiting(answers=True)
    fake = Fake(lab, get_topic=waiting)
    peer = fake.peer()
    at_once = peer.h2.get_next_available_stream_id()
    peer.h2.send_headers(at_once, head(PUBLISH, ("grpc-timeout", "1S")))
    peer.h2.send_data(at_once, framed(b""), end_stream=True)
    peer.exchange()
    assert (peer.replies[at_once].ended, lab.timers()) == (True, 0)

    begun = peer.open(GET_TOPIC, ("grpc-timeout", "1S"))
    assert lab.timers() == 1
    peer.send(begun, REQUEST, end=True)
    assert lab.timers() == 1
    waiting.parked.complete(pb.Topic())

    assert lab.timers() == 0


class TestIncomplete:
    """Requests whose rest never comes."""

    @pytest.mark.rule("T4", "T36")
    @pytest.mark.parametrize("arrived", [b"", REQUEST[:3], REQUEST[:-1], REQUEST], ids=["0", "3", "most", "no end"])
    def test_it_ends_at_its_deadline(self, lab: Lab, arrived: bytes) -> None:
        fake = Fake(lab)
        peer = fake.peer()
        stream = peer.open(GET_TOPIC, ("grpc-timeout", "1S"))
        peer.send(stream, arrived)

        lab.advance(0.99)
        peer.exchange()
        assert peer.replies[stream].initial is None
        lab.advance(0.01)
        peer.exchange()

        reply = peer.replies[stream]
        assert (reply.alone, reply.status, reply.reset) == (True, Code.DEADLINE_EXCEEDED, 0)
        assert (fake.calls, fake.is_empty(), lab.timers()) == ([], True, 0)

    @pytest.mark.rule("T4", "T36")
    def test_each_ends_at_its_own(self, lab: Lab) -> None:
        fake = Fake(lab)
        peer = fake.peer()
        streams = {seconds: peer.open(GET_TOPIC, ("grpc-timeout", f"{seconds}S")) for seconds in (3, 1, 2)}
        patient = peer.open(GET_TOPIC)

        for second in (1, 2, 3):
            lab.advance(1)
            peer.exchange()
            ended = {seconds for seconds, stream in streams.items() if peer.replies[stream].ended}
            assert ended == set(range(1, second + 1))

        peer.send(patient, REQUEST, end=True)
        assert peer.replies[patient].status == Code.OK

    @pytest.mark.rule("T36")
    def test_its_timer_ends_with_it(self, lab: Lab) -> None:
        fake = Fake(lab)
        peer = fake.peer()
        cancelled, refused, lost = (peer.open(GET_TOPIC, ("grpc-timeout", "1S")) for _ in range(3))
        assert lab.timers() == 3

        peer.cancel(cancelled)
        assert lab.timers() == 2
        peer.send(refused, REQUEST + b"more")
        assert (peer.replies[refused].status, lab.timers()) == (Code.INTERNAL, 1)
        peer.transport.die()
        lab.turn(2)
        assert (peer.replies[lost].ended, lab.timers()) == (False, 0)


class TestParked:
    """Calls whose reply comes later."""

    @pytest.mark.rule("T4")
    def test_it_is_answered_when_its_reply_is_there(self, lab: Lab) -> None:
        waiting = Waiting(answers=False)
        fake = Fake(lab, get_topic=waiting)
        peer = fake.peer()
        reply = peer.call(GET_TOPIC, REQUEST)
        assert (reply.initial, fake.server.counts()["streams"]) == (None, 1)

        waiting.parked.complete(pb.Topic(name="late"))
        lab.turn(2)
        peer.exchange()

        assert (reply.status, reply.messages) == (Code.OK, [pb.Topic(name="late").SerializeToString()])
        assert fake.is_empty()

    def test_its_reply_may_be_there_already(self, lab: Lab) -> None:
        waiting = Waiting(answers=False)
        waiting.parked.complete(pb.Topic(name="early"))
        fake = Fake(lab, get_topic=waiting)

        assert fake.peer().call(GET_TOPIC, REQUEST).messages == [pb.Topic(name="early").SerializeToString()]
        assert fake.is_empty()

    def test_it_may_fail(self, lab: Lab) -> None:
        waiting = Waiting(answers=False)
        peer = Fake(lab, get_topic=waiting).peer()
        reply = peer.call(GET_TOPIC, REQUEST)

        waiting.parked.fail(PubsubError(Code.ABORTED, "Why."))
        lab.turn(2)
        peer.exchange()

        assert (reply.alone, reply.status, reply.message) == (True, Code.ABORTED, "Why.")

    def test_it_may_fail_as_nobody_thought(self, lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
        waiting = Waiting(answers=False)
        peer = Fake(lab, get_topic=waiting).peer()
        reply = peer.call(GET_TOPIC, REQUEST)

        waiting.parked.fail(ZeroDivisionError())
        lab.turn(2)
        peer.exchange()

        assert (reply.alone, reply.status) == (True, Code.INTERNAL)
        assert [record.exc_info is not None for record in caplog.records] == [True]

    @pytest.mark.rule("T4", "S7.2.3")
    @pytest.mark.parametrize(
        ("timeout", "hurried_after"),
        [("1S", 0.9), ("200m", 0.1), ("100m", 0.0), ("1m", 0.0), ("60S", 5.0), (None, 5.0)],
    )
    def test_it_is_hurried_a_tenth_of_a_second_before_the_deadline(
        self, lab: Lab, timeout: str | None, hurried_after: float
    ) -> None:
        waiting = Waiting(answers=True)
        peer = Fake(lab, wait_s=5, get_topic=waiting).peer()
        reply = peer.call(GET_TOPIC, REQUEST, *([("grpc-timeout", timeout)] if timeout else []))
        assert waiting.events == []
        if hurried_after:
            lab.advance(hurried_after - 0.01)
            assert waiting.events == []

        lab.advance(0.011)
        peer.exchange()

        assert waiting.events == ["hurry"]
        assert (reply.status, reply.messages) == (Code.OK, [pb.Topic(name="late").SerializeToString()])

    @pytest.mark.rule("T4")
    @pytest.mark.parametrize(("timeout", "seconds"), [("1S", 1.0), ("50m", 0.05), ("20S", 20.0)])
    def test_one_that_cannot_hurry_fails_at_its_deadline(self, lab: Lab, timeout: str, seconds: float) -> None:
        waiting = Waiting(answers=False)
        fake = Fake(lab, get_topic=waiting)
        peer = fake.peer()
        reply = peer.call(GET_TOPIC, REQUEST, ("grpc-timeout", timeout))
        lab.advance(seconds - 0.01)
        peer.exchange()
        assert not reply.ended

        lab.advance(0.011)
        peer.exchange()

        assert (reply.alone, reply.status) == (True, Code.DEADLINE_EXCEEDED)
        assert waiting.events == ["hurry", "cancel"]
        assert fake.is_empty()

    def test_one_that_cannot_hurry_and_has_no_deadline_waits_on(self, lab: Lab) -> None:
        waiting = Waiting(answers=False)
        peer = Fake(lab, get_topic=waiting).peer()
        reply = peer.call(GET_TOPIC, REQUEST)

        lab.advance(10_000)
        peer.exchange()

        assert (reply.ended, waiting.events) == (False, ["hurry"])

    @pytest.mark.rule("S7.2.4")
    def test_a_cancelled_call_is_withdrawn(self, lab: Lab) -> None:
        waiting = Waiting(answers=False)
        fake = Fake(lab, get_topic=waiting)
        peer = fake.peer()
        stream = peer.open(GET_TOPIC, ("grpc-timeout", "1S"))
        peer.send(stream, REQUEST, end=True)

        peer.cancel(stream)
        lab.advance(2)

        assert waiting.events == ["cancel"]
        assert fake.is_empty()
        assert peer.call(path_of("Acknowledge"), framed(b"")).status == Code.OK

    @pytest.mark.rule("S7.2.4")
    def test_a_lost_connection_withdraws_its_calls(self, lab: Lab) -> None:
        waiting = Waiting(answers=False)
        fake = Fake(lab, get_topic=waiting)
        peer = fake.peer()
        peer.call(GET_TOPIC, REQUEST, ("grpc-timeout", "1S"))

        peer.transport.die()
        lab.advance(2)

        assert waiting.events == ["cancel"]
        assert fake.server.counts() == {"connections": 0, "streams": 0, "buffered_bytes": 0}

    def test_cancelling_a_request_that_is_not_whole(self, lab: Lab) -> None:
        fake = Fake(lab)
        peer = fake.peer()
        stream = peer.open(PUBLISH)
        peer.send(stream, framed(bytes(1_000))[:500])
        assert fake.server.counts()["buffered_bytes"] == 500

        peer.cancel(stream)

        assert fake.is_empty()


class TestPull:
    """The real Pull, whose clock stands still."""

    @pytest.fixture
    def world(self) -> World:
        world = World.empty()
        world.call("CreateTopic", name=ORDERS)
        world.call("CreateSubscription", name=PULLED, topic=ORDERS)
        return world

    @pytest.fixture
    def peer(self, lab: Lab, world: World) -> Peer:
        return Served(lab, GrpcServer(world.dispatcher, RPCS, {}, wait_s=5)).peer()

    @pytest.mark.rule("T4", "S7.2.3")
    @pytest.mark.parametrize(("timeout", "seconds"), [("1S", 0.9), ("10S", 5.0)])
    def test_it_ends_with_ok_and_nothing_before_its_deadline(
        self, lab: Lab, peer: Peer, timeout: str, seconds: float
    ) -> None:
        reply = peer.call(PULL, PULL_REQUEST, ("grpc-timeout", timeout))
        lab.advance(seconds - 0.01)
        peer.exchange()
        assert not reply.ended

        lab.advance(0.011)
        peer.exchange()

        assert (reply.status, reply.messages) == (Code.OK, [b""])

    @pytest.mark.rule("S7.2.3")
    def test_it_ends_with_the_first_message(self, lab: Lab, peer: Peer, world: World) -> None:
        reply = peer.call(PULL, PULL_REQUEST)

        world.publish(ORDERS, "hello")
        lab.turn(2)
        peer.exchange()

        (message,) = reply.messages
        (received,) = pb.PullResponse.FromString(message).received_messages
        assert received.message.attributes == {"text": "hello"}

    @pytest.mark.rule("S7.2.4")
    def test_after_a_cancel_nothing_is_leased_to_it(self, peer: Peer, world: World) -> None:
        stream = peer.open(PULL)
        peer.send(stream, PULL_REQUEST, end=True)
        assert world.broker.counts()["waiting_pulls"] == 1

        peer.cancel(stream)

        assert world.broker.counts()["waiting_pulls"] == 0
        world.publish(ORDERS, "hello")
        assert len(world.pull(PULLED)) == 1


@pytest.mark.rule("T36")
@pytest.mark.parametrize("before", ["1S", "no time"])
@pytest.mark.parametrize("after", ["2m", "no time", ""])
@pytest.mark.parametrize("more", [(), (("grpc-encoding", "gzip"),), (("grpc-encoding", "rot13"),)])
def test_a_deadline_that_follows_another_is_read_for_itself(
    before: str, after: str, more: tuple[tuple[str, str], ...]
) -> None:
    decoder, encoder = HeadDecoder(65_536), Encoder()

    def grpc(text: str) -> GrpcHead:
        return read(decoder.request(encoder.encode(head(GET_TOPIC, ("grpc-timeout", text), *more))))

    grpc(before)
    second = grpc(after)

    alone = read(HeadDecoder(65_536).request(Encoder().encode(head(GET_TOPIC, ("grpc-timeout", after), *more))))
    assert (second.http_status, second.timeout, second.encoding) == (alone.http_status, alone.timeout, alone.encoding)
    assert str(second.error) == str(alone.error)
