"""Relaxed limits: a server with short times, as a user starts it, over REST and over gRPC."""

import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from google.api_core import exceptions
from google.pubsub_v1 import PublisherClient, SubscriberClient, types

from compat_tests.rest import INVALID, Project, Rest
from compat_tests.targets import Target
from tests.tools.server import serve

CLIENT = "google-cloud-pubsub"

SHORT: dict[str, Any] = {
    "ackDeadlineSeconds": 1,
    "messageRetentionDuration": "1s",
    "expirationPolicy": {"ttl": "1.500s"},
}


@pytest.fixture(scope="module")
def relaxed() -> Iterator[Target]:
    with serve("--limits", "relaxed") as server:
        yield Target("localhost", server.port)


def clients(target: Target) -> tuple[PublisherClient, SubscriberClient]:
    with mock.patch.dict(os.environ, {"PUBSUB_EMULATOR_HOST": target.host_port}):
        return PublisherClient(), SubscriberClient()


class TestRest:
    def test_short_times_are_taken_and_kept(self, relaxed: Target) -> None:
        project = Project(Rest(relaxed), "rest")
        topic = project.topic(messageRetentionDuration="1s")
        policy = {"deadLetterTopic": topic, "maxDeliveryAttempts": 1}

        subscription = project.subscription(topic, **SHORT, deadLetterPolicy=policy)

        found = project.rest.call("GET", subscription).ok()
        assert {name: found[name] for name in SHORT} == SHORT
        assert found["deadLetterPolicy"] == policy

    @pytest.mark.parametrize(
        "fields",
        [
            {"ackDeadlineSeconds": -1},
            {"ackDeadlineSeconds": 601},
            {"messageRetentionDuration": "0.999s"},
            {"expirationPolicy": {"ttl": "0s"}},
            {"messageRetentionDuration": "3s", "expirationPolicy": {"ttl": "2s"}},
        ],
    )
    def test_there_are_limits_all_the_same(self, relaxed: Target, fields: dict[str, Any]) -> None:
        project = Project(Rest(relaxed), "limited")
        topic = project.topic_name()
        project.rest.call("PUT", topic, {})

        assert project.rest.call("PUT", project.subscription_name(), {"topic": topic, **fields}).refusal == INVALID

    def test_what_is_not_set_is_as_in_production(self, relaxed: Target) -> None:
        project = Project(Rest(relaxed), "defaults")
        _, subscription = project.pair()

        found = project.rest.call("GET", subscription).ok()

        assert found["ackDeadlineSeconds"] == 10
        assert found["messageRetentionDuration"] == "604800s"
        assert found["expirationPolicy"] == {"ttl": "2678400s"}

    @pytest.mark.parametrize("name", SHORT)
    def test_without_the_option_they_are_refused(self, project: Project, name: str) -> None:
        fields = {"topic": project.topic(), name: SHORT[name]}

        assert project.rest.call("PUT", project.subscription_name(), fields).refusal == INVALID


class TestGrpc:
    def test_a_message_comes_again_after_a_second(self, relaxed: Target) -> None:
        publisher, subscriber = clients(relaxed)
        topic, subscription = "projects/grpc/topics/top", "projects/grpc/subscriptions/sub"
        with publisher, subscriber:
            publisher.create_topic(name=topic)
            subscriber.create_subscription({"name": subscription, "topic": topic, "ack_deadline_seconds": 1})
            publisher.publish(topic=topic, messages=[types.PubsubMessage(data=b"again")])
            first = subscriber.pull(subscription=subscription, max_messages=1).received_messages
            again: Any = []
            while not again:  # a Pull that finds nothing ends after a second
                again = subscriber.pull(subscription=subscription, max_messages=1).received_messages

        assert [one.message.data for one in (*first, *again)] == [b"again", b"again"]

    def test_a_stream_may_ask_for_a_deadline_of_a_second(self, relaxed: Target) -> None:
        publisher, subscriber = clients(relaxed)
        topic, subscription = "projects/stream/topics/top", "projects/stream/subscriptions/sub"
        with publisher, subscriber:
            publisher.create_topic(name=topic)
            subscriber.create_subscription(name=subscription, topic=topic)
            publisher.publish(topic=topic, messages=[types.PubsubMessage(data=b"again")])
            opening = types.StreamingPullRequest(subscription=subscription, stream_ack_deadline_seconds=1)
            stream = subscriber.streaming_pull(requests=iter([opening]))
            received = [one.message.data for response in stream for one in response.received_messages]
            again: Any = []
            while not again:
                again = subscriber.pull(subscription=subscription, max_messages=1).received_messages

        assert [*received, again[0].message.data] == [b"again", b"again"]

    def test_without_the_option_it_is_refused(self, server: Target, project: Project) -> None:
        topic = project.topic()
        publisher, subscriber = clients(server)
        with publisher, subscriber, pytest.raises(exceptions.InvalidArgument, match="ack_deadline_seconds"):
            subscriber.create_subscription(
                {"name": project.subscription_name(), "topic": topic, "ack_deadline_seconds": 1}
            )
