"""Sockets to listen on: one port on every address that a host stands for."""

import errno
import socket
import sys

from emulator.errors import starting as starting_errors

# A burst of clients waits here while the loop is busy; the system may cut it (net.core.somaxconn).
BACKLOG = 4_096

_ATTEMPTS = 20
_UNAVAILABLE = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})

_Target = tuple[socket.AddressFamily, str]


def open_sockets(host: str, port: int) -> list[socket.socket]:
    """Listening sockets on every address of `host`, with one port on all of them (clients.md T14).

    host: a name or an address; "" and "::" are every interface, IPv4 included; "localhost" is both loopbacks, of which
    one may be missing. port: 0 takes one that is free everywhere. Raises StartError.
    """
    targets = _targets(host, port)
    for _ in range(_ATTEMPTS):
        try:
            return _open_all(targets, port)
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise starting_errors.cannot_listen(host, port, problem.strerror or str(problem)) from None
            if port:
                raise starting_errors.port_taken(host, port) from None
    raise starting_errors.no_common_port(host)


def port_of(sockets: list[socket.socket]) -> int:
    port: int = sockets[0].getsockname()[1]
    return port


def _targets(host: str, port: int) -> list[_Target]:
    if host == "localhost":
        return [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
    if host in ("", "::"):
        return [(socket.AF_INET6, "::")] if socket.has_dualstack_ipv6() else [(socket.AF_INET, "0.0.0.0")]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as problem:
        raise starting_errors.cannot_listen(
            host, port, getattr(problem, "strerror", None) or "not a host name"
        ) from None
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _open_all(targets: list[_Target], port: int) -> list[socket.socket]:
    """Sockets for all targets that this machine has; raises OSError, with nothing left open."""
    opened: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, address in targets:
            try:
                opened.append(_open(family, address, port))
            except OSError as problem:
                if problem.errno not in _UNAVAILABLE:
                    raise
                missing = problem
            else:
                port = port_of(opened)
        if missing is not None and not opened:
            raise missing
    except OSError:
        for each in opened:
            each.close()
        raise
    return opened


def _open(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":
            # A server that has just stopped must not keep the port from the next one (field report B113).
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address != "::"))
        sock.bind((address, port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
