"""The engine and the model side by side under any sequence of calls.

Of the invariants of one message's life, (1) one place and (3) credit are in `soundness`, and (2) a lease exists before
its delivery is handed out in `ledger`. (4), the run of leases per ordering key, joins them with ordering: one more
check in `soundness`, and keys drawn in `publish`.
"""

from collections.abc import Callable
from typing import Any
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from emulator.clock import FakeClock
from emulator.engine import subscription as subscription_module
from emulator.engine.broker import Broker
from emulator.engine.values import DeliveryKind, Draft, SubscriptionSettings, TopicSettings
from emulator.errors import PubsubError
from tests.engine import soundness
from tests.engine.ledger import Ledger, Reply
from tests.engine.model import Model, Refused, Row, S, Token
from tests.engine.soundness import CountingPull

TOPICS = ["projects/p/topics/one", "projects/p/topics/two"]
SUBSCRIPTIONS = ["projects/p/subscriptions/one", "projects/p/subscriptions/two", "projects/p/subscriptions/three"]
STEPS_BEFORE_RESET = 30

GOOD, EMPTY, KEYED = Draft(b"good", {}), Draft(b"", {}), Draft(b"good", {}, ordering_key="key")

topics = st.sampled_from([TOPICS[0], TOPICS[0], *TOPICS])
subscriptions = st.sampled_from([SUBSCRIPTIONS[0], SUBSCRIPTIONS[0], *SUBSCRIPTIONS])
picks = st.lists(st.integers(0, 5), min_size=1, max_size=3)
seconds = st.sampled_from([1, 5, 10, 30, 600])
settings_drawn = st.fixed_dictionaries(
    {
        "ack_deadline": st.sampled_from([10 * S, 15 * S]),
        "retention": st.sampled_from([600 * S, 600 * S, 45 * S, 12 * S]),
        "ttl": st.sampled_from([None, None, None, None, 60 * S, 25 * S]),
        "delivery": st.sampled_from(["pull", "pull", "pull", "push_config"]),
    }
)
plain_settings: Row = {"ack_deadline": 10 * S, "retention": 600 * S, "ttl": None, "delivery": "pull"}


def engine_settings(settings: Row) -> SubscriptionSettings:
    return SubscriptionSettings(
        settings["ack_deadline"], settings["retention"], settings["ttl"], DeliveryKind(settings["delivery"])
    )


class EngineMachine(RuleBasedStateMachine):
    """Each rule makes one call on both and compares the outcome; the invariants compare all that can be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.broker = Broker(self.clock)
        self.model = Model(self.clock.now())
        self.ledger = Ledger(self.clock)
        self.steps = 0
        self.bodies: dict[int, bytes] = {}
        self.open: list[Reply] = []
        self.cancelled: list[Reply] = []
        self.written: list[Reply] = []
        self.pulls: list[CountingPull] = []
        self.ack_ids: dict[Token | None, str] = {None: "malformed"}
        self.delivered: list[tuple[str, Token]] = []
        self.patch = mock.patch.object(subscription_module, "Pull", CountingPull)
        self.patch.start()

    def teardown(self) -> None:
        self.patch.stop()

    def both(
        self, on_engine: Callable[[], Any], on_model: Callable[[], Any], tell: Callable[[], None] = lambda: None
    ) -> tuple[Any, Any]:
        """Make one call on both: they agree on its status, and a refused call changes nothing.

        `tell` runs when the call is due to succeed, before the engine makes it.
        """
        before = self.broker.dump()
        told, expected, status, due = None, None, "OK", "OK"
        try:
            expected = on_model()
        except Refused as refused:
            due = str(refused)
        else:
            tell()
        try:
            told = on_engine()
        except PubsubError as error:
            status = error.code.name
        assert status == due
        if status != "OK":
            assert self.broker.dump() == before, "a refused call changed something"
        return told, expected

    def pick(self, chosen: list[int]) -> tuple[str, list[Token | None]]:
        """A subscription's name and some of its deliveries, 0 being the newest; old ones are as welcome as live."""
        name, _ = self.delivered[-1 - chosen[0] % len(self.delivered)]
        tokens = [token for its_name, token in self.delivered if its_name == name]
        return name, [tokens[-1 - one % len(tokens)] for one in chosen]

    # Topics and subscriptions

    @initialize(first=settings_drawn)
    def begin(self, first: Row) -> None:
        self.create_topic(TOPICS[0])
        self.create_subscription(SUBSCRIPTIONS[0], TOPICS[0], {**first, "delivery": "pull"})
        self.create_subscription(SUBSCRIPTIONS[1], TOPICS[0], plain_settings)

    @rule(action=st.sampled_from(["create", "create", "delete", "recreate"]), name=topics)
    def change_topics(self, action: str, name: str) -> None:
        if action in ("delete", "recreate"):
            self.both(lambda: self.broker.delete_topic(name), lambda: self.model.delete_topic(name))
        if action in ("create", "recreate"):
            self.create_topic(name)

    @rule(
        action=st.sampled_from(["create", "create", "detach", "delete", "recreate"]),
        name=subscriptions,
        topic=topics,
        settings=settings_drawn,
    )
    def change_subscriptions(self, action: str, name: str, topic: str, settings: Row) -> None:
        if action == "detach":
            self.both(lambda: self.broker.detach_subscription(name), lambda: self.model.detach_subscription(name))
        if action in ("delete", "recreate"):
            self.both(lambda: self.broker.delete_subscription(name), lambda: self.model.delete_subscription(name))
        if action in ("create", "recreate"):
            self.create_subscription(name, topic, settings)

    @rule(name=subscriptions, settings=settings_drawn)
    def update_subscription(self, name: str, settings: Row) -> None:
        self.both(
            lambda: self.broker.subscriptions.get(name).update(engine_settings(settings)),
            lambda: self.model.update_subscription(name, settings),
        )

    def create_topic(self, name: str) -> None:
        self.both(lambda: self.broker.create_topic(name, TopicSettings()), lambda: self.model.create_topic(name))

    def create_subscription(self, name: str, topic: str, settings: Row) -> None:
        self.both(
            lambda: self.broker.create_subscription(name, self.broker.topics.get(topic), engine_settings(settings)),
            lambda: self.model.create_subscription(name, topic, settings),
        )

    @precondition(lambda self: self.steps > STEPS_BEFORE_RESET)
    @rule()
    def reset(self) -> None:
        self.both(self.broker.reset, self.model.reset)
        assert self.clock.timer_count() == 0
        self.begin(plain_settings)

    # Messages

    @rule(name=topics, count=st.integers(1, 4))
    def publish(self, name: str, count: int) -> None:
        bodies = [b"%d" % (self.model.published + place) for place in range(count)]
        numbers, expected = self.both(
            lambda: self.broker.publish(name, [Draft(body, {}) for body in bodies]),
            lambda: self.model.publish(name, bodies),
        )
        assert numbers == expected
        self.bodies.update(zip(numbers or [], bodies, strict=False))

    @rule(name=subscriptions, count=st.integers(1, 3), most=st.integers(1, 4), written=st.booleans())
    def publish_and_pull(self, name: str, count: int, most: int, written: bool) -> None:
        self.publish(TOPICS[0], count)
        self.agree()
        self.pull(name, most)
        self.agree()
        if self.written and not written:
            self.give_back(0)

    @rule(name=topics, drafts=st.sampled_from([(), (GOOD, EMPTY), (GOOD, KEYED)]))
    def publish_what_is_refused(self, name: str, drafts: tuple[Draft, ...]) -> None:
        status = "FAILED_PRECONDITION" if KEYED in drafts else "INVALID_ARGUMENT"
        self.both(lambda: self.broker.publish(name, drafts), lambda: self.model.refuse_to_publish(name, status))

    # Leases

    @rule(name=subscriptions, most=st.integers(0, 4))
    def pull(self, name: str, most: int) -> None:
        self._pull(name, most, wait=False)

    @rule(name=subscriptions, most=st.integers(1, 3), stay=st.booleans())
    def pull_and_wait(self, name: str, most: int, stay: bool) -> None:
        self._pull(name, most, wait=True)
        self.agree()
        if self.open and not stay:
            self.caller_goes_away(-1)

    def _pull(self, name: str, most: int, *, wait: bool) -> None:
        subscription = self.broker.subscriptions.find(name)
        pull, expected = self.both(
            lambda: self.broker.pull(name, most, wait=wait), lambda: self.model.pull(name, most, wait=wait)
        )
        if pull is not None:
            assert subscription is not None
            self.pulls.append(pull)
            self.open.append(Reply(subscription, pull, expected, self.ledger))

    @precondition(lambda self: self.open)
    @rule(pick=st.integers(0, 3))
    def caller_goes_away(self, pick: int) -> None:
        reply = self.open.pop(pick % len(self.open))
        self.cancelled.append(reply)
        self.both(lambda: reply.subscription.cancel(reply.pull), lambda: self.model.cancel(reply.expected))

    @precondition(lambda self: self.open or self.written)
    @rule(pick=st.integers(0, 3))
    def real_time_is_up(self, pick: int) -> None:
        replies = self.open + self.written[-1:]
        reply = replies[pick % len(replies)]
        self.both(lambda: reply.subscription.hurry(reply.pull), lambda: self.model.hurry(reply.expected))

    @precondition(lambda self: self.written)
    @rule(pick=st.integers(0, 3))
    def give_back(self, pick: int) -> None:
        reply = self.written[-1 - pick % len(self.written)]
        tokens: list[Token] = reply.expected["got"]
        self.both(
            lambda: reply.subscription.give_back(reply.leases),
            lambda: self.model.give_back(tokens),
            lambda: self.ledger.moved(tokens, self.clock.now()),
        )

    @precondition(lambda self: self.delivered)
    @rule(chosen=picks)
    def acknowledge(self, chosen: list[int]) -> None:
        self._acknowledge(*self.pick(chosen))

    @precondition(lambda self: self.delivered)
    @rule(chosen=picks, most=st.integers(0, 3))
    def nack_and_pull_again(self, chosen: list[int], most: int) -> None:
        name, tokens = self.pick(chosen)
        self._modify(name, tokens, 0)
        self.agree()
        if most:
            self.pull(name, most)

    @precondition(lambda self: self.delivered)
    @rule(chosen=picks, seconds=seconds)
    def extend(self, chosen: list[int], seconds: int) -> None:
        self._modify(*self.pick(chosen), seconds)

    @precondition(lambda self: self.outdated())
    @rule(pick=st.integers(0, 3), seconds=st.sampled_from([None, None, 0, 30]))
    def name_an_outdated_delivery(self, pick: int, seconds: int | None) -> None:
        outdated = self.outdated()
        name, token = outdated[-1 - pick % len(outdated)]
        self._acknowledge_or_modify(name, [token], seconds)

    def outdated(self) -> list[tuple[str, Token]]:
        """Deliveries whose message has been handed out again since."""
        newest = {token[:2]: token for _, token in self.delivered}
        return [(name, token) for name, token in self.delivered if newest[token[:2]] != token]

    @precondition(lambda self: self.delivered)
    @rule(
        name=subscriptions,
        kind=st.sampled_from(["any subscription's", "malformed", "none"]),
        chosen=picks,
        seconds=st.sampled_from([None, 0, 10, -1, 601]),
    )
    def name_what_may_be_refused(self, name: str, kind: str, chosen: list[int], seconds: int | None) -> None:
        _, tokens = self.pick(chosen)
        if kind == "malformed":
            tokens.append(None)
        self._acknowledge_or_modify(name, [] if kind == "none" else tokens, seconds)

    def _acknowledge_or_modify(self, name: str, tokens: list[Token | None], seconds: int | None) -> None:
        if seconds is None:
            self._acknowledge(name, tokens)
        else:
            self._modify(name, tokens, seconds)

    def _acknowledge(self, name: str, tokens: list[Token | None]) -> None:
        ack_ids = [self.ack_ids[token] for token in tokens]
        self.both(
            lambda: self.broker.acknowledge(name, ack_ids),
            lambda: self.model.acknowledge(name, tokens),
            lambda: self.ledger.acknowledged(self._own(name, tokens)),
        )

    def _modify(self, name: str, tokens: list[Token | None], seconds: int) -> None:
        ack_ids = [self.ack_ids[token] for token in tokens]
        self.both(
            lambda: self.broker.modify_ack_deadline(name, ack_ids, seconds),
            lambda: self.model.modify_ack_deadline(name, tokens, seconds),
            lambda: self.ledger.moved(self._own(name, tokens), self.clock.now() + seconds * S),
        )

    def _own(self, name: str, tokens: list[Token | None]) -> list[Token]:
        number = self.model.subscriptions[name]["number"]
        return [token for token in tokens if token is not None and token[0] == number]

    # Time

    @rule(name=subscriptions, most=st.integers(1, 4))
    def let_leases_end_and_pull(self, name: str, most: int) -> None:
        self.advance(15)
        self.agree()
        self.pull(name, most)

    @rule(seconds=st.sampled_from([0, 1, 3, 5, 7, 10, 11, 20, 50, 700]))
    def advance(self, seconds: int) -> None:
        self._advance(seconds * S)

    @rule(shift=st.sampled_from([-1, 0, 1, 123_456_789]))
    def advance_to_what_comes_next(self, shift: int) -> None:
        due = self.model.next_event()
        self._advance(max(0, (due or self.model.now) - self.model.now + shift))

    def _advance(self, amount: int) -> None:
        self.both(lambda: self.clock.advance_ns(amount), lambda: self.model.advance(amount))

    # What has to hold after every step

    @invariant()
    def agree(self) -> None:
        self.steps += 1
        self._settle()
        assert self.seen() == self.model.view()
        soundness.check(self.broker, self.clock, self.pulls)
        due, aimed = self.model.next_event(), self.clock.next_due()
        assert due is None or (aimed is not None and aimed <= due), "nothing wakes the engine in time"

    def _settle(self) -> None:
        """Compare the Pulls that have ended, and remember what they delivered."""
        for reply in self.open:
            assert reply.pull.done is reply.expected["done"]
            assert reply.times == reply.pull.done
            assert (reply.pull.error and reply.pull.error.code.name) == reply.expected["error"]
            tokens: list[Token] = reply.expected["got"]
            assert reply.tokens == tokens
            assert reply.bodies == [self.bodies[number] for _, number, _ in tokens]
            self.delivered += [(reply.subscription.name, token) for token in tokens]
            for token, ack_id in zip(tokens, reply.ack_ids, strict=True):
                assert ack_id not in self.ack_ids.values()
                self.ack_ids[token] = ack_id
        self.written += [reply for reply in self.open if reply.leases]
        self.open = [reply for reply in self.open if not reply.pull.done]
        assert not any(reply.times for reply in self.cancelled), "a Pull was answered after its caller had left"

    def seen(self) -> Row:
        """What the engine shows, in the words of the model's view."""
        dump: Any = self.broker.dump()
        return {
            "published": dump["messages"],
            "topics": {name: listed for name, (_, listed) in dump["topics"].items()},
            "subscriptions": {
                name: {
                    "topic": sub["topic"],
                    "detached": sub["detached"],
                    "ack_deadline": sub["settings"].ack_deadline,
                    "retention": sub["settings"].retention,
                    "ttl": sub["settings"].expiration_ttl,
                    "delivery": sub["settings"].delivery.value,
                    "messages": {
                        number: (failures, lease and lease[1]) for number, _, failures, lease in sub["messages"]
                    },
                }
                for name, sub in dump["subscriptions"].items()
            },
            "waiting_pulls": self.broker.counts()["waiting_pulls"],
        }
