"""The load generators written in C: finds them, and installs those that are missing where that is allowed."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

# Which package of Debian and its relatives holds which program.
PACKAGES: Final[Mapping[str, str]] = MappingProxyType(
    {"h2load": "nghttp2-client", "nghttpd": "nghttp2-server", "wrk": "wrk"}
)

GENERATOR_LIMITS: Final = "the generator, in Python, is the limit"

_APT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs' paths, None for those that are not there."""

    h2load: str | None = None
    nghttpd: str | None = None
    wrk: str | None = None


def find() -> Tools:
    return Tools(**{name: shutil.which(name) for name in PACKAGES})


def ensure() -> Tools:
    """Install what is missing, if this user may; whether that works or not, say what there is."""
    missing = [package for name, package in PACKAGES.items() if shutil.which(name) is None]
    root = _as_root()
    if missing and root is not None and shutil.which("apt-get"):
        print(f"installing {', '.join(missing)}", flush=True)
        _install(root, missing)
    return find()


def _as_root() -> Sequence[str] | None:
    """What to put before a command to run it as root, or None."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return ()
    if shutil.which("sudo") and _runs(["sudo", "-n", "true"]):
        return ("sudo", "-n")
    return None


def _install(root: Sequence[str], packages: Sequence[str]) -> None:
    install = [*root, "apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if not _runs(install) and _runs([*root, "apt-get", "update"]):
        _runs(install)


def _runs(command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_APT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
