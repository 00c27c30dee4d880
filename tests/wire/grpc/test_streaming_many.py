"""Many streams: idle they cost nothing, half of them may go at once, and a busy one takes turns with everybody."""

from collections import Counter
from collections.abc import Callable

import pytest

from emulator.api import pb
from emulator.errors import Code
from emulator.wire import postie as postie_module
from emulator.wire.grpc import server as server_module
from tests.wire.grpc.memory import Lab, framed, path_of
from tests.wire.grpc.streams import TOPIC, Client, Service, Subscriber, bodies

DAY_S = 86_400


@pytest.fixture
def service(lab: Lab) -> Service:
    service = Service(lab)
    service.publish(b"first")  # after its first use the alarm of a subscription stays set
    stream = service.admin.subscribe()
    service.settle()
    stream.ack_all()
    stream.cancel()
    service.settle()
    return service


def on_one_connection(service: Service) -> list[Subscriber]:
    client = service.client()
    return [client.subscribe() for _ in range(1_000)]


def on_connections_of_their_own(service: Service) -> list[Subscriber]:
    return [service.client().subscribe() for _ in range(100)]


def cancel(stream: Subscriber) -> None:
    stream.cancel()


def die(stream: Subscriber) -> None:
    stream.client.transport.die()


class Ticking:
    """A clock on which each look takes a millisecond, as if that much work were done between two."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 0.001
        return self.now

    def __repr__(self) -> str:
        return f"<Ticking {self.now:.3f}>"


MANY = pytest.mark.parametrize("connect", [on_one_connection, on_connections_of_their_own])


class TestManyStreams:
    @pytest.mark.rule("O1", "B004")
    @MANY
    def test_idle_ones_have_no_callback_and_no_timer(
        self, lab: Lab, service: Service, connect: Callable[[Service], list[Subscriber]]
    ) -> None:
        timers = service.clock.timer_count()
        streams = connect(service)
        service.settle()

        for _ in range(20):
            lab.turn()
            assert service.ready() == 0
        assert (lab.timers(), service.clock.timer_count()) == (0, timers)
        service.clock.advance(DAY_S)
        lab.turn()

        assert service.ready() == 0
        assert [stream.responses for stream in streams] == [[]] * len(streams)
        assert not any(stream.reply.ended for stream in streams)

    @pytest.mark.rule("O16", "V14", "T37", "S7.3.11")
    @pytest.mark.parametrize(("connect", "go"), [(on_one_connection, cancel), (on_connections_of_their_own, die)])
    def test_half_of_them_go_and_what_they_had_comes_to_the_others(
        self, service: Service, connect: Callable[[Service], list[Subscriber]], go: Callable[[Subscriber], None]
    ) -> None:
        start = service.counts()
        streams = connect(service)
        count, half = len(streams), len(streams) // 2
        leaving, staying = streams[:half], streams[half:]
        service.settle()
        service.publish(*bodies(count))
        service.settle()
        assert [len(stream.bodies) for stream in streams] == [1] * count
        lost = Counter(body for stream in leaving for body in stream.bodies)
        for stream in staying:
            stream.ack(*stream.ack_ids)
        service.publish(*bodies(count, first=count))

        for stream in leaving:
            go(stream)
        service.settle()

        def of_others(skip: int) -> Counter[bytes]:
            return Counter(body for stream in staying for body in stream.bodies[skip:])

        assert of_others(1) == Counter(bodies(count, first=count))
        assert [len(stream.bodies) for stream in staying] == [3] * half
        for stream in staying:
            stream.ack(*stream.ack_ids[1:])
        assert service.held() == (0, half, 0)
        service.advance(9.9)
        assert service.held() == (0, half, 0)
        service.advance(0.1)
        assert of_others(3) == lost
        assert {stream.attempts[-1] for stream in staying} == {2}

        for stream in staying:
            stream.ack(*stream.ack_ids[3:])
        for stream in staying:
            stream.client.transport.die()
        service.settle()
        assert service.counts() == start


class TestFairness:
    @pytest.fixture(autouse=True)
    def time_passes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ticking = Ticking()
        for module in (server_module, postie_module):
            monkeypatch.setattr(module, "time", ticking)

    @pytest.mark.rule("T34", "O1")
    @pytest.mark.parametrize("same_connection", [False, True])
    def test_a_stream_with_endless_windows_keeps_nobody_waiting(self, service: Service, same_connection: bool) -> None:
        for start in range(0, 20_000, 1_000):
            service.publish(*bodies(1_000, first=start))
        client = service.client()
        client.open_windows()
        stream = client.subscribe()
        asking = client if same_connection else service.admin
        reads: list[int] = []

        while len(stream.bodies) < 20_000:
            before = len(stream.bodies)
            reply = asking.invoke("GetTopic", pb.GetTopicRequest(topic=TOPIC))
            service.turn()
            assert reply.status == Code.OK
            reads.append(len(stream.bodies) - before)

        assert stream.bodies == bodies(20_000)
        # A turn is five looks at the clock long, one for each response; a response holds what may wait unwritten.
        assert max(reads) <= 6_000
        assert len(reads) >= 4

    @pytest.mark.rule("T34", "O1")
    def test_a_call_that_comes_while_the_backlog_leaves_is_answered_in_the_next_turn(
        self, lab: Lab, service: Service
    ) -> None:
        for start in range(0, 20_000, 1_000):
            service.publish(*bodies(1_000, first=start))
        client, other = service.client(), service.raw_peer()
        client.open_windows()
        stream = client.subscribe()
        request = framed(pb.GetTopicRequest(topic=TOPIC).SerializeToString())
        lab.loop.call_soon(lambda: other.request(1, path_of("GetTopic"), request))

        service.turn()

        assert other.statuses() == {1: Code.OK}
        assert 0 < len(stream.bodies) <= 6_000

    @pytest.mark.rule("O1", "T34")
    def test_many_busy_streams_do_not_either(self, service: Service) -> None:
        clients: list[Client] = [service.client() for _ in range(10)]
        for client in clients:
            client.open_windows()
        streams = [client.subscribe() for client in clients]
        service.settle()
        for start in range(0, 20_000, 1_000):
            service.publish(*bodies(1_000, first=start))
        turns = 0

        while sum(len(stream.bodies) for stream in streams) < 20_000:
            before = [len(stream.bodies) for stream in streams]
            assert service.admin.invoke("GetTopic", pb.GetTopicRequest(topic=TOPIC)).status == Code.OK
            service.turn()
            after = [len(stream.bodies) for stream in streams]
            assert max(new - old for new, old in zip(after, before, strict=True)) <= 6_000
            turns += 1

        assert turns < 100
        assert Counter(body for stream in streams for body in stream.bodies) == Counter(bodies(20_000))
        assert min(len(stream.bodies) for stream in streams) >= 1_000
