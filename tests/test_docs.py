"""The documents tell the truth: options and routes are named, marked code blocks run, links lead somewhere.

A block of bash or python under the comment `<!-- test: NAME -->` is run; one under `<!-- output -->` right after it is
what the run must print. The blocks of a document run in order against one server, each in a process of its own;
`localhost:8085` in them stands for that server.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from bench import report
from bench.__main__ import _parser as bench_parser
from emulator.api.catalogue import RPCS
from emulator.limits import RELAXED, STRICT
from emulator.settings import OPTIONS
from tests.tools.server import serve

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

DEFAULT_ADDRESS = "localhost:8085"
BLOCK_TIMEOUT_S = 50

MARK = re.compile(r"^<!--\s*test:", re.MULTILINE)
BLOCK = re.compile(
    r"^<!-- test: (?P<name>[\w-]+) -->\n```(?P<language>bash|python)\n(?P<code>.*?)^```$"
    r"(?:\n+<!-- output -->\n```\w*\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A code block of a document, and what it must print (None: anything)."""

    name: str
    language: str
    code: str
    output: str | None


def blocks_of(text: str) -> list[Block]:
    """The marked blocks of a document, in order. Raises ValueError for a mark that no bash or python block follows."""
    blocks = [Block(found["name"], found["language"], found["code"], found["output"]) for found in BLOCK.finditer(text)]
    if len(blocks) != len(MARK.findall(text)):
        raise ValueError(f"a mark without a block of bash or python below it; read so far: {[b.name for b in blocks]}")
    return blocks


def run_block(block: Block, host_port: str, folder: Path) -> None:
    """Run one block in `folder` with the server's address in its environment. Raises AssertionError when it fails."""
    code = block.code.replace(DEFAULT_ADDRESS, host_port)
    command = ["bash", "-euo", "pipefail", "-c", code] if block.language == "bash" else [sys.executable, "-c", code]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "PUBSUB_EMULATOR_HOST": host_port},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BLOCK_TIMEOUT_S,
        check=False,
    )
    story = f"block {block.name} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, story
    if block.output is not None:
        assert done.stdout.strip() == block.output.strip(), story


def words_missing(words: set[str], text: str) -> list[str]:
    """The words that the text doesn't hold as whole words."""
    return sorted(word for word in words if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text))


def routes_in(source: str) -> set[str]:
    """The paths in a module's `ROUTES` constant, however its rows are built."""
    return {
        inner.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id == "ROUTES"
        for inner in ast.walk(node.value)
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and inner.value.startswith("/")
    }


def anchors_of(text: str) -> set[str]:
    """The anchors that a document's headings make."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(text)}


def dead_links(document: Path) -> Iterator[str]:
    """The relative links of a document that lead to no file, or to no heading of one."""
    for link in LINK.findall(FENCED.sub("", document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path) if path else document
        if not target.exists() or (anchor and anchor not in anchors_of(target.read_text(encoding="utf-8"))):
            yield link


def help_text(*verb: str) -> str:
    """What `--help` prints, in lines so wide that no word is broken."""
    command = [sys.executable, "-m", "emulator", *verb, "--help"]
    return subprocess.run(
        command,
        env={**os.environ, "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        timeout=BLOCK_TIMEOUT_S,
        check=True,
    ).stdout


def test_the_readme_names_every_option() -> None:
    text = "".join(help_text(verb) for verb in ("start", "env-init", "healthcheck", "version"))
    flags = set(re.findall(r"--[a-z][a-z-]+", text))
    variables = set(re.findall(r"\bPUBSUB_[A-Z_]+\b", text))

    assert "--host-port" in flags
    assert variables
    assert words_missing(flags | variables, README.read_text(encoding="utf-8")) == []


def test_the_readmes_table_of_options_has_a_row_for_each() -> None:
    rows = re.findall(
        r"^\| `(--[a-z-]+)(?: ([A-Z:]+))?` \| `(\w+)` \| (?:`([^`]+)`)? ?\|", README.read_text("utf-8"), re.M
    )

    assert rows == [(option.flag, option.metavar, option.env, option.default) for option in OPTIONS]


def test_the_readmes_table_of_limits_has_a_row_for_each_that_differs() -> None:
    (table,) = re.findall(r"^\| What is least .*?\n\n", README.read_text("utf-8"), re.M | re.S)
    rows = re.findall(r"^\| ([^|]+) \| ([\d,]+(?: \w+)?) \| ([\d,]+(?: \w+)?) \|$", table, re.M)

    strict, relaxed = asdict(STRICT), asdict(RELAXED)
    different = [name for name in strict if strict[name] != relaxed[name]]
    assert [(is_, may_be) for _, is_, may_be in rows] == [
        (with_unit(name, strict[name]), with_unit(name, relaxed[name])) for name in different
    ]


def with_unit(name: str, value: int) -> str:
    """A limit as the README writes it; the unit is in its name."""
    if "_bytes" in name:
        return f"{value:,} byte{'s' if value > 1 else ''}"
    return f"{value:,} s" if name.endswith("_s") else f"{value:,}"


def test_the_readme_lists_every_exit_code() -> None:
    (line,) = re.findall(r"^Exit codes:.*?\n\n", README.read_text("utf-8"), re.M | re.S)

    assert words_missing({"0", "1", "2", "3", "128"}, line) == []


def test_the_curl_block_shows_failures_and_ends_its_lines() -> None:
    (block,) = [block for block in blocks_of(README.read_text("utf-8")) if block.name == "curl"]

    assert "-sS --fail-with-body" in block.code
    assert r"-w '\n'" in block.code


def test_no_block_of_the_readme_creates_what_another_has_created() -> None:
    created = re.findall(r"topics/(\w+)\n|topics create (\w+)|(?:TOPIC) = \S+topics/(\w+)", README.read_text("utf-8"))

    names = ["".join(groups) for groups in created]
    assert sorted(set(names)) == sorted(names)


def test_the_readme_names_every_route() -> None:
    text = README.read_text(encoding="utf-8")
    routes = {r for file in (ROOT / "emulator").rglob("*.py") for r in routes_in(file.read_text(encoding="utf-8"))}

    assert sorted(route for route in routes if route not in text) == []


def test_the_readme_names_every_rpc() -> None:
    text = README.read_text(encoding="utf-8")

    assert [rpc.method for rpc in RPCS if f"{rpc.service.rpartition('.')[2]}.{rpc.method} |" not in text] == []


def test_the_page_on_performance_names_every_option_of_the_tool() -> None:
    text = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    options = [option for action in bench_parser()._actions for option in action.option_strings if option != "-h"]

    assert [option for option in options if option != "--help" and option not in text] == []
    assert (report.BEGIN in text, report.END in text, "make profile ROW=" in text) == (True, True, True)


def test_the_readme_has_blocks_of_both_languages_to_run() -> None:
    assert {block.language for block in blocks_of(README.read_text(encoding="utf-8"))} == {"bash", "python"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_marked_blocks_run(document: Path, tmp_path: Path) -> None:
    blocks = blocks_of(document.read_text(encoding="utf-8"))
    if not blocks:
        return
    with serve() as server:
        for block in blocks:
            run_block(block, server.host_port, tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    assert list(dead_links(document)) == []


class TestTheToolsOfThisModule:
    """Each check above is able to fail."""

    def test_blocks_are_read_with_their_output(self) -> None:
        text = (
            "<!-- test: one -->\n```bash\necho hi\n```\n\n<!-- output -->\n```text\nhi\n```\n"
            "```bash\nunmarked\n```\n<!-- test: two -->\n```python\nprint(1)\n```\n"
        )

        assert blocks_of(text) == [
            Block("one", "bash", "echo hi\n", "hi\n"),
            Block("two", "python", "print(1)\n", None),
        ]

    @pytest.mark.parametrize(
        "text", ["<!-- test: a -->\ntext", "<!-- test: a -->\n```json\n{}\n```", "<!--test: a-->\n"]
    )
    def test_a_mark_without_a_block_is_an_error(self, text: str) -> None:
        with pytest.raises(ValueError, match="a mark without a block"):
            blocks_of(text)

    def test_a_mark_inside_a_sentence_is_none(self) -> None:
        assert blocks_of("Write `<!-- test: NAME -->` above a block.\n") == []

    @pytest.mark.parametrize(
        "block",
        [
            Block("b", "bash", "false\necho later", None),
            Block("b", "bash", "false | cat", None),
            Block("b", "python", "raise SystemExit(3)", None),
            Block("b", "bash", "echo this", "that\n"),
        ],
    )
    def test_a_failing_block_is_found(self, block: Block, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="block b ended with"):
            run_block(block, "localhost:1", tmp_path)

    @pytest.mark.parametrize(
        "block",
        [
            Block(
                "b", "bash", "echo http://localhost:8085/v1 $PUBSUB_EMULATOR_HOST", "http://localhost:1/v1 localhost:1"
            ),
            Block("b", "python", "import os; print('localhost:8085', os.getcwd() != '/')", "localhost:1 True\n"),
        ],
    )
    def test_a_block_is_given_the_servers_address(self, block: Block, tmp_path: Path) -> None:
        run_block(block, "localhost:1", tmp_path)

    def test_words_count_whole(self) -> None:
        assert words_missing({"--port", "--port-file", "A_HOST"}, "`--port-file`, A_HOST_PORT") == ["--port", "A_HOST"]

    def test_routes_are_found_in_any_kind_of_row(self) -> None:
        source = "ROUTES: tuple = (Route('GET', '/healthz', f), ('POST', '/reset'))\nOTHER = '/not-a-route'"

        assert routes_in(source) == {"/healthz", "/reset"}

    def test_dead_links_are_found(self, tmp_path: Path) -> None:
        (tmp_path / "other.md").write_text("# A heading, with `code`\n")
        document = tmp_path / "a.md"
        document.write_text(
            "## Here\n[1](other.md) [2](other.md#a-heading-with-code) [3](#here) [4](https://example.com/x)\n"
            "[5](gone.md) [6](other.md#gone) [7](#gone)\n```\n[8](in-code.md)\n```\n"
        )

        assert list(dead_links(document)) == ["gone.md", "other.md#gone", "#gone"]
