"""The h2 library as a gRPC client, with every frame in a test's hand."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    PingAckReceived,
    ResponseReceived,
    SettingsAcknowledged,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.settings import SettingCodes, Settings

from compat_tests.grpc_calls import PUBLISHER, get_topic
from compat_tests.targets import Target

PATIENCE_S = 20


@dataclass(slots=True)
class Reply:
    """What came on one stream: the frames of data one by one."""

    headers: dict[str, str] = field(default_factory=dict)
    data: list[bytes] = field(default_factory=list)
    trailers: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        """The gRPC status."""
        return int({**self.headers, **self.trailers}["grpc-status"])

    @property
    def message(self) -> bytes:
        """The one message, whose prefix has to be right."""
        whole = b"".join(self.data)
        assert whole[:5] == b"\x00" + (len(whole) - 5).to_bytes(4, "big")
        return whole[5:]


class Peer:
    """One connection. It reads only when a test waits for something, and gives credit only if it is `generous`."""

    def __init__(self, server: Target, settings: Mapping[SettingCodes, int], *, generous: bool) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.local_settings = Settings(client=True, initial_values=dict(settings))
        self.h2.max_inbound_frame_size = self.h2.local_settings.max_frame_size
        self.generous = generous
        self.replies: dict[int, Reply] = {}
        self.events: list[Event] = []
        self._socket = socket.create_connection((server.host, server.port), timeout=PATIENCE_S)
        self.h2.initiate_connection()
        self.flush()
        self.wait(lambda: any(isinstance(event, SettingsAcknowledged) for event in self.events))

    def flush(self) -> None:
        self._socket.sendall(self.h2.data_to_send())

    def wait(self, condition: Callable[[], bool]) -> None:
        """Read until it holds."""
        while not condition():
            data = self._socket.recv(262_144)
            assert data, f"the server hung up after {self.events[-3:]}"
            for event in self.h2.receive_data(data):
                self._on(event)
            self.flush()

    def _on(self, event: Any) -> None:
        self.events.append(event)
        assert not isinstance(event, ConnectionTerminated), event
        reply = self.replies.get(getattr(event, "stream_id", 0), Reply())
        if isinstance(event, ResponseReceived):
            reply.headers.update(texts(event))
        elif isinstance(event, TrailersReceived):
            reply.trailers.update(texts(event))
        elif isinstance(event, DataReceived):
            reply.data.append(event.data)
            if self.generous:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            reply.ended = True
        elif isinstance(event, StreamReset):
            reply.reset = event.error_code

    def open(self, path: str, *headers: tuple[str, str], end: bool = False, **options: Any) -> int:
        """Send a call's headers."""
        stream = self.h2.get_next_available_stream_id()
        self.replies[stream] = Reply()
        fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", path),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *headers,
        ]
        self.h2.send_headers(stream, fields, end_stream=end, **options)
        return stream

    def send(self, stream: int, data: bytes, *, end: bool = False, slice_bytes: int = 16_384, **options: Any) -> None:
        for start in range(0, len(data), slice_bytes):
            part = data[start : start + slice_bytes]
            self._wait_for_window(stream, len(part))
            last = start + slice_bytes >= len(data)
            self.h2.send_data(stream, part, end_stream=end and last, **options)
            self.flush()

    def _wait_for_window(self, stream: int, size: int) -> None:
        self.wait(lambda: self.h2.local_flow_control_window(stream) >= size)

    def call(self, path: str, request: bytes, *headers: tuple[str, str]) -> Reply:
        """A whole unary call."""
        stream = self.open(path, *headers)
        self.send(stream, framed(request), end=True)
        return self.reply(stream)

    def reply(self, stream: int) -> Reply:
        self.wait(lambda: self.replies[stream].ended or self.replies[stream].reset is not None)
        return self.replies[stream]

    def ping(self) -> None:
        """Let everything arrive that the server sent before it heard this."""
        count = self.pongs
        self.h2.ping(b"anything")
        self.flush()
        self.wait(lambda: self.pongs > count)

    @property
    def pongs(self) -> int:
        return sum(isinstance(event, PingAckReceived) for event in self.events)

    def still_works(self, topic: str) -> bool:
        return self.call(f"{PUBLISHER}/GetTopic", get_topic(topic)).status == 0

    def close(self) -> None:
        self._socket.close()

    def __repr__(self) -> str:
        return f"<Peer streams={len(self.replies)}>"


def texts(event: Any) -> dict[str, str]:
    """The headers of an event, which the library was told to decode."""
    return dict(event.headers)


def framed(message: bytes) -> bytes:
    return b"\x00" + len(message).to_bytes(4, "big") + message
