"""Random traffic: what an honest client may send, drawn from a seed, and mutations of it."""

from random import Random

from hpack.hpack import Encoder

from tests.wire.http2 import peer as p
from tests.wire.http2.peer import Field, Frame


class Client:
    """Makes frames that break no rule, and knows which streams are open."""

    def __init__(self, rnd: Random) -> None:
        self._rnd = rnd
        self._encoder = Encoder()
        self._open: list[int] = []
        self._last = -1
        # What an honest client adds to the windows stays far below 2^31.
        self._grown = 0

    def session(self, steps: int) -> list[bytes]:
        """A whole connection's frames, the preface first."""
        moves = [self._request] * 4 + [self._data] * 6 + [self._trailers, self._reset] + [self._control] * 3
        out = [p.PREFACE, p.settings(*self._settings())]
        for _ in range(steps):
            out += self._rnd.choice(moves)()
        return out

    def _settings(self) -> list[tuple[int, int]]:
        rnd = self._rnd
        choices = {
            p.HEADER_TABLE_SIZE: [0, 1_024, 4_096, 65_536],
            p.ENABLE_PUSH: [0, 1],
            p.MAX_CONCURRENT_STREAMS: [0, 100],
            p.INITIAL_WINDOW_SIZE: [0, 1, 1_000, 65_535, 1_000_000],
            p.MAX_FRAME_SIZE: [16_384, 16_385, 2**24 - 1],
            0xFE03: [1],
        }
        return [(key, rnd.choice(choices[key])) for key in rnd.sample(list(choices), rnd.randint(0, 3))]

    def _request(self) -> list[bytes]:
        rnd = self._rnd
        self._last += 2 * rnd.choice([1, 1, 1, 2])
        fields = p.request_fields(rnd.choice([b"/", b"/", b"/hang", b"/early"]))
        fields += [
            (b"grpc-timeout", b"%dm" % rnd.randint(1, 99)),
            (b"x-" + rnd.choice([b"a", b"b"]), b"v" * rnd.choice([0, 1, 100, 3_000])),
        ][: rnd.randint(0, 2)]
        if rnd.random() < 0.05:
            self._encoder.header_table_size = rnd.choice([0, 200, 4_096])
        end = rnd.random() < 0.4
        if not end:
            self._open.append(self._last)
        return self._block(self._last, fields, end=end)

    def _block(self, stream: int, fields: list[Field], *, end: bool) -> list[bytes]:
        rnd = self._rnd
        packed = self._encoder.encode(fields, huffman=rnd.random() < 0.5)
        cuts = sorted(rnd.randint(0, len(packed)) for _ in range(rnd.choice([0, 0, 0, 1, 3])))
        parts = [packed[a:b] for a, b in zip([0, *cuts], [*cuts, len(packed)], strict=True)]
        first, flags = parts[0], p.END_STREAM * end
        if rnd.random() < 0.2:
            first, flags = p.u32(0) + b"\x0f" + first, flags | p.WITH_PRIORITY
        if rnd.random() < 0.2:
            first, flags = self._padded(first), flags | p.PADDED
        if len(parts) == 1:
            return [p.headers(stream, first, flags | p.END_HEADERS)]
        return [
            p.headers(stream, first, flags),
            *(p.continuation(stream, part, 0) for part in parts[1:-1]),
            p.continuation(stream, parts[-1]),
        ]

    def _padded(self, payload: bytes) -> bytes:
        padding = self._rnd.choice([0, 1, 255])
        return bytes([padding]) + payload + bytes(padding)

    def _data(self) -> list[bytes]:
        if not self._open:
            return self._request()
        rnd = self._rnd
        stream, flags = rnd.choice(self._open), 0
        payload = rnd.randbytes(rnd.choice([0, 1, 5, 100, 9_000, 16_000]))
        if rnd.random() < 0.2:
            payload, flags = self._padded(payload), p.PADDED
        if rnd.random() < 0.4:
            self._open.remove(stream)
            flags |= p.END_STREAM
        return [p.data(stream, payload, flags)]

    def _trailers(self) -> list[bytes]:
        if not self._open:
            return self._request()
        stream = self._open.pop(self._rnd.randrange(len(self._open)))
        return self._block(stream, [(b"x-trailer", b"1")], end=True)

    def _reset(self) -> list[bytes]:
        if not self._open:
            return self._request()
        return [p.rst(self._open.pop(self._rnd.randrange(len(self._open))))]

    def _control(self) -> list[bytes]:
        rnd = self._rnd
        increment = rnd.choice([1, 1_000, 100_000])
        self._grown += increment
        stream = rnd.choice([0, *self._open])
        return [
            rnd.choice(
                [
                    p.ping(rnd.randbytes(8)),
                    p.settings(*self._settings()),
                    p.frame(p.SETTINGS, p.ACK),
                    p.window_update(stream, increment),
                    p.priority(self._last + 8, self._last + 10),
                    p.frame(rnd.randint(10, 255), rnd.randint(0, 255), rnd.randint(0, 9), rnd.randbytes(9)),
                    p.goaway(),
                ]
            )
        ]


def pieces(rnd: Random, whole: bytes) -> list[bytes]:
    """The same bytes, cut at random: now and then byte by byte."""
    out, at = [], 0
    most = rnd.choice([1, 20, 5_000, 100_000]) if len(whole) < 20_000 else rnd.choice([50, 5_000, 100_000])
    while at < len(whole):
        size = rnd.randint(1, most)
        out.append(whole[at : at + size])
        at += size
    return out


def with_wrong_bytes(rnd: Random, frames: list[bytes]) -> bytes:
    """Bytes changed, lost, doubled or put in anywhere."""
    whole = bytearray(b"".join(frames))
    for _ in range(rnd.choice([1, 1, 2, 5])):
        at, size = rnd.randrange(len(p.PREFACE), len(whole)), rnd.choice([1, 1, 9, 100])
        match rnd.randrange(4):
            case 0:
                whole[at] = rnd.randrange(256)
            case 1:
                del whole[at : at + size]
            case 2:
                whole[at:at] = whole[at : at + size]
            case _:
                whole[at:at] = rnd.randbytes(size)
        if len(whole) <= len(p.PREFACE):
            break
    return bytes(whole)


def with_wrong_frames(rnd: Random, frames: list[bytes]) -> bytes:
    """Frames of the right form that say the wrong thing, or come at the wrong time."""
    out = list(frames)
    for _ in range(rnd.choice([1, 1, 2, 4])):
        at = rnd.randrange(1, len(out))
        match rnd.randrange(6):
            case 0:
                del out[at]
            case 1:
                out.insert(at, out[rnd.randrange(1, len(out))])
            case 2:
                other = rnd.randrange(1, len(out))
                out[at], out[other] = out[other], out[at]
            case _:
                out[at] = _changed(rnd, out[at])
        if len(out) < 2:
            break
    return b"".join(out)


def _changed(rnd: Random, raw: bytes) -> bytes:
    was: Frame = p.parse(raw)[0]
    payload = bytearray(was.payload)
    match rnd.randrange(5):
        case 0:
            return p.frame(rnd.randrange(10), was.flags, was.stream, was.payload)
        case 1:
            return p.frame(was.kind, rnd.randrange(256), was.stream, was.payload)
        case 2:
            return p.frame(was.kind, was.flags, rnd.choice([0, 1, 2, 3, was.stream + 2, 2**31 - 1]), was.payload)
        case 3 if payload:
            payload[rnd.randrange(len(payload))] = rnd.choice([0, 1, 0x7F, 0x80, 0xFF, rnd.randrange(256)])
            return p.frame(was.kind, was.flags, was.stream, bytes(payload))
        case _:
            return p.frame(was.kind, was.flags, was.stream, bytes(payload[: rnd.randint(0, len(payload))]))
