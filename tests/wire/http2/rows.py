"""Conformance as tables: the bytes that a client sends after its hello, and what has to come of it."""

from dataclasses import dataclass
from typing import TypeAlias

import pytest

from emulator.wire.http2.settings import Settings
from tests.wire.http2.peer import (
    END_STREAM,
    GOAWAY,
    HEADERS,
    NO_ERROR,
    PREFACE,
    RST_STREAM,
    Frame,
    Peer,
    settings,
    u32,
)

# Windows small enough to be overrun by a frame or two; the smallest that HTTP/2 allows for the connection.
TIGHT = Settings(max_concurrent_streams=2, stream_window=100, connection_window=65_535, max_frame_size=131_072)


@dataclass(frozen=True, slots=True)
class Dies:
    """A GOAWAY with this code that names this stream, and the end."""

    code: int
    last: int = 0


@dataclass(frozen=True, slots=True)
class Resets:
    """One RST_STREAM with this code; everything else goes on."""

    code: int
    stream: int = 1


@dataclass(frozen=True, slots=True)
class Lives:
    """No error at all; the named streams are answered, no others."""

    answered: tuple[int, ...] = ()


Outcome: TypeAlias = Dies | Resets | Lives


@dataclass(frozen=True, slots=True)
class Row:
    """One sentence of an RFC. `sent` follows `hello`."""

    section: str
    says: str
    sent: bytes
    outcome: Outcome
    announced: Settings | None = None
    hello: bytes = PREFACE + settings()

    @property
    def id(self) -> str:
        return f"{self.section} {self.says}"


def table(*rows: Row) -> pytest.MarkDecorator:
    """One test per row; every row has a name of its own."""
    assert len({row.id for row in rows}) == len(rows)
    return pytest.mark.parametrize("row", rows, ids=[row.id for row in rows])


def check(row: Row) -> None:
    """Send a row's bytes and compare what comes back."""
    peer = Peer(row.announced, hello=row.hello)
    out = peer.first + peer.send(row.sent)
    resets = [f for f in out if f.kind == RST_STREAM]
    goaways = [f for f in out if f.kind == GOAWAY]
    match row.outcome:
        case Dies(code, last):
            assert peer.died == code
            assert goaways == [Frame(GOAWAY, 0, 0, u32(last) + u32(code))]
            assert out[-1] == goaways[0]
            assert not resets
        case Resets(code, stream):
            assert peer.died is None
            assert resets == [Frame(RST_STREAM, 0, stream, u32(code))]
            assert not goaways
            assert peer.still_works()
        case Lives(answered):
            assert peer.died is None
            assert not goaways
            assert [f for f in resets if f.number != NO_ERROR] == []
            assert tuple(f.stream for f in out if f.kind == HEADERS and f.flags & END_STREAM) == answered
            assert peer.still_works()
    peer.connection.lost()
    assert peer.connection.open_streams == 0
    for call in peer.calls.values():
        assert call.gone_count <= 1
