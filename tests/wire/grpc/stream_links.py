"""Connections whose wire is watched: what the server hands over is seen at once, whatever its client reads."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from h2.events import DataReceived, Event, PingAckReceived
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes
from hpack import Decoder
from hyperframe.frame import DataFrame, Frame, HeadersFrame

from emulator.wire.grpc.server import GrpcServer
from tests.wire.grpc.memory import Lab, MemoryTransport, Peer
from tests.wire.grpc.stream_model import Ledger, Reader

# Little enough that a few messages fill a socket.
SOCKET_BYTES = 4_096
WIDE_WINDOW = 2**23


class Tapped(MemoryTransport):
    """A transport that shows every byte at the moment when the server hands it over, whoever reads it and when."""

    def __init__(self, lab: Lab, server: GrpcServer, tap: Callable[[bytes], None]) -> None:
        self._tap = tap
        super().__init__(lab, lab.inside(server.connect))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        super().set_write_buffer_limits(SOCKET_BYTES)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.is_closing():
            self._tap(bytes(data))
        super().write(data)


class Client(Peer):
    """A peer that opens its windows as data comes, except those that are in `stalled`, 0 being the connection's."""

    def __init__(self, transport: Tapped, window: int) -> None:
        self.stalled: set[int] = set()
        self._owed: defaultdict[int, int] = defaultdict(int)
        self.pongs = 0
        super().__init__(transport, credits=False)
        self.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        if window == WIDE_WINDOW:
            self.h2.increment_flow_control_window(window)
        self.exchange()

    def _on(self, event: Event) -> None:
        super()._on(event)
        self.events.clear()
        if isinstance(event, PingAckReceived):
            self.pongs += 1
        if isinstance(event, DataReceived) and event.flow_controlled_length:
            for which in (0, event.stream_id):
                self._owed[which] += event.flow_controlled_length
                if which not in self.stalled:
                    self.credit(which)

    def credit(self, which: int) -> None:
        """Open a window by what came since the last time."""
        amount = self._owed.pop(which, 0)
        if amount:
            with suppress(ProtocolError, KeyError):  # the stream has ended, lately or long ago
                self.h2.increment_flow_control_window(amount, which or None)

    def resume(self) -> None:
        stalled, self.stalled = self.stalled, set()
        for which in stalled:
            self.credit(which)


@dataclass(eq=False)
class Link:
    """A connection: both ends, its streams, and what was seen on its wire. `reads`: the client takes what comes."""

    ledger: Ledger
    readers: dict[int, Reader] = field(default_factory=dict)
    reads: bool = True
    dead: bool = False
    written: int = 0
    problem: AssertionError | None = None
    _rest: bytes = b""
    _decoder: Decoder = field(default_factory=Decoder)

    def connect(self, lab: Lab, server: GrpcServer, window: int) -> "Link":
        self.transport = Tapped(lab, server, self._tap)
        self.client = Client(self.transport, window)
        return self

    def _tap(self, data: bytes) -> None:
        # Raised later: the server would take it for a failure of its own.
        try:
            self._see(data)
        except AssertionError as problem:
            self.problem = self.problem or problem

    def _see(self, data: bytes) -> None:
        self.written += len(data)
        data = self._rest + data
        while len(data) >= 9:
            frame, length = Frame.parse_frame_header(memoryview(data)[:9])
            if len(data) < 9 + length:
                break
            frame.parse_body(memoryview(data)[9 : 9 + length])
            data = data[9 + length :]
            reader = self.readers.get(frame.stream_id)
            if isinstance(frame, DataFrame) and reader is not None:
                self.ledger.wrote(reader, frame.data)
            elif isinstance(frame, HeadersFrame):
                status = dict(self._decoder.decode(frame.data, raw=True)).get(b"grpc-status")
                if reader is not None and status is not None:
                    self.ledger.ended(reader, int(status))
        self._rest = data

    def live(self) -> dict[int, Reader]:
        return {stream_id: reader for stream_id, reader in self.readers.items() if reader.takes}

    def look(self) -> None:
        """Find out which of its streams have room."""
        for stream_id, reader in self.readers.items():
            if self.transport.lost:
                reader.over = True
            elif not reader.over:
                reader.open = self.reads and self.client.h2.remote_flow_control_window(stream_id) > 0
