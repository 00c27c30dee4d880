"""What is remembered of streams that are not open any more, to tell a late frame from a mistake."""

from collections import OrderedDict
from enum import Enum
from typing import Final

_REMEMBERED: Final = 10_000


class Closed(Enum):
    """How a stream that is not open came to be so."""

    BY_US = "ended or reset by this side first: what the peer had sent by then is ignored"
    BY_PEER = "reset by the peer"
    BY_BOTH = "ended by both sides"
    NEVER_OPENED = "its id was skipped"
    FORGOTTEN = "so long ago that nobody knows"


class ClosedStreams:
    """Remembers the unusual ends only, at most the last 10,000; the usual end costs nothing."""

    __slots__ = ("_forgotten_up_to", "_how")

    def __init__(self) -> None:
        self._how: OrderedDict[int, Closed] = OrderedDict()
        self._forgotten_up_to = 0

    def add(self, stream_id: int, how: Closed) -> None:
        self._how[stream_id] = how
        if len(self._how) > _REMEMBERED:
            oldest, _ = self._how.popitem(last=False)
            self._forgotten_up_to = max(self._forgotten_up_to, oldest)

    def skipped(self, first: int, end: int) -> None:
        """The peer opened stream `end` and left out the odd ids from `first` on."""
        for stream_id in range(max(first | 1, end - 2 * _REMEMBERED), end, 2):
            self.add(stream_id, Closed.NEVER_OPENED)

    def how(self, stream_id: int) -> Closed:
        known = self._how.get(stream_id)
        if known is not None:
            return known
        return Closed.FORGOTTEN if stream_id <= self._forgotten_up_to else Closed.BY_BOTH

    def __repr__(self) -> str:
        return f"<ClosedStreams remembered={len(self._how)}>"
