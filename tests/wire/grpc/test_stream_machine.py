"""Streams against the ledger under any sequence of calls, stalls and losses, and proof that this would find a fault."""

import logging
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from emulator.api import streaming_pull as streaming_pull_module
from emulator.api.streaming_pull import StreamingPull
from emulator.engine.entries import Entry, Lease, Leases
from emulator.engine.holdings import Holdings
from emulator.engine.outbox import Outbox, Parcel, Pile
from emulator.engine.streams import Stream
from emulator.engine.subscription import Subscription
from emulator.wire.grpc.calls import StreamingCall
from emulator.wire.grpc.server import GrpcConnection
from emulator.wire.http2.sending import Sender
from tests.engine.faults import Fault, Original, does_nothing
from tests.wire.grpc.stream_machine import StreamMachine

# Measuring coverage makes these runs three times as long, and the tests beside them cover every branch.
pytestmark = [pytest.mark.no_cover, pytest.mark.timeout(300)]

# The same examples every time; a failing one is printed as the calls that lead to it.
SHORT = settings(max_examples=40, stateful_step_count=40, derandomize=True, database=None, deadline=None)
LONG = settings(max_examples=200, stateful_step_count=60, derandomize=False, print_blob=True, deadline=None)


@pytest.fixture(autouse=True)
def no_warnings_of_missing_effects(caplog: pytest.LogCaptureFixture) -> None:
    """Each example creates subscriptions with a dead-letter policy."""
    caplog.set_level(logging.ERROR)


@pytest.mark.rule(
    "O1", "O5", "O9", "O14", "O15", "O16", "O17", "O18", "O19", "A9", "A10", "A11", "V1", "V2", "V3", "V4", "V5", "V7",
    "V8", "V9", "V10", "V11", "V14", "C11", "C12", "C13", "C15", "C16", "C17", "C18", "C19",
    "S7.3.5", "S7.3.6", "S7.3.7", "S7.3.8",
)  # fmt: skip
def test_streams_do_what_the_ledger_allows() -> None:
    run_state_machine_as_test(StreamMachine, settings=SHORT)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_streams_do_what_the_ledger_allows_for_long_and_never_the_same() -> None:
    run_state_machine_as_test(StreamMachine, settings=LONG)


def is_always_met(original: Original, *args: object) -> bool:
    return True


def one_more_than_the_limit(original: Original, stream: Stream, size: int) -> bool:
    stream._max_messages += 1
    room: bool = original(stream, size)
    stream._max_messages -= 1
    return room


def only_written_messages_take_credit(original: Original, stream: Stream, size: int) -> bool:
    taken, stream._messages = stream._messages, stream._messages - stream._pile.count
    room: bool = original(stream, size)
    stream._messages = taken
    return room


def bytes_are_not_counted(original: Original, stream: Stream, size: int) -> bool:
    taken, stream._bytes = stream._bytes, 0
    room: bool = original(stream, size)
    stream._bytes = taken
    return room


def credit_comes_back_for_acks_only(original: Original, holdings: Holdings, entry: Entry) -> None:
    assert entry.lease is not None
    stream = entry.lease.consumer
    original(holdings, entry)
    if isinstance(stream, Stream):
        stream._messages += 1


def unwritten_messages_are_lost(original: Original, pile: Pile) -> Leases:
    original(pile)
    return []


def unwritten_ones_wait_for_their_deadline(original: Original, streaming_pull: StreamingPull, leases: Leases) -> None:
    pass


def what_is_given_back_counts_as_an_attempt(original: Original, subscription: Subscription, leases: Leases) -> None:
    for lease in leases:
        if lease.entry is not None:
            lease.entry.failures += 1
    original(subscription, leases)


def an_unwritten_expiry_counts(original: Original, holdings: Holdings, entry: Entry, *, failed: bool) -> None:
    assert entry.lease is not None
    entry.lease.written = True
    original(holdings, entry, failed=failed)


def written_messages_come_back_with_their_stream(original: Original, streaming_pull: StreamingPull) -> None:
    stream, subscription = streaming_pull._stream, streaming_pull._subscription
    original(streaming_pull)
    if subscription is not None:
        entries = list(subscription._holdings._entries.values())
        subscription.give_back([e.lease for e in entries if e.lease is not None and e.lease.consumer is stream])


def ended_leases_are_written_nevertheless(original: Original, pile: Pile, lease: Lease, size: int) -> None:
    entry = lease.entry
    original(pile, lease, size)
    if entry is not None and lease.number % 5 == 0:
        pile._leases.append(lease)


def a_stream_without_room_stops_its_connection(original: Original, outbox: Outbox) -> Parcel | None:
    if any(pile.shut for pile in outbox._piles):
        return None
    parcel: Parcel | None = original(outbox)
    return parcel


def a_response_is_as_large_as_the_window(original: Original, pile: Pile, max_bytes: int) -> Parcel | None:
    parcel: Parcel | None = original(pile, 2**30)
    return parcel


def ends_with_ok(original: Original, call: StreamingCall, *args: object, **kwargs: object) -> None:
    call.finish()


def the_deadline_is_the_subscription_s(original: Original, stream: Stream, *args: Any) -> None:
    original(stream, *args)
    stream.ack_deadline = None


def everybody_gets_heartbeats(original: Original, streaming_pull: StreamingPull) -> None:
    streaming_pull._heartbeats = True
    original(streaming_pull)


def there_are_no_properties(original: Original, *args: object) -> None:
    return None


FAULTS = [
    Fault("a stream takes one message more than its limit", Stream, "room", one_more_than_the_limit),
    Fault("what waits unwritten takes no credit", Stream, "room", only_written_messages_take_credit),
    Fault("bytes take no credit", Stream, "room", bytes_are_not_counted),
    Fault("a stream without room takes all the same", Stream, "room", is_always_met),
    Fault("credit doesn't come back", Holdings, "_release", credit_comes_back_for_acks_only),
    Fault("what was never written is lost", Pile, "close", unwritten_messages_are_lost),
    Fault("what was never written waits for its deadline", StreamingPull, "give_back", does_nothing),
    Fault(
        "what is given back counts as an attempt", Subscription, "give_back", what_is_given_back_counts_as_an_attempt
    ),
    Fault("the expiry of an unwritten message counts", Holdings, "_return", an_unwritten_expiry_counts),
    Fault(
        "what was written comes back with its stream",
        StreamingPull,
        "gone",
        written_messages_come_back_with_their_stream,
    ),
    Fault("a delivery leaves twice", Pile, "put", ended_leases_are_written_nevertheless),
    Fault("a stream without room stops its connection", Outbox, "take", a_stream_without_room_stops_its_connection),
    Fault("a stalled stream never resumes", Pile, "resume", does_nothing),
    Fault("the socket's having room again is not told", GrpcConnection, "resume_writing", does_nothing),
    Fault("the connection's window is not told", Sender, "_tell_all", does_nothing),
    Fault("a response is as large as the window", Pile, "next", a_response_is_as_large_as_the_window),
    Fault("a stream ends with OK of the server's own accord", StreamingCall, "fail", ends_with_ok),
    Fault(
        "the subscription's deadline instead of the stream's", Stream, "__init__", the_deadline_is_the_subscription_s
    ),
    Fault("a request that asks for a heartbeat gets none", StreamingPull, "_answer_ping", does_nothing),
    Fault("clients of before heartbeats get them", StreamingPull, "_answer_ping", everybody_gets_heartbeats),
    Fault("responses without properties", streaming_pull_module, "_properties", there_are_no_properties),
    Fault("an ack is ignored", Subscription, "acknowledge", does_nothing),
    Fault("a stream that is over keeps its place", Subscription, "stop_stream", does_nothing),
]


# Those that only a few examples bring to light.
RARE = {
    "the expiry of an unwritten message counts",
    "the socket's having room again is not told",
    "clients of before heartbeats get them",
    "the connection's window is not told",
    "heartbeats pile up",
}


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, id=fault.title, marks=[pytest.mark.slow] if fault.title in RARE else []) for fault in FAULTS],
)
def test_a_fault_in_streams_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.install(monkeypatch)
    # More examples than the test above has, for versions of Hypothesis that draw others.
    until_it_fails = settings(SHORT, max_examples=240, phases=[Phase.generate], report_multiple_bugs=False)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(StreamMachine, settings=until_it_fails)
