"""What the machine writes down about deliveries, to check each at the moment when it is handed out."""

from emulator.clock import FakeClock
from emulator.engine.entries import Lease, Place
from emulator.engine.subscription import Subscription
from tests.engine.model import Row, Token
from tests.engine.soundness import CountingPull


class Ledger:
    """Every delivery that was made: nothing acknowledged comes back, and nothing before its lease has ended."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.acked: set[tuple[int, int]] = set()
        self.held: dict[tuple[int, int], tuple[int, int]] = {}

    def delivered(self, token: Token, until: int) -> None:
        subscription, message, lease = token
        assert (subscription, message) not in self.acked, "acknowledged, and came back"
        _, former = self.held.get((subscription, message), (0, 0))
        assert former <= self.clock.now(), "came back before its lease had ended"
        self.held[subscription, message] = (lease, until)

    def acknowledged(self, tokens: list[Token]) -> None:
        self.acked |= {(subscription, message) for subscription, message, _ in tokens}

    def moved(self, tokens: list[Token], until: int) -> None:
        """The deadlines were changed; `until` is now when the deliveries were nacked or given back."""
        for subscription, message, lease in tokens:
            newest, former = self.held[subscription, message]
            if lease == newest and former > self.clock.now():
                self.held[subscription, message] = (lease, until)


class Reply:
    """A Pull of the engine, the model's Pull beside it, and what came out.

    Invariant 2: when a delivery is handed out, its lease exists.
    """

    def __init__(self, subscription: Subscription, pull: CountingPull, expected: Row, ledger: Ledger) -> None:
        self.subscription = subscription
        self.pull = pull
        self.expected = expected
        self.ledger = ledger
        self.leases: list[Lease] = []
        self.ack_ids: list[str] = []
        self.tokens: list[Token] = []
        self.bodies: list[bytes] = []
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
            token = (self.subscription.number, lease.entry.message.number, lease.number)
            self.leases.append(lease)
            self.ack_ids.append(self.subscription.ack_id(lease))
            self.tokens.append(token)
            self.bodies.append(lease.entry.message.data)
            self.ledger.delivered(token, lease.due)
