"""The settings of both ends: what this server announces, and what the peer's SETTINGS change (RFC 9113 §6.5)."""

from collections.abc import Collection
from dataclasses import dataclass

from emulator.wire.http2 import frames
from emulator.wire.http2.frames import ErrorCode, Http2Error, Setting
from emulator.wire.http2.sending import Sender
from emulator.wire.http2.stream import Stream


@dataclass(frozen=True, slots=True)
class Settings:
    """What this server announces, and where its patience ends. Windows, lists and frames are in bytes."""

    max_concurrent_streams: int = 10_000
    stream_window: int = 1_048_576
    connection_window: int = 16_777_216
    max_header_list: int = 65_536
    max_frame_size: int = frames.MIN_MAX_FRAME_SIZE

    def announcement(self) -> bytes:
        """The first frames of a connection (clients.md T19)."""
        return frames.settings(
            {
                Setting.MAX_CONCURRENT_STREAMS: self.max_concurrent_streams,
                Setting.INITIAL_WINDOW_SIZE: self.stream_window,
                Setting.MAX_FRAME_SIZE: self.max_frame_size,
                Setting.MAX_HEADER_LIST_SIZE: self.max_header_list,
            }
        ) + frames.window_update(0, self.connection_window - frames.DEFAULT_WINDOW)


def apply(payload: bytes, sender: Sender, streams: Collection[Stream]) -> bool:
    """Do what a SETTINGS payload of the peer says, in its order; whether that opened the streams' windows further.

    Nothing is sent yet: the ACK has to leave first. Raises Http2Error for a value out of range.

    The streams' windows change once per frame, however often it names them: the last value is what counts, and a frame
    of 2,730 changes would otherwise cost as many walks over all streams.
    """
    window = None
    for key, value in frames.iter_settings(payload):
        if key == Setting.HEADER_TABLE_SIZE:
            sender.notice.allow(value)
        elif key == Setting.ENABLE_PUSH:
            if value > 1:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1")
        elif key == Setting.INITIAL_WINDOW_SIZE:
            if value > frames.MAX_WINDOW:
                raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE beyond 2^31-1")
            window = value
        elif key == Setting.MAX_FRAME_SIZE:
            if not frames.MIN_MAX_FRAME_SIZE <= value <= frames.MAX_MAX_FRAME_SIZE:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"MAX_FRAME_SIZE of {value}")
            sender.max_frame = value
        elif key == Setting.MAX_HEADER_LIST_SIZE:
            sender.max_header_list = value
    return window is not None and _change_initial_window(window, sender, streams)


def _change_initial_window(value: int, sender: Sender, streams: Collection[Stream]) -> bool:
    change = value - sender.initial_window
    sender.initial_window = value
    for stream in streams:
        stream.send_window += change
        if stream.send_window > frames.MAX_WINDOW:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "a stream's window beyond 2^31-1")
    return change > 0
