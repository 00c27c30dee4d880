"""Why the command could not start."""

from emulator.errors.base import show


class UsageError(Exception):
    """What the user asked for cannot be understood."""


class StartError(Exception):
    """The server cannot start where it was told to."""


def bad_option(source: str, value: str, problem: str) -> UsageError:
    return UsageError(f"{source}: {show(value)!r} {problem}")


def port_unknown() -> UsageError:
    return UsageError("port 0 stands for whichever port was free; say which, or give the --port-file of the server")


def port_taken(host: str, port: int) -> StartError:
    return StartError(
        f"port {port} on {host or 'every interface'} is already in use; "
        "stop what listens there, or choose another with --port (0 takes a free one)"
    )


def cannot_listen(host: str, port: int, reason: str) -> StartError:
    return StartError(f"cannot listen on {host or 'every interface'}, port {port}: {reason}")


def no_common_port(host: str) -> StartError:
    return StartError(f"found no port that is free on every address of {host}; choose one with --port")


def cannot_write_port_file(path: str, reason: str) -> StartError:
    return StartError(f"cannot write the port to {path}: {reason}")
