"""The options: where each comes from, what it may be, and what clients are told."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from emulator.errors.starting import UsageError
from emulator.limits import RELAXED, STRICT
from emulator.settings import (
    ENV_INIT,
    GCLOUD_FLAGS,
    HEALTHCHECK,
    OPTIONS,
    START,
    Option,
    Settings,
    client_address,
    resolve,
)

DEFAULTS = Settings(
    host="localhost",
    port=8085,
    port_file=None,
    project="",
    log_level="info",
    log_format="text",
    log_http=False,
    shell="bash",
    limits=STRICT,
    warnings=(),
)


def settings_of(flags: Mapping[str, str], environ: Mapping[str, str] | None = None, verb: str = START) -> Settings:
    return resolve(flags, environ or {}, verb)


def verb_with(name: str) -> str:
    """A verb that takes this option."""
    return next(option for option in OPTIONS if option.name == name).verbs[0]


def address_of(flags: Mapping[str, str], environ: Mapping[str, str] | None = None) -> tuple[str, int]:
    found = settings_of(flags, environ)
    return found.host, found.port


def test_defaults() -> None:
    assert settings_of({}) == DEFAULTS


@pytest.mark.parametrize(
    ("flag", "text", "change"),
    [
        ("port-file", "/tmp/port", {"port_file": Path("/tmp/port")}),
        ("project", "my-project", {"project": "my-project"}),
        ("log-level", "debug", {"log_level": "debug"}),
        ("log-level", "WARNING", {"log_level": "warning"}),
        ("log-format", "json", {"log_format": "json"}),
        ("log-format", "Text", {"log_format": "text"}),
        ("log-http", "true", {"log_http": True}),
        ("log-http", "off", {"log_http": False}),
        ("verbosity", "error", {"log_level": "error"}),
        ("verbosity", "none", {"log_level": "critical"}),
        ("shell", "fish", {"shell": "fish"}),
        ("limits", "strict", {"limits": STRICT}),
        ("limits", "Relaxed", {"limits": RELAXED}),
        ("max-lease-duration", "1", {"limits": dataclasses.replace(STRICT, lease_max_s=1)}),
        ("max-lease-duration", "86400", {"limits": dataclasses.replace(STRICT, lease_max_s=86_400)}),
    ],
)
@pytest.mark.parametrize("way", ["flag", "variable"])
def test_each_option_is_a_flag_and_a_variable(flag: str, text: str, change: dict[str, Any], way: str) -> None:
    variable = "PUBSUB_EMULATOR_" + flag.replace("-", "_").upper()

    verb = verb_with(flag)
    found = settings_of({flag: text}, {}, verb) if way == "flag" else settings_of({}, {variable: text}, verb)

    assert found == dataclasses.replace(DEFAULTS, **change)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_names_follow_one_pattern(option: Option) -> None:
    assert option.flag == f"--{option.name}"
    assert option.env == "PUBSUB_EMULATOR_" + option.name.upper().replace("-", "_")
    assert option.help


def test_a_flag_beats_a_variable() -> None:
    found = settings_of({"log-format": "text"}, {"PUBSUB_EMULATOR_LOG_FORMAT": "json"})

    assert found.log_format == "text"


@pytest.mark.parametrize("name", [option.name for option in OPTIONS])
def test_an_empty_text_is_none(name: str) -> None:
    variable = "PUBSUB_EMULATOR_" + name.replace("-", "_").upper()

    assert settings_of({name: ""}, {variable: ""}) == DEFAULTS


def test_the_longest_lease_goes_with_any_limits() -> None:
    found = settings_of({"limits": "relaxed", "max-lease-duration": "30"})

    assert found.limits == dataclasses.replace(RELAXED, lease_max_s=30)


def test_the_log_level_beats_gclouds_name_for_it() -> None:
    found = settings_of({"verbosity": "debug"}, {"PUBSUB_EMULATOR_LOG_LEVEL": "error"})

    assert found.log_level == "error"


@pytest.mark.rule("T13", "B103")
@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:8085", ("localhost", 8085)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("some-host.example:65535", ("some-host.example", 65_535)),
        ("0.0.0.0:8432", ("0.0.0.0", 8432)),
        ("[::]:8085", ("::", 8085)),
        ("[::1]:9000", ("::1", 9000)),
        ("[fe80::1%eth0]:9000", ("fe80::1%eth0", 9000)),
        (":9000", ("", 9000)),
        ("localhost:0", ("localhost", 0)),
        ("9000", ("localhost", 9000)),
        ("some-host", ("some-host", 8085)),
        ("[::1]", ("::1", 8085)),
        ("http://some-host:9000", ("some-host", 9000)),
        ("http://some-host:9000/", ("some-host", 9000)),
        ("http://9000", ("localhost", 9000)),
    ],
)
@pytest.mark.parametrize("variable", [None, "PUBSUB_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST_PORT"])
def test_an_address_may_be_written_in_many_ways(text: str, address: tuple[str, int], variable: str | None) -> None:
    assert (address_of({}, {variable: text}) if variable else address_of({"host-port": text})) == address


@pytest.mark.parametrize(
    ("flags", "environ", "address"),
    [
        ({"host": "a"}, {}, ("a", 8085)),
        ({"port": "1"}, {}, ("localhost", 1)),
        ({"host": "a", "port": "1"}, {}, ("a", 1)),
        ({"host": "::1"}, {}, ("::1", 8085)),
        ({"host": "[::1]"}, {}, ("::1", 8085)),
        ({"host": "[::1]:1"}, {}, ("::1", 1)),
        ({"host": "a:1"}, {}, ("a", 1)),
        ({"host-port": "a:1", "host": "b"}, {}, ("b", 1)),
        ({"host-port": "a:1", "port": "2"}, {}, ("a", 2)),
        ({"host-port": "a:1"}, {"PUBSUB_EMULATOR_HOST": "b:2", "PUBSUB_EMULATOR_PORT": "3"}, ("a", 1)),
        ({"host-port": "a"}, {"PUBSUB_EMULATOR_PORT": "3"}, ("a", 3)),
        ({"port": "1"}, {"PUBSUB_EMULATOR_HOST_PORT": "b:2"}, ("b", 1)),
        ({}, {"PUBSUB_EMULATOR_HOST": "b:2", "PUBSUB_EMULATOR_HOST_PORT": "c:3"}, ("c", 3)),
        ({}, {"PUBSUB_EMULATOR_HOST_PORT": "c:3", "PUBSUB_EMULATOR_PORT": "4"}, ("c", 4)),
        ({}, {"PUBSUB_EMULATOR_HOST": "b:2", "PUBSUB_EMULATOR_PORT": "4"}, ("b", 4)),
        ({}, {"PUBSUB_EMULATOR_PORT": "tcp://10.0.0.1:8085"}, ("localhost", 8085)),
    ],
)
def test_the_parts_of_an_address_come_together(
    flags: dict[str, str], environ: dict[str, str], address: tuple[str, int]
) -> None:
    assert address_of(flags, environ) == address


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("host-port", "localhost:"),
        ("host-port", "localhost:x"),
        ("host-port", "localhost:65536"),
        ("host-port", "localhost:-1"),
        ("host-port", "localhost:١"),
        ("host-port", "123456"),
        ("host-port", "::1:8085"),
        ("host-port", "[]:8085"),
        ("host-port", "[::1"),
        ("host-port", "a b:1"),
        ("host-port", "a/b:1"),
        ("host-port", "https://localhost:1"),
        ("host-port", "http://"),
        ("host-port", "http://http://a:1"),
        ("host", "a b"),
        ("port", "x"),
        ("port", "1.5"),
        ("port", "99999999999"),
        ("port", " 1"),
        ("log-level", "loud"),
        ("log-format", "xml"),
        ("log-http", "maybe"),
        ("shell", "cmd"),
        ("limits", "lax"),
        *(("max-lease-duration", text) for text in ("0", "-1", "00", "1.5", "30s", "x", " 1", "١", "1000000000")),
    ],
)
@pytest.mark.parametrize("way", ["flag", "variable"])
def test_what_cannot_be_is_named_with_where_it_came_from(name: str, text: str, way: str) -> None:
    variable = "PUBSUB_EMULATOR_" + name.replace("-", "_").upper()
    flags, environ, source = ({name: text}, {}, f"--{name}") if way == "flag" else ({}, {variable: text}, variable)

    with pytest.raises(UsageError) as caught:
        resolve(flags, environ, verb_with(name))

    message = str(caught.value)
    assert message.startswith(f"{source}: {text!r} ")
    assert len(message) > len(f"{source}: {text!r} ")


@pytest.mark.parametrize(
    ("flags", "variables", "verb"),
    [
        *(({"host-port": "a:1"}, (name,), START) for name in ("HOST", "HOST_PORT", "PORT")),
        *(({"host": "a", "port": "1"}, (name,), START) for name in ("HOST", "HOST_PORT", "PORT")),
        ({"port": "1"}, ("PORT",), START),
        ({"port": "1"}, ("PORT",), HEALTHCHECK),
        ({"host": "a:1"}, ("PORT", "HOST_PORT", "HOST"), START),
        ({"log-level": "info"}, ("LOG_LEVEL", "VERBOSITY"), START),
        ({"log-http": "false", "log-format": "json"}, ("LOG_HTTP", "LOG_FORMAT"), START),
        ({"shell": "fish"}, ("SHELL",), ENV_INIT),
        ({}, ("SHELL",), START),
        ({}, ("LOG_LEVEL", "LOG_FORMAT", "LOG_HTTP", "VERBOSITY"), ENV_INIT),
        ({}, ("LOG_LEVEL", "LOG_FORMAT", "LOG_HTTP", "VERBOSITY", "SHELL"), HEALTHCHECK),
        ({}, ("HOST_PORT", "PORT", "HOST", "LOG_LEVEL", "SHELL"), "version"),
    ],
)
def test_a_variable_that_does_not_matter_is_not_read(
    flags: dict[str, str], variables: tuple[str, ...], verb: str
) -> None:
    environ = {f"PUBSUB_EMULATOR_{name}": "no such thing" for name in variables}

    assert settings_of(flags, environ, verb) == settings_of(flags, {}, verb)


@pytest.mark.parametrize(
    ("flags", "environ"),
    [
        ({}, {"PUBSUB_EMULATOR_HOST_PORT": "a:1", "PUBSUB_EMULATOR_HOST": "a b"}),
        ({}, {"PUBSUB_EMULATOR_HOST_PORT": "a", "PUBSUB_EMULATOR_PORT": "1", "PUBSUB_EMULATOR_HOST": "a b"}),
        ({}, {"PUBSUB_EMULATOR_LOG_LEVEL": "info", "PUBSUB_EMULATOR_VERBOSITY": "loud"}),
    ],
)
def test_a_variable_that_another_overrides_is_not_read(flags: dict[str, str], environ: dict[str, str]) -> None:
    *rest, _bad = environ.items()

    assert settings_of(flags, environ) == settings_of(flags, dict(rest))


@pytest.mark.parametrize(
    ("flags", "name"),
    [({}, "HOST"), ({}, "HOST_PORT"), ({}, "PORT"), ({"host": "a"}, "PORT"), ({"port": "1"}, "HOST_PORT")],
)
def test_a_variable_that_matters_is_read(flags: dict[str, str], name: str) -> None:
    with pytest.raises(UsageError, match=f"PUBSUB_EMULATOR_{name}: "):
        settings_of(flags, {f"PUBSUB_EMULATOR_{name}": "a b"})


@pytest.mark.rule("B103")
@pytest.mark.parametrize(
    ("flags", "environ"),
    [
        ({"host-port": "http://localhost:1"}, {}),
        ({}, {"PUBSUB_EMULATOR_HOST": "http://localhost:1"}),
        ({"port": "2"}, {"PUBSUB_EMULATOR_HOST": "http://localhost:1"}),
    ],
)
def test_a_scheme_is_warned_of(flags: dict[str, str], environ: dict[str, str]) -> None:
    (warning,) = settings_of(flags, environ).warnings

    assert "scheme" in warning


def test_a_data_directory_is_warned_of_once() -> None:
    (warning,) = settings_of({"data-dir": "/data"}, {"PUBSUB_EMULATOR_DATA_DIR": "/data"}).warnings

    assert "nothing is kept" in warning


def test_gclouds_flags_are_none_of_ours() -> None:
    assert not {option.flag for option in OPTIONS} & set(GCLOUD_FLAGS)


@pytest.mark.rule("T13")
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", "localhost:8085"),
        ("127.0.0.1", "127.0.0.1:8085"),
        ("some.host", "some.host:8085"),
        ("::1", "[::1]:8085"),
        ("", "localhost:8085"),
        ("::", "localhost:8085"),
        ("0.0.0.0", "127.0.0.1:8085"),
    ],
)
def test_clients_are_told_a_host_that_they_can_reach(host: str, expected: str) -> None:
    assert client_address(host, 8085) == expected
