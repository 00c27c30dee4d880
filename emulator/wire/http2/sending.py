"""The sending half of a connection: what waits to be written, and the windows it has to respect."""

from collections import deque
from collections.abc import Callable
from typing import Final

from emulator.wire.http2 import frames
from emulator.wire.http2.frames import ErrorCode, Http2Error
from emulator.wire.http2.heads import TableSizeNotice
from emulator.wire.http2.stream import Stream

_MAX_CONTROL_FRAMES: Final = 10_000
_MAX_CONTROL_BYTES: Final = 1_048_576


class Sender:
    """Turns replies into frames as far as the windows allow, streams in turn.

    `on_ended` is told of each stream that this side has ended, and whether the peer had ended it before.
    """

    __slots__ = (
        "_blocked",
        "_control_bytes",
        "_control_frames",
        "_on_ended",
        "_out",
        "_paused",
        "_urgent",
        "_waiters",
        "initial_window",
        "max_frame",
        "notice",
        "window",
    )

    def __init__(self, on_ended: Callable[[Stream], None]) -> None:
        self._on_ended = on_ended
        self._out: list[bytes] = []
        self._urgent: list[bytes] = []
        self._control_frames = 0
        self._control_bytes = 0
        self._blocked: deque[Stream] = deque()
        self._waiters: dict[Stream, None] = {}
        self._paused = False
        self.window = frames.DEFAULT_WINDOW
        self.initial_window = frames.DEFAULT_WINDOW
        self.max_frame = frames.MIN_MAX_FRAME_SIZE
        self.notice = TableSizeNotice()

    # Output

    def take(self) -> bytes:
        """Everything that waits to be written: answers to the peer's control frames first (clients.md T8)."""
        if self._urgent:
            self._urgent.extend(self._out)
            out, self._urgent, self._out = self._urgent, [], []
        elif self._out:
            out, self._out = self._out, []
        else:
            return b""
        self._control_frames = self._control_bytes = 0
        return out[0] if len(out) == 1 else b"".join(out)

    def control(self, frame: bytes) -> None:
        """An answer that the peer asked for.

        Raises Http2Error when more of them wait unwritten than any honest peer would cause (clients.md T8).
        """
        self._urgent.append(frame)
        self._count(frame)

    def raw(self, frame: bytes) -> None:
        """A frame that keeps its place among the others."""
        self._out.append(frame)

    def raw_control(self, frame: bytes) -> None:
        self._out.append(frame)
        self._count(frame)

    def _count(self, frame: bytes) -> None:
        self._control_frames += 1
        self._control_bytes += len(frame)
        if self._control_frames > _MAX_CONTROL_FRAMES or self._control_bytes > _MAX_CONTROL_BYTES:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "too many answers that the peer does not read")

    def drop_all(self) -> None:
        """The connection ends: nothing but what comes now is written."""
        self._out.clear()
        self._urgent.clear()

    # Replies

    def headers(self, stream: Stream, block: bytes, *, end: bool = False) -> None:
        if self.notice.due:
            block = self.notice.take() + block
        self._out.append(frames.headers(stream.id, block, self.max_frame, end_stream=end))

    def data(self, stream: Stream, data: bytes) -> None:
        stream.queue.append(memoryview(data))
        stream.queued_bytes += len(data)
        if len(stream.queue) == 1:
            self._drain(stream)

    def finish(self, stream: Stream) -> None:
        if not stream.queue:
            self._end(stream)

    def reply(self, stream: Stream, headers: bytes, data: bytes, trailers: bytes) -> None:
        size = len(data)
        if size > self.max_frame or size > stream.send_window or size > self.window or self.notice.due:
            self.headers(stream, headers)
            stream.trailers = trailers
            if data:
                self.data(stream, data)
            self.finish(stream)
            return
        stream.send_window -= size
        self.window -= size
        frame, stream_id = frames.frame, stream.id
        self._out.append(
            frame(frames.HEADERS, frames.END_HEADERS, stream_id, headers)
            + frame(frames.DATA, 0, stream_id, data)
            + frames.headers(stream_id, trailers, self.max_frame, end_stream=True)
        )
        self._ended(stream)

    def _drain(self, stream: Stream) -> None:
        while stream.queue and self._send_one(stream):
            pass
        if not stream.queue:
            self._drained(stream)
        elif stream.send_window > 0 and not stream.in_ring:
            stream.in_ring = True
            self._blocked.append(stream)

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
        stream.send_window -= size
        self.window -= size
        self._out.append(frames.frame(frames.DATA, 0, stream.id, chunk))
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
            self._out.append(frames.rst_stream(stream.id, ErrorCode.NO_ERROR))
        stream.closed = True
        self._on_ended(stream)

    def forget(self, stream: Stream) -> None:
        """The stream is over: nothing of it will be sent."""
        stream.closed = True
        stream.queue.clear()
        stream.queued_bytes = 0
        self._waiters.pop(stream, None)

    # Windows

    def ready(self, stream: Stream) -> bool:
        """Whether data would leave at once; if not, the stream's call hears of the change."""
        if stream.closed:
            return False
        if not self._paused and not stream.queue and stream.send_window > 0 and self.window > 0:
            return True
        self._waiters[stream] = None
        return False

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

    def resume_all(self) -> None:
        """The connection's window has grown: one frame each, in turn."""
        ring = self._blocked
        while ring and self.window > 0:
            stream = ring.popleft()
            stream.in_ring = False
            if stream.closed or not stream.queue:
                continue
            self._send_one(stream)
            if not stream.queue:
                self._drained(stream)
            elif stream.send_window > 0:
                stream.in_ring = True
                ring.append(stream)
        self._tell_all()

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
