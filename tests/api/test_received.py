"""Deliveries on the wire, written by hand: protobuf reads in them what the engine holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.api import pb
from emulator.api.received import received
from emulator.clock import FakeClock
from emulator.engine.broker import Broker
from emulator.engine.entries import Lease
from emulator.engine.subscription import Subscription
from emulator.engine.values import DeadLetterPolicy, Draft, Message, SubscriptionSettings, TopicSettings

SECOND = 1_000_000_000

texts = st.text(max_size=200)
messages = st.builds(
    Message,
    number=st.integers(min_value=1, max_value=2**40 - 1),
    publish_time=st.integers(min_value=0, max_value=4_000_000_000_000_000_000).map(lambda ns: ns // 10**6 * 10**6),
    data=st.binary(max_size=20_000),
    attributes=st.dictionaries(texts, texts, max_size=20),
    ordering_key=texts,
    size=st.just(0),
)


def subscription(*, shows_attempts: bool = False, count: int = 0) -> tuple[Subscription, list[Lease]]:
    """One with so many messages leased."""
    broker = Broker(FakeClock())
    topic = broker.create_topic("projects/p/topics/t", TopicSettings())
    policy = DeadLetterPolicy(topic.name, 5) if shows_attempts else None
    settings = SubscriptionSettings(10 * SECOND, 600 * SECOND, dead_letter=policy)
    made = broker.create_subscription("projects/p/subscriptions/s", topic, settings)
    if count:
        broker.publish(topic.name, [Draft(b"%d" % number, {}) for number in range(count)])
    return made, list(made.pull(1_000, wait=False).hand_over())


def expected(holder: Subscription, lease: Lease, *, shows_attempts: bool) -> pb.ReceivedMessage:
    assert lease.entry is not None
    message = lease.entry.message
    shown = pb.ReceivedMessage(
        ack_id=holder.ack_id(lease),
        message=pb.PubsubMessage(
            data=message.data,
            attributes=message.attributes,
            message_id=str(message.number),
            ordering_key=message.ordering_key,
        ),
        delivery_attempt=lease.entry.failures + 1 if shows_attempts else 0,
    )
    shown.message.publish_time.FromNanoseconds(message.publish_time)
    return shown


@pytest.mark.rule("S7.1.1", "S7.1.11")
@given(message=messages, failures=st.integers(min_value=0, max_value=1_000), shows_attempts=st.booleans())
def test_it_is_what_protobuf_would_write(message: Message, failures: int, shows_attempts: bool) -> None:
    holder, (lease,) = subscription(shows_attempts=shows_attempts, count=1)
    assert lease.entry is not None
    lease.entry.message = message
    lease.entry.failures = failures

    for response in (pb.PullResponse, pb.StreamingPullResponse):
        read = response.FromString(received(holder, [lease]))

        assert list(read.received_messages) == [expected(holder, lease, shows_attempts=shows_attempts)]


def test_many_keep_their_order() -> None:
    holder, leases = subscription(count=300)

    read = pb.PullResponse.FromString(received(holder, leases)).received_messages

    assert [int(each.message.data) for each in read] == list(range(300))
    assert [each.ack_id for each in read] == [holder.ack_id(lease) for lease in leases]


def test_what_has_ended_is_left_out() -> None:
    holder, leases = subscription(count=3)
    holder.acknowledge([(2, 2)])

    read = pb.PullResponse.FromString(received(holder, leases)).received_messages

    assert [each.message.message_id for each in read] == ["1", "3"]
    assert received(holder, []) == b""
