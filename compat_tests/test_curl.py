"""curl, with what it can send over HTTP/1.x, and a bare socket for what it can't."""

import gzip
import json
import shutil
import socket
import subprocess
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from compat_tests.rest import Project
from compat_tests.targets import Target
from tests.tools.server import PATIENCE_S, serve

CLIENT = "curl"

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Reply:
    """What curl printed: the heads of all responses in order, and the body of the last."""

    heads: tuple[str, ...]
    body: bytes

    @property
    def status(self) -> int:
        return int(self.heads[-1].split()[1])

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Curl: TypeAlias = Callable[..., Reply]


@pytest.fixture
def curl(server: Target) -> Curl:
    """Run curl with these arguments on a path of the server."""
    return curl_on(server)


def curl_on(server: Target) -> Curl:
    command = shutil.which("curl")
    if command is None:
        pytest.fail("curl is not installed")

    def run(path: str, *arguments: str) -> Reply:
        done = subprocess.run(
            [command, "--silent", "--show-error", "--include", "--max-time", "20", *arguments, server.url + path],
            check=True,
            capture_output=True,
        )
        return read(done.stdout)

    return run


def read(printed: bytes) -> Reply:
    heads = []
    while printed.startswith(b"HTTP/"):
        head, _, printed = printed.partition(b"\r\n\r\n")
        heads.append(head.decode("ascii").lower())
    return Reply(tuple(heads), printed)


def big_publish(size: int = 5 * MEGABYTE) -> bytes:
    return json.dumps({"messages": [{"data": b64encode(b"x" * size).decode()}]}).encode()


@pytest.mark.rule("T2", "S1", "S1.7.8")
def test_a_message_goes_all_the_way(curl: Curl, project: Project) -> None:
    """Without a content type of our own: curl then claims to send a form."""
    topic, subscription = project.topic_name(), project.subscription_name()

    created = curl(f"/v1/{topic}", "-X", "PUT")
    attached = curl(f"/v1/{subscription}", "-X", "PUT", "-d", json.dumps({"topic": topic}))
    published = curl(f"/v1/{topic}:publish", "-d", '{"messages": [{"data": "aGVsbG8=", "attributes": {"k": "v"}}]}')
    pulled = curl(f"/v1/{subscription}:pull", "-d", '{"maxMessages": 1}')

    assert created.json["name"] == topic
    assert attached.json["topic"] == topic
    (received,) = pulled.json["receivedMessages"]
    assert received["message"]["data"] == "aGVsbG8="
    assert received["message"]["messageId"] == published.json["messageIds"][0]
    acknowledged = curl(f"/v1/{subscription}:acknowledge", "-d", json.dumps({"ackIds": [received["ackId"]]}))
    assert (acknowledged.status, acknowledged.json) == (200, {})


@pytest.mark.rule("B089", "S1.7.1")
def test_an_empty_project_lists_nothing(curl: Curl, project: Project) -> None:
    reply = curl(f"/v1/{project.name}/topics")

    assert (reply.status, reply.json) == (200, {})
    assert "content-type: application/json" in reply.heads[0]


@pytest.mark.rule("B086", "S1.7.5")
def test_a_put_may_repeat_the_name_of_its_path(curl: Curl, project: Project) -> None:
    topic, subscription = project.topic(), project.subscription_name()

    reply = curl(f"/v1/{subscription}", "-X", "PUT", "-d", json.dumps({"name": subscription, "topic": topic}))

    assert (reply.status, reply.json["name"]) == (200, subscription)


@pytest.mark.rule("S1.7.5")
def test_the_path_wins_over_another_name_in_the_body(curl: Curl, project: Project) -> None:
    topic, subscription = project.topic(), project.subscription_name()
    body = {"name": project.subscription_name("other"), "topic": topic}

    reply = curl(f"/v1/{subscription}", "-X", "PUT", "-d", json.dumps(body))

    assert (reply.status, reply.json["name"]) == (200, subscription)


@pytest.mark.rule("T2")
def test_a_big_body_waits_for_100_continue(curl: Curl, project: Project, tmp_path: Path) -> None:
    topic, subscription = project.pair()
    body = tmp_path / "body"
    body.write_bytes(big_publish())

    reply = curl(f"/v1/{topic}:publish", "--data-binary", f"@{body}", "-H", "Expect: 100-continue")

    assert [head.split()[1] for head in reply.heads] == ["100", "200"]
    assert len(project.pull_one(subscription).data) == 5 * MEGABYTE


@pytest.mark.rule("T2")
def test_a_body_may_be_gzipped(curl: Curl, project: Project, tmp_path: Path) -> None:
    topic, subscription = project.pair()
    body = tmp_path / "body"
    body.write_bytes(gzip.compress(big_publish()))

    reply = curl(f"/v1/{topic}:publish", "--data-binary", f"@{body}", "-H", "Content-Encoding: gzip")

    assert reply.status == 200
    assert len(project.pull_one(subscription).data) == 5 * MEGABYTE


@pytest.mark.rule("T2")
def test_a_body_that_is_no_gzip_is_refused(curl: Curl, project: Project) -> None:
    reply = curl(f"/v1/{project.topic()}:publish", "-d", "no gzip", "-H", "Content-Encoding: gzip")

    assert (reply.status, reply.json["error"]["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.rule("T2")
def test_a_body_may_come_in_chunks(curl: Curl, project: Project, tmp_path: Path) -> None:
    topic, subscription = project.pair()
    body = tmp_path / "body"
    body.write_bytes(big_publish())

    reply = curl(f"/v1/{topic}:publish", "--data-binary", f"@{body}", "-H", "Transfer-Encoding: chunked")

    assert reply.status == 200
    assert len(project.pull_one(subscription).data) == 5 * MEGABYTE


@pytest.mark.rule("T2")
def test_a_client_that_accepts_gzip_is_answered(curl: Curl, project: Project) -> None:
    assert curl(f"/v1/{project.topic()}", "--compressed").json["name"] == project.topic_name()


@pytest.mark.rule("T6", "S5.3", "B151")
def test_an_oversized_publish_gets_the_service_s_own_answer(curl: Curl, project: Project, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(big_publish(15 * MEGABYTE))

    reply = curl(f"/v1/{project.topic()}:publish", "--data-binary", f"@{body}")

    assert (reply.status, reply.json["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert "10000000" in reply.json["error"]["message"]


@pytest.mark.rule("S1.6", "S1.1")
@pytest.mark.parametrize(
    ("path", "arguments", "status", "name"),
    [
        ("/v1/projects/p/topics/nobody", (), 404, "NOT_FOUND"),
        ("/v1/projects/p/nothing", (), 404, "NOT_FOUND"),
        ("/elsewhere", (), 404, "NOT_FOUND"),
        ("/v1/projects/p/topics/top", ("-X", "PUT", "-d", "{"), 400, "INVALID_ARGUMENT"),
        ("/v1/projects/p/topics/a%2Fb", ("-X", "PUT"), 400, "INVALID_ARGUMENT"),
        ("/v1/projects/p/topics?noSuch=1", (), 400, "INVALID_ARGUMENT"),
        ("/v1/projects/p/topics?alt=xml", (), 400, "INVALID_ARGUMENT"),
    ],
)
def test_errors_are_json(curl: Curl, path: str, arguments: tuple[str, ...], status: int, name: str) -> None:
    reply = curl(path, *arguments)

    assert reply.status == status
    assert "content-type: application/json" in reply.heads[-1]
    assert reply.json["error"]["code"] == status
    assert reply.json["error"]["status"] == name
    assert reply.json["error"]["message"]


@pytest.mark.rule("S1.1")
def test_a_known_path_says_which_methods_it_has(curl: Curl) -> None:
    reply = curl("/v1/projects/p/topics/topic:publish")

    assert reply.status == 405
    assert "allow: options, post" in reply.heads[-1]
    assert reply.json["error"]["code"] == 405


@pytest.mark.rule("T12", "K9")
def test_the_root_says_ok(curl: Curl) -> None:
    reply = curl("/")

    assert (reply.status, reply.body) == (200, b"Ok\n")


def test_reset_and_shutdown_are_the_official_emulator_s() -> None:
    """On a server of its own, which has to end with exit code 0 although nobody sends it a signal."""
    with serve() as server:
        curl = curl_on(Target("localhost", server.port))
        curl("/v1/projects/p/topics/topic", "-X", "PUT")

        reset = curl("/reset", "-X", "POST")
        listed = curl("/v1/projects/p/topics")
        shutdown = curl("/shutdown", "-X", "POST")

        assert server.process.wait(PATIENCE_S) == 0
    assert (reset.status, listed.json, shutdown.status) == (200, {}, 200)


@pytest.mark.rule("T2")
@pytest.mark.parametrize("path", ["/", "/v1/projects/p/topics"])
def test_head_is_get_without_a_body(curl: Curl, path: str) -> None:
    reply = curl(path, "--head")

    assert (reply.status, reply.body) == (200, b"")


@pytest.mark.rule("T2")
def test_options_is_answered(curl: Curl) -> None:
    reply = curl("/v1/projects/p/topics", "-X", "OPTIONS")

    assert reply.status == 204
    assert "allow: get, head, options" in reply.heads[-1]


@pytest.mark.rule("T2", "S1.7.8")
def test_http_1_0_works(curl: Curl, project: Project) -> None:
    topic = project.topic()

    reply = curl(f"/v1/{topic}:publish", "--http1.0", "-d", '{"messages": [{"data": "eA=="}]}')

    assert reply.status == 200
    assert reply.json["messageIds"]


@pytest.mark.rule("T1")
def test_an_offer_to_upgrade_is_ignored(curl: Curl, project: Project) -> None:
    reply = curl(f"/v1/{project.topic()}", "--http2")

    assert len(reply.heads) == 1
    assert reply.heads[0].startswith("http/1.1 200")


@pytest.mark.rule("T11")
def test_headers_that_mean_nothing_here_change_nothing(curl: Curl, project: Project) -> None:
    headers = {
        "Authorization": "Bearer anything",
        "X-Goog-Request-Params": "topic=projects/other/topics/other",
        "X-Goog-User-Project": "other",
        "X-Goog-Api-Client": "gl-python/3.11",
        "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }

    reply = curl(f"/v1/{project.topic()}", *(f"-H{name}: {value}" for name, value in headers.items()))

    assert reply.json["name"] == project.topic_name()


@pytest.mark.rule("T2")
def test_a_connection_is_kept_alive(curl: Curl, project: Project, server: Target) -> None:
    """curl counts the connections it made: the second request needs none."""
    counted = subprocess.run(
        ["curl", "--silent", "--write-out", "%{num_connects} ", "-o", "/dev/null", "-o", "/dev/null"]
        + [f"{server.url}/v1/{project.topic()}"] * 2,
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    assert counted.split() == ["1", "0"]


@pytest.mark.rule("T2")
def test_requests_may_be_pipelined(server: Target, project: Project) -> None:
    for identifier in ("first", "second"):
        project.topic(identifier)
    requests = [
        f"GET /v1/{project.topic_name('first')} HTTP/1.1\r\nHost: x\r\n\r\n",
        f"GET /v1/{project.topic_name('second')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ]

    with socket.create_connection((server.host, server.port), timeout=10) as connection:
        connection.sendall("".join(requests).encode("ascii"))
        answered = b"".join(iter(lambda: connection.recv(65_536), b""))

    assert answered.count(b"HTTP/1.1 200") == 2
    assert answered.index(b"topics/first") < answered.index(b"topics/second")
