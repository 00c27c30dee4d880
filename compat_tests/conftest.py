"""The server under test, and a project for each test."""

import tomllib
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from compat_tests import accounting, targets
from compat_tests.deliveries import OverGrpc, OverRest, Wire
from compat_tests.grpc_calls import Calls
from compat_tests.rest import Project, Rest
from compat_tests.targets import Target

HERE = Path(__file__).parent
DIFFERENCES = HERE / "differences.toml"

# The modules whose names begin like this say what every target has to do.
NEUTRAL = "test_core_"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=("ours", "official"),
        default="ours",
        help="the server to test: this project's, or Google's emulator (then only the core cases run)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(accounting)


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The target, running. It has to stop cleanly when the suite ends."""
    start = getattr(targets, request.config.getoption("--target"))
    with start(tmp_path_factory.mktemp("server")) as target:
        yield target


@pytest.fixture
def rest(server: Target) -> Rest:
    return Rest(server)


@pytest.fixture
def project(rest: Rest) -> Project:
    """A project that no other test uses, so that nothing needs to be reset."""
    return Project(rest, f"test-{uuid.uuid4().hex[:12]}")


@pytest.fixture(params=["rest", "grpc"])
def wire(request: pytest.FixtureRequest, server: Target, project: Project) -> Iterator[Wire]:
    """A way to take messages; a test that uses it runs over REST and over gRPC."""
    if request.param == "rest":
        yield OverRest(project)
        return
    calls = Calls(server.host_port)
    yield OverGrpc(calls)
    calls.close()


@pytest.fixture(autouse=True)
def nobody_finds_a_server_by_accident(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client reaches the server because its test told it the address."""
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    monkeypatch.delenv("PUBSUB_PROJECT_ID", raising=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--target") == "ours":
        return
    others = [item for item in items if not item.path.name.startswith(NEUTRAL)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]
    absent = _why_the_official_emulator_is_absent()
    differences = read_differences()
    for item in items:
        if absent:
            item.add_marker(pytest.mark.skip(reason=absent))
        elif found := differences.get(item.nodeid.rpartition("/")[2]):
            item.add_marker(pytest.mark.xfail(strict=True, reason=f"{found['rule']}: {found['answered']}"))


def _why_the_official_emulator_is_absent() -> str | None:
    try:
        targets.official_command()
    except targets.Absent as absent:
        return str(absent)
    return None


def read_differences() -> Mapping[str, Mapping[str, str]]:
    """What is known to be otherwise on Google's emulator, by `file::test[parameter]`."""
    entries = tomllib.loads(DIFFERENCES.read_text(encoding="utf-8"))["difference"]
    return {entry["test"]: entry for entry in entries}
