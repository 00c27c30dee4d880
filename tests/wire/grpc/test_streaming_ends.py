"""How clients leave their streams, and what becomes of the messages that were on their way."""

import asyncio
from collections.abc import Callable

import pytest

from emulator.errors import Code
from tests.wire.grpc.memory import Lab
from tests.wire.grpc.streams import Client, Service, Subscriber, bodies


@pytest.fixture
def service(lab: Lab) -> Service:
    return Service(lab)


@pytest.fixture
def client(service: Service) -> Client:
    """One that reads, and never opens its windows by itself."""
    return service.client(credits=False)


def die(stream: Subscriber) -> None:
    stream.client.transport.die()


def die_unnoticed(stream: Subscriber) -> None:
    """The reset is found out by a write, which something else on the connection causes."""
    stream.client.transport.die_unnoticed()
    stream.client.reading = False
    stream.client.h2.ping(b"are you?")
    stream.client.exchange()


def stop_sending(stream: Subscriber) -> None:
    stream.client.transport.stop_sending()


def break_the_protocol(stream: Subscriber) -> None:
    stream.client.reading = False
    stream.client.transport.deliver(b"\0\0\0\0\0\0\0\0\0")  # DATA on stream 0


def reset(stream: Subscriber) -> None:
    stream.cancel()


def ask_badly(stream: Subscriber) -> None:
    stream.ask(max_outstanding_messages=1)


WAYS_TO_GO = pytest.mark.parametrize("go", [die, die_unnoticed, stop_sending, break_the_protocol, reset, ask_badly])

Way = Callable[[Subscriber], None]


class TestMessagesOnTheirWay:
    @pytest.mark.rule("A11", "O16", "V14", "T37")
    @WAYS_TO_GO
    def test_four_unwritten_come_again_at_once_and_three_written_ones_after_their_deadline(
        self, service: Service, client: Client, go: Way
    ) -> None:
        stream = client.subscribe()
        service.publish(*bodies(3))
        service.settle()
        client.shut(stream)
        service.publish(*bodies(4, first=3))
        service.settle()
        assert (stream.bodies, service.held()) == (bodies(3), (0, 7, 4))
        other = service.client().subscribe(deadline=600)
        service.settle()

        go(stream)
        service.settle()

        assert (other.bodies, other.attempts) == (bodies(4, first=3), [1] * 4)
        assert service.held() == (0, 7, 0)
        service.advance(9.9)
        assert len(other.bodies) == 4
        service.advance(0.1)
        assert (other.bodies[4:], other.attempts[4:]) == (bodies(3), [2] * 3)

    @pytest.mark.rule("A11", "A6a", "O16", "T37")
    @WAYS_TO_GO
    def test_those_that_had_only_just_been_queued_come_again_at_once(
        self, service: Service, client: Client, go: Way
    ) -> None:
        stream = client.subscribe()
        service.publish(*bodies(3))
        service.settle()
        service.publish(*bodies(4, first=3))

        go(stream)
        other = service.client().subscribe()
        service.settle()

        assert (other.bodies, other.attempts) == (bodies(4, first=3), [1] * 4)

    @pytest.mark.rule("A11", "O16", "T25")
    @WAYS_TO_GO
    def test_one_that_was_sent_in_part_was_not_delivered(self, service: Service, client: Client, go: Way) -> None:
        large = b"x" * 100_000
        stream = client.subscribe()
        service.publish(b"one", large, b"three")
        service.settle()
        assert (stream.bodies, len(stream.partial) > 60_000) == ([b"one"], True)
        other = service.client().subscribe()
        service.settle()

        go(stream)
        service.settle()

        assert (other.bodies, other.attempts) == ([large, b"three"], [1, 1])
        service.advance(10)
        assert (other.bodies[2], other.attempts[2]) == (b"one", 2)

    @pytest.mark.rule("A11", "V14")
    def test_one_that_was_sent_in_part_and_then_whole_was_delivered(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.publish(b"x" * 100_000)
        service.settle()
        client.h2.increment_flow_control_window(100_000)
        client.grow(stream, 100_000)
        assert len(stream.bodies) == 1

        stream.cancel()
        service.settle()

        assert service.held() == (0, 1, 0)
        service.advance(10)
        assert (service.held(), service.failures()) == ((1, 0, 0), [1])

    @pytest.mark.rule("O15", "S7.1.11")
    def test_one_that_was_sent_in_part_when_it_expired_counts_no_attempt(
        self, service: Service, client: Client
    ) -> None:
        stream = client.subscribe()
        service.publish(b"x" * 100_000)
        service.settle()
        other = service.client().subscribe()
        service.settle()

        service.advance(10)

        assert (stream.bodies, other.attempts) == ([], [1])

    @pytest.mark.rule("O16")
    @WAYS_TO_GO
    def test_they_come_in_their_old_order_before_what_is_younger(
        self, service: Service, client: Client, go: Way
    ) -> None:
        stream = client.subscribe()
        service.settle()
        client.shut(stream)
        service.publish(*bodies(7))
        service.settle()
        service.publish(*bodies(10, first=7))
        service.settle()
        assert service.held() == (10, 7, 7)

        go(stream)
        other = service.client().subscribe()
        service.settle()

        assert other.bodies == bodies(17)

    @pytest.mark.rule("O16", "O12")
    def test_those_of_a_connection_go_to_no_stream_of_it(self, service: Service, client: Client) -> None:
        streams = [client.subscribe(), client.subscribe()]
        service.settle()
        service.publish(*bodies(10))

        client.transport.die()
        service.settle()

        assert [stream.bodies for stream in streams] == [[], []]
        assert (service.held(), service.failures()) == ((10, 0, 0), [0] * 10)
        assert service.broker.counts()["pull_streams"] == 0

    @pytest.mark.rule("O16", "O12")
    def test_those_of_all_streams_of_a_connection_come_in_their_old_order(
        self, service: Service, client: Client
    ) -> None:
        for _ in range(3):
            client.subscribe()
        elsewhere = service.client()
        service.settle()
        service.publish(*bodies(9))
        other = elsewhere.subscribe()

        client.transport.die()
        service.settle()

        assert other.bodies == bodies(9)

    @pytest.mark.rule("V14", "V11", "V5")
    @WAYS_TO_GO
    def test_a_written_one_may_be_acknowledged_elsewhere(self, service: Service, client: Client, go: Way) -> None:
        stream = client.subscribe()
        service.publish(*bodies(2))
        service.settle()
        go(stream)
        service.settle()
        other = service.client().subscribe()

        other.ack(stream.ack_ids[0])
        service.admin.acknowledge(stream.ack_ids[1])

        service.advance(60)
        assert (service.held(), other.bodies) == ((0, 0, 0), [])

    @pytest.mark.rule("O16")
    @WAYS_TO_GO
    def test_nothing_stays_behind(self, service: Service, go: Way) -> None:
        # After its first use the alarm of a subscription stays set.
        service.publish(b"first")
        service.advance(0)
        start = service.counts()
        client = service.client(credits=False)
        stream = client.subscribe()
        service.publish(*bodies(3, size=50_000))
        service.settle()

        go(stream)
        client.transport.die()
        service.settle()
        service.advance(10)
        other = service.client().subscribe()
        service.settle()
        other.ack_all()
        die(other)
        service.settle()

        assert {**service.counts(), "waiting": 1} == start
        assert len(asyncio.all_tasks(service.lab.loop)) == 0


class TestHalfClose:
    @pytest.fixture
    def leaving(self, service: Service, client: Client) -> Subscriber:
        """A stream that was half-closed while a message was on its way, of which a third waits for the window."""
        stream = client.subscribe(("grpc-timeout", "30S"))
        service.publish(b"x" * 100_000, b"two")
        service.settle()
        stream.half_close()
        service.settle()
        assert (len(stream.partial), stream.reply.ended) == (65_535, False)
        return stream

    @pytest.mark.rule("S7.3.7", "O16", "K16")
    def test_at_a_shut_window_it_ends_at_once_and_gives_back(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.publish(*bodies(2))
        service.settle()
        client.shut(stream)
        service.publish(*bodies(2, first=2))
        service.settle()

        stream.half_close()
        service.settle()

        assert (stream.reply.status, stream.bodies) == (Code.OK, bodies(2))
        assert (service.held(), service.failures()) == ((2, 2, 0), [0] * 4)

    @pytest.mark.rule("T25", "S7.3.7", "O16")
    def test_what_had_not_begun_to_leave_is_given_back(self, service: Service, leaving: Subscriber) -> None:
        assert service.held() == (1, 1, 0)

    @pytest.mark.rule("S7.1.11", "T25")
    def test_the_message_on_its_way_is_delivered_and_counts_when_it_expires(
        self, service: Service, client: Client, leaving: Subscriber
    ) -> None:
        client.h2.increment_flow_control_window(100_000)
        client.grow(leaving, 100_000)
        service.settle()
        assert (leaving.bodies, leaving.reply.status) == ([b"x" * 100_000], Code.OK)

        service.advance(10)

        assert (service.held(), service.failures()) == ((2, 0, 0), [1, 0])

    @pytest.mark.rule("A11", "O16", "T25", "T37")
    @pytest.mark.parametrize("go", [die, die_unnoticed, stop_sending, break_the_protocol, reset])
    def test_the_message_on_its_way_is_given_back_when_it_never_comes(
        self, service: Service, leaving: Subscriber, go: Way
    ) -> None:
        go(leaving)
        service.settle()

        assert (service.held(), service.failures()) == ((2, 0, 0), [0, 0])

    @pytest.mark.rule("T10", "O16")
    def test_the_message_on_its_way_is_given_back_when_the_server_cannot_wait(
        self, lab: Lab, service: Service, client: Client, leaving: Subscriber
    ) -> None:
        for each in service.clients:
            each.reading = False  # h2 takes nothing after a GOAWAY
        stopped = lab.loop.create_task(service.server.shutdown())
        service.settle()

        lab.advance(1)
        lab.advance(1)

        assert stopped.done()
        assert (service.held(), service.failures()) == ((2, 0, 0), [0, 0])

    @pytest.mark.rule("T4", "O16")
    def test_the_deadline_of_the_call_still_holds(
        self, lab: Lab, service: Service, client: Client, leaving: Subscriber
    ) -> None:
        service.admin.subscribe(deadline=600)
        service.settle()

        lab.advance(30)
        service.settle()

        assert leaving.reply.status == Code.DEADLINE_EXCEEDED
        assert (service.held(), service.failures()) == ((0, 2, 0), [0, 0])


class TestTheDeadlineOfTheCall:
    @pytest.mark.rule("T4", "O16")
    def test_ends_it_and_gives_back_what_is_unwritten(self, lab: Lab, service: Service, client: Client) -> None:
        stream = client.subscribe(("grpc-timeout", "30S"), deadline=600)
        service.publish(*bodies(2))
        service.settle()
        client.shut(stream)
        service.publish(*bodies(3, first=2))
        service.settle()
        lab.advance(29.9)
        client.exchange()
        assert (stream.reply.ended, service.held()) == (False, (0, 5, 3))

        lab.advance(0.1)
        client.exchange()

        assert (stream.reply.status, stream.bodies) == (Code.DEADLINE_EXCEEDED, bodies(2))
        assert (service.held(), service.failures()) == ((3, 2, 0), [0] * 5)
        assert (lab.timers(), service.is_empty()) == (0, True)
