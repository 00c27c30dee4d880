"""The sets of limits: the relaxed one takes whatever the strict one takes, and completes it alike."""

from dataclasses import asdict

import pytest

from emulator.limits import RELAXED, SETS, STRICT

DIFFERENT = {name: (value, getattr(RELAXED, name)) for name, value in asdict(STRICT).items()}
DIFFERENT = {name: both for name, both in DIFFERENT.items() if both[0] != both[1]}


def test_there_are_two() -> None:
    assert dict(SETS) == {"strict": STRICT, "relaxed": RELAXED}


@pytest.mark.parametrize("name", DIFFERENT)
def test_only_what_is_least_is_relaxed_and_how_long_an_empty_pull_waits(name: str) -> None:
    strict, relaxed = DIFFERENT[name]

    assert name.endswith(("_min", "_min_s")) or name == "pull_wait_s"
    assert 1 == relaxed < strict


def test_no_shortest_time_is_left_above_a_second() -> None:
    assert {name: value for name, value in asdict(RELAXED).items() if name.endswith("_min_s") and value != 1} == {}
