"""Which clients a run really tested: a count for each, and no quiet skip of one that the suite stands for.

A pytest plugin. A test's client is the CLIENT of its module.
"""

from collections import defaultdict
from collections.abc import Generator

import pytest

# The suite proves nothing about a client that it did not run, so for these a skip is a failure.
REQUIRED = ("google-cloud-pubsub", "gcloud-aio-pubsub", "grpcio", "h2", "curl", "Node")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if client := client_of(item):
            # User properties travel with the reports, also from the workers of pytest-xdist.
            item.user_properties.append(("client", client))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    client = client_of(item)
    if client in REQUIRED and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{client} must be tested wherever this suite runs, but: {report.longreprtext}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # A test may have several reports: its own and that of its fixtures' end.
    outcomes: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if outcome and isinstance(report, pytest.TestReport):  # what was deselected is listed, too
                for key, value in report.user_properties:
                    if key == "client":
                        outcomes[str(value)][outcome].add(report.nodeid)
    if outcomes:
        terminalreporter.section("clients")
    for client, tests in sorted(outcomes.items()):
        failed = tests["failed"] | tests["error"]
        skipped = tests["skipped"] - failed
        run = set().union(*tests.values()) - skipped
        terminalreporter.write_line(f"{client}: {len(run)} run, {len(skipped)} skipped, {len(failed)} failed")


def client_of(item: pytest.Item) -> str | None:
    """The client that a test speaks with; None outside this suite."""
    module = item.getparent(pytest.Module)
    return getattr(module.obj, "CLIENT", None) if module else None
