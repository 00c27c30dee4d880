"""What a start loads, and what only a caller that needs it."""

import subprocess
import sys

import pytest

from tests.wire.http2 import peer as http2

# A server and a client in one process: what is asked of it after the start, and a report of the modules loaded then.
SCRIPT = """
import asyncio, sys
from emulator.app import App

async def main():
    app = App("127.0.0.1", 0)
    await app.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", app.port)
    writer.write(bytes.fromhex(sys.argv[1]))
    while sys.argv[2].encode() not in (answer := await reader.read(65536)):
        assert answer
    print(*sorted({name.partition(".")[0] for name in sys.modules}))
    writer.close()
    await app.stop()

asyncio.run(main())
"""

HTTP1 = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
CHECK = (
    http2.PREFACE
    + http2.settings()
    + http2.open_headers(
        1,
        http2.block(http2.request_fields(b"/grpc.health.v1.Health/Check", (b"content-type", b"application/grpc"))),
    )
    + http2.data(1, bytes(5))  # a message of no bytes
)


def loaded_after(said: bytes, answer: str) -> set[str]:
    """The top-level modules of a process in which a server has given this answer."""
    command = [sys.executable, "-W", "error", "-c", SCRIPT, said.hex(), answer]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.rule("T1")
def test_a_call_over_grpc_needs_nothing_of_http_1() -> None:
    loaded = loaded_after(CHECK, "grpc-status")

    assert {"emulator", "google", "hpack"} <= loaded
    assert not {"aiohttp", "yarl", "multidict", "grpc", "proto"} & loaded


@pytest.mark.rule("T1", "T12")
def test_a_request_over_http_1_brings_it_in() -> None:
    loaded = loaded_after(HTTP1, "Ok\n")

    assert "aiohttp" in loaded
    assert not {"grpc", "proto"} & loaded
