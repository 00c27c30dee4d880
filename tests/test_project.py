"""The project's own files: one version, verbs that work, and nothing in the tree that belongs to one machine."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import pytest

import emulator

ROOT = Path(__file__).parents[1]

VERBS = {
    *("help", "install", "run", "clean"),
    *("test", "test-slow", "check", "fmt", "lint", "types", "compat", "bench", "profile"),
    *("descriptors", "rules"),
}

LEAKS = {
    "a machine's path": re.compile(r"(?<![\w.])/(?:work|root|farm|home/\w+)/"),
    "a file outside the repository": re.compile(r"\.\./shared\b"),
    "a machine's package source": re.compile(
        r"\bPIP_(?:INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS)\b|/opt/wheels|--index-url"
    ),
    "how the code came about": re.compile(
        r"(?i)\bco-authored-by\b|\bsub-?agents?\b|\bthis session\b|\blanguage models?\b"
    ),
    "a merge's leftover": re.compile(r"^(?:<{7}|>{7}|\|{7}) ", re.MULTILINE),
}
JUNK = re.compile(
    r"\.(?:pyc|pyo|orig|rej|bak|tmp|swp|log|pid|whl)$|~$|(?:^|/)(?:\.DS_Store|__pycache__|\.coverage|core)$"
)
MAX_FILE_BYTES = 512 * 1024


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def files_of_the_project() -> list[Path]:
    """What git tracks or would take up."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so nobody knows which files belong to the project")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def leaks_in(text: str) -> Iterator[str]:
    for kind, pattern in LEAKS.items():
        yield from (f"{kind}: {found[0]!r}" for found in pattern.finditer(text))


def untidiness_of(content: bytes) -> Iterator[str]:
    """What is wrong with the bytes of a text file."""
    if content and not content.endswith(b"\n"):
        yield "no newline at the end"
    if content.endswith(b"\n\n"):
        yield "blank lines at the end"
    if b"\r" in content:
        yield "carriage returns"
    if re.search(rb"[ \t]$", content, re.MULTILINE):
        yield "blanks at the end of a line"


def text_of(path: Path) -> str | None:
    """A file's text, or None for a binary one."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def phony_verbs(makefile: str) -> set[str]:
    return {verb for line in re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE) for verb in line.split()}


def explained_verbs(makefile: str) -> set[str]:
    return set(re.findall(r"^([a-z-]+):[^#\n]*## \S", makefile, re.MULTILINE))


def newest_version(changelog: str) -> str:
    found = re.search(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert found
    return found[1]


def test_the_version_is_the_same_everywhere() -> None:
    assert newest_version((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")) == emulator.__version__
    assert installed_version("pubsub-emulator") == emulator.__version__, "run `make install` again"


def test_the_version_is_written_once() -> None:
    assert project()["project"]["dynamic"] == ["version"]
    assert project()["tool"]["hatch"]["version"] == {"path": "emulator/__init__.py"}


def test_changelog_entries_carry_a_date_or_say_unreleased() -> None:
    titles = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert titles
    assert [t for t in titles if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - (unreleased|\d{4}-\d\d-\d\d)", t)] == []


def test_all_extras_together_are_the_extra_named_all() -> None:
    extras: dict[str, list[str]] = project()["project"].get("optional-dependencies", {})
    together = extras.pop("all", [])

    assert sorted(together) == sorted({need for needs in extras.values() for need in needs})


def test_every_verb_is_phony_and_explained() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert phony_verbs(makefile) == VERBS
    assert explained_verbs(makefile) == VERBS


def test_help_lists_every_verb() -> None:
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert set(re.findall(r"^  make ([a-z-]+)", printed, re.MULTILINE)) == VERBS


def test_no_file_is_junk_or_huge() -> None:
    files = files_of_the_project()

    assert [path for path in files if JUNK.search(path.relative_to(ROOT).as_posix())] == []
    assert [path for path in files if path.stat().st_size > MAX_FILE_BYTES] == []


def test_no_file_tells_of_a_machine_or_of_how_it_was_made() -> None:
    faults = [
        f"{path.relative_to(ROOT)}: {leak}"
        for path in files_of_the_project()
        if path != Path(__file__)
        for leak in leaks_in(f"{path.relative_to(ROOT)}\n{text_of(path) or ''}")
    ]

    assert faults == []


def test_text_files_are_tidy() -> None:
    faults = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in files_of_the_project()
        if text_of(path) is not None and path.suffix != ".binpb"
        for fault in untidiness_of(path.read_bytes())
    ]

    assert faults == []


@pytest.mark.parametrize(
    "text",
    [
        "cd /" + "work/main",
        "see '/" + "root/.cache'",
        "as ../shared/x.md says",
        "Co-Authored-By: someone",
        "export PIP_FIND_LINKS=x",
        "<<<<<<< HEAD",
    ],
)
def test_a_leak_is_found(text: str) -> None:
    assert list(leaks_in(text))


@pytest.mark.parametrize(
    "text",
    [
        "ai_inference and AIInference",
        "aiohttp.ClientSession",
        "scope='session'",
        "/v1/projects/work",
        "a == b",
        "network/",
    ],
)
def test_plain_words_are_no_leak(text: str) -> None:
    assert list(leaks_in(text)) == []


@pytest.mark.parametrize("content", [b"a", b"a\n\n", b"a\r\n", b"a \nb\n", b"a\t\n"])
def test_an_untidy_file_is_found(content: bytes) -> None:
    assert list(untidiness_of(content))


@pytest.mark.parametrize("name", ["a.pyc", "x/y.orig", "notes~", "x/.DS_Store", "core"])
def test_junk_is_found(name: str) -> None:
    assert JUNK.search(name)


@pytest.mark.parametrize("content", [b"", b"a\n", b"a\n\nb\n"])
def test_a_tidy_file_passes(content: bytes) -> None:
    assert list(untidiness_of(content)) == []
