"""curl as a gRPC client: HTTP/2 with prior knowledge, the message written by hand."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests.grpc_calls import PUBLISHER, get_topic, message_ids, publish
from compat_tests.h2_peer import framed
from compat_tests.rest import Project
from compat_tests.targets import Target

CLIENT = "curl"


@dataclass(frozen=True, slots=True)
class Reply:
    """The lines of head and trailers, and the body."""

    lines: list[str]
    body: bytes


def call(server: Target, directory: Path, method: str, body: bytes, content_type: str = "application/grpc") -> Reply:
    command = shutil.which("curl")
    if command is None:
        pytest.fail("curl is not installed")
    request, head, out = (directory / name for name in ("request", "head", "out"))
    request.write_bytes(body)
    out.write_bytes(b"")
    subprocess.run(
        [
            *(command, "--silent", "--show-error", "--http2-prior-knowledge", "--max-time", "20"),
            *("-H", f"content-type: {content_type}", "-H", "te: trailers", "--data-binary", f"@{request}"),
            *("--dump-header", head, "--output", out, f"{server.url}{PUBLISHER}/{method}"),
        ],
        check=True,
    )
    lines = (line.strip() for line in head.read_text(encoding="ascii").splitlines())
    return Reply([line for line in lines if line], out.read_bytes())


@pytest.mark.rule("T1", "T3")
@pytest.mark.parametrize("content_type", ["application/grpc", "application/grpc+proto", "application/grpc;charset=x"])
def test_a_call(server: Target, project: Project, tmp_path: Path, content_type: str) -> None:
    topic = project.topic()

    reply = call(server, tmp_path, "Publish", framed(publish(topic, b"x")), content_type)

    assert reply.lines == ["HTTP/2 200", "content-type: application/grpc", "grpc-status: 0"]
    assert reply.body[:1] == b"\x00"
    assert len(message_ids(reply.body[5:])) == 1


@pytest.mark.rule("T3", "T31")
def test_a_call_that_fails(server: Target, project: Project, tmp_path: Path) -> None:
    reply = call(server, tmp_path, "GetTopic", framed(get_topic(project.topic_name())))

    assert "grpc-status: 5" in reply.lines
    assert reply.body == b""


@pytest.mark.rule("T6", "T9")
def test_a_large_call(server: Target, project: Project, tmp_path: Path) -> None:
    """curl says how much it will send, and the server has to count along."""
    topic, subscription = project.pair()

    reply = call(server, tmp_path, "Publish", framed(publish(topic, bytes(9_900_000))))

    assert "grpc-status: 0" in reply.lines
    assert project.pull_one(subscription).data == bytes(9_900_000)


@pytest.mark.rule("T16")
def test_a_form_is_no_call(server: Target, project: Project, tmp_path: Path) -> None:
    reply = call(server, tmp_path, "GetTopic", framed(get_topic(project.topic())), "application/x-www-form-urlencoded")

    assert reply.lines[0] == "HTTP/2 415"
