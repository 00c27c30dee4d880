"""Random traffic, whole, cut and broken. A failure names its seed; `<case>(seed)` runs it again.

Each case runs over a fixed range of seeds in the normal run, and for a time over others in the slow one
(`--fuzz-seconds`).
"""

import re
import time
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Final

import pytest

from emulator.wire.http2.frames import Http2Error
from tests.wire.http2.peer import GOAWAY, PING, Frame, Peer, parse
from tests.wire.http2.test_hpack import agree
from tests.wire.http2.traffic import Client, pieces, with_wrong_bytes, with_wrong_frames

# Far below the time that pytest grants to a test, so that a hang is told from diligence.
_SLICE_S: Final = 20


def run(whole: list[bytes]) -> tuple[Peer, bytes]:
    """Everything that a server writes for these pieces, taken at the end."""
    peer = Peer(hello=b"")
    for piece in whole:
        peer.feed(piece)
    return peer, peer.connection.sender.take()


def valid_traffic_is_served(seed: int) -> None:
    """No error, every stream ends, and nothing is left behind."""
    peer, out = run(Client(Random(seed)).session(40))
    assert peer.died is None
    assert GOAWAY not in {f.kind for f in parse(out)}
    ended = sum(call.ends for call in peer.calls.values())
    assert ended or len(peer.calls) < 20
    leave(peer)


def fragmentation_changes_nothing(seed: int) -> None:
    """The bytes of the answer don't depend on where the request's were cut, whenever the answer is taken."""
    rnd = Random(seed)
    whole = b"".join(Client(rnd).session(40))
    _, expected = run([whole])
    cut = pieces(rnd, whole)
    assert run(cut)[1] == expected

    # Taken as it comes, only the answers to pings may come later than they would have.
    peer = Peer(hello=b"")
    out: list[Frame] = []
    for piece in cut:
        out += peer.send(piece)
    frames = parse(expected)
    assert [f for f in out if f.kind != PING] == [f for f in frames if f.kind != PING]
    assert [f for f in out if f.kind == PING] == [f for f in frames if f.kind == PING]


def broken_bytes_do_no_harm(seed: int) -> None:
    rnd = Random(seed)
    survive(rnd, with_wrong_bytes(rnd, Client(rnd).session(25)))


def broken_frames_do_no_harm(seed: int) -> None:
    rnd = Random(seed)
    survive(rnd, with_wrong_frames(rnd, Client(rnd).session(25)))


def survive(rnd: Random, whole: bytes) -> None:
    """Nothing but Http2Error comes out, in at most as many steps as there can be frames; then nothing is left."""
    peer = Peer(hello=b"")
    connection = peer.connection
    steps = len(whole) // 9 + 2
    for piece in pieces(rnd, whole):
        connection.feed(piece)
        try:
            while connection.process(1):
                steps -= 1
                assert steps > 0, "more frames than bytes"
        except Http2Error:
            out = parse(connection.sender.take())
            assert out[-1].kind == GOAWAY
            break
        if rnd.random() < 0.5:
            parse(connection.sender.take())
    leave(peer)


def leave(peer: Peer) -> None:
    """The transport is lost: no stream stays, and every call has heard of its end once."""
    open_calls = [call for call in peer.calls.values() if not call.stream.closed]
    assert len(open_calls) == peer.connection.open_streams
    peer.connection.lost()
    assert peer.connection.open_streams == 0
    assert all(call.stream.closed and not call.stream.queue for call in peer.calls.values())
    assert all(call.gone_count == 1 for call in open_calls)
    assert all(call.gone_count <= 1 and call.ends <= 1 for call in peer.calls.values())
    assert re.search("blocked=0 waiting=0>", repr(peer.connection.sender))


CASES: Final[dict[str, Callable[[int], object]]] = {
    case.__name__: case
    for case in (
        valid_traffic_is_served,
        fragmentation_changes_nothing,
        broken_bytes_do_no_harm,
        broken_frames_do_no_harm,
        agree,
    )
}


def attempt(case: Callable[[int], object], seed: int) -> None:
    try:
        case(seed)
    except BaseException as problem:
        problem.add_note(f"{case.__name__}({seed})")
        raise


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Cut the time for each slow case into slices."""
    if "slice_s" in metafunc.fixturenames:
        seconds = max(1, metafunc.config.getoption("--fuzz-seconds") // len(CASES))
        slices = [min(_SLICE_S, seconds - begun) for begun in range(0, seconds, _SLICE_S)]
        metafunc.parametrize(("slice_number", "slice_s"), list(enumerate(slices, 1)))


@pytest.mark.rule("T21", "T23", "T27", "T28")
@pytest.mark.parametrize("name", CASES)
def test_fuzz(name: str) -> None:
    for seed in range(150):
        attempt(CASES[name], seed)


@pytest.mark.slow
@pytest.mark.rule("T21", "T23", "T27", "T28")
@pytest.mark.parametrize("name", CASES)
def test_fuzz_for_long(name: str, slice_number: int, slice_s: int) -> None:
    until = time.monotonic() + slice_s
    for seed in count(slice_number * 1_000_000):
        attempt(CASES[name], seed)
        if time.monotonic() >= until:
            break
