"""The `pubsub-emulator` command: verbs, signals, exit codes.

0: done, or stopped when asked to. 1: unhealthy, or a crash. 2: not understood. 3: could not start. 128 and a
signal's number: forced by a second signal.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TextIO

from emulator import __version__, logs
from emulator.errors import starting as starting_errors
from emulator.limits import STRICT
from emulator.settings import (
    ENV_INIT,
    GCLOUD_FLAGS,
    HEALTHCHECK,
    OPTIONS,
    START,
    Option,
    Settings,
    client_address,
    client_host,
    resolve,
)

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

PROGRAM = "pubsub-emulator"
VERSION = "version"

EXIT_UNHEALTHY = 1
EXIT_NOT_STARTED = 3
EXIT_SIGNALLED = 128  # plus the signal's number, as shells have it

# In real time: how long a health check waits for the server.
HEALTH_TIMEOUT_S = 2

# Every client of a large test suite holds a connection; the usual limit of 1,024 files is soon reached.
WANTED_FILES = 65_536


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. Raises SystemExit from --help, --version and usage errors."""
    _open_standard_streams()
    parser = _parser()
    arguments, ignored = _without_gcloud_flags(sys.argv[1:] if argv is None else argv)
    given = vars(parser.parse_args(arguments))
    verb = given.pop("verb") or START
    try:
        settings = resolve(given, os.environ, verb)
        if verb == START:
            return _start(settings, ignored)
        return _VERBS[verb](settings)
    except starting_errors.UsageError as problem:
        parser.error(str(problem))
    except starting_errors.StartError as problem:
        print(f"{PROGRAM}: {problem}", file=sys.stderr)
        return EXIT_NOT_STARTED
    except KeyboardInterrupt:
        return EXIT_SIGNALLED + signal.SIGINT


def _open_standard_streams() -> None:
    """Put /dev/null where a standard stream was closed: the next file opened would take its number, and its output."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, and those below are open.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            stream = open(number, mode, errors="backslashreplace", closefd=False)  # noqa: SIM115  # as long as the process
            setattr(sys, name, stream)


def _flush_or_let_go(stream: TextIO) -> None:
    """Have nothing left that Python could fail on at exit: what nobody takes any more is dropped."""
    try:
        stream.flush()
    except OSError:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())


# Reading the command line


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [VERB] [OPTION ...]",
        description="A local server for Google Cloud Pub/Sub. Without a verb, it starts.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    _add_options(parser.add_argument_group("options of start"), START)
    verbs = parser.add_subparsers(title="verbs", dest="verb", metavar="VERB", prog=PROGRAM)
    for name, text in (
        (START, "serve until told to stop"),
        (ENV_INIT, "print what to set for the clients of a server with these options"),
        (HEALTHCHECK, "exit with 0 if a server with these options is ready, else with 1"),
        (VERSION, "print the version"),
    ):
        verb = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
        _add_options(verb, name)
    return parser


def _add_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup, verb: str) -> None:
    for option in OPTIONS:
        if verb not in option.verbs:
            continue
        if option.metavar:
            parser.add_argument(
                option.flag, dest=option.name, metavar=option.metavar, default=argparse.SUPPRESS, help=_help(option)
            )
        else:
            for flag, value, text in ((option.flag, "true", _help(option)), (f"--no-{option.name}", "false", None)):
                parser.add_argument(
                    flag,
                    dest=option.name,
                    action="store_const",
                    const=value,
                    default=argparse.SUPPRESS,
                    help=text or argparse.SUPPRESS,
                )


def _help(option: Option) -> str:
    default = f"default: {option.default}, " if option.default else ""
    return f"{option.help} ({default}{option.env})"


def _without_gcloud_flags(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is ours of a command line, and the names of the flags that gcloud takes with every command."""
    ours: list[str] = []
    ignored: list[str] = []
    words = iter(argv)
    for word in words:
        name, has_value, _ = word.partition("=")
        if name not in GCLOUD_FLAGS:
            ours.append(word)
            continue
        ignored.append(name)
        if GCLOUD_FLAGS[name] and not has_value:
            next(words, None)
    return ours, ignored


# start


def _start(settings: Settings, ignored: Sequence[str]) -> int:
    # A stop that comes while modules are still loading is a stop like any other.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        logs.configure(settings.log_level, settings.log_format, sys.stderr)
        for flag in ignored:
            logger.warning("%s is gcloud's and has no effect here", flag)
        for warning in settings.warnings:
            logger.warning("%s", warning)
        longest = settings.limits.lease_max_s
        if replace(settings.limits, lease_max_s=None) != STRICT:
            logger.info("limits are relaxed: the server takes what production refuses")
        if longest is not None:
            logger.info("a lease ends after %d s at the latest, however often it is extended", longest)
        _raise_file_limit()
        collect_less()

        import asyncio

        from emulator.app import new_event_loop

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(settings))
    except KeyboardInterrupt:
        pass
    finally:
        _flush_or_let_go(sys.stderr)
    return 0


def collect_less() -> None:
    """Look for unreachable cycles less often: a backlog is many objects without any, and each look goes through it."""
    gc.set_threshold(20_000, 20, 100)


def _raise_file_limit() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(settings: Settings) -> None:
    """Serve until a signal or POST /shutdown. Raises StartError."""
    import asyncio

    from emulator.app import App

    stop = asyncio.Event()
    _stop_on_signals(asyncio.get_running_loop(), stop)
    app = App(settings.host, settings.port, limits=settings.limits, shutdown=stop.set, log_http=settings.log_http)
    await app.start()
    try:
        if settings.port_file is not None:
            _write_port(settings.port_file, app.port)
        # Start detectors look for exactly this, whatever the format of the log (conventions of Google's emulator).
        with suppress(OSError):  # a server is of use without a reader of its log
            print(f"[pubsub] INFO: Server started, listening on {app.port}", file=sys.stderr, flush=True)
        await stop.wait()
    finally:
        await app.stop()


def _stop_on_signals(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """The first SIGINT or SIGTERM sets `stop`, the second ends the process."""

    def ask(number: int) -> None:
        if stop.is_set():
            os._exit(EXIT_SIGNALLED + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, ask, number)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda number, _frame: loop.call_soon_threadsafe(ask, number))


def _write_port(path: Path, port: int) -> None:
    """Whoever sees the file sees a whole number in it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(f"{port}\n", encoding="ascii")
        unfinished.replace(path)
    except OSError as problem:
        raise starting_errors.cannot_write_port_file(str(path), problem.strerror or str(problem)) from None


# The other verbs


def _env_init(settings: Settings) -> int:
    try:
        port = _known_port(settings)
    except OSError as problem:
        raise starting_errors.bad_option(
            "--port-file", str(settings.port_file), f"cannot be read: {problem.strerror}"
        ) from None
    variables = {"PUBSUB_EMULATOR_HOST": client_address(settings.host, port)}
    if settings.project:
        variables["PUBSUB_PROJECT_ID"] = settings.project
    for name, value in variables.items():
        print(_export(settings.shell, name, value))
    return 0


def _export(shell: str, name: str, value: str) -> str:
    match shell:
        case "fish":
            return f"set -gx {name} {_quote_for_fish(value)}"
        case "powershell":
            quoted = value.replace("'", "''")
            return f"$env:{name} = '{quoted}'"
        case _:
            return f"export {name}={shlex.quote(value)}"


def _quote_for_fish(value: str) -> str:
    """As for other shells, but that fish takes a backslash in single quotes for an escape."""
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    return value if shlex.quote(value) == value else f"'{quoted}'"


def _healthcheck(settings: Settings) -> int:
    try:
        port = _known_port(settings)
        with socket.create_connection((client_host(settings.host), port), HEALTH_TIMEOUT_S) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            with connection.makefile("rb") as reply:
                answer = reply.readline().partition(b" ")[2][:3].decode("ascii", "replace").strip()
    except (OSError, UnicodeError) as problem:
        print(f"{PROGRAM}: unhealthy: {problem}", file=sys.stderr)
        return EXIT_UNHEALTHY
    if answer == "200":
        return 0
    print(f"{PROGRAM}: unhealthy: port {port} answers {answer or 'nothing'}", file=sys.stderr)
    return EXIT_UNHEALTHY


def _known_port(settings: Settings) -> int:
    """The port of a running server. Raises UsageError if nothing says which it is, OSError for an unreadable file."""
    if settings.port:
        return settings.port
    if settings.port_file is None:
        raise starting_errors.port_unknown()
    text = settings.port_file.read_text(encoding="ascii", errors="replace").strip()
    if not text.isdecimal():
        raise starting_errors.bad_option("--port-file", str(settings.port_file), "does not hold a port")
    return int(text)


def _version(_settings: Settings) -> int:
    print(f"{PROGRAM} {__version__}")
    return 0


_VERBS: Mapping[str, Callable[[Settings], int]] = MappingProxyType(
    {ENV_INIT: _env_init, HEALTHCHECK: _healthcheck, VERSION: _version}
)
