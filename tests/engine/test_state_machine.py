"""The engine against the model under any sequence of calls, and proof that this would find a fault."""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.faults import FAULTS, Fault
from tests.engine.machine import EngineMachine

# Measuring coverage makes these runs three times as long, and the tests beside them cover every branch.
pytestmark = pytest.mark.no_cover

# The same examples every time; a failing one is printed as the calls that lead to it.
SHORT = settings(max_examples=400, stateful_step_count=50, derandomize=True, database=None, deadline=None)
LONG = settings(max_examples=2_000, stateful_step_count=100, derandomize=False, print_blob=True, deadline=None)


@pytest.mark.rule(
    "S5.14", "S6.1", "S6.2", "S6.4", "S6.5", "S7.1.5", "S7.1.6", "S7.1.7", "S7.1.10", "S7.2.4", "V1", "V5"
)
@pytest.mark.timeout(300)
def test_the_engine_does_what_the_model_does() -> None:
    run_state_machine_as_test(EngineMachine, settings=SHORT)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_the_engine_does_what_the_model_does_for_long_and_never_the_same() -> None:
    run_state_machine_as_test(EngineMachine, settings=LONG)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.title)
def test_a_fault_in_the_engine_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.install(monkeypatch)
    until_it_fails = settings(SHORT, phases=[Phase.generate], report_multiple_bugs=False)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(EngineMachine, settings=until_it_fails)
