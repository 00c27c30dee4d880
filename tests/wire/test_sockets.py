"""Where a host name leads to, and one port on all of it."""

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from emulator.errors.starting import StartError
from emulator.wire import sockets
from emulator.wire.sockets import open_sockets, port_of

Open = Callable[[str, int], list[socket.socket]]


@pytest.fixture
def opened() -> Iterator[Open]:
    """`open_sockets`, with everything closed in the end."""
    every: list[socket.socket] = []

    def open_and_note(host: str, port: int) -> list[socket.socket]:
        found = open_sockets(host, port)
        every.extend(found)
        return found

    yield open_and_note
    for sock in every:
        sock.close()


def has_ipv6() -> bool:
    try:
        with closing(socket.socket(socket.AF_INET6)) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


def answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 5).close()
    except OSError:
        return False
    return True


def addresses(found: list[socket.socket]) -> list[str]:
    return [sock.getsockname()[0] for sock in found]


@pytest.mark.rule("T14", "B104")
@needs_ipv6
def test_localhost_is_both_loopbacks_on_one_port(opened: Open) -> None:
    found = opened("localhost", 0)

    assert addresses(found) == ["127.0.0.1", "::1"]
    assert len({port_of([sock]) for sock in found}) == 1
    assert answers("127.0.0.1", port_of(found))
    assert answers("::1", port_of(found))


@pytest.mark.rule("T14")
@pytest.mark.parametrize("code", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
@pytest.mark.parametrize(("missing", "left"), [(socket.AF_INET6, "127.0.0.1"), (socket.AF_INET, "::1")])
def test_localhost_is_the_loopback_that_there_is(
    opened: Open, monkeypatch: pytest.MonkeyPatch, missing: socket.AddressFamily, left: str, code: int
) -> None:
    if left == "::1" and not has_ipv6():
        pytest.skip("this machine has no ::1")
    fail_for(monkeypatch, lambda family, _address, _port: family == missing, code)

    assert addresses(opened("localhost", 0)) == [left]


@pytest.mark.rule("T14")
def test_no_loopback_at_all_is_an_error(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_for(monkeypatch, lambda *_: True, errno.EADDRNOTAVAIL)

    with pytest.raises(StartError, match=r"cannot listen on localhost, port 8085: "):
        opened("localhost", 8085)


@pytest.mark.rule("T14")
@needs_ipv6
def test_a_free_port_that_is_taken_on_the_other_loopback_is_passed_over(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []

    def the_first_two(family: socket.AddressFamily, _address: str, port: int) -> bool:
        if family == socket.AF_INET6 and len(refused) < 2:
            refused.append(port)
            return True
        return False

    fail_for(monkeypatch, the_first_two, errno.EADDRINUSE)

    found = opened("localhost", 0)

    assert len(refused) == 2
    assert len({port_of([sock]) for sock in found}) == 1


@pytest.mark.rule("T14")
def test_it_gives_up_when_no_port_is_free_on_both(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_for(monkeypatch, lambda family, *_: family == socket.AF_INET6, errno.EADDRINUSE)

    with pytest.raises(StartError, match="no port that is free on every address of localhost"):
        opened("localhost", 0)


@pytest.mark.parametrize("taken", ["127.0.0.1", pytest.param("::1", marks=needs_ipv6)])
def test_a_taken_port_is_named_with_a_way_out(opened: Open, taken: str) -> None:
    port = port_of(opened(taken, 0))

    with pytest.raises(StartError, match=rf"port {port} on localhost is already in use; .* --port"):
        opened("localhost", port)


def test_a_port_is_free_again_at_once(opened: Open) -> None:
    found = opened("127.0.0.1", 0)
    port = port_of(found)
    with socket.create_connection(("127.0.0.1", port), 5):
        accepted, _ = accept(found[0])
        accepted.close()
    found[0].close()

    assert port_of(opened("127.0.0.1", port)) == port


@pytest.mark.rule("B103")
@pytest.mark.parametrize("host", ["", "::"])
@needs_ipv6
def test_every_interface_means_both_families(opened: Open, host: str) -> None:
    port = port_of(opened(host, 0))

    assert answers("127.0.0.1", port)
    assert answers("::1", port)


@pytest.mark.rule("B103")
@pytest.mark.parametrize("host", ["", "::"])
def test_every_interface_is_ipv4_where_nothing_else_is(
    opened: Open, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)

    assert addresses(opened(host, 0)) == ["0.0.0.0"]


@pytest.mark.rule("B103")
@needs_ipv6
def test_the_ipv4_wildcard_is_ipv4_only(opened: Open) -> None:
    port = port_of(opened("0.0.0.0", 0))

    assert answers("127.0.0.1", port)
    assert not answers("::1", port)


@needs_ipv6
def test_an_ipv6_address_is_ipv6_only(opened: Open) -> None:
    port = port_of(opened("::1", 0))

    assert not answers("127.0.0.1", port)


def test_a_name_is_all_of_its_addresses(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ("127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_kwargs: [*rows, rows[0]])

    assert addresses(opened("some.host", 0)) == ["127.0.0.1", "127.0.0.2"]


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 300, "..", "192.0.2.1"])
def test_a_host_that_is_not_here_is_an_error_in_words(opened: Open, host: str) -> None:
    with pytest.raises(StartError, match=r"cannot listen on .*, port 8085: \S"):
        opened(host, 8085)


def fail_for(
    monkeypatch: pytest.MonkeyPatch, condition: Callable[[socket.AddressFamily, str, int], bool], code: int
) -> None:
    """Let opening fail where the condition holds, as a machine would."""
    real = sockets._open

    def open_or_fail(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
        if condition(family, address, port):
            raise OSError(code, "on purpose")
        return real(family, address, port)

    monkeypatch.setattr(sockets, "_open", open_or_fail)


def accept(listening: socket.socket) -> tuple[socket.socket, object]:
    listening.setblocking(True)
    return listening.accept()
