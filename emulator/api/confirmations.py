"""What became of acks and modacks that came over a stream, under exactly-once (service.md §7.3.10)."""

from collections.abc import Iterable, Mapping
from typing import Any

from emulator.api import pb
from emulator.engine.values import AckFailure


class Confirmations:
    """Those that no response has carried yet. `count`: how many ack ids they name."""

    __slots__ = ("_response", "count")

    def __init__(self) -> None:
        self._response = pb.StreamingPullResponse()
        self.count = 0

    def add_acks(self, ack_ids: Iterable[str], refused: Mapping[str, str]) -> None:
        """`refused`: why, by ack id (service.md §8.5)."""
        confirmation = self._response.acknowledge_confirmation
        self._add(confirmation, ack_ids, refused)

    def add_modacks(self, ack_ids: Iterable[str], refused: Mapping[str, str]) -> None:
        self._add(self._response.modify_ack_deadline_confirmation, ack_ids, refused)

    def _add(self, confirmation: Any, ack_ids: Iterable[str], refused: Mapping[str, str]) -> None:
        for ack_id in dict.fromkeys(ack_ids):
            self.count += 1
            match refused.get(ack_id):
                case None:
                    confirmation.ack_ids.append(ack_id)
                case AckFailure.UNORDERED.value:
                    confirmation.unordered_ack_ids.append(ack_id)
                case _:
                    confirmation.invalid_ack_ids.append(ack_id)

    def take(self) -> bytes:
        """Their fields of a response, serialized; there are none afterwards."""
        serialized: bytes = self._response.SerializeToString()
        self._response.Clear()
        self.count = 0
        return serialized

    def __repr__(self) -> str:
        return f"<Confirmations {self.count}>"
