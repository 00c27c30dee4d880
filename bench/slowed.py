"""`python -m bench.slowed publish=0.2,stream=1 OPTION …`: this server with delays in it, to see whether the tool does.

Each kind of work then keeps the server busy so many milliseconds longer: for each request of its kind, for each message
that a stream delivers, for each time that a subscription's alarm rings.
"""

import functools
import importlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

START: Final = "start"

# Kind of work → the method that does it once, as module, class, name.
_METHODS: Final[Mapping[str, tuple[str, str, str]]] = MappingProxyType(
    {
        "publish": ("emulator.engine.broker", "Broker", "publish"),
        "pull": ("emulator.engine.broker", "Broker", "pull"),
        "ack": ("emulator.engine.broker", "Broker", "acknowledge"),
        "nack": ("emulator.engine.broker", "Broker", "modify_ack_deadline"),
        "stream": ("emulator.api.streaming_pull", "StreamingPull", "deliver"),
        "expiry": ("emulator.engine.subscription", "Subscription", "_ring"),
        "topic": ("emulator.engine.broker", "Broker", "create_topic"),
        "seek": ("emulator.engine.subscription", "Subscription", "seek_to_time"),
        "rest": ("emulator.wire.rest", "Rest", "handle"),
    }
)

# Its argument is a list of what it does: the delay is for each of them.
_FOR_EACH: Final = "stream"

KINDS: Final = (START, *_METHODS)


def parse(text: str) -> Mapping[str, float]:
    """`publish=0.2,start=500` as kinds and milliseconds. Raises ValueError."""
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        kind, _, milliseconds = part.partition("=")
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no kind of work; there are {', '.join(KINDS)}")
        found[kind] = float(milliseconds)
    return found


def slow_down(delays: Mapping[str, float]) -> None:
    """Delay these kinds of work in this process, by milliseconds; the start is delayed here and now."""
    for kind, milliseconds in delays.items():
        if kind == START:
            _be_busy(milliseconds)
        else:
            module, owner, name = _METHODS[kind]
            _delay(getattr(importlib.import_module(module), owner), name, milliseconds, for_each=kind == _FOR_EACH)


def _delay(owner: type, name: str, milliseconds: float, *, for_each: bool) -> None:
    method: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(method)
    def delayed(*arguments: Any, **options: Any) -> Any:
        _be_busy(milliseconds * len(arguments[1]) if for_each else milliseconds)
        return method(*arguments, **options)

    setattr(owner, name, delayed)


def _be_busy(milliseconds: float) -> None:
    # Not asleep: sleeping is coarse, and slow code doesn't sleep either.
    until = time.perf_counter_ns() + round(milliseconds * 1e6)
    while time.perf_counter_ns() < until:
        pass


def main(argv: Sequence[str]) -> int:
    slow_down(parse(argv[0]))
    from emulator.cli import main as serve

    return serve(argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
