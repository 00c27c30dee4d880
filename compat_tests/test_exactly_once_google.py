"""Exactly-once with google-cloud-pubsub, whose library decides by the details of an error what an ack came to."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.pubsub_v1 import SubscriberClient
from google.cloud.pubsub_v1.subscriber import exceptions as subscriber_exceptions
from google.rpc import error_details_pb2

from compat_tests.rest import Project
from compat_tests.targets import Target
from compat_tests.test_streaming_subscriber import PATIENCE_S, Receiver, Subscribers, subscribers

CLIENT = "google-cloud-pubsub"

__all__ = ["subscribers"]

# What a Status may have in the trailers when gRPC's own limit for headers is in force, as it is without TLS.
DETAILS_MAX_BYTES = 5_844

AckStatus = subscriber_exceptions.AcknowledgeStatus


@pytest.fixture
def client(server: Target, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.host_port)
    with SubscriberClient() as client:
        yield client


def once(project: Project, **fields: Any) -> tuple[str, str]:
    return project.pair(enableExactlyOnceDelivery=True, **fields)


def expired(project: Project, count: int) -> tuple[str, list[str]]:
    """A subscription, and the ids of so many deliveries whose deadlines have passed."""
    topic, subscription = once(project, ackDeadlineSeconds=10)
    for _ in range(0, count, 500):
        project.publish(topic, *[b"x"] * min(count, 500))
    ids = [message.ack_id for message in project.pull(subscription, 1_000)]
    assert len(ids) == count
    project.modify(subscription, ids, 0).ok()
    return subscription, ids


def refusal(call: Any, **request: Any) -> Any:
    """The error of a call that is refused at once; its details, and the size of the Status that came."""
    with pytest.raises(exceptions.InvalidArgument) as caught:
        call(request=request, retry=None, timeout=PATIENCE_S)
    return caught.value


class TestGeneratedClient:
    @pytest.mark.rule("K17", "S8.13", "S8.4", "S8.7", "V12")
    @pytest.mark.parametrize("method", ["acknowledge", "modify_ack_deadline"])
    def test_a_thousand_expired_ids_are_refused_readably(self, project: Project, client: Any, method: str) -> None:
        subscription, ids = expired(project, 1_000)
        more = {"ack_deadline_seconds": 20} if method == "modify_ack_deadline" else {}

        problem = refusal(getattr(client, method), subscription=subscription, ack_ids=ids, **more)

        first = problem.details[0]
        assert isinstance(first, error_details_pb2.ErrorInfo)
        assert (first.reason, first.domain) == ("EXACTLY_ONCE_ACKID_FAILURE", "pubsub.googleapis.com")
        assert len(first.metadata) > 50
        assert set(first.metadata.items()) <= {(ack_id, "PERMANENT_FAILURE_INVALID_ACK_ID") for ack_id in ids}
        trailers = dict(problem.errors[0].trailing_metadata())
        assert len(trailers["grpc-status-details-bin"]) <= DETAILS_MAX_BYTES

    @pytest.mark.rule("S8.6", "S8.4")
    def test_the_good_ids_of_a_request_are_acked(self, project: Project, client: Any) -> None:
        subscription, (bad,) = expired(project, 1)
        good = project.pull_one(subscription).ack_id

        problem = refusal(client.acknowledge, subscription=subscription, ack_ids=[bad, good])

        assert dict(problem.details[0].metadata) == {bad: "PERMANENT_FAILURE_INVALID_ACK_ID"}
        assert project.pull(subscription) == []


class TestSubscriber:
    @pytest.mark.rule("S8.1", "S8.10", "L15", "S7.3.5", "B070")
    def test_acks_are_confirmed(self, project: Project, subscribers: Subscribers) -> None:
        topic, subscription = once(project)
        receiver = Receiver()
        subscribers.subscribe(subscription, receiver)

        project.publish(topic, *[b"%d" % number for number in range(300)])

        receiver.wait_until_acked(300)
        assert sorted(receiver.data) == sorted(b"%d" % number for number in range(300))
        assert {future.result(PATIENCE_S) for future in receiver._acks} == {AckStatus.SUCCESS}
        assert project.pull(subscription) == []

    @pytest.mark.rule("S8.2", "S8.3", "V6", "C20")
    def test_a_late_ack_is_told_so_and_the_message_comes_again(
        self, project: Project, subscribers: Subscribers
    ) -> None:
        topic, subscription = once(project)
        receiver = Receiver(lambda _: None)
        subscribers.subscribe(subscription, receiver)
        project.publish(topic, b"late")
        receiver.wait(1)
        project.modify(subscription, receiver.ack_ids, 0).ok()
        receiver.wait(2)
        first, second = receiver.messages

        with pytest.raises(subscriber_exceptions.AcknowledgeError) as caught:
            first.ack_with_response().result(PATIENCE_S)

        assert caught.value.error_code == AckStatus.INVALID_ACK_ID
        assert second.ack_with_response().result(PATIENCE_S) == AckStatus.SUCCESS
        assert project.pull(subscription) == []

    @pytest.mark.rule("S8.12")
    def test_a_nack_is_confirmed_and_the_message_comes_again(self, project: Project, subscribers: Subscribers) -> None:
        topic, subscription = once(project)
        nacks: list[Any] = []

        def treat(message: Any) -> None:
            if nacks:
                receiver.ack(message)
            else:
                nacks.append(message.nack_with_response())

        receiver = Receiver(treat)
        subscribers.subscribe(subscription, receiver)

        project.publish(topic, b"again")

        receiver.wait_until_acked(1)
        assert nacks[0].result(PATIENCE_S) == AckStatus.SUCCESS
        assert receiver.data == [b"again", b"again"]

    @pytest.mark.rule("S8.8", "S9.1")
    def test_acks_out_of_order_are_retried_until_it_is_their_turn(
        self, project: Project, subscribers: Subscribers
    ) -> None:
        """The library retries what fails for the time being, a second later and at growing distances."""
        topic, subscription = once(project, enableMessageOrdering=True)
        held: list[Any] = []

        def treat(message: Any) -> None:
            if message.data == b"1":
                held.append(message)
            else:
                receiver.ack(message)

        receiver = Receiver(treat)
        # Without it the library hands out the second message of a key when the first is acked only.
        generated = subscribers.client()
        project.publish(topic, {"data": "MQ==", "orderingKey": "k"}, {"data": "Mg==", "orderingKey": "k"})
        first, second = project.pull(subscription, 2)
        problem = refusal(generated.acknowledge, subscription=subscription, ack_ids=[second.ack_id])
        assert dict(problem.details[0].metadata) == {second.ack_id: "TRANSIENT_FAILURE_UNORDERED_ACK_ID"}
        project.modify(subscription, [first.ack_id], 0).ok()

        subscribers.subscribe(subscription, receiver)

        receiver.wait_for(lambda: bool(held))
        assert receiver.data == [b"1"]
        assert held[0].ack_with_response().result(PATIENCE_S) == AckStatus.SUCCESS
        receiver.wait_until_acked(1)
        assert receiver.data == [b"1", b"2"]

    @pytest.mark.rule("S8.10")
    def test_switched_on_while_a_subscriber_runs(self, project: Project, subscribers: Subscribers) -> None:
        topic, subscription = project.pair()
        receiver = Receiver()
        future = subscribers.subscribe(subscription, receiver)
        project.publish(topic, b"before")
        receiver.wait_until_acked(1)

        change = {"subscription": {"enableExactlyOnceDelivery": True}, "updateMask": "enableExactlyOnceDelivery"}
        project.rest.call("PATCH", subscription, change).ok()

        project.publish(topic, b"after")
        receiver.wait_until_acked(2)
        # This library asks for no heartbeats, so the response with the next message tells it.
        assert future._StreamingPullFuture__manager._exactly_once_delivery_enabled()
        assert receiver.data == [b"before", b"after"]
