"""What the machine writes down about deliveries, to check each at the moment when it is handed out."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

from emulator.engine import subscription as subscription_module
from emulator.engine.entries import Consumer, Entry, Lease, Place
from emulator.engine.holdings import Holdings
from emulator.engine.subscription import Subscription
from emulator.errors import PubsubError
from tests.engine.helpers import World
from tests.engine.letters import Content
from tests.engine.rows import Handout, Row, Token, Turn
from tests.engine.soundness import CountingPull
from tests.engine.streams import Reader


class Ledger:
    """Every delivery that was made: what an ack has ended never comes back.

    While it is open, `turns` notes who was given what: first what the last call led to, then what each timer did.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.acked: set[tuple[int, int]] = set()
        self.turns: list[Turn] = []
        self._patches = ExitStack()

    def open(self) -> None:
        grant, ring = Holdings.grant, Subscription._ring

        def granted(holdings: Holdings, entry: Entry, consumer: Consumer, now: int) -> Lease:
            lease = grant(holdings, entry, consumer, now)
            subscription = self._world.subscription(holdings._name)
            self.turns[-1].handouts.append(_handout(subscription.number, entry, lease))
            return lease

        def rang(subscription: Subscription) -> None:
            self.turns.append(Turn(subscription.number, self._world.clock.now(), []))
            ring(subscription)

        for owner, name, replacement in (
            (Holdings, "grant", granted),
            (Subscription, "_ring", rang),
            (subscription_module, "Pull", CountingPull),
        ):
            self._patches.enter_context(mock.patch.object(owner, name, replacement))
        self.call()

    def close(self) -> None:
        self._patches.close()

    def call(self) -> None:
        """A call begins."""
        self.turns = [Turn(0, self._world.clock.now(), [])]

    @property
    def handouts(self) -> list[Handout]:
        """All of the last call."""
        return [handout for turn in self.turns for handout in turn.handouts]

    def check(self) -> None:
        for handout in self.handouts:
            assert (handout.subscription, handout.message) not in self.acked, "acknowledged, and came back"

    def acknowledged(self, tokens: list[Token], settings: Row) -> None:
        """These acks were accepted. With ordering and without exactly-once they may be undone (service.md §9.4)."""
        if settings["exactly_once"] or not settings["ordered"]:
            self.acked |= {(subscription, message) for subscription, message, _ in tokens}


def _handout(subscription: int, entry: Entry, lease: Lease) -> Handout:
    message = entry.message
    content = Content(message.data, dict(message.attributes), message.ordering_key)
    return Handout(subscription, message.number, lease.number, lease.due, lease.consumer, content, message.size)


class Reply:
    """A Pull of the engine, the model's Pull beside it, and what came out.

    Invariant 2: when a delivery is handed out, its lease exists.
    """

    def __init__(self, subscription: Subscription, pull: CountingPull, expected: Row) -> None:
        self.subscription = subscription
        self.pull = pull
        self.expected = expected
        self.leases: list[Lease] = []
        self.ack_ids: list[str] = []
        self.tokens: list[Token] = []
        self.times = 0
        if pull.done:
            self.hand_over()
        else:
            pull.on_done = self.hand_over

    def hand_over(self) -> None:
        self.times += 1
        for lease in self.pull.hand_over():
            assert lease.entry is not None, "handed out without a lease"
            assert lease.entry.lease is lease, "handed out with a lease that its message doesn't know"
            assert lease.entry.place is Place.LEASED
            self.leases.append(lease)
            self.ack_ids.append(self.subscription.ack_id(lease))
            self.tokens.append((self.subscription.number, lease.entry.message.number, lease.number))


class Tap:
    """A stream of the engine and the model's beside it."""

    def __init__(self, subscription: Subscription, reader: Reader, expected: Row) -> None:
        self.subscription = subscription
        self.reader = reader
        self.expected = expected

    def read(self) -> list[tuple[Token, str]]:
        """Let everything leave; what that was, each with its ack id."""
        before = len(self.reader.deliveries)
        self.reader.read()
        return [
            ((self.subscription.number, delivery.number, delivery.lease.number), delivery.ack_id)
            for delivery in self.reader.deliveries[before:]
        ]

    def close(self) -> None:
        self.reader.close()


def run(on_engine: Callable[[], Any]) -> Any:
    """Call the engine: what it raises is meant for users, or a fault."""
    try:
        return on_engine()
    except (PubsubError, AssertionError):
        raise
    except Exception as error:
        raise AssertionError(f"the engine failed: {error!r}") from error
