"""StreamingPull: what reaches a stream, when and in which portions, and what it may say to it."""

import logging
from collections import Counter

import pytest

from emulator.api import pb, streaming_pull
from emulator.api.received import received
from emulator.engine.ackids import AckIds
from emulator.errors import Code
from tests.wire.grpc.memory import Lab
from tests.wire.grpc.streams import OTHERS, READERS, Client, Service, bodies

RESPONSE_MAX_BYTES = 4_000_000
MIB = 1_048_576

UNKNOWN_ID = AckIds(0xABCDEF).encode(1, 1, 1)


@pytest.fixture
def service(lab: Lab) -> Service:
    return Service(lab)


@pytest.fixture
def client(service: Service) -> Client:
    return service.client()


class TestArrival:
    @pytest.mark.rule("B004", "O1")
    def test_a_message_reaches_a_waiting_stream_in_the_next_turn_after_its_publish(
        self, lab: Lab, service: Service, client: Client
    ) -> None:
        stream = client.subscribe()
        service.settle()
        timers = lab.timers()

        for number in range(5):
            service.publish(b"%d" % number)
            service.turn()
            assert stream.bodies == [b"%d" % each for each in range(number + 1)]

        assert lab.timers() == timers == 0

    @pytest.mark.rule("B004", "O1")
    def test_every_waiting_stream_has_its_message_in_that_turn(self, service: Service) -> None:
        streams = [service.client().subscribe() for _ in range(20)]
        service.settle()

        service.publish(*bodies(20))
        service.turn()

        assert [len(stream.bodies) for stream in streams] == [1] * 20

    def test_a_publish_is_answered_before_what_it_brought_is_written(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.settle()

        client.publish(b"one")  # asserts that the answer is there

        assert stream.bodies == []
        service.turn()
        assert stream.bodies == [b"one"]

    @pytest.mark.rule("O18")
    def test_what_waits_comes_together(self, service: Service, client: Client) -> None:
        service.publish(*bodies(500))

        stream = client.subscribe()
        service.settle()

        assert stream.bodies == bodies(500)
        assert len(stream.responses) < 5

    @pytest.mark.rule("T7", "O18", "K2")
    def test_thirty_messages_of_a_megabyte_come_in_portions_that_clients_take(self, service: Service) -> None:
        client = service.client()
        client.open_windows()
        for body in bodies(30, size=1_000_000):
            service.publish(body)

        stream = client.subscribe()
        service.settle()

        assert stream.bodies == bodies(30, size=1_000_000)
        assert max(response.ByteSize() for response in stream.responses) < RESPONSE_MAX_BYTES
        assert {len(response.received_messages) for response in stream.responses} == {3}

    @pytest.mark.rule("T7", "O18")
    def test_a_message_beyond_the_limit_goes_alone(self, service: Service) -> None:
        client = service.client()
        client.open_windows()
        large = b"x" * 5_000_000
        for body in (b"one", large, b"two", b"three"):
            service.publish(body)

        stream = client.subscribe()
        service.settle()

        assert [[each.message.data for each in response.received_messages] for response in stream.responses] == [
            [b"one"],
            [large],
            [b"two", b"three"],
        ]

    @pytest.mark.rule("K2", "O18")
    def test_windows_smaller_than_a_message_let_it_through(self, service: Service) -> None:
        client = service.client()
        service.publish(*bodies(3, size=200_000))

        stream = client.subscribe()
        service.settle()

        assert stream.bodies == bodies(3, size=200_000)
        assert service.held() == (0, 3, 0)

    @pytest.mark.rule("O7")
    def test_streams_of_a_connection_take_turns(self, service: Service) -> None:
        service.create_subscription(OTHERS)
        client = service.client()
        client.open_windows()
        one, two = client.subscribe(), client.subscribe(name=OTHERS)
        service.settle()
        for body in bodies(12, size=MIB):
            service.publish(body)

        service.settle()

        assert one.bodies == two.bodies == bodies(12, size=MIB)
        assert client.arrivals == [one.id, two.id] * 4

    @pytest.mark.rule("O7")
    def test_a_busy_stream_does_not_starve_a_quiet_one(self, service: Service) -> None:
        service.create_subscription(OTHERS)
        client = service.client()
        client.open_windows()
        for body in bodies(12, size=MIB):
            service.publish(body)
        busy, quiet = client.subscribe(), client.subscribe(name=OTHERS, messages=1)

        service.settle()

        assert client.arrivals == [busy.id, quiet.id, busy.id, busy.id, busy.id]

    @pytest.mark.rule("S7.3.11")
    def test_streams_share_a_backlog(self, service: Service) -> None:
        streams = [service.client().subscribe() for _ in range(4)]
        service.settle()

        service.publish(*bodies(100))
        service.settle()

        assert [len(stream.bodies) for stream in streams] == [25] * 4
        assert Counter(body for stream in streams for body in stream.bodies) == Counter(bodies(100))

    @pytest.mark.rule("S7.3.9")
    def test_two_streams_of_a_client_id_are_both_served(self, service: Service, client: Client) -> None:
        streams = [client.open_stream(), client.open_stream()]
        for stream in streams:
            stream.ask(subscription=READERS, stream_ack_deadline_seconds=10, client_id="me")

        service.publish(*bodies(2))
        service.settle()

        assert [len(stream.bodies) for stream in streams] == [1, 1]

    @pytest.mark.rule("O8", "O16")
    def test_a_response_that_cannot_be_built_ends_its_stream_and_its_messages_go_to_another(
        self,
        service: Service,
        client: Client,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        unlucky, lucky = client.subscribe(), client.subscribe(messages=1)
        service.settle()

        def break_once(*_args: object) -> pb.ReceivedMessage:
            monkeypatch.setattr(streaming_pull, "received", received)
            raise ZeroDivisionError

        monkeypatch.setattr(streaming_pull, "received", break_once)
        service.publish(b"one")
        service.settle()

        assert (unlucky.reply.status, unlucky.bodies) == (Code.INTERNAL, [])
        assert (lucky.bodies, lucky.attempts, lucky.reply.ended) == ([b"one"], [1], False)
        assert [record.levelno for record in caplog.records] == [logging.ERROR]


class TestAcks:
    @pytest.mark.rule("K1", "K6", "V11")
    def test_a_thousand_messages_are_acknowledged_on_the_stream(self, service: Service, client: Client) -> None:
        start = service.counts()
        stream = client.subscribe(messages=100)
        service.publish(*bodies(1_000))
        done = 0
        while len(stream.bodies) > done or done == 0:
            service.settle()
            stream.ack(*stream.ack_ids[done:])
            done = len(stream.bodies)
            service.settle()

        service.advance(3_600)

        assert stream.bodies == bodies(1_000)
        stream.half_close()
        service.settle()
        assert (stream.reply.status, service.counts()) == (Code.OK, start)

    @pytest.mark.rule("K6", "V11", "V14")
    def test_on_another_stream_or_in_a_unary_call_they_count_as_well(self, service: Service) -> None:
        one, other = service.client().subscribe(), service.client().subscribe(messages=1)
        service.publish(*bodies(4))
        service.settle()
        (first, second, third) = one.ack_ids

        other.ack(first)
        service.admin.acknowledge(second)
        one.ack(third)

        assert service.held() == (0, 1, 0)

    @pytest.mark.rule("K6", "V3")
    def test_a_nack_on_the_stream_brings_the_message_again(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.publish(b"one")
        service.settle()

        stream.nack(*stream.ack_ids)
        service.turn()

        assert (stream.bodies, stream.attempts) == ([b"one", b"one"], [1, 2])

    @pytest.mark.rule("K6", "V2")
    def test_an_extension_on_the_stream_holds(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.publish(b"one")
        service.settle()
        service.advance(9)

        stream.ask(modify_deadline_ack_ids=stream.ack_ids, modify_deadline_seconds=[20])

        service.advance(19.9)
        assert stream.bodies == [b"one"]
        service.advance(0.1)
        assert stream.bodies == [b"one", b"one"]

    @pytest.mark.rule("K15", "S7.3.1")
    @pytest.mark.parametrize(
        ("ack_id", "ended"),
        [(UNKNOWN_ID, False), ("nonsense", True), ("", True)],
        ids=["unknown", "malformed", "empty"],
    )
    def test_the_first_request_may_bring_modacks_of_another_run(
        self, service: Service, client: Client, ack_id: str, ended: bool
    ) -> None:
        stream = client.open_stream()
        stream.ask(
            subscription=READERS,
            stream_ack_deadline_seconds=10,
            modify_deadline_ack_ids=[ack_id],
            modify_deadline_seconds=[30],
        )
        service.publish(b"one")
        service.settle()

        assert stream.reply.ended == ended
        assert stream.bodies == ([] if ended else [b"one"])
        if ended:
            assert (stream.reply.status, service.held()) == (Code.INVALID_ARGUMENT, (1, 0, 0))


class TestPings:
    @pytest.mark.rule("K3", "S7.3.6", "S7.3.5", "B001")
    @pytest.mark.parametrize("busy", [False, True])
    def test_twenty_pings_are_answered_one_by_one(self, service: Service, client: Client, busy: bool) -> None:
        stream = client.subscribe(version=1, messages=1)
        if busy:
            service.publish(*bodies(2))  # the second waits for credit
        service.settle()
        before = len(stream.responses)

        for count in range(1, 21):
            service.clock.advance(0.1)
            stream.ask()
            service.settle()
            assert len(stream.responses) == before + count - 1
            service.pong()
            assert len(stream.responses) == before + count

        for response in stream.responses[before:]:
            assert [field.name for field, _ in response.ListFields()] == ["subscription_properties"]
        assert not stream.reply.ended

    @pytest.mark.rule("K4", "S7.3.6")
    def test_without_the_protocol_version_pings_are_not_answered(self, service: Service, client: Client) -> None:
        stream = client.subscribe()

        for _ in range(20):
            stream.ask()
            service.settle()

        assert (stream.responses, stream.reply.ended) == ([], False)
        service.publish(b"one")
        service.settle()
        assert stream.bodies == [b"one"]

    @pytest.mark.rule("O19")
    def test_at_a_shut_window_one_answer_waits_and_goes_before_the_messages(self, service: Service) -> None:
        client = service.client(credits=False)
        stream = client.subscribe(version=1)
        service.publish(b"one")
        service.settle()
        client.shut(stream)
        service.publish(b"two")
        for _ in range(10):
            stream.ask()
        service.pong()
        assert len(stream.responses) == 1

        client.grow(stream, 10_000)
        service.settle()

        assert [len(response.received_messages) for response in stream.responses] == [1, 0, 1]

    @pytest.mark.rule("S7.3.5")
    def test_every_response_says_what_the_subscription_does(self, service: Service, client: Client) -> None:
        service.create_subscription(OTHERS, enable_message_ordering=True)
        stream = client.subscribe(name=OTHERS, version=1)
        service.publish(b"one")
        service.settle()
        stream.ask()
        service.pong()

        assert [response.subscription_properties for response in stream.responses] == [
            pb.StreamingPullResponse.SubscriptionProperties(message_ordering_enabled=True)
        ] * 2
