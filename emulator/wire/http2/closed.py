"""Which stream ids were used, and what is remembered of streams that are not open any more."""

from bisect import bisect_right
from collections import OrderedDict
from enum import Enum
from typing import Final

from emulator.wire.http2.frames import ErrorCode, Http2Error, StreamError

_REMEMBERED: Final = 10_000
_REMEMBERED_GAPS: Final = 1_000


class Closed(Enum):
    """How a stream that is not open came to be so."""

    BY_US = "ended or reset by this side first: what the peer had sent by then is ignored"
    BY_PEER = "reset by the peer"
    BY_BOTH = "ended by both sides"
    NEVER_OPENED = "its id was skipped"
    FORGOTTEN = "so long ago that nobody knows"


class ClosedStreams:
    """Remembers the unusual ends only, at most the last 10,000, and the last 1,000 gaps; the usual end costs nothing.

    `last` is the highest id that the peer has opened, 0 before the first.
    """

    __slots__ = ("_forgotten_up_to", "_gaps", "_how", "last")

    def __init__(self) -> None:
        self.last = 0
        self._how: OrderedDict[int, Closed] = OrderedDict()
        # First and one beyond the last skipped id, in rising order.
        self._gaps: list[tuple[int, int]] = []
        self._forgotten_up_to = 0

    def opened(self, stream_id: int) -> None:
        """The peer opened this stream, and so gave up the smaller ids that it had not used (RFC 9113 §5.1.1)."""
        first = self.last + 1 | 1
        self.last = stream_id
        if first < stream_id:
            self._gaps.append((first, stream_id))
            if len(self._gaps) > _REMEMBERED_GAPS:
                _, end = self._gaps.pop(0)
                self._forgotten_up_to = max(self._forgotten_up_to, end)

    def add(self, stream_id: int, how: Closed) -> None:
        self._how[stream_id] = how
        if len(self._how) > _REMEMBERED:
            oldest, _ = self._how.popitem(last=False)
            self._forgotten_up_to = max(self._forgotten_up_to, oldest)

    def how(self, stream_id: int) -> Closed:
        known = self._how.get(stream_id)
        if known is not None:
            return known
        gap = bisect_right(self._gaps, stream_id, key=lambda gap: gap[0])
        if gap and stream_id < self._gaps[gap - 1][1]:
            return Closed.NEVER_OPENED
        return Closed.FORGOTTEN if stream_id <= self._forgotten_up_to else Closed.BY_BOTH

    def is_idle(self, stream_id: int) -> bool:
        """Whether nobody has used this id yet; the even ones are for servers that push."""
        return stream_id > self.last or not stream_id & 1

    def judge(self, stream_id: int) -> None:
        """HEADERS or DATA came for a stream that is not open (RFC 9113 §5.1, clients.md T23).

        Returns if they are to be ignored; else raises Http2Error or StreamError.
        """
        if self.is_idle(stream_id):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a frame on an idle stream")
        how = self.how(stream_id)
        if how is Closed.NEVER_OPENED:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a stream id smaller than earlier ones")
        if how is Closed.BY_BOTH:
            raise Http2Error(ErrorCode.STREAM_CLOSED, "a frame on a stream that had ended")
        if how is Closed.BY_PEER:
            raise StreamError(ErrorCode.STREAM_CLOSED, "a frame after RST_STREAM")

    def __repr__(self) -> str:
        return f"<ClosedStreams last={self.last} remembered={len(self._how)} gaps={len(self._gaps)}>"
