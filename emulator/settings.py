"""The table of options: each a flag, an environment variable and a default, and the `Settings` that come out of it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from emulator.errors import starting as starting_errors
from emulator.limits import SETS, Limits

START = "start"
ENV_INIT = "env-init"
HEALTHCHECK = "healthcheck"

_EVERY = (START, ENV_INIT, HEALTHCHECK)
_LEVELS = ("debug", "info", "warning", "error", "critical")
_BOOLEANS = MappingProxyType(
    {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
)
_WILDCARDS = MappingProxyType({"": "localhost", "::": "localhost", "0.0.0.0": "127.0.0.1"})

_ADDRESS = re.compile(r"(?P<host>\[[^\[\]]+\]|[^:\[\]]*)(?::(?P<port>[^:]*))?")
_HOST = re.compile(r"[\w.%:-]*")

# What gcloud takes with every command: accepted, so that its command lines run unchanged, and without effect here.
# True: a value follows.
GCLOUD_FLAGS: Mapping[str, bool] = MappingProxyType(
    {
        "--access-token-file": True,
        "--account": True,
        "--billing-project": True,
        "--configuration": True,
        "--flags-file": True,
        "--flatten": True,
        "--format": True,
        "--impersonate-service-account": True,
        "--no-user-output-enabled": False,
        "--quiet": False,
        "--trace-token": True,
        "--user-output-enabled": False,
        "-q": False,
    }
)


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port, or the half of it that was given (None: the other half). Host "" means every interface."""

    host: str | None
    port: int | None
    has_scheme: bool = False

    def over(self, other: "Address") -> "Address":
        """This address, with what it lacks taken from `other`."""
        return Address(
            other.host if self.host is None else self.host,
            other.port if self.port is None else self.port,
            self.has_scheme or other.has_scheme,
        )


def parse_address(text: str) -> Address:
    """Read HOST:PORT, HOST, :PORT, PORT or one of them behind http://. Raises ValueError (clients.md T13)."""
    bare = text.removeprefix("http://")
    has_scheme = bare != text
    if has_scheme:
        bare = bare.rstrip("/")
    if not bare:
        raise ValueError("has no address in it")
    if "://" in bare:
        raise ValueError("has a scheme; the server speaks plain HTTP, give HOST:PORT")
    if bare.isdecimal():
        return Address(None, _parse_port(bare), has_scheme)
    match = _ADDRESS.fullmatch(bare)
    if match is None:
        raise ValueError("is not HOST:PORT; an IPv6 address goes in brackets, [::1]:8085")
    port = match["port"]
    return Address(_parse_host(match["host"]), None if port is None else _parse_port(port), has_scheme)


def _parse_host_first(text: str) -> Address:
    """As `parse_address`, but an IPv6 address needs no brackets."""
    is_bare_ipv6 = text.count(":") > 1 and not set("]/") & set(text)
    return Address(_parse_host(text), None) if is_bare_ipv6 else parse_address(text)


def _parse_port_alone(text: str) -> Address:
    return Address(None, _parse_port(text))


def _parse_host(text: str) -> str:
    host = text.removeprefix("[").removesuffix("]")
    if not _HOST.fullmatch(host):
        raise ValueError("is not a host name or IP address")
    return host


def _parse_port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65_535:
        raise ValueError("is not a port; expected a number from 0 to 65535")
    return int(text)


def _parse_level(text: str) -> str:
    # gcloud's "none" silences gcloud; a server's failures are still wanted.
    return "critical" if text.lower() == "none" else _choice(*_LEVELS)(text)


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"is not one of {', '.join(choices)}")
        return text.lower()

    return parse


def _parse_limits(text: str) -> Limits:
    return SETS[_choice(*SETS)(text)]


def _parse_duration(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not int(text):
        raise ValueError("is not a number of seconds; expected a whole one from 1 on")
    return int(text)


def _parse_switch(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError("is neither true nor false")
    return _BOOLEANS[text.lower()]


@dataclass(frozen=True, slots=True)
class Option:
    """One row: a flag, its variable, its default as text ("": none), and how a text becomes a value.

    metavar: what stands for the value in the help; "" for a switch. parse: raises ValueError that says what is wrong.
    verbs: the commands that take it.
    """

    name: str
    metavar: str
    default: str
    help: str
    parse: Callable[[str], Any]
    verbs: tuple[str, ...] = (START,)

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def env(self) -> str:
        return f"PUBSUB_EMULATOR_{self.name.replace('-', '_').upper()}"


OPTIONS = (
    Option(
        "host-port",
        "HOST:PORT",
        "localhost:8085",
        "where to listen: localhost is 127.0.0.1 and ::1, :PORT every interface, port 0 a free one",
        parse_address,
        _EVERY,
    ),
    # This one's variable is what the clients read; they have HOST:PORT in it.
    Option(
        "host", "HOST", "", "the host alone; a port may follow, as in the clients' variable", _parse_host_first, _EVERY
    ),
    Option("port", "PORT", "", "the port alone", _parse_port_alone, _EVERY),
    Option("port-file", "PATH", "", "a file for the port, written before the ready line", Path, _EVERY),
    Option("project", "ID", "", "the project that env-init names; the server takes any", str, (START, ENV_INIT)),
    Option(
        "data-dir",
        "PATH",
        "",
        "accepted as gcloud's; nothing is kept across a restart yet",
        str,
        (START, ENV_INIT),
    ),
    Option("limits", "SET", "strict", "strict: production's; relaxed: short times for quick tests", _parse_limits),
    Option("max-lease-duration", "SECONDS", "", "how long a lease may last, however often extended", _parse_duration),
    Option("log-level", "LEVEL", "info", f"what to log: {', '.join(_LEVELS)}", _parse_level),
    Option("log-format", "FORMAT", "text", "how: text, or json for an object a line", _choice("text", "json")),
    Option("log-http", "", "false", "log each HTTP request", _parse_switch),
    Option("verbosity", "LEVEL", "", "gcloud's name for --log-level, which wins", _parse_level),
    Option(
        "shell",
        "SHELL",
        "bash",
        "whose syntax to print: bash, fish, powershell",
        _choice("bash", "fish", "powershell"),
        (ENV_INIT,),
    ),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command was told; `warnings` are for the user's eyes. port: 0 takes a free one. host: "" is all."""

    host: str
    port: int
    port_file: Path | None
    project: str
    log_level: str
    log_format: str
    log_http: bool
    shell: str
    limits: Limits
    warnings: tuple[str, ...]


def resolve(flags: Mapping[str, str], environ: Mapping[str, str], verb: str) -> Settings:
    """Flag over environment over default; an empty text counts as not given.

    flags: texts by option name. verb: whose options count. A variable that has no say is not looked at. Raises
    UsageError that names the flag or variable at fault.
    """
    sources = _Sources(flags, environ, verb)
    address = _address(sources)
    level = sources.explicit("log-level") or sources.explicit("verbosity") or sources.value("log-level")
    return Settings(
        host=address.host or "",
        port=address.port or 0,
        port_file=sources.value("port-file"),
        project=sources.value("project") or "",
        log_level=level,
        log_format=sources.value("log-format"),
        log_http=sources.value("log-http"),
        shell=sources.value("shell"),
        limits=replace(sources.value("limits"), lease_max_s=sources.value("max-lease-duration")),
        warnings=tuple(_warnings(address, keeps_data=sources.value("data-dir") is not None)),
    )


class _Sources:
    """Where values come from; flags are all checked at once, variables when they are asked for."""

    def __init__(self, flags: Mapping[str, str], environ: Mapping[str, str], verb: str) -> None:
        self._environ = environ
        self._verb = verb
        self._options = {option.name: option for option in OPTIONS}
        self._by_flag = {
            option.name: _parse(option, option.flag, text) for option in OPTIONS if (text := flags.get(option.name))
        }

    def by_flag(self, name: str) -> Any:
        """The flag's value, or None."""
        return self._by_flag.get(name)

    def by_env(self, name: str) -> Any:
        """The variable's value, or None; None also if the verb does not take the option."""
        option = self._options[name]
        text = _from_environ(option, self._environ) if self._verb in option.verbs else ""
        return _parse(option, option.env, text) if text else None

    def explicit(self, name: str) -> Any:
        """What the user gave, or None."""
        return self._by_flag[name] if name in self._by_flag else self.by_env(name)

    def default(self, name: str) -> Any:
        option = self._options[name]
        return option.parse(option.default) if option.default else None

    def value(self, name: str) -> Any:
        found = self.explicit(name)
        return self.default(name) if found is None else found

    def __repr__(self) -> str:
        return f"<_Sources {self._verb} flags={sorted(self._by_flag)}>"


def _from_environ(option: Option, environ: Mapping[str, str]) -> str:
    text = environ.get(option.env, "")
    # Kubernetes sets this variable to tcp://… in every container beside a service named pubsub-emulator.
    return "" if option.name == "port" and text.startswith("tcp://") else text


def _parse(option: Option, source: str, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as problem:
        raise starting_errors.bad_option(source, text, str(problem)) from None


def _address(sources: _Sources) -> Address:
    """Each half from the first that has it."""
    address = Address(None, None)
    for look, name in (
        (sources.by_flag, "port"),
        (sources.by_flag, "host"),
        (sources.by_flag, "host-port"),
        (sources.by_env, "port"),
        (sources.by_env, "host-port"),
        (sources.by_env, "host"),  # the clients' own variable: whoever sets a server's one means that
        (sources.default, "host-port"),
    ):
        lacks_port, lacks_host = address.port is None, address.host is None
        if (lacks_port or (lacks_host and name != "port")) and (given := look(name)):
            address = address.over(given)
    return address


def _warnings(address: Address, *, keeps_data: bool) -> Iterator[str]:
    if address.has_scheme:
        yield "the address has a scheme; it is HOST:PORT for the clients, and many of them fail on http://"
    if keeps_data:
        yield "--data-dir has no effect yet: nothing is kept across a restart"


def client_address(host: str, port: int) -> str:
    """HOST:PORT for a client of a server that listens on `host`, without a scheme (clients.md T13)."""
    reachable = client_host(host)
    return f"[{reachable}]:{port}" if ":" in reachable else f"{reachable}:{port}"


def client_host(host: str) -> str:
    """Where a server that listens on `host` can be reached: `host`, unless that is a wildcard."""
    return _WILDCARDS.get(host, host)
