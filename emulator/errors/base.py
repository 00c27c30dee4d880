"""What an error is, and how a value is shown in one."""

from collections.abc import Mapping
from enum import IntEnum

_SHOWN_CHARACTERS = 120


class Code(IntEnum):
    """The canonical gRPC status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class PubsubError(Exception):
    """A call's failure: what the caller is told.

    `reason` and `metadata`, when given, become a `google.rpc.ErrorInfo` detail.
    """

    __slots__ = ("code", "message", "metadata", "reason")

    def __init__(self, code: Code, message: str, reason: str = "", metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata = metadata or {}

    def __repr__(self) -> str:
        return f"<PubsubError {self.code.name} {self.message!r}>"


def show(value: object) -> str:
    """A value as it may stand in a message: control characters escaped, long ones cut."""
    text = value if isinstance(value, str) else repr(value)
    if len(text) > _SHOWN_CHARACTERS:
        text = text[:_SHOWN_CHARACTERS] + "…"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def invalid(argument: str, value: object, rule: str) -> PubsubError:
    return PubsubError(
        Code.INVALID_ARGUMENT,
        f"Invalid value for {argument}: {show(value) or '(empty)'}; {rule} (argument={argument}).",
    )
