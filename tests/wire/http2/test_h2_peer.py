"""The `h2` library as the client: an implementation that is not ours, and strict about what it is sent."""

from collections.abc import Iterable
from random import Random

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import pytest

from emulator.wire.http2.connection import Connection
from emulator.wire.http2.frames import Http2Error
from tests.wire.http2.peer import Echo

Codes = h2.settings.SettingCodes
REQUEST = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "here"), ("te", "trailers")]


class Pair:
    """An h2 client and our server, with a pipe of memory between them."""

    def __init__(self, announced: dict[Codes | int, int] | None = None) -> None:
        self.client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.echo = Echo()
        self.server = Connection(self.echo)
        self.events: list[h2.events.Event] = []
        self.bodies: dict[int, bytes] = {}
        # Whether the client gives its windows back as data comes.
        self.credit = True
        self.client.initiate_connection()
        if announced:
            self.client.update_settings(announced)
        self.server.start()
        self.exchange()

    def exchange(self) -> None:
        """Carry bytes both ways until both are quiet."""
        while True:
            self.server.feed(self.client.data_to_send())
            while self.server.process(64):
                pass
            out = self.server.sender.take()
            if not out:
                return
            for event in self.client.receive_data(out):
                self._note(event)

    def _note(self, event: h2.events.Event) -> None:
        self.events.append(event)
        if isinstance(event, h2.events.DataReceived):
            assert event.stream_id is not None
            self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + (event.data or b"")
            if self.credit and event.flow_controlled_length:
                self.client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    def request(self, stream: int, body: bytes, headers: Iterable[tuple[str, str]] = REQUEST) -> None:
        """Send a request, its body as the server's windows allow."""
        self.client.send_headers(stream, list(headers))
        while body:
            room = min(self.client.local_flow_control_window(stream), self.client.max_outbound_frame_size)
            assert room > 0
            self.client.send_data(stream, body[:room])
            body = body[room:]
            self.exchange()
        self.client.end_stream(stream)

    def of(self, kind: type[h2.events.Event]) -> list[h2.events.Event]:
        return [event for event in self.events if isinstance(event, kind)]


def test_the_servers_settings_arrive() -> None:
    pair = Pair()
    assert pair.client.remote_settings.max_concurrent_streams == 10_000
    assert pair.client.remote_settings.initial_window_size == 1_048_576
    assert pair.client.remote_settings.max_header_list_size == 65_536
    assert pair.client.outbound_flow_control_window == 16_777_216
    assert pair.of(h2.events.SettingsAcknowledged)


@pytest.mark.rule("T9", "T27")
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 2_000_000])
def test_bodies_of_any_size_come_back(size: int) -> None:
    pair = Pair()
    body = Random(size).randbytes(size)
    pair.request(1, body)
    pair.exchange()
    assert pair.bodies.get(1, b"") == body
    assert pair.of(h2.events.TrailersReceived)
    assert pair.server.open_streams == 0


@pytest.mark.rule("T20", "T27")
@pytest.mark.parametrize("table", [0, 1_024, 4_096, 65_536])
@pytest.mark.parametrize("window", [0, 1, 65_535, 2**31 - 1])
@pytest.mark.parametrize("frame", [16_384, 2**24 - 1])
def test_settings_at_their_extremes(table: int, window: int, frame: int) -> None:
    pair = Pair({Codes.HEADER_TABLE_SIZE: table, Codes.INITIAL_WINDOW_SIZE: window, Codes.MAX_FRAME_SIZE: frame})
    body = bytes(40_000 if window > 1 else 5)
    for stream in (1, 3, 5):
        pair.request(stream, body)
        if window == 0:
            pair.exchange()
            assert stream not in pair.bodies
            pair.client.increment_flow_control_window(len(body), stream)
        pair.exchange()
        assert pair.bodies[stream] == body


@pytest.mark.rule("T20")
def test_table_sizes_that_change_all_the_time() -> None:
    rnd = Random(1)
    pair = Pair()
    for stream in range(1, 401, 2):
        for _ in range(rnd.choice([0, 1, 2])):
            pair.client.update_settings({Codes.HEADER_TABLE_SIZE: rnd.choice([0, 1_024, 4_096, 65_536])})
        if rnd.random() < 0.5:
            pair.exchange()
        pair.request(stream, b"x")
        pair.exchange()
    assert len(pair.of(h2.events.TrailersReceived)) == 200


@pytest.mark.rule("T27")
def test_windows_that_change_under_way() -> None:
    pair = Pair()
    pair.credit = False
    pair.request(1, b"a" * 50_000)
    pair.request(3, b"b" * 50_000)
    pair.exchange()
    assert sum(map(len, pair.bodies.values())) == 65_535
    pair.client.update_settings({Codes.INITIAL_WINDOW_SIZE: 0})
    pair.exchange()
    pair.client.increment_flow_control_window(100_000)
    pair.exchange()
    pair.client.update_settings({Codes.INITIAL_WINDOW_SIZE: 100_000})
    pair.exchange()
    assert pair.bodies == {1: b"a" * 50_000, 3: b"b" * 50_000}


@pytest.mark.rule("T23")
def test_cancels_of_many_streams() -> None:
    pair = Pair()
    for stream in range(1, 401, 2):
        pair.client.send_headers(stream, REQUEST)
        pair.client.send_data(stream, bytes(1_000))
        pair.client.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
    pair.exchange()
    assert {call.gone_count for call in pair.echo.calls.values()} == {1}
    assert pair.server.open_streams == 0
    pair.request(401, b"still there")
    pair.exchange()
    assert pair.bodies == {401: b"still there"}


def test_pings() -> None:
    pair = Pair()
    pair.client.ping(b"12345678")
    pair.exchange()
    assert [event.ping_data for event in pair.events if isinstance(event, h2.events.PingAckReceived)] == [b"12345678"]


@pytest.mark.rule("T24")
def test_an_early_end_is_a_reply_and_then_a_reset() -> None:
    pair = Pair()
    pair.client.send_headers(1, [(":method", "POST"), (":scheme", "http"), (":path", "/early"), (":authority", "here")])
    pair.exchange()
    kinds = [type(event) for event in pair.events]
    assert kinds.index(h2.events.TrailersReceived) < kinds.index(h2.events.StreamReset)
    assert [e.error_code for e in pair.events if isinstance(e, h2.events.StreamReset)] == [0]


@pytest.mark.rule("T28")
@pytest.mark.parametrize(
    "headers",
    [
        [(":method", "POST"), (":path", "/")],
        [*REQUEST, ("Upper", "case")],
        [*REQUEST, ("connection", "close")],
        [("x", "y"), *REQUEST],
    ],
)
def test_malformed_requests_are_reset(headers: list[tuple[str, str]]) -> None:
    pair = Pair()
    config = pair.client.config
    config.validate_outbound_headers = config.normalize_outbound_headers = False
    pair.client.send_headers(1, headers)
    pair.exchange()
    assert [e.error_code for e in pair.events if isinstance(e, h2.events.StreamReset)] == [1]


def test_an_error_of_the_peer_arrives_as_goaway() -> None:
    pair = Pair()
    pair.server.feed(b"\0\0\x08\6\0\0\0\0\1" + bytes(8))
    with pytest.raises(Http2Error):
        pair.server.process(64)
    events = pair.client.receive_data(pair.server.sender.take())
    assert [e.error_code for e in events if isinstance(e, h2.events.ConnectionTerminated)] == [1]
