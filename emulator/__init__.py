"""A local server for Google Cloud Pub/Sub."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.clock import FakeClock
    from emulator.in_process import Emulator

__all__ = ["Emulator", "FakeClock", "__version__"]

__version__ = "0.1.0"

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # Late, since every run of pytest and every `pubsub-emulator version` imports this package and few need more.
        if name == "Emulator":
            from emulator.in_process import Emulator

            return Emulator
        if name == "FakeClock":
            from emulator.clock import FakeClock

            return FakeClock
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
