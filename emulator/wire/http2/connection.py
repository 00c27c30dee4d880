"""One HTTP/2 connection of a server, without I/O: `feed` and `process` bytes in, `take_output` bytes out."""

from collections.abc import Callable
from typing import Final, Protocol

from emulator.wire.http2 import frames, settings
from emulator.wire.http2.closed import Closed, ClosedStreams
from emulator.wire.http2.frames import ErrorCode, Http2Error, StreamError
from emulator.wire.http2.heads import HeadDecoder, RequestHead, split_fields
from emulator.wire.http2.sending import Sender
from emulator.wire.http2.settings import Settings
from emulator.wire.http2.stream import NO_CALL, Stream

_BLOCK_MAX_BYTES: Final = 131_072
_BLOCK_MAX_FRAMES: Final = 1_024
# A flag of ours above the eight of the frame.
_DEPENDS_ON_ITSELF: Final = 0x100


class Handler(Protocol):
    """Who gets the requests of a connection."""

    def request(self, stream: Stream, head: RequestHead) -> None:
        """A new stream; the handler puts a call on it or answers at once. Its data follows as `Call.data`."""
        ...


class Connection:
    """Frames, streams and windows. Reads only what it is fed; `process` raises Http2Error after queueing a GOAWAY."""

    def __init__(self, handler: Handler, announced: Settings | None = None) -> None:
        self._handler = handler
        self._settings = announced or Settings()
        self._buffer = b""
        self._position = 0
        # What was fed behind `_buffer`, and where it goes on.
        self._later = b""
        self._later_from = 0
        self._heads = HeadDecoder(self._settings.max_header_list)
        self._streams: dict[int, Stream] = {}
        self._closed = ClosedStreams()
        self._last_accepted = frames.MAX_STREAM_ID
        self._block: list[bytes] | None = None
        self._block_bytes = 0
        self._block_stream = 0
        self._block_flags = 0
        self._preface_seen = False
        self._settings_seen = False
        self._received_unacked = 0
        self.sender = Sender(self._on_ended)
        self.on_ping_ack: Callable[[bytes], None] | None = None
        self._handlers: dict[int, Callable[[int, int, bytes], None]] = {
            frames.PRIORITY: self._on_priority,
            frames.RST_STREAM: self._on_rst_stream,
            frames.SETTINGS: self._on_settings,
            frames.PUSH_PROMISE: self._on_push_promise,
            frames.PING: self._on_ping,
            frames.GOAWAY: self._on_goaway,
            frames.WINDOW_UPDATE: self._on_window_update,
            frames.CONTINUATION: self._on_continuation,
        }

    def start(self) -> None:
        """Queue the first frames: SETTINGS and the connection's window (clients.md T19)."""
        self.sender.control(self._settings.announcement())

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    def lost(self) -> None:
        """The transport is gone: every call hears that nothing more will be written."""
        streams, self._streams = self._streams, {}
        # All before any: what one call gives back must not be sent on another of this connection.
        for stream in streams.values():
            self.sender.forget(stream)
        for stream in streams.values():
            stream.call.gone()

    def announce_goaway(self, opaque: bytes) -> None:
        """First step of the end: no new streams, please; the PING tells when the peer has read it (clients.md T35)."""
        self.sender.raw(frames.goaway(frames.MAX_STREAM_ID, ErrorCode.NO_ERROR) + frames.ping(opaque, ack=False))

    def final_goaway(self) -> None:
        """Second step: streams after the last one are refused."""
        self._last_accepted = min(self._last_accepted, self._closed.last)
        self._goaway(ErrorCode.NO_ERROR)

    def _goaway(self, code: ErrorCode) -> None:
        # The last id never rises from one GOAWAY to the next (RFC 9113 §6.8).
        self.sender.raw(frames.goaway(min(self._last_accepted, self._closed.last), code))

    def _on_ended(self, stream: Stream) -> None:
        self.sender.forget(stream)
        self._streams.pop(stream.id, None)
        if not stream.remote_closed:
            self._closed.add(stream.id, Closed.BY_US)
        # They know each other; parted, both are freed at once.
        call, stream.call = stream.call, NO_CALL
        call.sent()

    # Bytes in

    def feed(self, data: bytes) -> None:
        """Add received bytes, from the connection preface on."""
        rest = self._buffer[self._position :]
        if self._later:
            rest += self._later[self._later_from :]
            self._later = b""
        self._position = 0
        # Only the frame that is cut in two is put together, not all that follows it.
        cut = self._size_of_frame(rest + data[: frames.HEADER_BYTES]) - len(rest) if rest and self._preface_seen else 0
        if 0 < cut < len(data):
            self._buffer = rest + data[:cut]
            self._later, self._later_from = data, cut
        else:
            self._buffer = rest + data if rest else data

    def _size_of_frame(self, beginning: bytes) -> int:
        """The size of the frame that begins so; 0 if that can't be told."""
        if len(beginning) < frames.HEADER_BYTES:
            return 0
        return frames.HEADER_BYTES + int.from_bytes(beginning[:3], "big")

    def unprocessed(self) -> int:
        """How many fed bytes wait."""
        later = len(self._later) - self._later_from if self._later else 0
        return len(self._buffer) - self._position + later

    def process(self, most: int, enough: Callable[[], bool] = lambda: False) -> bool:
        """Handle up to `most` complete frames, fewer once `enough` says so after one; whether there may be more.

        Raises Http2Error when the connection is beyond repair; the GOAWAY is then in the output.
        """
        try:
            if not self._preface_seen and not self._take_preface():
                return False
            for _ in range(most):
                buffer, position = self._buffer, self._position
                if self._later and position == len(buffer):
                    buffer, position = self._buffer, self._position = self._later, self._later_from
                    self._later = b""
                start = position + frames.HEADER_BYTES
                if start > len(buffer):
                    return False
                high, low, kind, flags, stream_id = frames.unpack_head(buffer, position)
                end = start + (high << 8 | low)
                if end - start > self._settings.max_frame_size:
                    raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {end - start} bytes")
                if end > len(buffer):
                    return False
                self._position = end
                self._dispatch(kind, flags, stream_id & frames.MAX_STREAM_ID, buffer[start:end])
                if enough():
                    break
        except Http2Error as problem:
            self._goaway(problem.code)
            raise
        return True

    def _take_preface(self) -> bool:
        if self.unprocessed() < len(frames.PREFACE):
            return False
        if not self._buffer.startswith(frames.PREFACE):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "no connection preface")
        self._position = len(frames.PREFACE)
        self._preface_seen = True
        return True

    def _dispatch(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is not None and (kind != frames.CONTINUATION or stream_id != self._block_stream):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a frame in the middle of a header block")
        if not self._settings_seen and kind != frames.SETTINGS:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        try:
            if kind == frames.DATA:
                self._on_data(flags, stream_id, payload)
            elif kind == frames.HEADERS:
                self._on_headers(flags, stream_id, payload)
            else:
                handler = self._handlers.get(kind)
                if handler is not None:  # RFC 9113 §4.1: unknown types are ignored
                    handler(flags, stream_id, payload)
        except StreamError as problem:
            self._stream_error(stream_id, problem.code)

    def _stream_error(self, stream_id: int, code: ErrorCode) -> None:
        self.sender.raw_control(frames.rst_stream(stream_id, code))
        self._closed.add(stream_id, Closed.BY_US)
        stream = self._streams.pop(stream_id, None)
        if stream is not None:
            self.sender.forget(stream)
            stream.call.gone()

    # Requests

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "HEADERS on stream 0")
        if flags & (frames.PADDED | frames.WITH_PRIORITY):
            depends_on, payload = frames.strip_priority(payload, flags)
            if depends_on == stream_id:
                flags |= _DEPENDS_ON_ITSELF
        if flags & frames.END_HEADERS:
            self._on_block(flags, stream_id, payload)
        else:
            self._block, self._block_bytes = [payload], len(payload)
            self._block_stream, self._block_flags = stream_id, flags

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        block = self._block
        if block is None:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        block.append(payload)
        self._block_bytes += len(payload)
        if len(block) > _BLOCK_MAX_FRAMES or self._block_bytes > _BLOCK_MAX_BYTES:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "an endless header block")
        if flags & frames.END_HEADERS:
            self._block = None
            self._on_block(self._block_flags, stream_id, b"".join(block))

    def _on_block(self, flags: int, stream_id: int, block: bytes) -> None:
        closed = self._closed
        if stream_id <= closed.last or not stream_id & 1:
            self._on_later_block(flags, stream_id, block)
            return
        closed.opened(stream_id)
        head = self._heads.request(block)
        if stream_id > self._last_accepted:
            closed.add(stream_id, Closed.BY_US)
            return
        if len(self._streams) >= self._settings.max_concurrent_streams:
            raise StreamError(ErrorCode.REFUSED_STREAM, "too many streams")
        if flags & _DEPENDS_ON_ITSELF or head.problem:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, head.problem or "a stream that depends on itself")
        stream = Stream(self.sender, stream_id, head.content_length)
        end = bool(flags & frames.END_STREAM)
        if end:
            stream.remote_closed = True
            if stream.content_left:
                raise StreamError(ErrorCode.PROTOCOL_ERROR, "content-length differs from the data")
        self._streams[stream_id] = stream
        self._handler.request(stream, head)
        if end and not stream.closed:
            stream.call.data(b"", True)

    def _on_later_block(self, flags: int, stream_id: int, block: bytes) -> None:
        """HEADERS on a stream that was open before: trailers, or a mistake. The table has to see the block anyway."""
        fields = self._heads.fields(block)
        stream = self._streams.get(stream_id)
        if stream is None:
            self._closed.judge(stream_id)
            return
        if stream.remote_closed:
            raise StreamError(ErrorCode.STREAM_CLOSED, "HEADERS after END_STREAM")
        if not flags & frames.END_STREAM or flags & _DEPENDS_ON_ITSELF:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "trailers without END_STREAM, or a stream depends on itself")
        pseudo, _ = split_fields(fields)
        if pseudo:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "trailers with pseudo-headers")
        self._end_of_request(stream, b"")

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        length = len(payload)
        if length:
            self._credit_connection(length)
        stream = self._streams.get(stream_id)
        if stream is None:
            if stream_id == 0:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "DATA on stream 0")
            self._closed.judge(stream_id)
            return
        if stream.remote_closed:
            raise StreamError(ErrorCode.STREAM_CLOSED, "DATA after END_STREAM")
        end = flags & frames.END_STREAM
        stream.received_unacked += length
        if stream.received_unacked > self._settings.stream_window:
            raise StreamError(ErrorCode.FLOW_CONTROL_ERROR, "more data than the stream's window")
        if flags & frames.PADDED:
            payload = frames.strip_padding(payload)
        if stream.content_left is not None:
            stream.content_left -= len(payload)
        if end:
            self._end_of_request(stream, payload)
            return
        if stream.received_unacked * 2 > self._settings.stream_window:
            self.sender.raw(frames.window_update(stream_id, stream.received_unacked))
            stream.received_unacked = 0
        if payload:
            stream.call.data(payload, False)

    def _end_of_request(self, stream: Stream, payload: bytes) -> None:
        if stream.content_left:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "content-length differs from the data")
        stream.remote_closed = True
        stream.call.data(payload, True)

    def _credit_connection(self, length: int) -> None:
        # Data counts against the window even when its stream is gone, and is given back all the same (clients.md T22).
        self._received_unacked += length
        if self._received_unacked * 2 > self._settings.connection_window:
            if self._received_unacked > self._settings.connection_window:
                raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window")
            self.sender.raw(frames.window_update(0, self._received_unacked))
            self._received_unacked = 0

    # Other frames

    def _on_priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0")
        if len(payload) != 5:
            problem = StreamError(ErrorCode.FRAME_SIZE_ERROR, "PRIORITY is not 5 bytes")
        elif frames.depends_on(payload) == stream_id:
            problem = StreamError(ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself")
        else:
            return
        if self._closed.is_idle(stream_id):  # there is nothing to reset (RFC 9113 §6.4)
            raise Http2Error(problem.code, str(problem))
        raise problem

    def _on_rst_stream(self, flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM is not 4 bytes")
        self._require_not_idle(stream_id, "RST_STREAM")
        stream = self._streams.pop(stream_id, None)
        if stream is not None:
            self._closed.add(stream_id, Closed.BY_PEER)
            self.sender.forget(stream)
            stream.call.gone()

    def _require_not_idle(self, stream_id: int, what: str) -> None:
        if self._closed.is_idle(stream_id):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"{what} on an idle stream")

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id != 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "SETTINGS on a stream")
        if flags & frames.ACK:
            if payload:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS ACK with a payload")
            if not self._settings_seen:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the first frame is a SETTINGS ACK")
            return
        if len(payload) % 6:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS is not a multiple of 6 bytes")
        self._settings_seen = True
        opened = settings.apply(payload, self.sender, self._streams.values())
        # In its place: what was queued before may break the new limits, and what follows the old ones.
        self.sender.raw_control(frames.SETTINGS_ACK)
        if opened:
            for stream in list(self._streams.values()):
                self.sender.resume(stream)

    def _on_push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE from a client")

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id != 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "PING is not 8 bytes")
        if not flags & frames.ACK:
            self.sender.control(frames.ping(payload, ack=True))
        elif self.on_ping_ack is not None:
            self.on_ping_ack(payload)

    def _on_goaway(self, flags: int, stream_id: int, payload: bytes) -> None:
        # The peer opens no more streams; those it has are finished.
        if stream_id != 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY shorter than 8 bytes")

    def _on_window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE is not 4 bytes")
        increment = frames.unpack_u32(payload)[0] & frames.MAX_WINDOW
        if stream_id == 0:
            if increment == 0:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of 0")
            self.sender.grow(increment)
            return
        self._require_not_idle(stream_id, "WINDOW_UPDATE")
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        if increment == 0:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of 0")
        stream.send_window += increment
        if stream.send_window > frames.MAX_WINDOW:
            raise StreamError(ErrorCode.FLOW_CONTROL_ERROR, "a stream's window beyond 2^31-1")
        self.sender.resume(stream)

    def __repr__(self) -> str:
        return f"<Connection streams={len(self._streams)} unprocessed={self.unprocessed()}>"
