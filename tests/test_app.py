"""A whole server under clients that misbehave: it goes on serving, and nothing of them stays behind."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from emulator.app import App, new_event_loop
from emulator.clock import FakeClock
from emulator.errors.starting import StartError
from tests.wire.serving import LOOPS, LoopFactory, LoopOfItsOwn, Reply, connected

SUBSCRIPTION = "/v1/projects/p/subscriptions/sub"
TOPIC = "/v1/projects/p/topics/top"

PULL_ONE = b'{"maxMessages":1}'
ASK_FOR_ONE = b"POST %s:pull HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (SUBSCRIPTION.encode(), len(PULL_ONE))

# A client that pulls and waits.
PULLER = f"""
import socket, sys
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sock.sendall({ASK_FOR_ONE + PULL_ONE!r})
sock.recv(1)
"""


class Served:
    """A running App with a topic and a subscription."""

    def __init__(self, loop: LoopOfItsOwn) -> None:
        async def build() -> App:
            app = App("127.0.0.1", 0, clock=FakeClock())
            await app.start()
            return app

        self.loop = loop
        self.app = loop.run(build())
        assert self.ask("PUT", TOPIC).status == 200
        assert self.ask("PUT", SUBSCRIPTION, {"topic": TOPIC.removeprefix("/v1/")}).status == 200
        self.loop.until(lambda: self.app.debug_counts()["connections"] == 0)
        self.counts_at_start = self.counts()

    def ask(self, verb: str, target: str, content: object = None) -> Reply:
        with connected(self.app.port) as client:
            client.request(verb, target, b"" if content is None else json.dumps(content).encode())
            return client.reply()

    def counts(self) -> dict[str, int]:
        return self.loop.call(self.app.debug_counts)

    def wait_for(self, **counts: int) -> None:
        self.loop.until(lambda: all(self.app.debug_counts()[name] == count for name, count in counts.items()))

    def publish(self, data: bytes) -> None:
        reply = self.ask("POST", f"{TOPIC}:publish", {"messages": [{"data": base64.b64encode(data).decode()}]})
        assert reply.status == 200

    def pull(self) -> list[bytes]:
        reply = self.ask("POST", f"{SUBSCRIPTION}:pull", {"maxMessages": 10, "returnImmediately": True})
        assert reply.status == 200
        received = json.loads(reply.body).get("receivedMessages", [])
        return [base64.b64decode(each["message"]["data"]) for each in received]

    def serves(self) -> bool:
        return self.ask("GET", TOPIC).status == 200

    def is_as_it_was(self) -> bool:
        self.loop.until(lambda: self.app.debug_counts() == self.counts_at_start)
        return True


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> Iterator[LoopOfItsOwn]:
    factory: LoopFactory = request.param
    with LoopOfItsOwn(factory) as loop:
        yield loop
        assert loop.problems == []


@pytest.fixture
def served(loop: LoopOfItsOwn) -> Iterator[Served]:
    served = Served(loop)
    yield served
    loop.run(served.app.stop())


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for some thousand sockets, clients' and server's, in this process."""
    resource = pytest.importorskip("resource", reason="needs a limit that can be raised")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 6_000:
        pytest.skip(f"needs 6,000 files, and the system gives {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 6_000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_two_thousand_idle_connections(served: Served) -> None:
    with ExitStack() as clients:
        for _ in range(2_000):
            client = clients.enter_context(connected(served.app.port))
            client.request("GET", TOPIC)
            assert client.reply().status == 200

        assert served.counts()["connections"] == 2_000
        assert served.serves()

    assert served.is_as_it_was()


@pytest.mark.usefixtures("many_files")
def test_two_thousand_silent_connections(served: Served) -> None:
    with ExitStack() as clients:
        for _ in range(2_000):
            clients.enter_context(connected(served.app.port))

        served.wait_for(connections=2_000)
        assert served.serves()

    assert served.is_as_it_was()


def test_bodies_that_never_end(served: Served) -> None:
    with ExitStack() as clients:
        for _ in range(100):
            client = clients.enter_context(connected(served.app.port))
            client.send(b"POST %s:publish HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n{" % TOPIC.encode())

        served.wait_for(connections=100)
        assert served.serves()

    assert served.is_as_it_was()


def test_bodies_that_come_slowly(served: Served) -> None:
    with connected(served.app.port) as client:
        client.send(b"POST %s:publish HTTP/1.1\r\nHost: h\r\nContent-Length: 32\r\n\r\n" % TOPIC.encode())
        for byte in b'{"messages": [{"data": "YWJj"}]}':
            assert served.serves()
            client.send(bytes([byte]))

        assert client.reply().status == 200
    assert served.pull() == [b"abc"]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /v1",
        b"GET %s HTTP/1.1\r\nHost: h\r\n\r\n" % TOPIC.encode(),
        b"POST %s:publish HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n{" % TOPIC.encode(),
        ASK_FOR_ONE + PULL_ONE,
    ],
)
def test_sockets_closed_on_one_side(served: Served, said: bytes) -> None:
    with connected(served.app.port) as client:
        client.send(said)
        client.stop_sending()

        while not client.is_closed():
            pass

    assert served.serves()
    assert served.is_as_it_was()


@pytest.mark.parametrize("seed", range(10))
def test_garbage(served: Served, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    garbage = bytes((seed * 31 + index * index * 17 + (index >> seed)) % 256 for index in range(10_000)) + b"\n"
    with connected(served.app.port) as client:
        client.send(garbage)

        assert client.reply().status == 400

    assert served.serves()
    assert served.is_as_it_was()
    assert caplog.records == []


@pytest.mark.rule("S7.2.4")
def test_a_client_killed_while_its_pull_waits(served: Served) -> None:
    with subprocess.Popen([sys.executable, "-c", PULLER, str(served.app.port)]) as puller:
        served.wait_for(waiting_pulls=1)

        puller.kill()

    served.wait_for(waiting_pulls=0)
    assert served.is_as_it_was()
    served.publish(b"abc")
    assert served.pull() == [b"abc"]


@pytest.mark.rule("S7.2.3")
def test_a_waiting_pull_ends_though_the_clock_stands_still(served: Served) -> None:
    with connected(served.app.port) as client:
        client.request("POST", f"{SUBSCRIPTION}:pull", PULL_ONE, "X-Server-Timeout: 0.2")

        assert client.reply().body == b"{}"
    assert served.is_as_it_was()


def test_a_waiting_pull_ends_when_the_server_stops(loop: LoopOfItsOwn) -> None:
    served = Served(loop)
    with connected(served.app.port) as client:
        client.request("POST", f"{SUBSCRIPTION}:pull", PULL_ONE)
        served.wait_for(waiting_pulls=1)

        loop.run(served.app.stop())

        assert client.reply().body == b"{}"


def test_reset_over_http_forgets_everything(served: Served) -> None:
    assert served.ask("POST", "/reset").status == 200

    assert served.ask("GET", TOPIC).status == 404
    assert served.counts()["topics"] == 0


def test_a_start_that_fails_frees_the_clock(loop: LoopOfItsOwn) -> None:
    clock = FakeClock()

    async def start(host: str) -> App:
        app = App(host, 0, clock=clock)
        await app.start()
        return app

    with pytest.raises(StartError):
        loop.run(start("no.such.host.invalid"))

    loop.run(loop.run(start("127.0.0.1")).stop())


def test_it_says_where_it_listens(served: Served) -> None:
    assert repr(served.app) == f"<App 127.0.0.1:{served.app.port}>"


def test_another_thread_cannot_call_a_stopped_server(loop: LoopOfItsOwn) -> None:
    served = Served(loop)
    during = served.app.run(served.app.debug_counts)
    loop.run(served.app.stop())

    with pytest.raises(RuntimeError, match="not running"):
        served.app.run(served.app.debug_counts)

    assert during["topics"] == 1
    assert repr(served.app._thread) == "<LoopThread closed>"


def test_the_loop_is_the_fastest_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = new_event_loop()
    monkeypatch.setitem(sys.modules, "uvloop", None)
    plain = new_event_loop()

    assert [type(loop).__module__.partition(".")[0] for loop in (fast, plain)] == ["uvloop", "asyncio"]
    fast.close()
    plain.close()
