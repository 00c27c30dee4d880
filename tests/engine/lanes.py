"""What holds of the lanes of one subscription between any two calls: looks at their private parts."""

from collections import Counter

from emulator.engine.entries import Consumer, Place
from emulator.engine.holdings import Holdings
from emulator.engine.lanes import Lane, Lanes

DONE = (Place.ACKED, Place.GONE)
OUT = (Place.LEASED, *DONE)
IN = (Place.WAITING, Place.BEHIND, Place.DELAYED, *DONE)


def check(holdings: Holdings, lanes: Lanes) -> None:
    """Raise AssertionError unless all is sound."""
    for key, lane in lanes._by_key.items():
        assert lane.key == key
        what_is_out_is_before_what_waits(lane)
        one_consumer_has_what_is_out(lane)
        what_is_next_waits_where_it_is_found(lane)
        who_may_have_it_is_known(lanes, lane)
    every_message_with_a_key_is_in_its_lane(holdings, lanes)
    they_count_right(lanes)


def what_is_out_is_before_what_waits(lane: Lane) -> None:
    """Invariant 4: a contiguous run from the front."""
    assert 0 <= lane.start <= lane.next <= len(lane.entries)
    assert lane.start < len(lane.entries), "a lane without a message"
    assert lane.first.place not in DONE, "what is done stays at the front"
    assert all(entry.place in OUT for entry in lane.entries[lane.start : lane.next])
    assert all(entry.place in IN for entry in lane.entries[lane.next :])
    numbers = [entry.message.number for entry in lane.entries[lane.start :] if entry.place is not Place.GONE]
    assert numbers == sorted(numbers)


def one_consumer_has_what_is_out(lane: Lane) -> None:
    """Invariant 4 too."""
    assert len({entry.lease.consumer for entry in lane.entries[lane.start :] if entry.lease is not None}) <= 1


def what_is_next_waits_where_it_is_found(lane: Lane) -> None:
    """For anybody in the backlog, or behind those that are out; all others behind it."""
    waiting = [entry for entry in lane.entries[lane.next :] if entry.place not in (Place.DELAYED, *DONE)]
    in_backlog = [entry for entry in waiting if entry.place is Place.WAITING]
    may_go = lane.next == lane.start and lane.first.place is not Place.DELAYED

    assert in_backlog == ([lane.first] if may_go else [])


def who_may_have_it_is_known(lanes: Lanes, lane: Lane) -> None:
    """It waits for whoever has those before it, among that one's claims."""
    following = lane.entries[lane.next] if lane.next < len(lane.entries) else None
    full = lane.next - lane.start >= lanes._most
    if following is None or lane.next == lane.start or following.place is not Place.BEHIND or full:
        assert lane.claimant is None
        return
    holders = {entry.lease.consumer for entry in lane.entries[lane.start : lane.next] if entry.lease is not None}
    number = following.message.number
    assert (holders, lane.claimed) == ({lane.claimant}, number)
    assert lane.claimant is not None
    assert (number, id(lane)) in [(claimed, id(other)) for claimed, other in lanes._claims[lane.claimant].heap]


def every_message_with_a_key_is_in_its_lane(holdings: Holdings, lanes: Lanes) -> None:
    held = [entry for entry in holdings._entries.values() if entry.message.ordering_key]
    laid = [
        (key, entry)
        for key, lane in lanes._by_key.items()
        for entry in lane.entries[lane.start :]
        if entry.place is not Place.GONE
    ]

    assert sorted(id(entry) for entry in held) == sorted(id(entry) for _, entry in laid)
    assert all(entry.message.ordering_key == key for key, entry in laid)


def they_count_right(lanes: Lanes) -> None:
    every = list(lanes._by_key.values())
    claims: Counter[Consumer] = Counter(lane.claimant for lane in every if lane.claimant is not None)

    assert lanes.acked == sum(entry.place is Place.ACKED for lane in every for entry in lane.entries[lane.start :])
    assert {claimant: its.live for claimant, its in lanes._claims.items()} == claims
    for lane in every:
        assert lane.early == sum(entry.place is Place.ACKED for entry in lane.entries[lane.next :])
