"""The engine against the model under any sequence of calls, and proof that this would find a fault."""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.faults import FAULTS, Fault
from tests.engine.machine import EngineMachine
from tests.engine.option_faults import OPTION_FAULTS
from tests.engine.options_machine import OptionsMachine

# Measuring coverage makes these runs three times as long, and the tests beside them cover every branch.
pytestmark = pytest.mark.no_cover

# The same examples every time; a failing one is printed as the calls that lead to it.
SHORT = settings(max_examples=130, stateful_step_count=50, derandomize=True, database=None, deadline=None)
LONG = settings(max_examples=2_000, stateful_step_count=100, derandomize=False, print_blob=True, deadline=None)

machines = pytest.mark.parametrize("machine", [EngineMachine, OptionsMachine])


@pytest.mark.rule(
    "S5.14", "S6.1", "S6.2", "S6.4", "S6.5", "S7.1.5", "S7.1.6", "S7.1.7", "S7.1.10", "S7.2.4", "V1", "V5"
)
@pytest.mark.rule("S8.1", "S8.2", "S8.3", "S8.8", "S8.12", "S9.1", "S9.2", "S9.3", "S9.4", "S9.6", "S9.7")
@pytest.mark.rule("S10.1", "S10.2", "S10.3", "S10.4", "S10.5", "S10.6", "S10.7", "S10.10", "S11.6")
@pytest.mark.rule("S7.1.3", "S7.1.4", "S7.1.11", "V2", "V3", "V4", "V6", "V8", "V13", "V14", "O15", "O16")
@pytest.mark.timeout(300)
@machines
def test_the_engine_does_what_the_model_does(machine: type[OptionsMachine]) -> None:
    run_state_machine_as_test(machine, settings=SHORT)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@machines
def test_the_engine_does_what_the_model_does_for_long_and_never_the_same(machine: type[OptionsMachine]) -> None:
    run_state_machine_as_test(machine, settings=LONG)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.title)
def test_a_fault_in_the_engine_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    find(fault, EngineMachine, monkeypatch)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", OPTION_FAULTS, ids=lambda fault: fault.title)
def test_a_fault_in_an_option_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    find(fault, OptionsMachine, monkeypatch)


def find(fault: Fault, machine: type[OptionsMachine], monkeypatch: pytest.MonkeyPatch) -> None:
    fault.install(monkeypatch)
    until_it_fails = settings(SHORT, max_examples=1_000, phases=[Phase.generate], report_multiple_bugs=False)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=until_it_fails)
