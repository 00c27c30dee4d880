"""nghttp and h2load, the clients that come with nghttp2: the strictest reader of header tables, and a load."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from compat_tests.grpc_calls import PUBLISHER, get_topic, publish
from compat_tests.h2_peer import framed
from compat_tests.rest import Project
from compat_tests.targets import Target

CLIENT = "nghttp2"

GRPC = ("-H", "content-type: application/grpc", "-H", "te: trailers")
PATIENCE_S = 30
FAULT = re.compile(r"(?<!NO_)ERROR|RST_STREAM")

# Sizes of the client's table: as large as it says at once, or changed on the way (the last one counts).
TABLES = [["0"], ["1024"], ["4096"], ["65536"], ["0", "4096"], ["65536", "1024", "2048"]]


def run(program: str, *arguments: str) -> str:
    command = shutil.which(program)
    if command is None:
        pytest.skip(f"{program} is not installed")
    done = subprocess.run(
        [command, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S, errors="replace"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def request_file(project: Project, tmp_path: Path) -> Path:
    """A GetTopic as it goes over the wire."""
    path = tmp_path / "request"
    path.write_bytes(framed(get_topic(project.topic())))
    return path


def nghttp(server: Target, request: Path, *arguments: str) -> str:
    """Ten calls on one connection; what was said in both directions."""
    return run(
        "nghttp",
        *("--verbose", "--null-out", "--no-dep", "--multiply=10", f"--data={request}", *GRPC, *arguments),
        f"{server.url}{PUBLISHER}/GetTopic",
    )


@pytest.mark.rule("T20")
@pytest.mark.parametrize("sizes", TABLES, ids="-".join)
def test_nghttp_with_a_header_table_of_any_size(server: Target, request_file: Path, sizes: list[str]) -> None:
    said = nghttp(server, request_file, *(f"--header-table-size={size}" for size in sizes))

    assert said.count("grpc-status: 0") == 10
    assert not FAULT.search(said)


@pytest.mark.rule("T20", "T22", "T26", "T27")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--padding=255"],
        ["--window-bits=1", "--connection-window-bits=16"],
        ["--window-bits=30", "--connection-window-bits=30"],
        ["--encoder-header-table-size=0"],
        ["--encoder-header-table-size=65536"],
        ["--trailer=x-checksum: none"],
        ["--continuation"],
        ["--expect-continue"],
    ],
    ids=" ".join,
)
def test_nghttp_in_its_other_moods(server: Target, request_file: Path, arguments: list[str]) -> None:
    said = nghttp(server, request_file, *arguments)

    assert said.count("grpc-status: 0") == 10
    assert not FAULT.search(said)


@pytest.mark.rule("T9", "T20", "T27", "T34")
@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--header-table-size=0"],
        ["--header-table-size=65536", "--encoder-header-table-size=65536"],
        ["--window-bits=1", "--connection-window-bits=20"],
        ["--window-bits=30", "--connection-window-bits=30", "--max-frame-size=16777215"],
    ],
    ids=" ".join,
)
def test_h2load_has_every_call_answered(server: Target, project: Project, tmp_path: Path, arguments: list[str]) -> None:
    topic, subscription = project.pair(ackDeadlineSeconds=600)
    request = tmp_path / "request"
    request.write_bytes(framed(publish(topic, b"one of many")))

    said = run(
        "h2load",
        *("--requests=1000", "--clients=4", "--max-concurrent-streams=50", f"--data={request}", *GRPC, *arguments),
        f"{server.url}{PUBLISHER}/Publish",
    )

    counted = re.search(r"requests: 1000 total, .*, (\d+) succeeded, (\d+) failed, (\d+) errored", said)
    assert counted
    assert counted.groups() == ("1000", "0", "0")
    assert len(project.pull(subscription, 1_000)) == 1_000
