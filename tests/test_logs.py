"""The two forms of a log line."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from emulator import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """A stream to log to; the root logger is put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


def log_something(stream: io.StringIO, form: str, level: str = "info") -> list[str]:
    logs.configure(level, form, stream)
    logger = logging.getLogger("emulator.somewhere")
    logger.info("http %s", "x", extra={"method": "GET", "status": 200})
    logger.debug("detail")
    return stream.getvalue().splitlines()


def log_a_failure(stream: io.StringIO, form: str) -> list[str]:
    logs.configure("info", form, stream)
    try:
        raise RuntimeError("on purpose")
    except RuntimeError:
        logging.getLogger("emulator.somewhere").exception("it failed")
    return stream.getvalue().splitlines()


def test_text_is_level_message_and_fields(stream: io.StringIO) -> None:
    assert log_something(stream, "text") == ["INFO http x method=GET status=200"]


def test_json_is_an_object_a_line(stream: io.StringIO) -> None:
    (line,) = log_something(stream, "json")

    content = json.loads(line)
    assert list(content) == ["ts", "level", "logger", "msg", "method", "status"]
    assert content["ts"].endswith("Z")
    del content["ts"]
    assert content == {
        "level": "INFO",
        "logger": "emulator.somewhere",
        "msg": "http x",
        "method": "GET",
        "status": 200,
    }


def test_what_json_does_not_know_is_written_as_text(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)

    logging.getLogger("emulator").info("x", extra={"where": sys.version_info.__class__})

    assert "version_info" in json.loads(stream.getvalue())["where"]


@pytest.mark.parametrize(("level", "count"), [("debug", 2), ("info", 1), ("warning", 0)])
def test_the_level_decides(stream: io.StringIO, level: str, count: int) -> None:
    assert len(log_something(stream, "text", level)) == count


def test_a_text_traceback_follows_its_line(stream: io.StringIO) -> None:
    lines = log_a_failure(stream, "text")

    assert lines[0] == "ERROR it failed"
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1] == "RuntimeError: on purpose"


def test_a_json_traceback_is_a_field(stream: io.StringIO) -> None:
    (line,) = log_a_failure(stream, "json")

    assert json.loads(line)["exc"].endswith("RuntimeError: on purpose")


@pytest.mark.parametrize("form", ["text", "json"])
def test_nobody_can_forge_a_line(stream: io.StringIO, form: str) -> None:
    logs.configure("info", form, stream)

    logging.getLogger("emulator").info("name=%s", "x\r\nERROR forged", extra={"path": "a\nb"})

    assert len(stream.getvalue().splitlines()) == 1


CONTROLS = [chr(code) for code in (*range(32), *range(127, 160), 0x2028, 0x2029)]


@pytest.mark.parametrize("control", CONTROLS, ids=lambda one: f"U+{ord(one):04X}")
def test_control_characters_never_reach_the_terminal(stream: io.StringIO, control: str) -> None:
    logs.configure("info", "text", stream)
    try:
        raise RuntimeError(f"c{control}c")
    except RuntimeError:
        logging.getLogger("emulator").exception("a%sa", control, extra={"path": f"b{control}b"})

    written = control.encode("unicode_escape").decode()
    head, *traceback = stream.getvalue().split("\n")
    assert head == f"ERROR a{written}a path=b{written}b"
    # Only the lines of a traceback may be broken.
    assert control == "\n" or control not in "".join(traceback)
    assert control == "\n" or f"c{written}c" in traceback[-2]


def test_other_characters_stay(stream: io.StringIO) -> None:
    logs.configure("info", "text", stream)

    logging.getLogger("emulator").info("тема-ß \\ 日本")

    assert stream.getvalue() == "INFO тема-ß \\ 日本\n"


def test_configuring_again_replaces(stream: io.StringIO) -> None:
    logs.configure("info", "text", io.StringIO())

    assert len(log_something(stream, "text")) == 1


@pytest.mark.parametrize("formatter", [logs.TextFormatter(), logs.JsonFormatter()])
def test_formatters_show_their_name(formatter: logging.Formatter) -> None:
    assert repr(formatter) == f"<{type(formatter).__name__}>"
