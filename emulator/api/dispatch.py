"""The one way from a catalogue row and a request to a reply, whichever face it came through."""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from google.protobuf.message import Message

from emulator import errors
from emulator.api.catalogue import RPCS, Rpc
from emulator.api.replies import Parked, Undoable

logger = logging.getLogger(__name__)

Reply: TypeAlias = Message | Undoable[Message]
Outcome: TypeAlias = Reply | Parked[Reply]


Handler: TypeAlias = Callable[..., Outcome]


class Dispatcher:
    """Calls the handler of a row; every failure leaves as one `PubsubError`.

    `services` maps a full service name to the object whose methods carry the RPCs' names in snake case. A row without a
    method answers UNIMPLEMENTED.
    """

    def __init__(self, services: Mapping[str, object], rows: Sequence[Rpc] = RPCS) -> None:
        self._handlers = MappingProxyType(
            {
                row.path: handler
                for row in rows
                if (handler := getattr(services.get(row.service), row.name, None)) is not None
            }
        )

    def implements(self, rpc: Rpc) -> bool:
        return rpc.path in self._handlers

    def call(self, rpc: Rpc, request: Message) -> Outcome:
        """The reply, or a parked one. Raises PubsubError and nothing else."""
        handler = self._handlers.get(rpc.path)
        if handler is None:
            raise errors.not_implemented(f"{rpc.service}.{rpc.method}")
        try:
            outcome: Outcome = handler(request)
        except errors.PubsubError:
            raise
        except Exception as problem:
            logger.exception("rpc=%s failed unexpectedly", rpc.method)
            raise errors.internal(problem) from problem
        return outcome

    def __repr__(self) -> str:
        return f"<Dispatcher implemented={len(self._handlers)}>"
