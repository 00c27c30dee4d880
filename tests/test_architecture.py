"""The shape of the code: which room imports which, what is banned where, and how long things may grow."""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 60

# What each room or file may import of ours; `emulator` is the public surface. Imports go one way.
GROUND = {"clock", "errors", "limits", "names"}
MAY_IMPORT = {
    "limits": set[str](),
    "errors": {"limits"},
    "names": {"limits", "errors"},
    "clock": {"limits"},
    "engine": GROUND,
    "api": {"engine", *GROUND},
    "wire": {"api", "engine", *GROUND},
    "control": {"api", "engine", *GROUND},
    "settings": GROUND,
    "logs": GROUND,
    "app": {"settings", "wire", "control", "api", "engine", *GROUND},
    "in_process": {"app", "settings", *GROUND},
    "testing": {"emulator"},
    "cli": {"emulator", "app", "logs", "settings", *GROUND},
    "__main__": {"cli"},
    "__init__": {"in_process", *GROUND},
}

# Files that may read a real clock, and what for.
REAL_TIME = {
    "emulator/clock.py": "the one place where the timeline meets the machine's clock",
    "emulator/wire/postie.py": "how long an outbox has been emptied while others wait for their turn",
    "emulator/wire/grpc/server.py": "how long a connection has been at work while others wait for their turn",
}

CLOCK_READERS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}
MUTABLE_TYPES = {"list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict", "count"}
NOT_FOR_THE_ENGINE = {"asyncio", "http", "socket", "socketserver", "ssl", "urllib"}
SILENCER = re.compile(r"#\s*(type:\s*ignore|noqa|pragma:\s*no\s*cover)(\[[^]]*\]|:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*)?")

Fault = tuple[int, str]
Check = Callable[[str, str], Iterator[Fault]]


def room_of(path: str) -> str:
    """`engine` for emulator/engine/lease.py, `clock` for emulator/clock.py."""
    return Path(path).parts[1].removesuffix(".py")


def imports_of(source: str, path: str) -> Iterator[tuple[int, str]]:
    """The line and full dotted name of each import; `from x import y` is x.y, since y may be a module."""
    package = Path(path).parts[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def imports_go_one_way(source: str, path: str) -> Iterator[Fault]:
    room = room_of(path)
    for line, name in imports_of(source, path):
        ours, _, rest = name.partition(".")
        if ours != "emulator":
            continue
        target = rest.partition(".")[0]
        if target not in MAY_IMPORT:
            target = "emulator"
        if target != room and target not in MAY_IMPORT.get(room, set()):
            yield line, f"{room} must not import {name}"


def the_engine_is_plain(source: str, path: str) -> Iterator[Fault]:
    if room_of(path) != "engine":
        return
    for line, name in imports_of(source, path):
        top = name.partition(".")[0]
        if top in NOT_FOR_THE_ENGINE or (top != "emulator" and top not in sys.stdlib_module_names):
            yield line, f"the engine must not import {top}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await):
            yield node.lineno, "the engine never awaits"
        elif isinstance(node, ast.comprehension) and node.is_async:
            yield node.target.lineno, "the engine never awaits"


def time_comes_from_a_clock(source: str, path: str) -> Iterator[Fault]:
    if path in REAL_TIME:
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module="time", names=names):
                taken = [alias.name for alias in names if alias.name in CLOCK_READERS["time"]]
                yield from ((node.lineno, f"{name} is read; take a Clock") for name in taken)
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=attribute):
                if attribute in CLOCK_READERS.get(owner, ()):
                    yield node.lineno, f"{owner}.{attribute} is read; take a Clock"


def nothing_shared_is_mutable(source: str, path: str) -> Iterator[Fault]:
    """Modules and classes hold constants: a tuple, a frozenset, a MappingProxyType, but no bare list, dict or set."""
    module = ast.parse(source)
    bodies = [module.body, *(node.body for node in ast.walk(module) if isinstance(node, ast.ClassDef))]
    for statement in (statement for body in bodies for statement in body):
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                continue
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) if _is_mutable(value):
                yield statement.lineno, "shared mutable value; wrap it, or keep it on an object"
    for node in ast.walk(module):
        if isinstance(node, ast.Global):
            yield node.lineno, "a global is assigned"


def _is_mutable(value: ast.expr) -> bool:
    match value:
        case ast.List() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
            return True
        case ast.Call(func=ast.Subscript(value=function)) | ast.Call(func=function):
            return isinstance(function, ast.Name | ast.Attribute) and _last_name(function) in MUTABLE_TYPES
    return False


def _last_name(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def only_the_command_prints(source: str, path: str) -> Iterator[Fault]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="print")) if room_of(path) != "cli":
                yield node.lineno, "print outside the command line"


def errors_are_made_in_one_file(source: str, path: str) -> Iterator[Fault]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="PubsubError") | ast.Attribute(attr="PubsubError")):
                if room_of(path) != "errors":
                    yield node.lineno, "PubsubError made outside emulator/errors"


def files_and_functions_stay_short(source: str, path: str) -> Iterator[Fault]:
    lines = len(source.splitlines())
    if lines > MAX_FILE_LINES:
        yield lines, f"{lines} lines in a file, at most {MAX_FILE_LINES}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield node.lineno, f"{node.name} has {length} lines, at most {MAX_FUNCTION_LINES}"


def modules_open_with_a_docstring(source: str, path: str) -> Iterator[Fault]:
    if source and not ast.get_docstring(ast.parse(source)):
        yield 1, "no docstring says what lives here"


def silenced_tools_have_a_reason(source: str, path: str) -> Iterator[Fault]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and SILENCER.match(token.string):
            rest, silenced = SILENCER.subn("", token.string)
            if silenced and len(re.findall(r"\w+", rest)) < 2:
                yield token.start[0], f"{token.string} without a reason beside it"


EVERYWHERE: list[Check] = [modules_open_with_a_docstring, silenced_tools_have_a_reason]
IN_THE_PRODUCT: list[Check] = [
    imports_go_one_way,
    the_engine_is_plain,
    time_comes_from_a_clock,
    nothing_shared_is_mutable,
    only_the_command_prints,
    errors_are_made_in_one_file,
    files_and_functions_stay_short,
]


def faults_below(folders: list[str], check: Check) -> list[str]:
    """`path:line: fault` for every fault that `check` finds in the Python files of these folders."""
    files = [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]
    assert files
    return [
        f"{path}:{line}: {fault}"
        for path, source in ((file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")) for file in files)
        for line, fault in check(source, path)
    ]


@pytest.mark.parametrize("check", IN_THE_PRODUCT)
def test_the_product_keeps_its_shape(check: Check) -> None:
    assert faults_below(["emulator"], check) == []


@pytest.mark.parametrize("check", EVERYWHERE)
def test_all_code_keeps_the_house_rules(check: Check) -> None:
    assert faults_below(["emulator", "tests", "compat_tests", "bench"], check) == []


def test_exceptions_from_real_time_are_still_needed() -> None:
    for path in REAL_TIME:
        source = (ROOT / path).read_text(encoding="utf-8")

        assert list(time_comes_from_a_clock(source, "emulator/elsewhere.py")), f"{path} reads no clock any more"


@pytest.mark.parametrize(
    ("check", "path", "source"),
    [
        (imports_go_one_way, "emulator/engine/x.py", "from emulator.api import pb"),
        (imports_go_one_way, "emulator/engine/x.py", "import emulator.wire.rest"),
        (imports_go_one_way, "emulator/engine/x.py", "from emulator import api"),
        (imports_go_one_way, "emulator/engine/x.py", "from ..api import pb"),
        (imports_go_one_way, "emulator/engine/x.py", "from .. import app"),
        (imports_go_one_way, "emulator/engine/x.py", "if TYPE_CHECKING:\n    from emulator.api import pb"),
        (imports_go_one_way, "emulator/engine/x.py", "from emulator import Emulator"),
        (imports_go_one_way, "emulator/api/x.py", "from emulator.wire import rest"),
        (imports_go_one_way, "emulator/api/x.py", "from emulator.app import App"),
        (imports_go_one_way, "emulator/wire/x.py", "from emulator.control import feed"),
        (imports_go_one_way, "emulator/control/x.py", "from emulator.wire import rest"),
        (imports_go_one_way, "emulator/clock.py", "from emulator import errors"),
        (imports_go_one_way, "emulator/limits.py", "from emulator import names"),
        (imports_go_one_way, "emulator/errors.py", "from emulator.engine import values"),
        (imports_go_one_way, "emulator/testing/x.py", "from emulator.engine import values"),
        (imports_go_one_way, "emulator/cli.py", "from emulator.wire import listener"),
        (imports_go_one_way, "emulator/new.py", "from emulator import limits"),
        (the_engine_is_plain, "emulator/engine/x.py", "import asyncio"),
        (the_engine_is_plain, "emulator/engine/x.py", "from google.protobuf import message"),
        (the_engine_is_plain, "emulator/engine/x.py", "import aiohttp.web"),
        (the_engine_is_plain, "emulator/engine/x.py", "async def f(): ..."),
        (the_engine_is_plain, "emulator/engine/x.py", "def f(): return [x async for x in y]"),
        (time_comes_from_a_clock, "emulator/engine/x.py", "import time\ntime.time()"),
        (time_comes_from_a_clock, "emulator/wire/x.py", "import time\nnow = time.monotonic"),
        (time_comes_from_a_clock, "emulator/api/x.py", "from time import time_ns"),
        (time_comes_from_a_clock, "emulator/api/x.py", "from datetime import datetime\ndatetime.now()"),
        (time_comes_from_a_clock, "emulator/api/x.py", "import datetime\ndatetime.datetime.utcnow()"),
        (nothing_shared_is_mutable, "emulator/x.py", "cache = {}"),
        (nothing_shared_is_mutable, "emulator/x.py", "cache: Final[dict[str, int]] = {}"),
        (nothing_shared_is_mutable, "emulator/x.py", "names = [n for n in 'ab']"),
        (nothing_shared_is_mutable, "emulator/x.py", "waiting = collections.deque()"),
        (nothing_shared_is_mutable, "emulator/x.py", "seen = set[str]()"),
        (nothing_shared_is_mutable, "emulator/x.py", "ids = itertools.count()"),
        (nothing_shared_is_mutable, "emulator/x.py", "class A:\n    shared = []"),
        (nothing_shared_is_mutable, "emulator/x.py", "n = 0\ndef f():\n    global n\n    n += 1"),
        (only_the_command_prints, "emulator/app.py", "print('hello')"),
        (errors_are_made_in_one_file, "emulator/api/x.py", "raise PubsubError(Code.INTERNAL, 'no')"),
        (errors_are_made_in_one_file, "emulator/api/x.py", "raise errors.PubsubError(Code.INTERNAL, 'no')"),
        (files_and_functions_stay_short, "emulator/x.py", "x = 1\n" * (MAX_FILE_LINES + 1)),
        (files_and_functions_stay_short, "emulator/x.py", "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES),
        (modules_open_with_a_docstring, "emulator/x.py", "x = 1"),
        (silenced_tools_have_a_reason, "emulator/x.py", "x = 1  # type: ignore[assignment]"),
        (silenced_tools_have_a_reason, "emulator/x.py", "x = 1  # noqa: E501, F401"),
        (silenced_tools_have_a_reason, "emulator/x.py", "x = 1  # pragma: no cover"),
    ],
)
def test_a_fault_is_found(check: Check, path: str, source: str) -> None:
    assert list(check(source, path))


@pytest.mark.parametrize(
    ("check", "path", "source"),
    [
        (imports_go_one_way, "emulator/engine/x.py", "import heapq\nfrom emulator import errors\nfrom . import values"),
        (imports_go_one_way, "emulator/wire/x.py", "from emulator.api import pb\nfrom emulator.engine import values"),
        (imports_go_one_way, "emulator/testing/x.py", "from emulator import Emulator\nfrom emulator.testing import y"),
        (imports_go_one_way, "emulator/app.py", "from emulator.wire import rest\nfrom emulator.control import feed"),
        (the_engine_is_plain, "emulator/engine/x.py", "import heapq\nfrom emulator.clock import Clock"),
        (the_engine_is_plain, "emulator/wire/x.py", "import asyncio\nasync def f(): ..."),
        (
            time_comes_from_a_clock,
            "emulator/engine/x.py",
            "clock.now()\nself.clock.now()\nfrom time import struct_time",
        ),
        (time_comes_from_a_clock, "emulator/clock.py", "import time\ntime.time_ns()"),
        (nothing_shared_is_mutable, "emulator/x.py", "A = (1, 2)\nB = frozenset({1})\nC = MappingProxyType({1: 2})"),
        (nothing_shared_is_mutable, "emulator/__init__.py", "__all__ = ['Emulator']"),
        (nothing_shared_is_mutable, "emulator/x.py", "def f():\n    found = []"),
        (only_the_command_prints, "emulator/cli.py", "print('hello')"),
        (errors_are_made_in_one_file, "emulator/errors.py", "def f(): return PubsubError(Code.INTERNAL, 'no')"),
        (errors_are_made_in_one_file, "emulator/api/x.py", "raise errors.not_found('x')"),
        (files_and_functions_stay_short, "emulator/x.py", "x = 1\n" * MAX_FILE_LINES),
        (files_and_functions_stay_short, "emulator/x.py", "def f():\n" + "    x = 1\n" * (MAX_FUNCTION_LINES - 1)),
        (modules_open_with_a_docstring, "emulator/x.py", '"""What lives here."""'),
        (modules_open_with_a_docstring, "tests/api/__init__.py", ""),
        (silenced_tools_have_a_reason, "emulator/x.py", "x = 1  # type: ignore[assignment]  # the stub is wrong"),
        (silenced_tools_have_a_reason, "emulator/x.py", "x = '# noqa'"),
    ],
)
def test_good_code_passes(check: Check, path: str, source: str) -> None:
    assert list(check(source, path)) == []
