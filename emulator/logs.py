"""How the command logs: a line of text or a JSON object for each record, fields passed as `extra` included."""

import json
import logging
import re
from datetime import UTC, datetime
from typing import TextIO

# What every record has; anything beyond is a field that the caller passed.
_STANDARD = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "color_message"})


# Everything that moves a cursor, changes a terminal or ends a line.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The fields that a record was given as `extra`, in the order given."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


class TextFormatter(logging.Formatter):
    """`INFO http method=GET status=200`, then the traceback, if any."""

    def format(self, record: logging.LogRecord) -> str:
        message = " ".join([record.getMessage(), *(f"{key}={value}" for key, value in fields_of(record).items())])
        # What came in over the network must not be able to look like a line of ours, nor to command the terminal.
        line = _CONTROL.sub(_escaped, f"{record.levelname} {message}")
        if not record.exc_info:
            return line
        traceback = self.formatException(record.exc_info).split("\n")
        return "\n".join([line, *(_CONTROL.sub(_escaped, each) for each in traceback)])

    def __repr__(self) -> str:
        return "<TextFormatter>"


class JsonFormatter(logging.Formatter):
    """One object a line: ts, level, logger, msg, then the fields; a traceback is the field `exc`."""

    def format(self, record: logging.LogRecord) -> str:
        content: dict[str, object] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "msg": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            content["exc"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)

    def __repr__(self) -> str:
        return "<JsonFormatter>"


def configure(level: str, form: str, stream: TextIO) -> None:
    """Send every record of `level` and above to `stream`. Only the command calls this; a library leaves it alone.

    form: "text" or "json".
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
