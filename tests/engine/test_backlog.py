"""The backlog: first in, first out, with what came back at its old place, and what left early skipped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.engine.backlog import Backlog
from emulator.engine.entries import Entry, Place
from tests.engine.helpers import message

# What is done to the backlog: add one, take the head, give one back that was taken, drop one that waits.
Step = tuple[str, int]
steps = st.lists(st.tuples(st.sampled_from(["append", "take", "give back", "drop"]), st.integers(0, 200)), max_size=200)


def entry(number: int) -> Entry:
    return Entry(message(number))


def filled(count: int) -> tuple[Backlog, list[Entry]]:
    backlog, entries = Backlog(), [entry(number) for number in range(1, count + 1)]
    for one in entries:
        backlog.append(one)
    return backlog, entries


def take(backlog: Backlog) -> Entry:
    head = backlog.head()
    assert head is not None
    backlog.take(head)
    head.place = Place.LEASED
    return head


def drop(backlog: Backlog, one: Entry) -> None:
    one.forget()
    backlog.discard(one)


def numbers_left(backlog: Backlog) -> list[int]:
    """The numbers of what waits, in order; this takes it all."""
    numbers: list[int] = []
    while (head := backlog.head()) is not None:
        numbers.append(head.message.number)
        take(backlog)
    return numbers


class Run:
    """A backlog next to plain sorted lists of what waits and what was taken."""

    def __init__(self) -> None:
        self.backlog = Backlog()
        self.waiting: dict[int, Entry] = {}
        self.taken: dict[int, Entry] = {}
        self.count = 0

    def apply(self, step: Step) -> None:
        action, pick = step
        if action == "append":
            self.count += 1
            self.waiting[self.count] = entry(self.count)
            self.backlog.append(self.waiting[self.count])
        elif action == "take" and self.waiting:
            number = min(self.waiting)
            assert take(self.backlog) is self.waiting[number]
            self.taken[number] = self.waiting.pop(number)
        elif action == "give back" and self.taken:
            number = sorted(self.taken)[pick % len(self.taken)]
            self.waiting[number] = self.taken.pop(number)
            self.backlog.give_back(self.waiting[number])
        elif action == "drop" and self.waiting:
            drop(self.backlog, self.waiting.pop(sorted(self.waiting)[pick % len(self.waiting)]))


@pytest.mark.rule("S7.1.10")
@given(steps=steps)
def test_whatever_is_done_the_oldest_that_waits_is_next(steps: list[Step]) -> None:
    run = Run()

    for step in steps:
        run.apply(step)
        head = run.backlog.head()
        assert len(run.backlog) == len(run.waiting)
        assert head is (run.waiting[min(run.waiting)] if run.waiting else None)

    assert numbers_left(run.backlog) == sorted(run.waiting)


def test_an_empty_backlog_has_no_head() -> None:
    assert Backlog().head() is None


@pytest.mark.parametrize("back", [0, 1, 2])
def test_one_that_came_back_is_next_by_its_age(back: int) -> None:
    backlog, entries = filled(3)
    for _ in range(back + 1):
        take(backlog)

    backlog.give_back(entries[back])

    assert numbers_left(backlog) == list(range(back + 1, 4))


def test_of_several_that_came_back_the_dropped_one_is_skipped() -> None:
    backlog, entries = filled(3)
    for _ in entries:
        take(backlog)
    for one in entries:
        backlog.give_back(one)

    drop(backlog, entries[0])

    assert numbers_left(backlog) == [2, 3]


@pytest.mark.parametrize("returned", [False, True])
def test_what_was_dropped_is_swept_before_it_outnumbers_what_waits(returned: bool) -> None:
    backlog, entries = filled(1_000)
    if returned:
        for _ in entries:
            take(backlog)
        for one in entries:
            backlog.give_back(one)

    for one in entries[1:]:
        drop(backlog, one)

    assert len(backlog._fresh) + len(backlog._returned) <= 2 * len(backlog) + 64
    assert numbers_left(backlog) == [1]


def test_a_sweep_keeps_the_order_of_both_kinds() -> None:
    backlog, entries = filled(400)
    taken = [take(backlog) for _ in range(200)]
    for one in reversed(taken):
        backlog.give_back(one)

    for one in entries[::2]:
        drop(backlog, one)

    assert numbers_left(backlog) == list(range(2, 401, 2))


def test_a_sweep_keeps_the_order_of_what_came_back_in_any_order() -> None:
    backlog, entries = filled(1_000)
    for _ in entries:
        take(backlog)
    for place in range(1_000):
        backlog.give_back(entries[place * 7 % 1_000])

    for place in range(950):
        drop(backlog, entries[place * 13 % 1_000])

    left = sorted(entries[place * 13 % 1_000].message.number for place in range(950, 1_000))
    assert numbers_left(backlog) == left


def test_it_shows_how_many_wait() -> None:
    backlog, entries = filled(3)
    take(backlog)
    backlog.give_back(entries[0])

    assert repr(backlog) == "<Backlog waiting=3 returned=1>"
