"""The register of rules: keeps the `tests` lists of docs/rules.toml true to the `rule` marks that the tests carry.

`python -m tests.tools.rules --write` brings the lists up to date; `--check` says what is wrong and exits 1.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeGuard

ROOT = Path(__file__).parents[2]
REGISTER = "docs/rules.toml"
SUITES = ("tests", "compat_tests")

Proofs: TypeAlias = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of the register: what the rule says, and the names of the tests that are listed as its proof."""

    text: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """One rule id that one test claims to prove."""

    rule: str
    test: str


class MarkError(Exception):
    """A rule mark that can't be read without running its module."""


def by_id(rule_id: str) -> tuple[str | int, ...]:
    """Sort key that puts S1.7.4 before S1.7.10; text and numbers alternate, so any two keys compare."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", rule_id))


def marks_in(source: str, path: str) -> list[Mark]:
    """Every rule mark of the test module `source`, read from its syntax tree; `path` begins the tests' names.

    A mark counts on a test function, on a class (for its test methods), in a module's or a class's `pytestmark`, and
    in a table or function of the module that one of these names. `TestX = pytest.mark.rule("…")(Machine.TestCase)` is
    a test too. Raises MarkError for a mark that reaches no test, or whose ids are not written out.
    """
    module = ast.parse(source, path)
    reader = _Reader(path, dict(_definitions(module)))
    everywhere = _pytestmark(module.body)
    marks = [
        Mark(rule, f"{path}::{name}")
        for name, nodes in _tests(module)
        for rule in sorted(reader.ids([*everywhere, *nodes]))
    ]
    for node in ast.walk(module):
        if _is_mark(node) and node not in reader.read:
            raise MarkError(f"{path}:{node.lineno}: this rule mark reaches no test of its module")
    return marks


def scan(root: Path) -> Proofs:
    """The sorted names of the tests that prove each rule id, from both suites below `root`. Raises MarkError."""
    proofs: dict[str, set[str]] = defaultdict(set)
    for suite in SUITES:
        for file in (root / suite).rglob("*.py"):
            for mark in marks_in(file.read_text(encoding="utf-8"), file.relative_to(root).as_posix()):
                proofs[mark.rule].add(mark.test)
    return {rule: tuple(sorted(tests)) for rule, tests in proofs.items()}


def parse(register: str) -> dict[str, Rule]:
    """The rules by id, in the order of the register's text."""
    tables = tomllib.loads(register).get("rules", {})
    return {rule_id: Rule(table.get("text", ""), tuple(table.get("tests", ()))) for rule_id, table in tables.items()}


def rewrite(register: str, proofs: Proofs) -> str:
    """The register's text with every `tests` list renewed and the rules in the order of their ids.

    All else stays as it was written. What stands below a rule's header belongs to that rule and moves with it.
    """
    opening, *tables = re.split(r"^(?=\[rules\.)", register, flags=re.MULTILINE)
    tables.sort(key=lambda table: by_id(_id_of(table)))
    parts = [opening.strip(), *(_with_tests(table, proofs.get(_id_of(table), ())) for table in tables)]
    return "\n\n".join(part for part in parts if part) + "\n"


def unproved(rules: Mapping[str, Rule], proofs: Proofs) -> list[str]:
    """The ids in the register that no test carries."""
    return sorted(rules.keys() - proofs.keys(), key=by_id)


def unknown(rules: Mapping[str, Rule], proofs: Proofs) -> list[str]:
    """The ids that tests carry and the register lacks, each with its tests."""
    return [f"{rule} ({', '.join(proofs[rule])})" for rule in sorted(proofs.keys() - rules.keys(), key=by_id)]


def wordless(rules: Mapping[str, Rule]) -> list[str]:
    """The ids whose text is empty or longer than a line."""
    return [rule_id for rule_id, rule in rules.items() if not rule.text.strip() or "\n" in rule.text]


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the tool on the repository at `root` and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.rules", description=__doc__)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="renew the lists, then name what is still wrong")
    mode.add_argument("--check", action="store_true", help="exit 1 if anything is wrong")
    options = parser.parse_args(argv)

    register = root / REGISTER
    before = register.read_text(encoding="utf-8")
    proofs = scan(root)
    after = rewrite(before, proofs)
    if options.write:
        register.write_text(after, encoding="utf-8")
    rules = parse(after)
    faults = [
        *(f"no test proves {rule}" for rule in unproved(rules, proofs)),
        *(f"not in {REGISTER}: {rule}" for rule in unknown(rules, proofs)),
        *(f"{rule} needs a text of one line" for rule in wordless(rules)),
    ]
    if options.check and before != after:
        faults.append(f"{REGISTER} is stale: run `make rules`")
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    return 1 if options.check and faults else 0


class _Reader:
    """Collects the rule ids below nodes, following names to what the module defines; remembers the marks it read."""

    def __init__(self, path: str, definitions: Mapping[str, ast.AST]) -> None:
        self._path = path
        self._definitions = definitions
        self.read: set[ast.AST] = set()

    def __repr__(self) -> str:
        return f"<_Reader {self._path}: {len(self.read)} marks read>"

    def ids(self, nodes: Sequence[ast.AST]) -> set[str]:
        found: set[str] = set()
        waiting, followed = list(nodes), set[str]()
        while waiting:
            for node in ast.walk(waiting.pop()):
                if _is_mark(node):
                    self.read.add(node)
                    found.update(self._written_out(node))
                elif isinstance(node, ast.Name) and node.id in self._definitions and node.id not in followed:
                    followed.add(node.id)
                    waiting.append(self._definitions[node.id])
        return found

    def _written_out(self, mark: ast.Call) -> Iterator[str]:
        for arg in mark.args:
            if not isinstance(arg, ast.Constant) or not isinstance(arg.value, str):
                raise MarkError(f"{self._path}:{mark.lineno}: write the ids of a rule mark out, as text")
            yield arg.value


def _is_mark(node: ast.AST) -> TypeGuard[ast.Call]:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="pytest"), attr="mark"), attr="rule")):
            return True
    return False


def _definitions(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """What a name of the module stands for: the value of an assignment, or a function that is no test."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("test"):
            yield node.name, node
        else:
            yield from _assigned(node)


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value


def _pytestmark(body: Sequence[ast.stmt]) -> list[ast.expr]:
    return [value for node in body for name, value in _assigned(node) if name == "pytestmark"]


def _tests(module: ast.Module) -> Iterator[tuple[str, list[ast.expr]]]:
    """The name of each test, and the expressions in which its marks may stand."""
    for node in module.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test"):
                yield name, node.decorator_list
            case ast.ClassDef(name=name) if name.startswith("Test"):
                shared = [*node.decorator_list, *_pytestmark(node.body)]
                for method in node.body:
                    if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name.startswith("test"):
                        yield f"{name}::{method.name}", [*shared, *method.decorator_list]
            case _:
                yield from ((name, [value]) for name, value in _assigned(node) if name.startswith("Test"))


def _id_of(table: str) -> str:
    (rule_id,) = tomllib.loads(table)["rules"]
    return str(rule_id)


def _with_tests(table: str, tests: Sequence[str]) -> str:
    # A test's name holds no bracket, so the first one ends the list.
    kept = re.sub(r"^tests\s*=\s*\[[^]]*\]\n?", "", table, flags=re.MULTILINE).rstrip()
    rows = "".join(f'    "{test}",\n' for test in tests)
    return f"{kept}\ntests = [\n{rows}]" if rows else f"{kept}\ntests = []"


if __name__ == "__main__":
    sys.exit(main())
