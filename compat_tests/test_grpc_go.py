"""grpc-go, the library under every client for Go."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from compat_tests import peers
from compat_tests.rest import Project
from compat_tests.targets import Target

CLIENT = "Go"

HERE = Path(__file__).parent / "go"
CACHE = Path(__file__).parents[1] / ".cache/go"

# A first build compiles all of grpc-go.
BUILD_S = 300


@pytest.mark.slow
@pytest.mark.timeout(peers.FETCH_S + BUILD_S + 60)
@pytest.mark.rule("T3", "T4", "T5", "T6", "T11", "T19", "T26", "T30", "T31", "S7.2.3", "S7.2.4")
def test_a_plan_of_calls(server: Target, project: Project, tmp_path: Path) -> None:
    program = build(tmp_path)

    outcomes = peers.run([program], server, project, tmp_path)

    peers.check(outcomes, project)


def build(directory: Path) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOCACHE": str(CACHE), "GOFLAGS": "-mod=readonly"}
    peers.fetch([go, "mod", "download"], HERE, "grpc-go", environment)
    program = directory / "calls"
    subprocess.run(
        [go, "build", "-buildvcs=false", "-o", program, "."], cwd=HERE, env=environment, check=True, timeout=BUILD_S
    )
    return program
