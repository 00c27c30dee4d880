"""The sending half of a connection: what waits to be written, and the windows it has to respect."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from emulator.wire.http2 import frames
from emulator.wire.http2.frames import ErrorCode, Http2Error
from emulator.wire.http2.heads import TableSizeNotice
from emulator.wire.http2.stream import Stream

# None has more than 17 bytes, so this is far below the 1 MiB that the rule also names (clients.md T8).
_MAX_CONTROL_FRAMES: Final = 10_000


class Sender:
    """Turns replies into frames as far as the windows allow, streams in turn.

    `on_ended` is told of each stream that this side has ended, and whether the peer had ended it before.
    """

    __slots__ = (
        "_blocked",
        "_control_frames",
        "_on_ended",
        "_out",
        "_paused",
        "_urgent",
        "_waiters",
        "initial_window",
        "max_frame",
        "max_header_list",
        "no_queue",
        "notice",
        "out_bytes",
        "queued_bytes",
        "window",
    )

    def __init__(self, on_ended: Callable[[Stream], None]) -> None:
        self._on_ended = on_ended
        self._out: list[bytes] = []
        self.out_bytes = 0
        self._urgent: list[bytes] = []
        self._control_frames = 0
        # Those that only the connection's window stops, in turn.
        self._blocked: OrderedDict[Stream, None] = OrderedDict()
        self._waiters: dict[Stream, None] = {}
        self._paused = False
        # Bytes of replies that wait for a window, of all streams together.
        self.queued_bytes = 0
        self.window = frames.DEFAULT_WINDOW
        self.initial_window = frames.DEFAULT_WINDOW
        self.max_frame = frames.MIN_MAX_FRAME_SIZE
        # In bytes, as the peer has announced it.
        self.max_header_list: int | None = None
        self.notice = TableSizeNotice()
        # Of every stream that never had to wait for a window, as nearly all; nothing can be put into it.
        self.no_queue: deque[memoryview] = deque(maxlen=0)

    # Output

    def _put(self, frame: bytes) -> None:
        self._out.append(frame)
        self.out_bytes += len(frame)

    def take(self) -> bytes:
        """Everything that waits to be written: answers to the peer's control frames first (clients.md T8)."""
        if self._urgent:
            self._urgent.extend(self._out)
            out, self._urgent, self._out = self._urgent, [], []
        elif self._out:
            out, self._out = self._out, []
        else:
            return b""
        self._control_frames = 0
        self.out_bytes = 0
        return out[0] if len(out) == 1 else b"".join(out)

    def control(self, frame: bytes) -> None:
        """An answer that the peer asked for, ahead of all that waits.

        Raises Http2Error when more of them wait unwritten than any honest peer would cause (clients.md T8).
        """
        self._urgent.append(frame)
        self._count()

    def raw(self, frame: bytes) -> None:
        """A frame that keeps its place among the others."""
        self._put(frame)

    def raw_control(self, frame: bytes) -> None:
        """The same for an answer that has to keep its place."""
        self._put(frame)
        self._count()

    def _count(self) -> None:
        self._control_frames += 1
        if self._control_frames > _MAX_CONTROL_FRAMES:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "too many answers that the peer does not read")

    # Replies

    def headers(self, stream: Stream, block: bytes, *, end: bool = False) -> None:
        if self.notice.due:
            block = self.notice.take() + block
        self._put(frames.headers(stream.id, block, self.max_frame, end_stream=end))

    def data(self, stream: Stream, data: bytes) -> None:
        if stream.queue is self.no_queue:
            stream.queue = deque()
        stream.queue.append(memoryview(data))
        stream.queued_bytes += len(data)
        self.queued_bytes += len(data)
        if len(stream.queue) == 1:
            self._drain(stream)

    def finish(self, stream: Stream) -> None:
        if not stream.queue:
            self._end(stream)

    def reply(self, stream: Stream, headers: bytes, data: bytes, trailers: bytes) -> None:
        size = len(data)
        most = self.max_frame
        if size > min(most, stream.send_window, self.window) or len(trailers) > most or self.notice.due:
            self.headers(stream, headers)
            if data:
                self.data(stream, data)
            stream.trailers = trailers
            self.finish(stream)
            return
        stream.send_window -= size
        self.window -= size
        self._put(frames.reply(stream.id, headers, data, trailers))
        self._ended(stream)

    def _drain(self, stream: Stream) -> None:
        while stream.queue and self._send_one(stream):
            pass
        if not stream.queue:
            self._drained(stream)
        elif stream.send_window > 0:
            self._blocked[stream] = None

    def _send_one(self, stream: Stream) -> bool:
        """One DATA frame of a stream's queue; False if a window is shut."""
        room = min(stream.send_window, self.window, self.max_frame)
        if room <= 0:
            return False
        head = stream.queue[0]
        if len(head) <= room:
            stream.queue.popleft()
            chunk = head
        else:
            chunk = head[:room]
            stream.queue[0] = head[room:]
        size = len(chunk)
        stream.queued_bytes -= size
        self.queued_bytes -= size
        stream.send_window -= size
        self.window -= size
        self._put(frames.frame(frames.DATA, 0, stream.id, chunk))
        return True

    def _drained(self, stream: Stream) -> None:
        if stream.trailers is not None:
            self._end(stream)
        elif stream in self._waiters:
            self._tell(stream)

    def _end(self, stream: Stream) -> None:
        assert stream.trailers is not None
        self.headers(stream, stream.trailers, end=True)
        self._ended(stream)

    def _ended(self, stream: Stream) -> None:
        if not stream.remote_closed:
            # The peer may still be sending; it need not (RFC 9113 §8.1, clients.md T24).
            self._put(frames.rst_stream(stream.id, ErrorCode.NO_ERROR))
        stream.closed = True
        self._on_ended(stream)

    def forget(self, stream: Stream) -> None:
        """The stream is over: nothing of it will be sent."""
        stream.closed = True
        if stream.queue:
            self.drop(stream)
        self._waiters.pop(stream, None)
        self._blocked.pop(stream, None)

    def drop(self, stream: Stream) -> None:
        """What is queued of a stream will not be sent."""
        self.queued_bytes -= stream.queued_bytes
        stream.queued_bytes = 0
        stream.queue.clear()

    # Windows

    def ready(self, stream: Stream) -> bool:
        """Whether data would leave at once; if not, the stream's call hears of the change."""
        if stream.closed:
            return False
        if not self._paused and not stream.queue and stream.send_window > 0 and self.window > 0:
            return True
        self._waiters[stream] = None
        return False

    def room(self, stream: Stream) -> int:
        """How many bytes of data would leave at once; 0 as in `ready`."""
        return min(stream.send_window, self.window) if self.ready(stream) else 0

    def _tell(self, stream: Stream) -> None:
        if self.ready(stream):
            self._waiters.pop(stream, None)
            stream.call.writable()

    def resume(self, stream: Stream) -> None:
        """A stream's own window has grown."""
        if stream.queue:
            self._drain(stream)
        elif stream in self._waiters:
            self._tell(stream)

    def grow(self, increment: int) -> None:
        """The connection's window has grown; raises Http2Error if beyond measure."""
        was_shut = self.window <= 0
        self.window += increment
        if self.window > frames.MAX_WINDOW:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window beyond 2^31-1")
        if was_shut:
            self._send_in_turn()
            self._tell_all()

    def _send_in_turn(self) -> None:
        """One frame of each blocked stream, again and again while the window lasts."""
        blocked = self._blocked
        while blocked and self.window > 0:
            stream, _ = blocked.popitem(last=False)
            self._send_one(stream)
            if not stream.queue:
                self._drained(stream)
            elif stream.send_window > 0:
                blocked[stream] = None

    def pause(self, *, paused: bool) -> None:
        """The socket is full, or has room again."""
        self._paused = paused
        if not paused:
            self._tell_all()

    def _tell_all(self) -> None:
        for stream in list(self._waiters):
            self._tell(stream)

    def __repr__(self) -> str:
        return f"<Sender window={self.window} blocked={len(self._blocked)} waiting={len(self._waiters)}>"
