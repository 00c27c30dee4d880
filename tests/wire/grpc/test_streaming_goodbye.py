"""How a subscription or the server ends its streams: with an error, at once, and never with OK."""

import asyncio
from collections.abc import Callable

import pytest
from hyperframe.frame import DataFrame, GoAwayFrame, HeadersFrame, PingFrame

from emulator.api import pb
from emulator.api.services import STREAMING_PULL
from emulator.errors import Code
from tests.wire.grpc.memory import Lab, RawPeer, framed
from tests.wire.grpc.streams import READERS, TOPIC, Client, Service, bodies


@pytest.fixture
def service(lab: Lab) -> Service:
    return Service(lab)


@pytest.fixture
def client(service: Service) -> Client:
    """One that reads, and never opens its windows by itself."""
    return service.client(credits=False)


def delete(service: Service) -> None:
    service.admin.rpc("DeleteSubscription", pb.DeleteSubscriptionRequest(subscription=READERS))


def detach(service: Service) -> None:
    service.admin.rpc("DetachSubscription", pb.DetachSubscriptionRequest(subscription=READERS))


def have_pushed(service: Service) -> None:
    config = pb.PushConfig(push_endpoint="http://localhost:1/")
    service.admin.rpc("ModifyPushConfig", pb.ModifyPushConfigRequest(subscription=READERS, push_config=config))


def reset_everything(service: Service) -> None:
    service.broker.reset()


def shut_down(service: Service) -> None:
    service.admin.reading = False  # h2 takes nothing after a GOAWAY
    service.server.say_goodbye()
    service.broker.close()


def close_the_broker(service: Service) -> None:
    service.broker.close()


ENDS = pytest.mark.parametrize(
    ("end", "code"),
    [
        (delete, Code.NOT_FOUND),
        (reset_everything, Code.NOT_FOUND),
        (detach, Code.FAILED_PRECONDITION),
        (have_pushed, Code.FAILED_PRECONDITION),
        (close_the_broker, Code.UNAVAILABLE),
    ],
)


class TestTheSubscriptionEndsThem:
    @pytest.mark.rule("K16", "S7.3.7", "S6.2", "S6.3")
    @ENDS
    @pytest.mark.parametrize("state", ["idle", "busy", "shut", "partly"])
    def test_all_of_them_at_once_and_never_with_ok(
        self, service: Service, end: Callable[[Service], None], code: Code, state: str
    ) -> None:
        clients = [service.client(credits=False) for _ in range(3)]
        streams = [client.subscribe() for client in clients]
        service.settle()
        if state == "shut":
            for client, stream in zip(clients, streams, strict=True):
                client.shut(stream)
        if state != "idle":
            service.publish(*bodies(9, size=100_000 if state == "partly" else 10))
            service.settle()

        end(service)
        service.settle()

        assert [stream.reply.status for stream in streams] == [code] * 3
        assert [stream.reply.initial for stream in streams] == [
            {":status": "200", "content-type": "application/grpc"}
        ] * 3
        counts = service.broker.counts()
        assert (counts["pull_streams"], counts["unwritten"], service.server.counts()["streams"]) == (0, 0, 0)

    @pytest.mark.rule("T25", "O16")
    def test_error_trailers_do_not_wait_for_data(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.publish(b"x" * 100_000, b"two")
        service.settle()
        assert len(stream.partial) > 60_000

        have_pushed(service)
        service.turn()

        assert (stream.reply.status, stream.bodies) == (Code.FAILED_PRECONDITION, [])
        assert (service.held(), service.failures()) == ((2, 0, 0), [0, 0])
        assert service.is_empty()

    @pytest.mark.rule("S6.2", "S6.3", "B014")
    @pytest.mark.parametrize(
        ("end", "code"),
        [(detach, Code.FAILED_PRECONDITION), (have_pushed, Code.FAILED_PRECONDITION), (delete, Code.NOT_FOUND)],
    )
    def test_and_takes_no_more(
        self, service: Service, client: Client, end: Callable[[Service], None], code: Code
    ) -> None:
        end(service)

        stream = client.subscribe()

        assert (stream.reply.status, stream.reply.alone) == (code, True)

    @pytest.mark.rule("S6.3")
    def test_the_deletion_of_the_topic_does_not(self, service: Service, client: Client) -> None:
        stream = client.subscribe()
        service.publish(b"one")
        service.settle()

        service.admin.rpc("DeleteTopic", pb.DeleteTopicRequest(topic=TOPIC))
        service.settle()
        stream.nack(*stream.ack_ids)
        service.settle()

        assert (stream.bodies, stream.reply.ended) == ([b"one", b"one"], False)


class TestTheServerStops:
    def open(self, service: Service) -> RawPeer:
        """A client with an open stream, which has had one message and is about to get another."""
        peer = service.raw_peer()
        peer.request(1, STREAMING_PULL)
        request = pb.StreamingPullRequest(subscription=READERS, stream_ack_deadline_seconds=10)
        peer.send(DataFrame(1, data=framed(request.SerializeToString())))
        service.publish(b"one")
        service.settle()
        peer.arrived()
        service.publish(b"two")
        return peer

    def stop(self, service: Service) -> "asyncio.Task[None]":
        shut_down(service)
        return service.lab.loop.create_task(service.server.shutdown())

    @pytest.mark.rule("K13", "K16", "T10")
    def test_goaway_comes_first_and_then_unavailable(self, service: Service) -> None:
        peer = self.open(service)

        stopped = self.stop(service)
        service.settle()

        arrived = peer.arrived()
        kinds = [type(each.frame) for each in arrived]
        (end,) = [each for each in arrived if isinstance(each.frame, HeadersFrame)]
        assert kinds.index(GoAwayFrame) < arrived.index(end)
        assert end.fields["grpc-status"] == str(int(Code.UNAVAILABLE))
        assert "shutdownNow" not in end.fields["grpc-message"]
        assert {each.frame.error_code for each in arrived if isinstance(each.frame, GoAwayFrame)} == {0}
        (ping,) = [each.frame for each in arrived if isinstance(each.frame, PingFrame)]
        peer.send(PingFrame(0, opaque_data=ping.opaque_data, flags=["ACK"]))
        service.settle()
        assert (peer.transport.lost, peer.transport.aborted) == (True, False)
        service.admin.transport.die()
        service.settle()
        assert stopped.done()

    @pytest.mark.rule("T10", "O16")
    def test_what_was_unwritten_is_given_back(self, service: Service) -> None:
        self.open(service)
        assert service.held() == (0, 2, 1)

        self.stop(service)
        service.settle()

        assert (service.held(), service.failures()) == ((1, 1, 0), [0, 0])
        assert service.broker.counts()["pull_streams"] == 0
        service.lab.advance(2)

    @pytest.mark.rule("K13", "T10")
    def test_a_stream_that_comes_too_late_is_unavailable(self, service: Service, client: Client) -> None:
        service.broker.close()

        stream = client.subscribe()

        assert (stream.reply.status, stream.reply.alone) == (Code.UNAVAILABLE, True)

    @pytest.mark.rule("K13", "T10")
    def test_no_timer_and_no_task_stays(self, service: Service) -> None:
        peers = [self.open(service) for _ in range(3)]

        self.stop(service)
        service.settle()
        for peer in peers:
            peer.transport.die()
        service.admin.transport.die()
        service.settle()

        assert (service.lab.timers(), service.clock.timer_count()) == (0, 0)
        assert asyncio.all_tasks(service.lab.loop) == set()
