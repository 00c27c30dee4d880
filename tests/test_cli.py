"""The command as a user meets it: processes, exit codes, signals, what is printed where."""

import contextlib
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from emulator import __version__, cli
from emulator.errors import starting as starting_errors
from emulator.settings import GCLOUD_FLAGS, OPTIONS
from tests.tools.server import PATIENCE_S, serve
from tests.wire.serving import connected

READY = re.compile(r"^\[pubsub\] INFO: Server started, listening on ([1-9]\d*)$", re.MULTILINE)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PUBSUB_")}
    return {**ours, "COLUMNS": "200", **(extra or {})}


def run(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "emulator", *arguments],
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


class Started:
    """A server process, read line by line."""

    def __init__(self, *arguments: str, env: Mapping[str, str] | None = None, python: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *python, "-m", "emulator", *arguments],
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.before_ready: list[str] = []
        self.port = 0

    def wait_until_ready(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if ready := READY.match(line):
                self.port = int(ready[1])
                return
            self.before_ready.append(line.rstrip("\n"))
        raise AssertionError(f"it ended with {self.process.wait()} and wrote {self.before_ready}")

    def end(self) -> tuple[int, str, str]:
        """Wait for it to end by itself: exit code, stdout, and stderr after the ready line."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err


@contextlib.contextmanager
def started(*arguments: str, env: Mapping[str, str] | None = None, python: tuple[str, ...] = ()) -> Iterator[Started]:
    """A server on a free port, ready; it is killed if the test leaves it running."""
    server = Started(*(arguments or ("--port", "0")), env=env, python=python)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def ask(port: int, verb: str, path: str, content: object = None) -> dict[str, Any]:
    """A call of the API that has to succeed; `path` follows /v1/."""
    with connected(port) as client:
        client.request(verb, f"/v1/{path}", b"" if content is None else json.dumps(content).encode())
        reply = client.reply()
    assert reply.status == 200, reply.body
    found: dict[str, Any] = json.loads(reply.body)
    return found


def get(port: int, target: str) -> bytes:
    with connected(port) as client:
        client.request("GET", target)
        return client.reply().body


class TestStart:
    @pytest.mark.rule("T12")
    @pytest.mark.parametrize(
        "arguments",
        [
            ("--port", "0"),
            ("start", "--port", "0"),
            ("--port=0", "start"),
            ("start", "--host-port=127.0.0.1:0"),
            ("start", "--log-format", "json", "--port", "0"),
            ("start", "--log-level", "critical", "--port", "0"),
        ],
    )
    def test_once_it_accepts_it_says_so_and_where(self, arguments: tuple[str, ...]) -> None:
        with started(*arguments) as server:
            assert server.before_ready == []
            assert get(server.port, "/") == b"Ok\n"

    @pytest.mark.rule("B109")
    @pytest.mark.parametrize("language", ["fr_FR.UTF-8", "C", "tr_TR"])
    def test_the_ready_line_is_the_same_in_every_language(self, language: str) -> None:
        with started("--port", "0", env={"LANG": language, "LC_ALL": language}) as server:
            assert server.port

    def test_the_port_file_is_there_before_the_ready_line(self, tmp_path: Path) -> None:
        file = tmp_path / "port"
        with started("--port", "0", "--port-file", str(file)) as server:
            assert file.read_text() == f"{server.port}\n"
            assert list(tmp_path.iterdir()) == [file]

    def test_a_port_file_that_cannot_be_written_is_a_failed_start(self, tmp_path: Path) -> None:
        done = run("--port", "0", "--port-file", str(tmp_path / "missing" / "port"))

        assert_failed(done, 3, r"cannot write the port to \S+: No such file or directory")

    @pytest.mark.rule("T14", "B104")
    def test_by_default_both_loopbacks_answer(self) -> None:
        with started("--port", "0") as server:
            assert get(server.port, "/") == b"Ok\n"
            with contextlib.suppress(OSError), connected(server.port, "::1") as client:
                client.request("GET", "/")
                assert client.reply().body == b"Ok\n"

    @pytest.mark.rule("B103")
    @pytest.mark.parametrize("host_port", ["0.0.0.0:0", "[::]:0", ":0"])
    def test_all_interfaces_can_be_bound(self, host_port: str) -> None:
        with started("--host-port", host_port) as server:
            assert get(server.port, "/") == b"Ok\n"

    def test_a_variable_does_as_well_as_a_flag(self) -> None:
        with started("start", env={"PUBSUB_EMULATOR_HOST_PORT": "127.0.0.1:0"}) as server:
            assert server.port != 8085

    def test_the_clients_variable_is_the_default_address(self) -> None:
        with started("start", env={"PUBSUB_EMULATOR_HOST": "http://127.0.0.1:0"}) as server:
            assert server.port != 8085
            assert len(server.before_ready) == 1
            assert "scheme" in server.before_ready[0]

    def test_gclouds_own_command_line_is_understood(self, tmp_path: Path) -> None:
        line = [f"--project=p --host-port=127.0.0.1:0 --data-dir={tmp_path} --verbosity=debug --log-http --quiet -q"]
        line += ["--format json --user-output-enabled=false --account=me@x --configuration c"]
        with started("start", *" ".join(line).split()) as server:
            warned = [text for text in server.before_ready if text.startswith("WARNING")]

            assert [re.findall(r"--[a-z-]+", text) for text in warned] == [
                ["--quiet"],
                [],
                ["--format"],
                ["--user-output-enabled"],
                ["--account"],
                ["--configuration"],
                ["--data-dir"],
            ]
            assert warned[1].startswith("WARNING -q ")
            assert "nothing is kept" in warned[-1]

    def test_warnings_take_the_form_of_the_log(self) -> None:
        with started("--port", "0", "--quiet", "--log-format", "json") as server:
            assert [json.loads(line)["level"] for line in server.before_ready] == ["WARNING"]

    def test_requests_are_logged_on_demand(self) -> None:
        with started("--port", "0", "--log-http") as server:
            get(server.port, "/healthz")
            server.process.terminate()
            _, _, err = server.end()

        assert re.fullmatch(r"INFO http method=GET path=/healthz status=200 ms=[\d.]+\n", err)

    def test_it_prints_nothing_else(self) -> None:
        with started() as server:
            get(server.port, "/healthz")
            server.process.terminate()

            assert server.end() == (0, "", "")

    def test_relaxed_limits_are_told_in_the_log(self) -> None:
        with started("--port", "0", "--limits", "relaxed") as server:
            assert server.before_ready == ["INFO limits are relaxed: the server takes what production refuses"]

    def test_the_longest_lease_is_told_in_the_log_and_kept(self) -> None:
        topic, subscription = "projects/p/topics/top", "projects/p/subscriptions/sub"
        with started("--port", "0", "--max-lease-duration", "1") as server:
            assert server.before_ready == ["INFO a lease ends after 1 s at the latest, however often it is extended"]
            ask(server.port, "PUT", topic)
            ask(server.port, "PUT", subscription, {"topic": topic, "ackDeadlineSeconds": 600})
            ask(server.port, "POST", f"{topic}:publish", {"messages": [{"data": "YWJj"}]})
            (first,) = ask(server.port, "POST", f"{subscription}:pull", {"maxMessages": 1})["receivedMessages"]
            extension = {"ackIds": [first["ackId"]], "ackDeadlineSeconds": 600}
            ask(server.port, "POST", f"{subscription}:modifyAckDeadline", extension)

            # Waits until there is something, which is when the lease has ended.
            again = ask(server.port, "POST", f"{subscription}:pull", {"maxMessages": 1})

        assert again["receivedMessages"][0]["message"] == first["message"]

    def test_it_opens_many_files_where_it_may(self) -> None:
        resource = pytest.importorskip("resource")
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 2_000 or not Path("/proc/self/limits").exists():
            pytest.skip("needs a limit that can be raised, and /proc to see it")
        launcher = f"import resource, os, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (256, {hard}));"
        launcher += "os.execv(sys.executable, [sys.executable, '-m', 'emulator', '--port', '0'])"
        with subprocess.Popen(
            [sys.executable, "-c", launcher], stderr=subprocess.PIPE, text=True, env=environment()
        ) as process:
            assert process.stderr is not None
            process.stderr.readline()
            limits = Path(f"/proc/{process.pid}/limits").read_text()
            process.kill()

        found = re.search(r"^Max open files\s+(\d+)", limits, re.MULTILINE)
        assert found
        assert int(found[1]) == min(hard, cli.WANTED_FILES)


class TestStop:
    @pytest.mark.rule("B113")
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_stops_it_with_waiting_pulls_and_idle_clients(self, number: signal.Signals) -> None:
        with started() as server, connected(server.port) as puller, connected(server.port) as idle:
            idle.request("PUT", "/v1/projects/p/topics/top")
            idle.reply()
            idle.request("PUT", "/v1/projects/p/subscriptions/sub", b'{"topic": "projects/p/topics/top"}')
            idle.reply()
            puller.request("POST", "/v1/projects/p/subscriptions/sub:pull", b'{"maxMessages": 1}')
            idle.request("GET", "/")  # its answer comes after the pull has been read
            idle.reply()

            server.process.send_signal(number)

            assert server.end() == (0, "", "")
            assert puller.reply().body == b"{}"
            assert idle.is_closed()

    @pytest.mark.rule("B113")
    def test_the_port_is_free_for_the_next_at_once(self) -> None:
        with started() as server:
            with connected(server.port) as client:
                client.request("GET", "/")
                client.reply()
                server.process.terminate()
                server.end()

            with started("--host-port", f"localhost:{server.port}") as successor:
                assert successor.port == server.port

    def test_shutdown_over_http_stops_it(self) -> None:
        with started() as server:
            with connected(server.port) as client:
                client.request("POST", "/shutdown")
                assert client.reply().status == 200

            assert server.end() == (0, "", "")

    def test_a_second_signal_forces_and_is_told_by_the_exit_code(self) -> None:
        program = """
import asyncio, os, signal
from emulator import cli

async def stop_twice():
    cli._stop_on_signals(asyncio.get_running_loop(), asyncio.Event())
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()

asyncio.run(stop_twice())
"""
        done = subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_S, check=False)

        assert done.returncode == 128 + signal.SIGTERM

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_while_it_is_still_loading_stops_it(self, number: signal.Signals) -> None:
        program = f"""
import os, sys
from emulator import cli
cli._raise_file_limit = lambda: os.kill(os.getpid(), {int(number)})
sys.exit(cli.main(["--port", "0"]))
"""
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_clients_that_come_with_the_signal_do_not_keep_it(self) -> None:
        with started("--port", "0", python=("-W", "error")) as server, contextlib.ExitStack() as clients:
            server.process.send_signal(signal.SIGSTOP)
            for _ in range(50):
                clients.enter_context(connected(server.port))
            server.process.terminate()
            server.process.send_signal(signal.SIGCONT)

            assert server.end() == (0, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell's redirections")
class TestStandardStreams:
    """Whatever the streams are, it serves and stops."""

    @pytest.mark.parametrize(
        "streams",
        ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-", "2>/dev/full", "2> >(true)", ">/dev/full 2>&1"],
    )
    @pytest.mark.parametrize("options", ["", "--quiet --log-http"])
    def test_it_starts_serves_and_stops(self, streams: str, options: str, tmp_path: Path) -> None:
        if "full" in streams and not Path("/dev/full").exists():
            pytest.skip("needs /dev/full")
        file = tmp_path / "port"
        command = f"exec {sys.executable} -m emulator --port 0 --port-file {file} {options} {streams}"
        process = subprocess.Popen(["bash", "-c", command], env=environment(), stderr=subprocess.DEVNULL)
        try:
            while not file.exists():
                assert process.poll() is None
                time.sleep(0.01)
            port = int(file.read_text())

            assert get(port, "/") == b"Ok\n"
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            process.wait()

    @pytest.mark.parametrize("arguments", ["version", "env-init", "--help"])
    def test_a_verb_without_streams_does_its_work(self, arguments: str) -> None:
        command = f"exec {sys.executable} -m emulator {arguments} <&- >&- 2>&-"

        assert subprocess.run(["bash", "-c", command], env=environment(), timeout=PATIENCE_S).returncode == 0


class TestFailures:
    """One clear line, an exit code, no traceback."""

    def test_a_taken_port_is_named_with_a_way_out(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]

            done = run("--host-port", f"localhost:{port}")

        assert_failed(done, 3, rf"port {port} on localhost is already in use; .* --port")

    def test_a_host_that_is_not_here(self) -> None:
        assert_failed(run("--host-port", "no.such.host.invalid:0"), 3, "cannot listen on no.such.host.invalid")

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--nonsense",),
            ("nonsense",),
            ("start", "--nonsense"),
            ("start", "--port"),
            ("start", "--hos", "x"),
            ("version", "--port", "1"),
            ("healthcheck", "--log-http"),
            ("--port", "x"),
            ("--host-port", "::1:8085"),
            ("--log-format", "xml"),
            ("--limits", "lax"),
            ("--max-lease-duration", "0"),
            ("--max-lease-duration", "-1"),
            ("env-init", "--shell", "cmd"),
            ("env-init", "--port", "0"),
            ("healthcheck", "--port", "0"),
        ],
    )
    def test_what_is_not_understood_ends_with_2(self, arguments: tuple[str, ...]) -> None:
        done = run(*arguments)

        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("usage: pubsub-emulator")
        assert "Traceback" not in done.stderr

    def test_a_bad_variable_is_named(self) -> None:
        done = run("start", env={"PUBSUB_EMULATOR_PORT": "many"})

        assert done.returncode == 2
        assert "PUBSUB_EMULATOR_PORT: 'many' is not a port" in done.stderr

    @pytest.mark.parametrize(
        "arguments", [("version",), ("env-init", "--port", "1"), ("env-init", "--port=1", "--host=x")]
    )
    def test_a_bad_variable_that_does_not_matter_is_not_read(self, arguments: tuple[str, ...]) -> None:
        assert run(*arguments, env={"PUBSUB_EMULATOR_PORT": "many"}).returncode == 0


class TestHelp:
    @pytest.mark.parametrize("arguments", [("--help",), ("start", "--help"), ("start", "-h")])
    def test_every_option_of_start_is_shown_with_default_and_variable(self, arguments: tuple[str, ...]) -> None:
        done = run(*arguments)

        assert done.returncode == 0
        text = " ".join(done.stdout.split())
        for option in OPTIONS:
            if "start" in option.verbs:
                shown = f"{option.flag} {option.metavar}".strip()
                default = f"default: {option.default}, " if option.default else ""
                assert f"{shown} {option.help} ({default}{option.env})" in text

    def test_verbs_are_listed(self) -> None:
        text = run("--help").stdout

        assert all(f"  {verb} " in text for verb in ("start", "env-init", "healthcheck", "version"))

    @pytest.mark.parametrize("verb", ["start", "env-init", "healthcheck", "version"])
    def test_a_verb_shows_its_own_options_only(self, verb: str) -> None:
        flags = set(re.findall(r"--[a-z-]+", run(verb, "--help").stdout))

        assert flags == {"--help", *(option.flag for option in OPTIONS if verb in option.verbs)}

    def test_gclouds_flags_are_not_advertised(self) -> None:
        assert not set(GCLOUD_FLAGS) & set(run("--help").stdout.split())

    @pytest.mark.parametrize("arguments", [("version",), ("--version",)])
    def test_the_version_is_printed(self, arguments: tuple[str, ...]) -> None:
        done = run(*arguments)

        assert (done.returncode, done.stdout, done.stderr) == (0, f"pubsub-emulator {__version__}\n", "")

    def test_the_installed_command_is_the_module(self) -> None:
        command = Path(sys.executable).with_name("pubsub-emulator")
        if not command.exists():
            pytest.skip("the package is not installed beside this interpreter")

        done = subprocess.run([command, "version"], capture_output=True, text=True, timeout=PATIENCE_S, check=True)

        assert done.stdout == run("version").stdout


class TestEnvInit:
    @pytest.mark.rule("T13")
    @pytest.mark.parametrize(
        ("arguments", "lines"),
        [
            ((), ["export PUBSUB_EMULATOR_HOST=localhost:8085"]),
            (("--host-port", "0.0.0.0:9000"), ["export PUBSUB_EMULATOR_HOST=127.0.0.1:9000"]),
            (("--host-port", "[::]:9000"), ["export PUBSUB_EMULATOR_HOST=localhost:9000"]),
            (("--host-port", ":9000"), ["export PUBSUB_EMULATOR_HOST=localhost:9000"]),
            (("--host-port", "http://pubsub:9000"), ["export PUBSUB_EMULATOR_HOST=pubsub:9000"]),
            (
                ("--project", "p"),
                ["export PUBSUB_EMULATOR_HOST=localhost:8085", "export PUBSUB_PROJECT_ID=p"],
            ),
            (
                ("--shell", "fish", "--project", "it's"),
                ["set -gx PUBSUB_EMULATOR_HOST localhost:8085", r"set -gx PUBSUB_PROJECT_ID 'it\'s'"],
            ),
            (
                ("--shell", "powershell", "--project", "it's"),
                ["$env:PUBSUB_EMULATOR_HOST = 'localhost:8085'", "$env:PUBSUB_PROJECT_ID = 'it''s'"],
            ),
        ],
    )
    def test_it_prints_what_a_shell_evaluates(self, arguments: tuple[str, ...], lines: list[str]) -> None:
        done = run("env-init", *arguments)

        assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, lines, "")

    @pytest.mark.parametrize("value", ["a\\", "\\", "it's", "a\\'b", "'\\\\", "a b\\n$(c)", "*"])
    def test_fish_gets_back_what_was_quoted(self, value: str) -> None:
        line = run("env-init", "--shell", "fish", "--project", value).stdout.splitlines()[1]

        assert fish_word(line.removeprefix("set -gx PUBSUB_PROJECT_ID ")) == value

    def test_gclouds_own_data_dir_is_accepted(self, tmp_path: Path) -> None:
        done = run("env-init", "--data-dir", str(tmp_path))

        assert (done.returncode, done.stdout) == (0, "export PUBSUB_EMULATOR_HOST=localhost:8085\n")

    @pytest.mark.rule("T13")
    def test_a_shell_takes_it(self) -> None:
        ours = run("env-init", "--host-port", "[::1]:9000", "--project", "a b;$(c)").stdout

        done = subprocess.run(
            ["sh", "-c", f'{ours}\nprintf "%s|%s" "$PUBSUB_EMULATOR_HOST" "$PUBSUB_PROJECT_ID"'],
            capture_output=True,
            text=True,
            check=True,
        )

        assert done.stdout == "[::1]:9000|a b;$(c)"

    def test_a_port_of_the_systems_choice_is_read_from_the_port_file(self, tmp_path: Path) -> None:
        file = tmp_path / "port"
        file.write_text("4711\n")

        done = run("env-init", "--port", "0", "--port-file", str(file))

        assert done.stdout == "export PUBSUB_EMULATOR_HOST=localhost:4711\n"

    @pytest.mark.parametrize("content", [None, "", "x"])
    def test_a_port_file_without_a_port_is_named(self, tmp_path: Path, content: str | None) -> None:
        file = tmp_path / "port"
        if content is not None:
            file.write_text(content)

        done = run("env-init", "--port", "0", "--port-file", str(file))

        assert done.returncode == 2
        assert f"--port-file: '{file}' " in done.stderr


class TestHealthcheck:
    @pytest.mark.parametrize("host", ["localhost", "0.0.0.0", "[::]"])
    def test_a_ready_server_is_healthy(self, host: str) -> None:
        with serve() as server:
            done = run("healthcheck", "--host-port", f"{host}:{server.port}")

        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_it_finds_the_port_in_the_port_file(self, tmp_path: Path) -> None:
        variables = {"PUBSUB_EMULATOR_PORT": "0", "PUBSUB_EMULATOR_PORT_FILE": str(tmp_path / "port")}
        with started("start", env=variables):
            assert run("healthcheck", env=variables).returncode == 0

    def test_no_server_is_unhealthy(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))

            done = run("healthcheck", "--host-port", f"127.0.0.1:{free.getsockname()[1]}")

        assert_failed(done, 1, "unhealthy: .*refused")

    @pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 300])
    def test_an_unknown_host_is_unhealthy(self, host: str) -> None:
        assert_failed(run("healthcheck", "--host", host), 1, "unhealthy: ")

    def test_a_missing_port_file_is_unhealthy(self, tmp_path: Path) -> None:
        done = run("healthcheck", "--port", "0", "--port-file", str(tmp_path / "port"))

        assert_failed(done, 1, "unhealthy: .*No such file")

    @pytest.mark.parametrize(
        ("answer", "problem"),
        [(b"HTTP/1.1 503 x\r\n\r\n", "answers 503"), (b"", "answers nothing"), (b"\xff \xfe\r\n", "answers")],
    )
    def test_another_answer_is_unhealthy(self, answer: bytes, problem: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            command = [sys.executable, "-m", "emulator", "healthcheck", "--port", str(other.getsockname()[1])]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
                connection, _ = other.accept()
                connection.recv(1_000)
                connection.sendall(answer)
                connection.close()
                _, err = process.communicate(timeout=PATIENCE_S)

        assert process.returncode == 1
        assert problem in err
        assert "Traceback" not in err


class TestInsideThisProcess:
    def test_a_flag_of_gclouds_takes_its_value_along(self) -> None:
        arguments = ["start", "--format", "json", "--port", "0", "--quiet", "--account=x", "--project", "p", "--format"]

        ours, ignored = cli._without_gcloud_flags(arguments)

        assert ours == ["start", "--port", "0", "--project", "p"]
        assert ignored == ["--format", "--quiet", "--account", "--format"]

    def test_an_interrupted_verb_has_the_signals_exit_code(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_args: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(cli, "resolve", interrupt)

        assert cli.main(["healthcheck"]) == 128 + signal.SIGINT

    @pytest.mark.parametrize(
        "failure", [starting_errors.port_taken("", 1), starting_errors.cannot_listen("", 1, "why")]
    )
    def test_every_interface_has_a_name(self, failure: Exception) -> None:
        assert "every interface" in str(failure)


def fish_word(text: str) -> str:
    """What fish reads of a word in single quotes: there, a backslash escapes only itself and the quote."""
    assert text[0] == text[-1] == "'", text
    inner = text[1:-1]
    assert re.fullmatch(r"(?:[^'\\]|\\.)*", inner), text
    return re.sub(r"\\([\\'])", r"\1", inner)


def assert_failed(done: subprocess.CompletedProcess[str], code: int, problem: str) -> None:
    """It ended with this code and one line that says why."""
    assert done.returncode == code
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert re.search(f"^pubsub-emulator: {problem}", line), line


def test_the_command_looks_for_cycles_less_often_than_python_does() -> None:
    before = gc.get_threshold()
    try:
        cli.collect_less()
        after = gc.get_threshold()
    finally:
        gc.set_threshold(*before)

    assert all(there >= here for here, there in zip(before, after, strict=True))
    assert after > before
