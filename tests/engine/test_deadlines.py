"""Deadlines: whichever lease is due comes, earliest first; what ended or moved away does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.engine.entries import Entry, Lease
from emulator.engine.leases import Deadlines
from emulator.engine.pulls import Pull
from tests.engine.helpers import message

# What is done to the deadlines: add a lease, move one, end one, take what is due; with a pick and a time.
Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(st.sampled_from(["add", "move", "drop", "due"]), st.integers(0, 100), st.integers(0, 50)), max_size=200
)


def lease(number: int, deadline: int) -> Lease:
    return Lease(number, Entry(message(number)), deadline, Pull(1, 1, 0))


def take_due(deadlines: Deadlines, now: int) -> list[int]:
    """The numbers of the leases that are due, in the order in which they come; this ends them."""
    numbers: list[int] = []
    while (due := deadlines.pop_due(now)) is not None:
        numbers.append(due.number)
        deadlines.drop(due)
    return numbers


class Run:
    """Deadlines next to a plain table of them."""

    def __init__(self) -> None:
        self.deadlines = Deadlines()
        self.leases: dict[int, Lease] = {}
        self.table: dict[int, int] = {}
        self.count = 0

    def apply(self, step: Step) -> None:
        action, pick, when = step
        number = sorted(self.table)[pick % len(self.table)] if self.table else 0
        if action == "add":
            self.count += 1
            self.table[self.count] = when
            self.leases[self.count] = lease(self.count, when)
            self.deadlines.add(self.leases[self.count])
        elif action == "move" and number:
            self.table[number] = when
            self.deadlines.move(self.leases[number], when)
        elif action == "drop" and number:
            del self.table[number]
            self.deadlines.drop(self.leases[number])
        elif action == "due":
            due = sorted((deadline, number) for number, deadline in self.table.items() if deadline <= when)
            assert take_due(self.deadlines, when) == [number for _, number in due]
            for _, number in due:
                del self.table[number]


@given(steps=steps)
def test_whatever_is_done_the_earliest_live_deadline_is_next(steps: list[Step]) -> None:
    run = Run()

    for step in steps:
        run.apply(step)
        assert len(run.deadlines) == len(run.table)
        assert run.deadlines.earliest() == min(run.table.values(), default=None)
        assert len(run.deadlines._heap) <= 2 * len(run.table) + 64


def test_leases_of_one_moment_come_by_age() -> None:
    deadlines = Deadlines()
    for number in (2, 3, 1):
        deadlines.add(lease(number, 10))

    assert take_due(deadlines, 10) == [1, 2, 3]


@pytest.mark.parametrize(("now", "due"), [(9, []), (10, [1]), (11, [1])])
def test_a_lease_is_due_from_its_deadline_on(now: int, due: list[int]) -> None:
    deadlines = Deadlines()
    deadlines.add(lease(1, 10))

    assert take_due(deadlines, now) == due


@pytest.mark.parametrize("away", [5, 10, 20])
def test_moved_there_and_back_a_lease_comes_once(away: int) -> None:
    deadlines, one = Deadlines(), lease(1, 10)
    deadlines.add(one)

    deadlines.move(one, away)
    deadlines.move(one, 10)

    assert take_due(deadlines, 100) == [1]


@pytest.mark.parametrize("moments", [[10], [10, 20]])
def test_moving_a_lease_for_ever_while_time_stands_still_takes_no_room(moments: list[int]) -> None:
    deadlines, one = Deadlines(), lease(1, 10)
    deadlines.add(one)

    for _ in range(1_000):
        for moment in moments:
            deadlines.move(one, moment)

    assert len(deadlines._heap) <= 2 + 64
    assert take_due(deadlines, moments[-1]) == [1]


def test_ended_leases_are_swept_and_the_rest_keeps_its_order() -> None:
    deadlines = Deadlines()
    leases = [lease(number, -number * 7 % 1_000) for number in range(1_000)]
    for one in leases:
        deadlines.add(one)

    for one in leases[:950]:
        deadlines.drop(one)

    assert len(deadlines._heap) <= 2 * 50 + 64
    assert take_due(deadlines, 1_000) == [one.number for one in sorted(leases[950:], key=lambda one: one.deadline)]


def test_it_shows_what_is_live_and_what_is_kept() -> None:
    deadlines, one = Deadlines(), lease(1, 10)
    deadlines.add(one)
    deadlines.move(one, 20)

    assert repr(deadlines) == "<Deadlines live=1 items=2>"
