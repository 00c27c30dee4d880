"""The one way from a catalogue row and a request to a reply, whichever face it came through."""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from google.protobuf.message import Message

from emulator import errors
from emulator.api.catalogue import RPCS, Rpc
from emulator.api.replies import Parked, Undoable

logger = logging.getLogger(__name__)

Reply: TypeAlias = Message | Undoable[Message]
Outcome: TypeAlias = Reply | Parked[Reply]


class Dispatcher:
    """Calls the handler of a row; every failure leaves as one `PubsubError`.

    `services` maps a full service name to the object whose methods carry the RPCs' names in snake case. A row without a
    method answers UNIMPLEMENTED. One with a second method, `_serialized` behind its name, can be called with bytes.
    """

    def __init__(self, services: Mapping[str, object], rows: Sequence[Rpc] = RPCS) -> None:
        self._handlers = _by_path(services, rows, "")
        self._serialized = _by_path(services, rows, "_serialized")

    def implements(self, rpc: Rpc) -> bool:
        return rpc.path in self._handlers

    def call(self, rpc: Rpc, request: Message) -> Outcome:
        """The reply, or a parked one. Raises PubsubError and nothing else."""
        handler = self._handlers.get(rpc.path)
        if handler is None:
            raise errors.not_implemented(f"{rpc.service}.{rpc.method}")
        outcome: Outcome = _guarded(rpc, handler, request)
        return outcome

    def call_serialized(self, rpc: Rpc, data: bytes, start: int) -> bytes | None:
        """The serialized reply to the serialized request that begins at `start`; None if it has to be parsed first.

        Raises PubsubError and nothing else.
        """
        handler = self._serialized.get(rpc.path)
        if handler is None:
            return None
        reply: bytes | None = _guarded(rpc, handler, data, start)
        return reply

    def __repr__(self) -> str:
        return f"<Dispatcher implemented={len(self._handlers)}>"


def _by_path(services: Mapping[str, object], rows: Sequence[Rpc], suffix: str) -> Mapping[str, Callable[..., Any]]:
    found = {row.path: getattr(services.get(row.service), row.name + suffix, None) for row in rows}
    return MappingProxyType({path: handler for path, handler in found.items() if handler is not None})


def _guarded(rpc: Rpc, handler: Callable[..., Any], *arguments: object) -> Any:
    try:
        return handler(*arguments)
    except errors.PubsubError:
        raise
    except Exception as problem:
        logger.exception("rpc=%s failed unexpectedly", rpc.method)
        raise errors.internal(problem) from problem
