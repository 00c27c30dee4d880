"""Schedule[Lease]: whichever lease is due comes, earliest first; what ended or moved away does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.engine.entries import Entry, Lease
from emulator.engine.pulls import Pull
from emulator.engine.schedule import Schedule
from tests.engine.helpers import message

# What is done to the deadlines: add a lease, move one, end one, take what is due; with a pick and a time.
Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(st.sampled_from(["add", "move", "drop", "due"]), st.integers(0, 100), st.integers(0, 50)), max_size=200
)


def lease(number: int) -> Lease:
    return Lease(number, Entry(message(number)), Pull(1, 1, 0))


def scheduled(*times: int) -> tuple[Schedule[Lease], list[Lease]]:
    """Leases with the numbers from 1 on, each due at its time."""
    leases = [lease(number) for number in range(1, len(times) + 1)]
    schedule: Schedule[Lease] = Schedule()
    for one, when in zip(leases, times, strict=True):
        schedule.add(one, when, one.number)
    return schedule, leases


def take_due(deadlines: Schedule[Lease], now: int) -> list[int]:
    """The numbers of the leases that are due, in the order in which they come; this ends them."""
    numbers: list[int] = []
    while (due := deadlines.pop_due(now)) is not None:
        numbers.append(due.number)
        deadlines.drop(due)
    return numbers


class Run:
    """A schedule next to a plain table of them."""

    def __init__(self) -> None:
        self.deadlines: Schedule[Lease] = Schedule()
        self.leases: dict[int, Lease] = {}
        self.table: dict[int, int] = {}
        self.count = 0

    def apply(self, step: Step) -> None:
        action, pick, when = step
        number = sorted(self.table)[pick % len(self.table)] if self.table else 0
        if action == "add":
            self.count += 1
            self.table[self.count] = when
            self.leases[self.count] = lease(self.count)
            self.deadlines.add(self.leases[self.count], when, self.count)
        elif action == "move" and number:
            self.table[number] = when
            self.deadlines.move(self.leases[number], when, number)
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
    deadlines: Schedule[Lease] = Schedule()
    for number in (2, 3, 1):
        deadlines.add(lease(number), 10, number)

    assert take_due(deadlines, 10) == [1, 2, 3]


@pytest.mark.parametrize(("now", "due"), [(9, []), (10, [1]), (11, [1])])
def test_a_lease_is_due_from_its_deadline_on(now: int, due: list[int]) -> None:
    deadlines, _ = scheduled(10)

    assert take_due(deadlines, now) == due


@pytest.mark.parametrize("away", [5, 10, 20])
def test_moved_there_and_back_a_lease_comes_once(away: int) -> None:
    deadlines, (one,) = scheduled(10)

    deadlines.move(one, away, 1)
    deadlines.move(one, 10, 1)

    assert take_due(deadlines, 100) == [1]


@pytest.mark.parametrize("moments", [[10], [10, 20]])
def test_moving_a_lease_for_ever_while_time_stands_still_takes_no_room(moments: list[int]) -> None:
    deadlines, (one,) = scheduled(10)

    for _ in range(1_000):
        for moment in moments:
            deadlines.move(one, moment, 1)

    assert len(deadlines._heap) <= 2 + 64
    assert take_due(deadlines, moments[-1]) == [1]


def test_ended_leases_are_swept_and_the_rest_keeps_its_order() -> None:
    deadlines, leases = scheduled(*(-number * 7 % 1_000 for number in range(1_000)))

    for one in leases[:950]:
        deadlines.drop(one)

    assert len(deadlines._heap) <= 2 * 50 + 64
    left = [one.number for one in sorted(leases[950:], key=lambda one: one.due)]
    assert take_due(deadlines, 1_000) == left


def test_it_shows_what_is_live_and_what_is_kept() -> None:
    deadlines, (one,) = scheduled(10)
    deadlines.move(one, 20, 1)

    assert repr(deadlines) == "<Schedule live=1 items=2>"
