"""grpc-java on netty, the library under every client for Java and what is built on it."""

import shutil
from pathlib import Path

import pytest

from compat_tests import peers
from compat_tests.rest import Project
from compat_tests.targets import Target

CLIENT = "Java"

HERE = Path(__file__).parent / "java"
CACHE = Path(__file__).parents[1] / ".cache/java"


@pytest.mark.slow
@pytest.mark.timeout(peers.FETCH_S + 60)
@pytest.mark.rule("T3", "T4", "T5", "T6", "T11", "T19", "T26", "T30", "T31", "S7.2.3", "S7.2.4")
def test_a_plan_of_calls(server: Target, project: Project, tmp_path: Path) -> None:
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        pytest.skip("no Java development kit is installed")

    outcomes = peers.run([java, "-cp", class_path(), HERE / "Calls.java"], server, project, tmp_path)

    peers.check(outcomes, project)


def class_path() -> str:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("Maven is not installed")
    listed = CACHE / "class-path"
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
    peers.fetch([maven, "--batch-mode", "--quiet", goal, f"-Dmdep.outputFile={listed}"], HERE, "grpc-java")
    return listed.read_text(encoding="utf-8").strip()
