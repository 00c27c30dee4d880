"""The high-level SubscriberClient of google-cloud-pubsub: callbacks, flow control, ends, restarts, many of them."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import pytest
from google.api_core import exceptions
from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient
from google.cloud.pubsub_v1.types import FlowControl

from compat_tests.rest import Project, Rest
from compat_tests.targets import Target
from tests.tools.server import serve

CLIENT = "google-cloud-pubsub"

# How long a future or a message may take, in seconds.
PATIENCE_S = 50

MEGABYTE = 1_000_000

# The threads in which the library shuts a subscriber down; its future doesn't wait for them after an error.
SHUTDOWNS = ("Thread-RegularStreamShutdown", "Thread-OnRpcTerminated")


class Receiver:
    """A callback that notes every message and then treats it: by default it is acked.

    `peak` is the largest number of messages that were not acked yet. Several may share `changed`.
    """

    def __init__(self, treat: Callable[[Any], None] | None = None, changed: threading.Condition | None = None) -> None:
        self.messages: list[Any] = []
        self.peak = 0
        self._treat = treat or self.ack
        self._at_work = 0
        self._acks: list[Any] = []
        self._changed = changed or threading.Condition()

    def __call__(self, message: Any) -> None:
        with self._changed:
            self.messages.append(message)
            self._at_work += 1
            self.peak = max(self.peak, self._at_work)
            self._changed.notify_all()
        self._treat(message)

    def ack(self, message: Any) -> None:
        with self._changed:
            self._at_work -= 1
            self._acks.append(message.ack_with_response())
            self._changed.notify_all()

    @property
    def data(self) -> list[bytes]:
        return [message.data for message in self.messages]

    @property
    def ack_ids(self) -> list[str]:
        return [message.ack_id for message in self.messages]

    def wait(self, count: int, seconds: float = PATIENCE_S) -> None:
        """Until so many messages have come, and none beyond."""
        self.wait_for(lambda: len(self.messages) >= count, seconds)
        assert len(self.messages) == count

    def wait_until_acked(self, count: int, seconds: float = PATIENCE_S) -> None:
        """Until the server has confirmed so many acks."""
        self.wait_for(lambda: len(self._acks) >= count, seconds)
        for future in self._acks:
            future.result(seconds)

    def wait_for(self, condition: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, seconds), self

    def __repr__(self) -> str:
        return f"<Receiver messages={len(self.messages)} acks={len(self._acks)}>"


class Holder(Receiver):
    """Acks a message only when it may go on."""

    def __init__(self, changed: threading.Condition | None = None) -> None:
        super().__init__(self._hold, changed)
        self.go_on = threading.Event()

    def _hold(self, message: Any) -> None:
        assert self.go_on.wait(2 * PATIENCE_S)
        self.ack(message)


class Subscribers:
    """The subscribers of a test, which all have to come to their end."""

    def __init__(self) -> None:
        self._futures: list[Any] = []
        self._clients: list[Any] = []
        self._holders: list[Holder] = []

    def client(self, kind: type[SubscriberClient] = SubscriberClient) -> Any:
        """A client as a user makes it: the variable, and no argument."""
        self._clients.append(kind())
        return self._clients[-1]

    def subscribe(self, subscription: str, receiver: Receiver, client: Any = None, **options: Any) -> Any:
        if isinstance(receiver, Holder):
            self._holders.append(receiver)
        future = (client or self.client()).subscribe(subscription, receiver, **options)
        self._futures.append(future)
        return future

    def close(self) -> None:
        for holder in self._holders:
            holder.go_on.set()
        for future in self._futures:
            future.cancel()
        for thread in threading.enumerate():
            if thread.name in SHUTDOWNS:
                thread.join(PATIENCE_S)
        for client in self._clients:
            client.close()

    def __repr__(self) -> str:
        return f"<Subscribers {len(self._futures)}>"


Subscribe: TypeAlias = Callable[..., Any]


@pytest.fixture
def subscribers(server: Target, monkeypatch: pytest.MonkeyPatch) -> Iterator[Subscribers]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.host_port)
    subscribers = Subscribers()
    yield subscribers
    subscribers.close()


@pytest.fixture
def subscribe(subscribers: Subscribers) -> Subscribe:
    return subscribers.subscribe


def stop(future: Any) -> None:
    """Cancel a subscriber and wait for its end."""
    future.cancel()
    future.result(PATIENCE_S)


def check_that_all_are_acked(project: Project, subscription: str, receiver: Receiver) -> None:
    """What isn't would come back now; there must be no subscriber any more."""
    ids = receiver.ack_ids
    for start in range(0, len(ids), 1_000):
        project.modify(subscription, ids[start : start + 1_000], 0).ok()
    assert project.data(subscription) == []


class TestMessages:
    @pytest.mark.rule("K1", "V1", "C13", "O5")
    @pytest.mark.parametrize(
        "count", [1_000, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])]
    )
    def test_each_of_many_comes_once(self, subscribers: Subscribers, project: Project, count: int) -> None:
        publisher, client = PublisherClient(), subscribers.client()
        topic, subscription = project.topic_name(), project.subscription_name()
        publisher.create_topic(name=topic)
        client.create_subscription(name=subscription, topic=topic)
        published = [publisher.publish(topic, b"%d" % number) for number in range(count)]
        receiver = Receiver()

        future = subscribers.subscribe(subscription, receiver, client)
        receiver.wait_until_acked(count, 240)
        stop(future)

        ids = [one.result(PATIENCE_S) for one in published]
        assert len(receiver.messages) == count
        assert {one.message_id: int(one.data) for one in receiver.messages} == dict(zip(ids, range(count), strict=True))
        check_that_all_are_acked(project, subscription, receiver)
        publisher.stop()
        publisher.transport.close()

    @pytest.mark.rule("K2", "T7", "O18", "S7.1.12")
    def test_thirty_of_a_megabyte(self, subscribe: Subscribe, project: Project) -> None:
        topic, subscription = project.pair()
        bodies = [bytes([number]) * MEGABYTE for number in range(30)]
        for start in range(0, 30, 5):
            project.publish(topic, *bodies[start : start + 5])
        receiver = Receiver()

        future = subscribe(subscription, receiver)
        receiver.wait_until_acked(30)
        stop(future)

        assert sorted(receiver.data) == bodies
        check_that_all_are_acked(project, subscription, receiver)

    @pytest.mark.rule("S7.1.11")
    @pytest.mark.parametrize("attempts", [None, 1])
    def test_a_message_comes_whole(self, subscribe: Subscribe, project: Project, attempts: int | None) -> None:
        policy = {"deadLetterPolicy": {"deadLetterTopic": project.topic("dead-letters")}}
        topic, subscription = project.pair(**(policy if attempts else {}))
        message = {"data": "aGk=", "attributes": {"ä": "ö", "empty": ""}, "orderingKey": "key"}
        (identifier,) = project.publish(topic, message)
        receiver = Receiver()

        subscribe(subscription, receiver)
        receiver.wait(1)

        (received,) = receiver.messages
        assert (received.message_id, received.data, received.ordering_key) == (identifier, b"hi", "key")
        assert dict(received.attributes) == {"ä": "ö", "empty": ""}
        assert received.publish_time.timestamp() > 0
        assert received.delivery_attempt == attempts

    @pytest.mark.rule("B004")
    def test_messages_come_as_they_are_published(self, subscribe: Subscribe, project: Project) -> None:
        topic, subscription = project.pair()
        receiver = Receiver()
        subscribe(subscription, receiver)

        for number in range(5):
            project.publish(topic, b"%d" % number)
            receiver.wait(number + 1)

        assert receiver.data == [b"0", b"1", b"2", b"3", b"4"]

    @pytest.mark.rule("V3", "B016", "S7.1.4")
    def test_a_nacked_message_comes_again(self, subscribe: Subscribe, project: Project) -> None:
        topic, subscription = project.pair(ackDeadlineSeconds=600)
        project.publish(topic, b"twice", b"once")

        def treat(message: Any) -> None:
            if receiver.data.count(b"twice") == 1 and message.data == b"twice":
                message.nack()
            else:
                receiver.ack(message)

        receiver = Receiver(treat)
        future = subscribe(subscription, receiver)
        receiver.wait_until_acked(2)
        stop(future)

        assert Counter(receiver.data) == {b"twice": 2, b"once": 1}
        assert len(set(receiver.ack_ids)) == 3
        check_that_all_are_acked(project, subscription, receiver)

    @pytest.mark.rule("V3")
    def test_a_message_comes_again_whose_callback_fails(self, subscribe: Subscribe, project: Project) -> None:
        """The library nacks it and tells its future, and goes on receiving."""
        topic, subscription = project.pair(ackDeadlineSeconds=600)
        project.publish(topic, b"message")

        def treat(message: Any) -> None:
            if len(receiver.messages) == 1:
                raise KeyError("of the callback")
            receiver.ack(message)

        receiver = Receiver(treat)
        future = subscribe(subscription, receiver)
        receiver.wait_until_acked(1)

        assert receiver.data == [b"message"] * 2
        with pytest.raises(KeyError, match="of the callback"):
            future.result(PATIENCE_S)


class TestFlowControl:
    @pytest.mark.rule("O9", "V8", "C15", "B010")
    def test_one_message_at_a_time(self, subscribe: Subscribe, project: Project) -> None:
        topic, subscription = project.pair()
        bodies = [b"%d" % number for number in range(20)]
        project.publish(topic, *bodies)
        holder = Holder()

        future = subscribe(subscription, holder, flow_control=FlowControl(max_messages=1))
        holder.wait(1)
        others = project.pull(subscription)
        project.modify(subscription, [one.ack_id for one in others], 0).ok()
        holder.go_on.set()
        holder.wait_until_acked(20)
        stop(future)

        assert [one.data for one in others] == bodies[1:]
        assert holder.peak == 1
        assert holder.data == bodies

    @pytest.mark.rule("O9", "V8", "C16")
    def test_as_many_as_its_bytes_allow(self, subscribe: Subscribe, project: Project) -> None:
        topic, subscription = project.pair()
        bodies = [bytes([number]) * 1_000 for number in range(10)]
        project.publish(topic, *bodies)
        holder = Holder()

        future = subscribe(subscription, holder, flow_control=FlowControl(max_bytes=2_500))
        holder.wait(3)
        others = project.pull(subscription)
        project.modify(subscription, [one.ack_id for one in others], 0).ok()
        holder.go_on.set()
        holder.wait_until_acked(10)
        stop(future)

        assert [one.data for one in others] == bodies[3:]
        assert holder.peak == 3
        assert sorted(holder.data) == bodies

    @pytest.mark.rule("V9")
    def test_a_message_larger_than_all_its_bytes(self, subscribe: Subscribe, project: Project) -> None:
        topic, subscription = project.pair()
        bodies = [bytes([number]) * MEGABYTE for number in range(3)]
        project.publish(topic, *bodies)
        receiver = Receiver()

        subscribe(subscription, receiver, flow_control=FlowControl(max_bytes=1_000))
        receiver.wait_until_acked(3)

        assert receiver.data == bodies
        assert receiver.peak == 1

    @pytest.mark.rule("V10")
    def test_only_the_client_s_own(self, subscribe: Subscribe, project: Project) -> None:
        topic, subscription = project.pair()
        bodies = [b"%d" % number for number in range(20)]
        project.publish(topic, *bodies)
        holder = Holder()

        future = subscribe(subscription, holder, flow_control=FlowControl(max_messages=1), use_legacy_flow_control=True)
        holder.wait(1)
        others = project.data(subscription)
        holder.go_on.set()
        holder.wait_until_acked(20)
        stop(future)

        assert others == []
        assert holder.peak == 1
        assert holder.data == bodies

    @pytest.mark.slow
    @pytest.mark.timeout(120)
    @pytest.mark.rule("C14", "V4", "V5")
    def test_a_message_held_too_long(self, subscribers: Subscribers, project: Project) -> None:
        topic, subscription = project.pair()
        again = threading.Event()

        def treat(message: Any) -> None:
            if len(receiver.messages) > 1:
                again.set()  # and leave this delivery alone
            elif again.wait(2 * PATIENCE_S):
                receiver.ack(message)

        receiver = Receiver(treat)
        client = subscribers.client(Noting)
        limits = FlowControl(max_lease_duration=10, max_duration_per_lease_extension=10)
        project.publish(topic, b"message")

        future = subscribers.subscribe(subscription, receiver, client, flow_control=limits)
        receiver.wait_until_acked(1)
        stop(future)

        assert receiver.data == [b"message"] * 2
        assert set(client.terms) == {10}, "it was nacked"
        check_that_all_are_acked(project, subscription, receiver)


class Noting(SubscriberClient):
    """Knows the seconds of every ModifyAckDeadline that the library sent."""

    def __init__(self) -> None:
        super().__init__()
        self.terms: list[int] = []

    def modify_ack_deadline(self, *args: Any, **kwargs: Any) -> None:
        self.terms.append(kwargs["ack_deadline_seconds"])
        super().modify_ack_deadline(*args, **kwargs)


class TestEnds:
    @pytest.mark.rule("K16", "S7.3.7", "S7.2.6")
    @pytest.mark.parametrize(
        ("verb", "path", "error"),
        [("DELETE", "", exceptions.NotFound), ("POST", ":detach", exceptions.FailedPrecondition)],
        ids=["deleted", "detached"],
    )
    def test_of_the_subscription(
        self, subscribe: Subscribe, project: Project, verb: str, path: str, error: type[Exception]
    ) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"message")
        receiver = Receiver()
        future = subscribe(subscription, receiver)
        receiver.wait_until_acked(1)

        project.rest.call(verb, f"{subscription}{path}").ok()

        with pytest.raises(error, match=subscription):
            future.result(PATIENCE_S)

    @pytest.mark.rule("K16", "S7.3.1")
    def test_of_a_subscription_that_is_missing(self, subscribe: Subscribe, project: Project) -> None:
        future = subscribe(project.subscription_name(), Receiver())

        with pytest.raises(exceptions.NotFound, match="Resource not found"):
            future.result(PATIENCE_S)

    @pytest.mark.rule("V3", "V14")
    def test_a_cancelled_subscriber_returns_what_it_has_not_begun(self, subscribe: Subscribe, project: Project) -> None:
        topic, subscription = project.pair()
        bodies = [b"%d" % number for number in range(10)]
        project.publish(topic, *bodies)
        holder = Holder()
        limits = FlowControl(max_messages=1)
        future = subscribe(subscription, holder, flow_control=limits, use_legacy_flow_control=True)
        holder.wait(1)
        assert project.data(subscription) == []

        stop(future)

        assert future.cancelled()
        assert holder.data == bodies[:1]
        assert project.data(subscription) == bodies[1:]

    @pytest.mark.rule("V14")
    def test_a_cancelled_subscriber_finishes_what_it_has_begun(self, subscribe: Subscribe, project: Project) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"message")
        holder = Holder()
        future = subscribe(subscription, holder, await_callbacks_on_shutdown=True)
        holder.wait(1)

        future.cancel()
        holder.go_on.set()
        future.result(PATIENCE_S)

        check_that_all_are_acked(project, subscription, holder)

    @pytest.mark.rule("O16", "T23")
    def test_a_cancelled_subscriber_gets_nothing_more(
        self, subscribers: Subscribers, subscribe: Subscribe, project: Project
    ) -> None:
        topic, subscription = project.pair()
        project.publish(topic, b"before")
        receiver, client = Receiver(), subscribers.client()
        future = subscribe(subscription, receiver, client)
        receiver.wait_until_acked(1)

        stop(future)
        client.get_subscription(subscription=subscription)  # the server has heard of the end before this
        project.publish(topic, b"after")

        assert project.pull_one(subscription).data == b"after"
        assert receiver.data == [b"before"]

    @pytest.mark.rule("K13", "S7.3.7", "T10")
    def test_a_restarted_server_is_found_again(self, subscribers: Subscribers, monkeypatch: pytest.MonkeyPatch) -> None:
        receiver = Receiver()
        with serve() as first:
            monkeypatch.setenv("PUBSUB_EMULATOR_HOST", first.host_port)
            project = Project(Rest(Target("localhost", first.port)), "project")
            topic, subscription = project.pair()
            project.publish(topic, b"before")
            client = subscribers.client(Patient)
            future = subscribers.subscribe(subscription, receiver, client)
            receiver.wait_until_acked(1)
        assert client.waits.wait(PATIENCE_S)

        with serve("--host-port", first.host_port) as second:
            assert second.port == first.port
            client.create_subscription(name=subscription, topic=project.topic())
            client.go_on.set()
            project.publish(topic, b"after")
            receiver.wait_until_acked(2)
            stop(future)

        assert receiver.data == [b"before", b"after"]


class Patient(SubscriberClient):
    """Its third stream waits until a test has made again what the restarted server has forgotten.

    The second finds no server. The library takes a missing subscription for final.
    """

    def __init__(self) -> None:
        super().__init__()
        self.streams = 0
        self.waits = threading.Event()
        self.go_on = threading.Event()

    def streaming_pull(self, *args: Any, **kwargs: Any) -> Any:
        self.streams += 1
        if self.streams > 2:
            self.waits.set()
            assert self.go_on.wait(PATIENCE_S)
        return super().streaming_pull(*args, **kwargs)


class TestManySubscribers:
    @pytest.mark.rule("S7.3.11")
    def test_of_several_subscriptions_in_one_client(
        self, subscribers: Subscribers, subscribe: Subscribe, project: Project
    ) -> None:
        topic, client = project.topic(), subscribers.client()
        names = [project.subscription(topic, f"sub-{number}") for number in range(5)]
        receivers = [Receiver() for _ in names]
        futures = [subscribe(*each, client) for each in zip(names, receivers, strict=True)]

        bodies = [b"%d" % number for number in range(100)]
        project.publish(topic, *bodies)
        for receiver in receivers:
            receiver.wait_until_acked(100)
        for future in futures:
            stop(future)

        assert [sorted(receiver.data) for receiver in receivers] == [sorted(bodies)] * 5

    @pytest.mark.rule("S7.3.11", "C17", "V1")
    def test_ten_share_all_messages(self, subscribe: Subscribe, project: Project) -> None:
        topic, subscription = project.pair()
        changed = threading.Condition()
        holders = [Holder(changed) for _ in range(10)]
        futures = [subscribe(subscription, one, flow_control=FlowControl(max_messages=1)) for one in holders]

        bodies = [b"%d" % number for number in range(500)]
        project.publish(topic, *bodies)
        for holder in holders:
            holder.wait(1)
            holder.go_on.set()
        holders[0].wait_for(lambda: sum(len(holder.messages) for holder in holders) >= 500)
        for future in futures:
            stop(future)

        assert sorted(one for holder in holders for one in holder.data) == sorted(bodies)
        for holder in holders:
            check_that_all_are_acked(project, subscription, holder)

    @pytest.mark.slow
    @pytest.mark.timeout(240)
    @pytest.mark.rule("C17", "V4", "V7", "V13", "O15", "O17")
    def test_one_of_ten_pauses_for_30_seconds(self, subscribe: Subscribe, project: Project) -> None:
        topic, subscription = project.pair()
        changed = threading.Condition()
        paused, others = Holder(changed), [Receiver(changed=changed) for _ in range(9)]
        limits = FlowControl(max_messages=1, max_duration_per_lease_extension=10)
        everyone = [subscribe(subscription, paused, flow_control=limits, use_legacy_flow_control=True)]
        project.publish(topic, b"first")
        paused.wait(1)
        pause = threading.Timer(30, paused.go_on.set)
        pause.start()

        def received_by_others() -> list[bytes]:
            return [one for other in others for one in other.data if one != b"first"]

        def has_come(one: bytes) -> bool:
            return one in paused.data or one in received_by_others()

        # A tenth of this is for the one that doesn't read: it fills its window, and the leases of it end in there.
        bodies = [b"%03d" % number * 3_000 for number in range(500)]
        everyone += [subscribe(subscription, other) for other in others]
        project.publish(topic, *bodies)
        paused.wait_for(lambda: len(received_by_others()) >= 500)
        assert sorted(received_by_others()) == bodies
        assert paused.data == [b"first"]

        pause.join()
        paused.wait_for(lambda: len(paused.messages) > 1)
        for number in range(1_000):
            news = b"news %d" % number
            project.publish(topic, news)
            paused.wait_for(partial(has_come, news))
            if news in paused.data:
                break
        for future in everyone:
            stop(future)

        assert news in paused.data
        for receiver in (paused, *others):
            check_that_all_are_acked(project, subscription, receiver)
