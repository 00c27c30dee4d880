"""The emulator inside a test's own process: with, async with, a clock to turn, and nothing left behind."""

import asyncio
import dataclasses
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp
import pytest

import emulator
from emulator import Emulator, FakeClock
from emulator.app import App
from emulator.limits import RELAXED, STRICT, Limits
from tests.wire.serving import Reply, connected

TOPIC = "/v1/projects/p/topics/top"
SUBSCRIPTION = "/v1/projects/p/subscriptions/sub"


def ask(server: Emulator, verb: str, target: str, content: object = None) -> Reply:
    with connected(server.port) as client:
        client.request(verb, target, b"" if content is None else json.dumps(content).encode())
        return client.reply()


def pull(server: Emulator) -> list[dict[str, Any]]:
    reply = ask(server, "POST", f"{SUBSCRIPTION}:pull", {"maxMessages": 10, "returnImmediately": True})
    found: list[dict[str, Any]] = json.loads(reply.body).get("receivedMessages", [])
    return found


def extend(server: Emulator, received: Mapping[str, Any]) -> int:
    """For as long as one call can; the status of its reply."""
    request = {"ackIds": [received["ackId"]], "ackDeadlineSeconds": 600}
    return ask(server, "POST", f"{SUBSCRIPTION}:modifyAckDeadline", request).status


def publish_one(server: Emulator) -> None:
    ask(server, "PUT", TOPIC)
    ask(server, "PUT", SUBSCRIPTION, {"topic": TOPIC.removeprefix("/v1/"), "ackDeadlineSeconds": 10})
    assert ask(server, "POST", f"{TOPIC}:publish", {"messages": [{"data": "YWJj"}]}).status == 200


def server_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "pubsub-emulator"]


def open_files() -> int:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("needs /proc to count open files")
    gc.collect()
    return len(list(folder.iterdir()))


class TestWith:
    @pytest.mark.rule("B128")
    def test_it_serves_inside_the_block(self) -> None:
        with Emulator() as server:
            assert ask(server, "PUT", TOPIC).status == 200
            assert server.host_port == f"127.0.0.1:{server.port}"

    def test_it_stops_with_the_block(self) -> None:
        with Emulator() as server:
            port = server.port

        with pytest.raises(ConnectionRefusedError), connected(port):
            pass
        assert server_threads() == []

    def test_a_server_that_broke_says_why_at_the_end_of_the_block(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stop = App.stop

        async def stop_and_fail(app: App) -> None:
            await stop(app)
            raise ZeroDivisionError

        server = Emulator().__enter__()
        monkeypatch.setattr(App, "stop", stop_and_fail)

        with pytest.raises(ZeroDivisionError):
            server.__exit__(None, None, None)

    def test_it_stops_when_the_block_fails(self) -> None:
        with pytest.raises(ZeroDivisionError), Emulator():
            _ = 1 / 0

        assert server_threads() == []

    def test_it_stops_while_clients_are_connected(self) -> None:
        with ExitStack() as clients:
            with Emulator() as server:
                client = clients.enter_context(connected(server.port))
                client.request("GET", "/")
                client.reply()

            assert client.is_closed()

    @pytest.mark.parametrize("said", [b"", b"GET / HT", b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
    @pytest.mark.parametrize("way", ["thread", "uvloop", "asyncio"])
    def test_clients_that_have_just_come_do_not_keep_it_when_warnings_are_errors(self, said: bytes, way: str) -> None:
        program = f"""
import asyncio, socket, sys, uvloop
from emulator import Emulator

def connect(server):
    for _ in range(10):
        clients.append(socket.create_connection(("127.0.0.1", server.port)))
        clients[-1].sendall({said!r})

async def on_this_loop(turns):
    async with Emulator() as server:
        connect(server)
        for _ in range(turns):
            await asyncio.sleep(0)

for turns in range(5):
    clients = []
    if {way!r} == "thread":
        with Emulator() as server:
            connect(server)
    else:
        loop = uvloop.new_event_loop if {way!r} == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(on_this_loop(turns))
    for client in clients:
        client.close()
"""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=30, check=False
        )

        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    @pytest.mark.rule("B128")
    def test_two_at_once_do_not_meet(self) -> None:
        with Emulator() as one, Emulator() as two:
            ask(one, "PUT", TOPIC)

            assert one.port != two.port
            assert ask(one, "GET", TOPIC).status == 200
            assert ask(two, "GET", TOPIC).status == 404

    def test_it_may_run_again_and_starts_empty(self) -> None:
        server = Emulator()
        with server:
            ask(server, "PUT", TOPIC)

        with server:
            assert ask(server, "GET", TOPIC).status == 404

    def test_it_does_not_run_twice_at_once(self) -> None:
        with Emulator() as server:
            with pytest.raises(RuntimeError, match="running already"), server:
                pass

            assert ask(server, "PUT", TOPIC).status == 200

    def test_reset_forgets_everything(self) -> None:
        with Emulator() as server:
            publish_one(server)

            server.reset()

            assert ask(server, "GET", TOPIC).status == 404
            assert server.debug_counts()["subscriptions"] == 0

    def test_it_counts_what_it_holds(self) -> None:
        with Emulator(clock=FakeClock()) as server:
            before = server.debug_counts()
            publish_one(server)
            pull(server)

            counts = server.debug_counts()

        assert {"streams", "leases", "waiting_pulls", "tasks", "timers", "buffered_bytes", "connections"} <= set(counts)
        assert (before["leases"], counts["leases"]) == (0, 1)
        assert counts["timers"] > before["timers"] == 0

    @pytest.mark.parametrize("use", [lambda e: e.port, lambda e: e.host_port, Emulator.reset, Emulator.debug_counts])
    def test_outside_of_its_block_it_is_of_no_use(self, use: Callable[[Emulator], object]) -> None:
        with pytest.raises(RuntimeError, match="is not running"):
            use(Emulator())

    def test_a_block_that_did_not_begin_cannot_end(self) -> None:
        with pytest.raises(RuntimeError, match="not running"):
            Emulator().__exit__(None, None, None)

    def test_a_block_ends_once(self) -> None:
        with Emulator() as server:
            pass

        with pytest.raises(RuntimeError, match="not running"):
            server.__exit__(None, None, None)

    def test_an_api_call_cannot_end_it(self) -> None:
        with Emulator() as server:
            assert ask(server, "POST", "/shutdown").status == 404
            assert ask(server, "GET", "/healthz").status == 200

    def test_it_says_how_it_stands(self) -> None:
        server = Emulator()
        idle = repr(server)
        with server:
            assert repr(server) == f"<Emulator 127.0.0.1:{server.port}>"
        assert idle == repr(server) == "<Emulator not running>"


class TestAsyncWith:
    @pytest.mark.rule("B128")
    async def test_it_serves_on_the_running_loop(self) -> None:
        threads = threading.active_count()
        async with Emulator() as server, aiohttp.ClientSession(f"http://{server.host_port}") as session:
            async with session.put(TOPIC) as answer:
                assert answer.status == 200

            assert threading.active_count() == threads

    async def test_it_stops_with_the_block(self) -> None:
        async with Emulator() as server:
            port = server.port

        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    async def test_it_stops_when_the_block_fails(self) -> None:
        server = Emulator()
        with pytest.raises(ZeroDivisionError):
            async with server:
                _ = 1 / 0

        with pytest.raises(RuntimeError, match="is not running"):
            _ = server.port

    async def test_two_at_once_do_not_meet(self) -> None:
        async with Emulator() as one, Emulator() as two, aiohttp.ClientSession() as session:
            async with session.put(f"http://{one.host_port}{TOPIC}") as answer:
                assert answer.status == 200
            async with session.get(f"http://{two.host_port}{TOPIC}") as answer:
                assert answer.status == 404

    async def test_its_methods_work_from_the_loop_and_from_another_thread(self) -> None:
        async with Emulator() as server:
            here = server.debug_counts()
            there = await asyncio.to_thread(server.debug_counts)
            await asyncio.to_thread(server.reset)

            assert here["topics"] == there["topics"] == 0

    async def test_it_does_not_run_twice_at_once(self) -> None:
        async with Emulator() as server:
            with pytest.raises(RuntimeError, match="running already"):
                await server.__aenter__()


class TestClock:
    @pytest.mark.rule("B023")
    def test_time_stands_still_until_the_test_advances_it(self) -> None:
        clock = FakeClock()
        with Emulator(clock=clock) as server:
            publish_one(server)
            assert len(pull(server)) == 1

            clock.advance(9.999)
            before = pull(server)
            clock.advance(0.001)

            assert (before, len(pull(server))) == ([], 1)

    async def test_it_may_be_advanced_on_the_loop_itself(self) -> None:
        clock = FakeClock()
        async with Emulator(clock=clock) as server:
            await asyncio.to_thread(publish_one, server)
            await asyncio.to_thread(pull, server)

            clock.advance(10)

            assert server.debug_counts()["leases"] == 0

    def test_callbacks_run_on_the_servers_thread(self) -> None:
        clock = FakeClock()
        threads: list[str] = []
        clock.call_at(clock.now() + 1, lambda: threads.append(threading.current_thread().name))
        with Emulator(clock=clock):
            clock.advance(1)

        assert threads == ["pubsub-emulator"]

    @pytest.mark.rule("O15")
    def test_what_one_moment_leads_to_leaves_before_the_next_comes(self) -> None:
        clock = FakeClock()
        seen: list[str] = []

        def first() -> None:
            seen.append("first")
            asyncio.get_running_loop().call_soon(seen.append, "what it led to")

        clock.call_at(clock.now() + 1, first)
        clock.call_at(clock.now() + 2, lambda: seen.append("second"))
        with Emulator(clock=clock):
            clock.advance(1)

        assert seen == ["first", "what it led to", "second"]

    def test_a_failing_callback_reaches_who_advances(self) -> None:
        clock = FakeClock()

        def fail() -> None:
            raise ZeroDivisionError

        clock.call_at(clock.now() + 1, fail)
        with Emulator(clock=clock) as server:
            with pytest.raises(ZeroDivisionError):
                clock.advance(1)

            assert ask(server, "GET", "/healthz").status == 200

    @pytest.mark.parametrize("clock", [5, 0, "", FakeClock, object()])
    def test_anything_but_a_fake_clock_is_refused(self, clock: Any) -> None:
        with pytest.raises(TypeError, match="clock"):
            Emulator(clock=clock)

    def test_one_clock_drives_one_emulator(self) -> None:
        clock = FakeClock()
        with Emulator(clock=clock) as first:
            with pytest.raises(RuntimeError, match="already drives"), Emulator(clock=clock):
                pass

            publish_one(first)
            pull(first)
            clock.advance(10)
            assert first.debug_counts()["leases"] == 0
        assert server_threads() == []

    def test_it_is_free_again_after_the_block(self) -> None:
        clock = FakeClock()
        with Emulator(clock=clock) as server:
            publish_one(server)

        assert clock.timer_count() == 0
        clock.advance(1)
        with Emulator(clock=clock):
            clock.advance(1)


class TestLimits:
    SHORT: Mapping[str, object] = MappingProxyType({"topic": TOPIC.removeprefix("/v1/"), "ackDeadlineSeconds": 1})

    def test_they_are_productions(self) -> None:
        with Emulator() as server:
            ask(server, "PUT", TOPIC)

            assert ask(server, "PUT", SUBSCRIPTION, {**self.SHORT}).status == 400

    @pytest.mark.parametrize("limits", ["relaxed", RELAXED, dataclasses.replace(STRICT, ack_deadline_min_s=1)])
    def test_unless_others_are_asked_for(self, limits: str | Limits) -> None:
        clock = FakeClock()
        with Emulator(clock=clock, limits=limits) as server:
            ask(server, "PUT", TOPIC)
            assert ask(server, "PUT", SUBSCRIPTION, {**self.SHORT}).status == 200
            ask(server, "POST", f"{TOPIC}:publish", {"messages": [{"data": "YWJj"}]})
            assert len(pull(server)) == 1

            clock.advance(1)

            assert len(pull(server)) == 1

    async def test_they_hold_on_the_callers_loop_too(self) -> None:
        async with Emulator(limits="relaxed") as server:
            await asyncio.to_thread(ask, server, "PUT", TOPIC)
            reply = await asyncio.to_thread(ask, server, "PUT", SUBSCRIPTION, {**self.SHORT})

            assert reply.status == 200

    @pytest.mark.parametrize("limits", ["", "Relaxed", "lax"])
    def test_other_names_are_refused(self, limits: str) -> None:
        with pytest.raises(ValueError, match=f"limits are 'strict', 'relaxed' or a Limits, not '{limits}'"):
            Emulator(limits=limits)

    @pytest.mark.parametrize("limits", [None, 5, Limits])
    def test_other_things_are_refused(self, limits: Any) -> None:
        with pytest.raises(TypeError, match="limits are 'strict', 'relaxed' or a Limits, not "):
            Emulator(limits=limits)


class TestTheLongestLease:
    def test_is_as_in_production_unless_it_is_asked_for(self) -> None:
        clock = FakeClock()
        with Emulator(clock=clock) as server:
            publish_one(server)
            (received,) = pull(server)
            for _ in range(10):
                extend(server, received)
                clock.advance(599)

            assert pull(server) == []

    @pytest.mark.rule("V5", "S7.1.6")
    def test_cannot_be_extended_beyond_it_and_a_late_ack_counts(self) -> None:
        clock = FakeClock()
        with Emulator(clock=clock, max_lease_duration=30) as server:
            publish_one(server)
            (received,) = pull(server)
            for _ in range(3):
                clock.advance(9)
                assert extend(server, received) == 200

            clock.advance(2.999)
            assert pull(server) == []
            clock.advance(0.001)
            assert server.debug_counts()["leases"] == 0
            assert ask(server, "POST", f"{SUBSCRIPTION}:acknowledge", {"ackIds": [received["ackId"]]}).status == 200
            assert pull(server) == []

    def test_goes_with_limits_of_every_kind(self) -> None:
        clock = FakeClock()
        with Emulator(clock=clock, limits="relaxed", max_lease_duration=1) as server:
            publish_one(server)
            (received,) = pull(server)
            assert extend(server, received) == 200

            clock.advance(1)

            assert len(pull(server)) == 1

    @pytest.mark.parametrize("seconds", [0, -1, -600])
    def test_is_one_second_at_least(self, seconds: int) -> None:
        with pytest.raises(ValueError, match=f"max_lease_duration is at least 1 second, not {seconds}"):
            Emulator(max_lease_duration=seconds)

    @pytest.mark.parametrize("seconds", ["30", 1.5, True, Limits])
    def test_is_a_whole_number(self, seconds: Any) -> None:
        with pytest.raises(TypeError, match="max_lease_duration is a whole number of seconds or None, not "):
            Emulator(max_lease_duration=seconds)


class TestLeaks:
    def test_fifty_runs_on_a_thread_leave_nothing(self) -> None:
        with Emulator() as server:
            publish_one(server)
        files = open_files()

        for _ in range(50):
            with Emulator() as server:
                publish_one(server)
                pull(server)

        assert server_threads() == []
        assert open_files() == files

    async def test_fifty_runs_on_a_loop_leave_nothing(self) -> None:
        async def run() -> None:
            async with Emulator(clock=FakeClock()) as server:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
                await reader.readuntil(b"Ok\n")
                writer.close()
                await writer.wait_closed()

        await run()
        files, tasks, threads = open_files(), asyncio.all_tasks(), threading.enumerate()

        for _ in range(50):
            await run()

        assert open_files() == files
        assert asyncio.all_tasks() == tasks
        assert threading.enumerate() == threads

    async def test_no_timer_is_left_on_the_callers_loop(self) -> None:
        def live_timers() -> list[object]:
            return [handle for handle in vars(asyncio.get_running_loop())["_scheduled"] if not handle.cancelled()]

        before = live_timers()
        async with Emulator() as server:
            await asyncio.to_thread(publish_one, server)
            during = live_timers()

        assert len(during) > len(before)
        assert live_timers() == before


class TestGuest:
    """What a library must not do to its host."""

    def test_no_signal_handler_and_no_logging_is_touched(self) -> None:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        root = logging.getLogger()
        logging_before = (root.handlers[:], root.level)

        with Emulator():
            assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
            assert (root.handlers[:], root.level) == logging_before

        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers

    def test_the_commands_environment_is_not_looked_at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("HOST", "HOST_PORT", "PORT", "LOG_LEVEL"):
            monkeypatch.setenv(f"PUBSUB_EMULATOR_{name}", "nonsense")

        with Emulator() as server:
            assert ask(server, "GET", "/healthz").status == 200

    @pytest.mark.parametrize("order", ["google.cloud.pubsub, emulator.app", "emulator.app, google.cloud.pubsub"])
    def test_it_lives_beside_the_real_client(self, order: str) -> None:
        pytest.importorskip("google.cloud.pubsub")
        program = f"""
import {order}
from google.auth.credentials import AnonymousCredentials

with emulator.Emulator() as server:
    client = google.pubsub_v1.PublisherClient(
        transport="rest",
        credentials=AnonymousCredentials(),
        client_options={{"api_endpoint": "http://" + server.host_port}},
    )
    print(client.create_topic(name="projects/p/topics/top").name)
"""

        assert run_python(program) == "projects/p/topics/top\n"

    def test_importing_the_package_is_cheap(self) -> None:
        program = (
            "import sys, emulator; print([m for m in ('asyncio', 'aiohttp', 'google.protobuf') if m in sys.modules])"
        )

        assert run_python(program) == "[]\n"

    def test_a_server_does_not_import_the_real_client(self) -> None:
        program = "import sys, emulator.app, emulator.cli; print([m for m in sys.modules if m.startswith(%r)])"

        assert run_python(program % (("google.cloud", "google.pubsub", "grpc", "proto."),)) == "[]\n"


class TestPublicSurface:
    def test_it_is_what_it_says(self) -> None:
        assert emulator.__all__ == ["Emulator", "FakeClock", "__version__"]
        assert emulator.Emulator is Emulator
        assert emulator.FakeClock is FakeClock

    def test_anything_else_is_missing(self) -> None:
        with pytest.raises(AttributeError, match="has no attribute 'Emulater'"):
            _ = emulator.Emulater  # type: ignore[attr-defined]  # that it is missing is the point


def run_python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={key: value for key, value in os.environ.items() if not key.startswith("PUBSUB_")},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
