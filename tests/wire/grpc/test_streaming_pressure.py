"""Streams whose clients do not read: who is held up by them (nobody), what they hold, and how they go on."""

from collections import Counter

import pytest
from h2.settings import SettingCodes

from emulator.api import pb
from emulator.errors import Code
from tests.wire.grpc.memory import Lab
from tests.wire.grpc.streams import OTHERS, READERS, WINDOW_DEFAULT, Client, Service, bodies

# What the server hands to a socket before it stops, and one response on top of it.
WRITE_BUFFER_MAX_BYTES = 262_144 + 4_000_000


@pytest.fixture
def service(lab: Lab) -> Service:
    return Service(lab)


@pytest.fixture
def client(service: Service) -> Client:
    """One that reads, and never opens its windows by itself."""
    return service.client(credits=False)


class TestOneStreamIsShut:
    @pytest.mark.rule("A10", "O17", "V7")
    def test_the_others_of_its_connection_and_its_unary_calls_go_on(self, service: Service) -> None:
        service.create_subscription(OTHERS)
        client = service.client()
        shut, free = client.subscribe(), client.subscribe(name=OTHERS)
        client.stalled.add(shut.id)

        for body in bodies(300, size=1_000):
            client.publish(body)  # on the same connection; asserts that it is answered at once
            service.turn()
        service.settle()

        assert free.bodies == bodies(300, size=1_000)
        assert 55 < len(shut.bodies) < 65
        assert sum(service.held()[:2]) == 300

    @pytest.mark.rule("A10", "O17", "O15", "V7", "C17")
    def test_a_stream_of_the_same_subscription_gets_the_rest_and_after_the_deadline_everything(
        self, service: Service
    ) -> None:
        client = service.client()
        shut, free = client.subscribe(), client.subscribe()
        client.stalled.add(shut.id)
        for start in range(0, 1_000, 50):
            client.publish(*bodies(50, first=start, size=1_000))
            service.turn()
        service.settle()
        waiting, _, unwritten = service.held()
        assert (waiting, 0 < unwritten < 51) == (0, True)
        assert len(shut.bodies) + bool(shut.partial) + len(free.bodies) + unwritten == 1_000
        free.ack_all()

        service.advance(10)

        # What was written to the stalled stream has failed once, what was not has not.
        assert set(free.bodies) == set(bodies(1_000, size=1_000))
        attempts = Counter(free.attempts)
        assert attempts == {1: 1_000 - len(shut.bodies), 2: len(shut.bodies)}

    @pytest.mark.rule("V7", "V11")
    @pytest.mark.parametrize("unary", [False, True])
    def test_its_acks_are_taken_and_it_goes_on_by_itself(self, service: Service, client: Client, unary: bool) -> None:
        stream = client.subscribe()
        service.publish(*bodies(3))
        service.settle()
        client.shut(stream)
        service.publish(*bodies(2, first=3))
        service.settle()
        assert (stream.bodies, service.held()) == (bodies(3), (0, 5, 2))

        if unary:
            client.acknowledge(*stream.ack_ids)
        else:
            stream.ack(*stream.ack_ids)
        service.settle()
        assert service.held() == (0, 2, 2)
        client.grow(stream, 10_000)
        service.settle()

        assert stream.bodies == bodies(5)
        assert service.held() == (0, 2, 0)

    @pytest.mark.rule("V7", "V2")
    def test_it_may_extend_what_it_has(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.publish(b"one")
        service.settle()
        client.shut(stream)

        stream.ask(modify_deadline_ack_ids=stream.ack_ids, modify_deadline_seconds=[30])
        service.advance(29)

        assert (service.held(), service.failures()) == ((0, 1, 0), [0])

    @pytest.mark.rule("O17")
    def test_it_is_given_nothing_more(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.settle()
        client.shut(stream)
        service.publish(b"one")  # by which it learns that it is shut
        service.settle()

        service.publish(*bodies(100))
        service.settle()

        assert service.held() == (100, 1, 1)

    @pytest.mark.rule("O15", "S7.1.11")
    def test_what_expires_in_its_pile_goes_elsewhere_and_is_skipped(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.settle()
        client.shut(stream)
        service.publish(*bodies(3))
        service.settle()
        other = service.client().subscribe(messages=2)
        service.settle()
        assert (other.bodies, service.held()) == ([], (0, 3, 3))

        service.advance(10)
        assert (other.bodies, other.attempts) == (bodies(2), [1, 1])
        client.grow(stream, 10_000)
        service.settle()

        assert (stream.bodies, stream.attempts) == (bodies(1, first=2), [1])

    @pytest.mark.rule("O15", "V5")
    def test_what_is_acknowledged_late_in_its_pile_is_skipped(self, service: Service, client: Client) -> None:
        first = service.client().subscribe()
        service.publish(*bodies(2))
        service.settle()
        stream = client.subscribe()
        service.settle()
        client.shut(stream)
        service.advance(10)
        assert service.held() == (0, 2, 2)

        first.ack(first.ack_ids[0])
        client.grow(stream, 10_000)
        service.settle()

        assert (stream.bodies, stream.attempts) == ([b"1"], [2])

    @pytest.mark.rule("C17", "V7", "O16")
    def test_after_thirty_seconds_nothing_is_lost_and_others_did_not_notice(self, service: Service) -> None:
        service.create_subscription(OTHERS)
        paused = service.client()
        stream, busy = paused.subscribe(), service.client().subscribe()
        bystander = service.client().subscribe(name=OTHERS, deadline=600)
        paused.stalled.add(stream.id)
        first = 0
        for _ in range(30):
            service.publish(*bodies(20, first=first, size=1_000))
            first += 20
            service.settle()
            assert len(bystander.bodies) == first
            busy.ack_all()
            service.advance(1)
        busy.ack_all()
        held = len(stream.bodies)
        assert 0 < held < 65

        paused.stalled.clear()
        paused.grow(stream, WINDOW_DEFAULT)
        service.publish(*bodies(20, first=first, size=1_000))
        service.settle()

        everything = set(bodies(first + 20, size=1_000))
        assert set(busy.bodies) | set(stream.bodies[held:]) == everything
        assert len(stream.bodies) > held
        busy.ack_all()
        stream.ack_all()
        service.settle()
        assert service.held() == (0, 0, 0)

    @pytest.mark.rule("O17")
    def test_a_window_that_opens_by_a_byte_moves_a_byte(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.settle()
        client.shut(stream)
        service.publish(*bodies(2))
        service.settle()

        for size in range(1, 30):
            client.grow(stream, 1)
            service.settle()
            assert len(stream.partial) == size

        assert (service.held(), stream.reply.ended) == ((0, 2, 1), False)
        client.grow(stream, 1_000)
        service.settle()
        assert stream.bodies == bodies(2)

    @pytest.mark.rule("O17", "V7")
    def test_settings_that_open_its_window_have_it_go_on(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.settle()
        client.shut(stream)
        service.publish(*bodies(2))
        service.settle()
        assert stream.bodies == []

        client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_DEFAULT})
        client.exchange()
        service.settle()

        assert stream.bodies == bodies(2)

    @pytest.mark.rule("O17")
    def test_the_connections_window_shut_and_opened(self, service: Service, client: Client) -> None:
        client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_DEFAULT * 10})
        client.exchange()
        streams = [client.subscribe(messages=50), client.subscribe(messages=50)]
        service.publish(*bodies(100, size=1_000))
        service.settle()
        assert len(streams[0].bodies) + len(streams[1].bodies) < 66

        client.h2.increment_flow_control_window(WINDOW_DEFAULT * 3)
        client.exchange()
        service.settle()

        assert [len(stream.bodies) for stream in streams] == [50, 50]


class TestCredit:
    @pytest.mark.rule("A9", "O9", "V8", "V13")
    def test_five_at_most_go_to_a_client_that_reads_nothing(self, service: Service) -> None:
        deaf, hearing = service.client(), service.client()
        deaf.subscribe(messages=5)
        service.settle()
        deaf.reading = False
        other = hearing.subscribe()
        service.settle()

        for body in bodies(100):
            service.publish(body)
        service.settle()

        assert (len(other.bodies), service.held()) == (95, (0, 100, 0))
        other.ack_all()
        service.advance(9.9)
        assert len(other.bodies) == 95
        service.advance(0.1)
        assert (set(other.bodies), other.attempts[95:]) == (set(bodies(100)), [2] * 5)

    @pytest.mark.rule("C15", "V8", "B010")
    def test_one_at_a_time(self, service: Service) -> None:
        stream = service.client().subscribe(messages=1)
        service.publish(*bodies(4))
        service.settle()

        for count in range(1, 4):
            assert len(stream.bodies) == count
            stream.ack(stream.ack_ids[-1])
            service.turn()

        assert stream.bodies == bodies(4)

    @pytest.mark.rule("O9")
    def test_without_a_limit_a_thousand_wait_for_it_at_most(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.settle()
        client.shut(stream)

        for start in range(0, 3_000, 1_000):
            service.publish(*bodies(1_000, first=start))
        service.settle()

        assert service.held() == (2_000, 1_000, 1_000)
        client.grow(stream, 10_000_000)
        client.h2.increment_flow_control_window(10_000_000)
        client.exchange()
        service.settle()
        assert stream.bodies == bodies(3_000)


class TestTheSocketIsFull:
    @pytest.mark.rule("O17", "O1", "V7")
    def test_little_is_written_nobody_waits_and_it_goes_on_when_the_client_reads(self, service: Service) -> None:
        service.create_subscription(OTHERS)
        client = service.client(room=16_384)
        client.open_windows()
        stream, free = client.subscribe(), service.client().subscribe(name=OTHERS)
        service.settle()
        client.reading = False

        for start in range(0, 10_000, 500):
            service.publish(*bodies(500, first=start, size=1_000))
            service.turn()
        service.settle()

        assert free.bodies == bodies(10_000, size=1_000)
        assert client.transport.get_write_buffer_size() < WRITE_BUFFER_MAX_BYTES
        waiting, leased, unwritten = service.held()
        assert (waiting + leased, unwritten <= 1_000) == (10_000, True)
        assert waiting > 5_000
        client.reading = True
        service.settle()
        assert stream.bodies == bodies(10_000, size=1_000)

    @pytest.mark.rule("O17", "V14")
    def test_what_its_client_has_said_is_heard_when_it_reads_again(self, service: Service) -> None:
        client = service.client(room=16_384)
        client.open_windows()
        stream = client.subscribe(messages=500)
        service.publish(*bodies(1_000, size=1_000))
        service.turn()
        client.reading = False
        service.settle()
        client.reading = True
        service.settle()

        assert stream.bodies == bodies(500, size=1_000)
        stream.ack(*stream.ack_ids)
        service.settle()
        assert stream.bodies == bodies(1_000, size=1_000)

    @pytest.mark.rule("O16", "T37")
    def test_what_it_has_not_taken_in_and_the_rest_go_elsewhere_when_it_dies(self, service: Service) -> None:
        client = service.client(room=16_384)
        client.open_windows()
        client.subscribe()
        service.settle()
        client.reading = False
        for start in range(0, 3_000, 500):
            service.publish(*bodies(500, first=start, size=1_000))
            service.turn()
        service.settle()
        _, leased, unwritten = service.held()
        other = service.client().subscribe(messages=0, deadline=600)
        service.settle()

        client.transport.die()
        service.settle()

        assert service.held() == (0, 3_000, 0)
        assert len(other.bodies) == 3_000 - (leased - unwritten)
        assert set(other.attempts) == {1}
        service.advance(10)
        assert set(other.bodies) == set(bodies(3_000, size=1_000))


@pytest.mark.rule("V7", "O17")
def test_a_deadline_of_a_unary_pull_on_a_connection_with_a_shut_stream_is_kept(service: Service) -> None:
    client = service.client(credits=False)
    stream = client.subscribe(messages=1)
    service.publish(b"one")
    service.settle()
    client.shut(stream)
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_DEFAULT})
    client.exchange()
    service.publish(b"two")

    reply = client.invoke("Pull", pb.PullRequest(subscription=READERS, max_messages=10))

    assert reply.status == Code.OK
    (response,) = reply.messages
    (received,) = pb.PullResponse.FromString(response).received_messages
    assert received.message.data == b"two"
