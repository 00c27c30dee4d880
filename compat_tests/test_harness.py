"""The suite's own machinery: what it counts, what it doesn't let pass, and its list of differences."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests import accounting
from compat_tests.conftest import HERE, NEUTRAL, read_differences
from tests.tools import rules

CLIENT = "the suite itself"

ROOT = HERE.parent


def run_pytest(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def modules() -> list[Path]:
    return sorted(HERE.glob("test_*.py"))


def client_in(module: Path) -> str:
    found = [line for line in module.read_text(encoding="utf-8").splitlines() if line.startswith("CLIENT = ")]
    assert len(found) == 1, f"{module.name} has to name its CLIENT"
    return found[0].split('"')[1]


def test_every_required_client_has_a_module() -> None:
    assert {client_in(module) for module in modules()} >= set(accounting.REQUIRED)


def test_every_difference_names_a_core_case_and_a_rule_it_proves() -> None:
    listed = run_pytest(ROOT, "--collect-only", *(str(m) for m in modules() if m.name.startswith(NEUTRAL))).stdout
    cases = {line.rpartition("/")[2] for line in listed.splitlines() if "::" in line}
    proofs = {
        (mark.test.rpartition("/")[2], mark.rule)
        for module in modules()
        for mark in rules.marks_in(module.read_text(encoding="utf-8"), module.name)
    }

    differences = read_differences()

    assert differences.keys() - cases == set()
    assert [d for d in differences.values() if (d["test"].partition("[")[0], d["rule"]) not in proofs] == []
    assert [d for d in differences.values() if not d["answered"].strip() or "\n" in d["answered"]] == []


@pytest.mark.parametrize("workers", ["0", "2"])
def test_tests_are_counted_by_client_and_a_required_one_is_never_skipped(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_curl.py").write_text(
        "import pytest\n"
        'CLIENT = "curl"\n'
        "def test_one(): pass\n"
        'def test_two(): pytest.skip("no curl here")\n'
        '@pytest.mark.xfail(strict=True)\ndef test_three(): raise ValueError("known")\n'
    )
    (tmp_path / "test_other.py").write_text(
        'import pytest\nCLIENT = "gcloud"\ndef test_one(): pass\ndef test_two(): pytest.skip("no gcloud here")\n'
    )

    done = run_pytest(
        *(tmp_path, "-p", "compat_tests.accounting", "-p", "xdist", "-n", workers),
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "curl: 3 run, 0 skipped, 1 failed" in done.stdout
    assert "gcloud: 2 run" not in done.stdout
    assert "gcloud: 1 run, 1 skipped, 0 failed" in done.stdout
    assert "curl must be tested wherever this suite runs" in done.stdout
    assert "no curl here" in done.stdout


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(
    ("choice", "counted"),
    [
        ("one", "curl: 1 run, 0 skipped, 0 failed"),
        ("two", "curl: 1 run, 0 skipped, 1 failed"),
        ("three", "curl: 1 run, 0 skipped, 1 failed"),
        ("one or two", "curl: 2 run, 0 skipped, 1 failed"),
        ("four", "curl: 1 run, 0 skipped, 1 failed"),
    ],
)
def test_only_what_ran_is_counted_and_once(tmp_path: Path, workers: str, choice: str, counted: str) -> None:
    (tmp_path / "test_curl.py").write_text(
        "import pytest\n"
        'CLIENT = "curl"\n'
        "@pytest.fixture\ndef leaving(): yield; raise ValueError\n"
        "@pytest.fixture\ndef coming(): raise ValueError\n"
        "def test_one(): pass\n"
        "def test_two(leaving): pass\n"
        "def test_three(leaving): raise ValueError\n"
        "def test_four(coming): pass\n"
    )

    done = run_pytest(
        *(tmp_path, "-k", choice, "-p", "compat_tests.accounting", "-p", "xdist", "-n", workers),
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )

    assert counted in done.stdout.splitlines()
