"""The register of rules: docs/rules.toml against the marks of the tests, and the tool that compares them."""

from pathlib import Path

import pytest

from tests.tools import rules

REGISTER = """\
# Opening words.

[rules."S1.10"]
text = "Ten"
# why ten
tests = ["tests/gone.py::test_old"]

[rules."S1.9"]
text = "Nine"
tests = []
"""


class TestThisRepository:
    """The register as it stands."""

    def test_every_rule_has_a_test(self) -> None:
        assert rules.unproved(register(), rules.scan(rules.ROOT)) == []

    def test_every_mark_names_a_rule_of_the_register(self) -> None:
        assert rules.unknown(register(), rules.scan(rules.ROOT)) == []

    def test_every_rule_has_a_text_of_one_line(self) -> None:
        assert rules.wordless(register()) == []

    def test_the_lists_of_tests_are_fresh(self) -> None:
        text = (rules.ROOT / rules.REGISTER).read_text(encoding="utf-8")

        assert rules.rewrite(text, rules.scan(rules.ROOT)) == text, "run `make rules`"


def register() -> dict[str, rules.Rule]:
    return rules.parse((rules.ROOT / rules.REGISTER).read_text(encoding="utf-8"))


def mark(*ids: str) -> str:
    """The source of a rule mark; put together here so that the tool doesn't take it for a mark of this module."""
    return f"pytest.mark.rule({', '.join(map(repr, ids))})"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(f"@{mark('S1')}\ndef test_a(): ...", {"t.py::test_a": {"S1"}}, id="function"),
        pytest.param(f"@{mark('S1')}\nasync def test_a(): ...", {"t.py::test_a": {"S1"}}, id="coroutine"),
        pytest.param(f"@{mark('S1', 'T2')}\ndef test_a(): ...", {"t.py::test_a": {"S1", "T2"}}, id="two ids"),
        pytest.param(
            f"@{mark('S1')}\n@{mark('T2')}\ndef test_a(): ...", {"t.py::test_a": {"S1", "T2"}}, id="two marks"
        ),
        pytest.param(
            f"@{mark('S1')}\nclass TestA:\n  def test_a(self): ...\n  def help(self): ...",
            {"t.py::TestA::test_a": {"S1"}},
            id="class",
        ),
        pytest.param(
            f"class TestA:\n  pytestmark = {mark('S1')}\n  @{mark('T2')}\n  def test_a(self): ...",
            {"t.py::TestA::test_a": {"S1", "T2"}},
            id="mark inside a class",
        ),
        pytest.param(
            f"pytestmark = [{mark('S1')}]\ndef test_a(): ...\nclass TestB:\n  def test_b(self): ...",
            {"t.py::test_a": {"S1"}, "t.py::TestB::test_b": {"S1"}},
            id="module",
        ),
        pytest.param(
            f"@pytest.mark.parametrize('x', [pytest.param(1, marks={mark('S1')})])\ndef test_a(x): ...",
            {"t.py::test_a": {"S1"}},
            id="parameter",
        ),
        pytest.param(
            f"ROWS = [pytest.param(1, marks=[{mark('S1')}])]\n"
            "MORE: list = [*ROWS]\n"
            "@pytest.mark.parametrize('x', MORE)\ndef test_a(x): ...\ndef test_b(): ...",
            {"t.py::test_a": {"S1"}},
            id="table of the module",
        ),
        pytest.param(
            f"def rows():\n  return [pytest.param(1, marks={mark('S1')})]\n"
            "@pytest.mark.parametrize('x', rows())\ndef test_a(x): ...",
            {"t.py::test_a": {"S1"}},
            id="function of the module",
        ),
        pytest.param(f"TestA = {mark('S1')}(Machine.TestCase)", {"t.py::TestA": {"S1"}}, id="assigned test case"),
        pytest.param(
            f"pytestmark = {mark('S1')}\nTestA = Machine.TestCase", {"t.py::TestA": {"S1"}}, id="test case of a module"
        ),
        pytest.param("@pytest.mark.slow\ndef test_a(): ...", {}, id="another mark"),
    ],
)
def test_a_mark_counts_wherever_pytest_reads_it(source: str, expected: dict[str, set[str]]) -> None:
    found: dict[str, set[str]] = {}
    for one in rules.marks_in(source, "t.py"):
        found.setdefault(one.test, set()).add(one.rule)

    assert found == expected


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (f"ROWS = [{mark('S1')}]\ndef test_a(): ...", "t.py:1: this rule mark reaches no test"),
        (f"@{mark('S1')}\ndef helper(): ...", "t.py:1: this rule mark reaches no test"),
        ("RULE = 'S1'\n@pytest.mark.rule(RULE)\ndef test_a(): ...", "t.py:2: write the ids of a rule mark out"),
        ("@pytest.mark.rule(1)\ndef test_a(): ...", "t.py:1: write the ids of a rule mark out"),
    ],
)
def test_a_mark_that_cannot_be_read_is_an_error(source: str, complaint: str) -> None:
    with pytest.raises(rules.MarkError, match=complaint):
        rules.marks_in(source, "t.py")


def test_ids_sort_by_number_and_letter() -> None:
    ordered = ["B086", "S1", "S1.5", "S1.5a", "S1.6", "S1.7.4", "S1.7.10", "S2", "S4.topic.labels", "T18", "V5"]

    assert sorted(set(ordered), key=rules.by_id) == ordered


def test_rewriting_renews_lists_and_order_and_keeps_the_rest() -> None:
    proofs = {"S1.9": ("tests/a.py::test_a", "tests/b.py::test_b")}

    after = rules.rewrite(REGISTER, proofs)

    assert after == (
        '# Opening words.\n\n[rules."S1.9"]\ntext = "Nine"\n'
        'tests = [\n    "tests/a.py::test_a",\n    "tests/b.py::test_b",\n]\n\n'
        '[rules."S1.10"]\ntext = "Ten"\n# why ten\ntests = []\n'
    )
    assert rules.rewrite(after, proofs) == after
    assert rules.parse(after)["S1.9"] == rules.Rule("Nine", proofs["S1.9"])


def test_faults_are_named() -> None:
    known = rules.parse('[rules."S1"]\ntext = " "\n[rules."S2"]\ntext = "Two"\n[rules."S3"]\ntext = "a\\nb"\n')
    proofs = {"S2": ("t.py::test_a",), "S9": ("t.py::test_b", "t.py::test_c")}

    assert rules.unproved(known, proofs) == ["S1", "S3"]
    assert rules.unknown(known, proofs) == ["S9 (t.py::test_b, t.py::test_c)"]
    assert rules.wordless(known) == ["S1", "S3"]


class TestCommand:
    """`python -m tests.tools.rules` on a small repository."""

    @pytest.fixture
    def repository(self, tmp_path: Path) -> Path:
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs/rules.toml").write_text(REGISTER)
        (tmp_path / "tests/deep").mkdir(parents=True)
        (tmp_path / "tests/deep/test_x.py").write_text(f"@{mark('S1.9')}\ndef test_nine(): ...\n")
        (tmp_path / "compat_tests").mkdir()
        (tmp_path / "compat_tests/test_y.py").write_text(f"@{mark('S1.10')}\ndef test_ten(): ...\n")
        return tmp_path

    def test_check_passes_after_write(self, repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert rules.main(["--write"], repository) == 0
        assert rules.main(["--check"], repository) == 0
        assert capsys.readouterr().err == ""
        after = rules.parse((repository / "docs/rules.toml").read_text())
        assert after["S1.9"].tests == ("tests/deep/test_x.py::test_nine",)
        assert after["S1.10"].tests == ("compat_tests/test_y.py::test_ten",)

    def test_check_refuses_a_stale_list(self, repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert rules.main(["--check"], repository) == 1
        assert "docs/rules.toml is stale" in capsys.readouterr().err

    def test_check_names_what_does_not_match(self, repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (repository / "compat_tests/test_y.py").write_text(f"@{mark('S7')}\ndef test_ten(): ...\n")
        rules.main(["--write"], repository)

        assert rules.main(["--check"], repository) == 1
        assert capsys.readouterr().err.splitlines()[-2:] == [
            "no test proves S1.10",
            "not in docs/rules.toml: S7 (compat_tests/test_y.py::test_ten)",
        ]
