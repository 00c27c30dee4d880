"""Publish requests read by hand: they are what protobuf reads, or are left to it."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from emulator.api import pb
from emulator.api.drafts import draft
from emulator.api.publish_request import read, write_reply
from emulator.api.publisher import Publisher
from emulator.clock import FakeClock
from emulator.engine.broker import Broker
from emulator.engine.drafts import messages_of
from emulator.engine.values import SubscriptionSettings, TopicSettings
from emulator.errors import PubsubError
from emulator.limits import Limits

TOPIC = "projects/acme/topics/orders"
SUBSCRIPTION = "projects/acme/subscriptions/orders"
SECOND = 1_000_000_000

# So small that random requests pass each of them now and then.
TIGHT = Limits(publish_max_messages=6, publish_max_bytes=2_000, attributes_max=3, ordering_key_max_bytes=8)

texts = st.text(max_size=12)
data = st.binary(max_size=12) | st.sampled_from([120, 123, 126, 127, 128, 300, 1_100, 16_400]).map(bytes)
plain = st.builds(pb.PubsubMessage, data=data)
anything = st.builds(
    pb.PubsubMessage,
    data=data,
    attributes=st.dictionaries(texts, texts, max_size=4),
    ordering_key=texts | st.just("k"),
    message_id=st.sampled_from(["", "", "7"]),
)
requests = st.builds(
    pb.PublishRequest,
    topic=st.sampled_from([TOPIC, TOPIC, TOPIC, TOPIC + "é", "orders", ""]),
    messages=st.lists(plain, max_size=8) | st.lists(plain | anything, max_size=8),
)


def varint(value: int, size: int) -> bytes:
    """In so many bytes, whether it needs them or not."""
    return bytes(value >> 7 * at & 0x7F | (0x80 if at < size - 1 else 0) for at in range(size))


def of(number: int, content: bytes, size: int = 0) -> bytes:
    """A field with a length, of `size` bytes if that is not 0."""
    needed = max(1, (len(content).bit_length() + 6) // 7)
    return bytes((number << 3 | 2,)) + varint(len(content), size or needed) + content


@st.composite
def unusual(draw: st.DrawFn) -> bytes:
    """Bytes of a request as no client would write them: fields in any order, long lengths, unknown ones, cut off."""
    message = st.lists(
        st.builds(of, st.sampled_from([1, 1, 1, 2, 3, 5, 9]), st.binary(max_size=6), st.sampled_from([0, 0, 0, 2, 5]))
        | st.just(of(1, bytes(200))),
        max_size=3,
    ).map(b"".join)
    field = st.builds(of, st.sampled_from([2, 2, 2, 9]), message, st.sampled_from([0, 0, 0, 2, 3, 5])) | st.just(
        of(1, TOPIC.encode())
    )
    whole = draw(st.sampled_from([of(1, TOPIC.encode()), b""])) + b"".join(draw(st.lists(field, max_size=4)))
    cut = draw(st.none() | st.integers(0, len(whole)))
    return whole if cut is None else whole[:cut] + draw(st.binary(max_size=2))


def publisher() -> tuple[Publisher, Broker]:
    broker = Broker(FakeClock(), TIGHT)
    topic = broker.create_topic(TOPIC, TopicSettings())
    broker.create_subscription(SUBSCRIPTION, topic, SubscriptionSettings(10 * SECOND, 600 * SECOND))
    return Publisher(broker), broker


def outcome(serialized: bytes, *, by_hand: bool) -> tuple[object, object]:
    """What a call with these bytes is answered, as the wire would have it, and what is stored."""
    serves, broker = publisher()
    answer: object
    try:
        reply = serves.publish_serialized(b"12345" + serialized, 5) if by_hand else None
        if reply is None:
            reply = serves.publish(pb.PublishRequest.FromString(serialized)).SerializeToString()
        answer = list(pb.PublishResponse.FromString(reply).message_ids)
    except PubsubError as problem:
        answer = (problem.code, problem.message)
    except DecodeError:
        answer = "unreadable"
    leases = broker.pull(SUBSCRIPTION, 100, wait=False).hand_over()
    stored = [lease.entry.message for lease in leases if lease.entry is not None]
    return answer, [(m.number, m.data, dict(m.attributes), m.ordering_key, m.size, m.publish_time) for m in stored]


@pytest.mark.rule("S5.1", "S5.2", "S5.3", "S5.9")
@given(requests)
def test_a_request_is_served_as_if_protobuf_had_read_it(request: pb.PublishRequest) -> None:
    serialized = request.SerializeToString()

    assert outcome(serialized, by_hand=True) == outcome(serialized, by_hand=False)


@pytest.mark.rule("S5.1", "S5.2")
@given(unusual())
def test_an_unusual_request_is_served_as_if_protobuf_had_read_it(serialized: bytes) -> None:
    assert outcome(serialized, by_hand=True) == outcome(serialized, by_hand=False)


@given(requests)
def test_sizes_are_those_that_protobuf_says(request: pb.PublishRequest) -> None:
    found = read(request.SerializeToString(), 0, 100)

    if found is not None:
        assert found.size == request.ByteSize()
        made = messages_of(found.drafts, 1, 0)
        expected = messages_of([draft(message) for message in request.messages], 1, 0)
        assert [message.size for message in made] == [message.size for message in expected]


@pytest.mark.parametrize("size", [1, 124, 125, 126, 127, 128, 16_379, 16_380, 16_384, 2_097_152])
@pytest.mark.parametrize("attributes", [{}, {"k": "v"}])
def test_what_clients_send_is_read_by_hand(size: int, attributes: dict[str, str]) -> None:
    message = pb.PubsubMessage(data=bytes(size), attributes=attributes)

    found = read(pb.PublishRequest(topic=TOPIC, messages=[message] * 2).SerializeToString(), 0, 2)

    assert found is not None
    assert (found.topic, [each.data for each in messages_of(found.drafts, 1, 0)]) == (TOPIC, [bytes(size)] * 2)


@pytest.mark.rule("S5.2")
@pytest.mark.parametrize("attributes", [{}, {"k": "v"}])
def test_no_more_messages_are_read_than_are_allowed(attributes: dict[str, str]) -> None:
    message = pb.PubsubMessage(data=b"x", attributes=attributes)
    serialized = pb.PublishRequest(topic=TOPIC, messages=[message] * 3).SerializeToString()

    assert (read(serialized, 0, 2), read(serialized, 0, 3) is not None) == (None, True)


@pytest.mark.rule("S5.9")
@pytest.mark.parametrize(("first", "count"), [(1, 1), (1, 9), (1, 1_000), (99, 2), (10**15, 3), (10**12 - 2, 4)])
def test_ids_are_written_as_protobuf_writes_them(first: int, count: int) -> None:
    ids = range(first, first + count)

    assert write_reply(ids) == pb.PublishResponse(message_ids=map(str, ids)).SerializeToString()
