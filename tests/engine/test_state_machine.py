"""x"""

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.machine import EngineMachine


def test_machine():
    run_state_machine_as_test(
        EngineMachine, settings=settings(max_examples=100, stateful_step_count=50, deadline=None, derandomize=True)
    )
