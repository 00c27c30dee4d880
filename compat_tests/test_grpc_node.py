"""@grpc/grpc-js, the library under every client for Node."""

import shutil
from pathlib import Path

import pytest

from compat_tests import peers
from compat_tests.rest import Project
from compat_tests.targets import Target

CLIENT = "Node"

HERE = Path(__file__).parent / "node"


@pytest.mark.rule("T3", "T4", "T5", "T6", "T11", "T26", "T30", "T31", "S7.2.3", "S7.2.4")
def test_a_plan_of_calls(server: Target, project: Project, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.fail("Node is not installed")
    if not (HERE / "node_modules/@grpc/grpc-js").is_dir():
        pytest.fail("@grpc/grpc-js is not installed: make installs it, where there is npm")

    outcomes = peers.run([node, HERE / "calls.js"], server, project, tmp_path)

    peers.check(outcomes, project)
