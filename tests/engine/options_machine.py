"""The engine and the model side by side under any sequence of the calls that matter to a subscription's options.

Of the invariants of one message's life, (1) one place, (3) credit and (4) the run of leases per ordering key are in
`soundness`, and (2) a lease exists before its delivery is handed out in `ledger`.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from emulator.engine.values import Draft, TopicSettings
from emulator.errors import PubsubError
from tests.engine import draws, soundness
from tests.engine.draws import SUBSCRIPTIONS, TOPICS, engine_settings, picks, plain_settings, subscriptions, topics
from tests.engine.helpers import World
from tests.engine.ledger import Ledger, Reply, Tap, run
from tests.engine.letters import Content
from tests.engine.model import Model, Refused, S
from tests.engine.rows import Row, Token
from tests.engine.streams import Reader

MOST_STREAMS = 3


class OptionsMachine(RuleBasedStateMachine):
    """Each rule makes one call on both and compares the outcome; the invariants compare all that can be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.clock = self.world.clock
        self.broker = self.world.broker
        self.model = Model(self.clock.now())
        self.ledger = Ledger(self.world)
        self.steps = 0
        self.answer: tuple[str, dict[str, str]] = "OK", {}
        self.open: list[Reply] = []
        self.cancelled: list[Reply] = []
        self.written: list[Reply] = []
        self.taps: list[Tap] = []
        self.pulls: list[soundness.CountingPull] = []
        self.ack_ids: dict[Token | None, str] = {None: "malformed"}
        self.delivered: list[tuple[str, Token]] = []
        self.ledger.open()

    def teardown(self) -> None:
        self.ledger.close()

    def both(self, on_engine: Callable[[], Any], on_model: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Make one call on both: they agree on its status, and a refused call changes nothing.

        The model is told what the engine answered. Under exactly-once they agree on the ids that were refused.
        """
        before = self.broker.dump()
        self.ledger.call()
        told, expected, status, due = None, None, "OK", "OK"
        codes: dict[str, str] = {}
        due_codes: dict[str, str] = {}
        try:
            told = run(on_engine)
        except PubsubError as error:
            status, codes = error.code.name, dict(error.metadata)
        try:
            expected = on_model(told)
        except Refused as refused:
            due, due_codes = str(refused), {self.ack_ids[token]: code for token, code in refused.codes.items()}
        assert (status, codes) == (due, due_codes)
        self.answer = status, codes
        if status != "OK" and not codes:
            assert self.broker.dump() == before, "a refused call changed something"
        self.ledger.check()
        self.model.settle(self.ledger.handouts)
        return told, expected

    def pick(self, chosen: list[int]) -> tuple[str, list[Token | None]]:
        """A subscription's name and some of its deliveries, 0 being the newest; old ones are as welcome as live."""
        name, _ = self.delivered[-1 - chosen[0] % len(self.delivered)]
        tokens = [token for its_name, token in self.delivered if its_name == name]
        return name, [tokens[-1 - one % len(tokens)] for one in chosen]

    # Topics and subscriptions

    @initialize(first=draws.options_drawn, second=draws.options_drawn, third=draws.options_drawn)
    def begin(self, first: Row, second: Row, third: Row) -> None:
        self.create_topic(TOPICS[0])
        self.create_topic(TOPICS[1])
        self.create_subscription(SUBSCRIPTIONS[0], TOPICS[0], {**first, "delivery": "pull", "filter": None})
        self.create_subscription(SUBSCRIPTIONS[1], TOPICS[0], second)
        self.create_subscription(SUBSCRIPTIONS[2], TOPICS[1], third)

    @rule(action=st.sampled_from(["create", "create", "delete", "recreate"]), name=topics)
    def change_topics(self, action: str, name: str) -> None:
        if action in ("delete", "recreate"):
            self.both(lambda: self.broker.delete_topic(name), lambda _: self.model.delete_topic(name))
        if action in ("create", "recreate"):
            self.create_topic(name)

    @rule(name=subscriptions, settings=draws.options_changed)
    def update_subscription(self, name: str, settings: Row) -> None:
        self._update(name, settings)

    def _update(self, name: str, settings: Row) -> None:
        sub = self.model.subscriptions.get(name, plain_settings)
        kept = {"ordered": sub["ordered"], "filter": sub["filter"]}
        self.both(
            lambda: self.broker.subscriptions.get(name).update(engine_settings({**settings, **kept})),
            lambda _: self.model.update_subscription(name, settings),
        )

    def create_topic(self, name: str) -> None:
        self.both(lambda: self.broker.create_topic(name, TopicSettings()), lambda _: self.model.create_topic(name))

    def create_subscription(self, name: str, topic: str, settings: Row) -> None:
        self.both(
            lambda: self.broker.create_subscription(name, self.broker.topics.get(topic), engine_settings(settings)),
            lambda _: self.model.create_subscription(name, topic, settings),
        )

    # Messages

    @rule(name=topics, count=st.integers(1, 4), key=draws.keys, color=draws.colors)
    def publish(self, name: str, count: int, key: str, color: str) -> None:
        attributes = {"color": color} if color else {}
        contents = [Content(b"%d" % (self.model.published + place), attributes, key) for place in range(count)]
        numbers, expected = self.both(
            lambda: self.broker.publish(name, [Draft(*content, size=len(content.body)) for content in contents]),
            lambda _: self.model.publish(name, contents),
        )
        assert numbers == expected

    @rule(name=subscriptions, count=st.integers(1, 3), key=draws.keys, most=st.integers(1, 4), written=st.booleans())
    def publish_and_pull(self, name: str, count: int, key: str, most: int, written: bool) -> None:
        self.publish(TOPICS[0], count, key, "")
        self.agree()
        self.pull(name, most)
        self.agree()
        if self.written and not written:
            self.give_back(0)

    # Pulls

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
            lambda: self.broker.pull(name, most, wait=wait), lambda pull: self.model.pull(name, most, pull)
        )
        if pull is not None:
            assert subscription is not None
            if not wait:
                self.model.stop_pull(expected, answered=True)
            self.pulls.append(pull)
            self.open.append(Reply(subscription, pull, expected))

    @precondition(lambda self: self.open)
    @rule(pick=st.integers(0, 3))
    def caller_goes_away(self, pick: int) -> None:
        reply = self.open.pop(pick % len(self.open))
        self.cancelled.append(reply)
        self.both(
            lambda: reply.subscription.cancel(reply.pull),
            lambda _: self.model.stop_pull(reply.expected, answered=False),
        )

    @precondition(lambda self: self.written)
    @rule(pick=st.integers(0, 3))
    def give_back(self, pick: int) -> None:
        reply = self.written[-1 - pick % len(self.written)]
        self.both(
            lambda: reply.subscription.give_back(reply.leases), lambda _: self.model.give_back(reply.expected["got"])
        )

    # Streams

    @precondition(lambda self: len(self.taps) < MOST_STREAMS)
    @rule(
        name=subscriptions,
        deadline=st.sampled_from([10, 10, 20]),
        messages=st.sampled_from([0, 1, 1, 2, 3]),
        max_bytes=st.sampled_from([0, 0, 0, 40, 100]),
        twice=st.booleans(),
    )
    def open_stream(self, name: str, deadline: int, messages: int, max_bytes: int, twice: bool) -> None:
        for _ in range(1 + twice):
            self._open_stream(name, deadline, messages, max_bytes)

    def _open_stream(self, name: str, deadline: int, messages: int, max_bytes: int) -> None:
        reader, expected = self.both(
            lambda: Reader(self.world, messages=messages, max_bytes=max_bytes, deadline=deadline, name=name),
            lambda reader: self.model.open_stream(name, reader and reader.stream, deadline * S, messages, max_bytes),
        )
        if reader is not None:
            self.taps.append(Tap(self.broker.subscriptions.get(name), reader, expected))

    @precondition(lambda self: self.taps)
    @rule(pick=st.integers(0, 2))
    def read(self, pick: int) -> None:
        self._read(self.taps[pick % len(self.taps)])

    @precondition(lambda self: self.taps)
    @rule(count=st.integers(1, 3), key=draws.keys)
    def publish_and_read(self, count: int, key: str) -> None:
        self.publish(TOPICS[0], count, key, "")
        self.agree()
        for tap in self.taps:
            self._read(tap)

    def _read(self, tap: Tap) -> None:
        read, expected = self.both(tap.read, lambda _: self.model.write(tap.expected))
        assert [token for token, _ in read] == expected
        for token, ack_id in read:
            self._note(tap.subscription.name, token, ack_id)

    @precondition(lambda self: self.taps)
    @rule(pick=st.integers(0, 2))
    def close_stream(self, pick: int) -> None:
        tap = self.taps.pop(pick % len(self.taps))
        self.both(tap.close, lambda _: self.model.close_stream(tap.expected))

    # Leases

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

    @rule(name=subscriptions, most=st.integers(1, 3), times=st.integers(1, 3), wait=st.sampled_from([0, 3]))
    def fail_again_and_again(self, name: str, most: int, times: int, wait: int) -> None:
        for _ in range(times):
            before = len(self.delivered)
            self.pull(name, most)
            self.agree()
            if self.delivered[before:]:
                self._modify(name, [token for _, token in self.delivered[before:]], 0)
                self.agree()
                self.advance(wait)
                self.agree()

    @rule(name=subscriptions, count=st.integers(2, 4), key=draws.keys, work=draws.work)
    def publish_pull_and_work(self, name: str, count: int, key: str, work: list[tuple[str, list[int]]]) -> None:
        """What a client does with one reply: each step concerns some of its messages."""
        self.publish(TOPICS[0], count, key, "")
        self.agree()
        before = len(self.delivered)
        self.pull(name, 4)
        self.agree()
        got = [token for _, token in self.delivered[before:]]
        for action, chosen in work if got else []:
            tokens: list[Token | None] = [got[one % len(got)] for one in chosen]
            if action == "wait":
                self.advance(10)
            else:
                self._acknowledge_or_modify(name, tokens, {"ack": None, "nack": 0, "extend": 5}[action])
            self.agree()

    @precondition(lambda self: self.delivered)
    @rule(chosen=picks, seconds=draws.seconds)
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

    def _acknowledge_or_modify(self, name: str, tokens: list[Token | None], seconds: int | None) -> None:
        if seconds is None:
            self._acknowledge(name, tokens)
        else:
            self._modify(name, tokens, seconds)

    def _acknowledge(self, name: str, tokens: list[Token | None]) -> None:
        ack_ids = [self.ack_ids[token] for token in tokens]
        self.both(
            lambda: self.broker.acknowledge(name, ack_ids),
            lambda _: self.model.acknowledge(name, tokens),
        )
        status, codes = self.answer
        if status == "OK" or codes:
            sub = self.model.subscriptions[name]
            named = [token for token in tokens if token is not None and token[0] == sub["number"]]
            self.ledger.acknowledged([token for token in named if self.ack_ids[token] not in codes], sub)

    def _modify(self, name: str, tokens: list[Token | None], seconds: int) -> None:
        ack_ids = [self.ack_ids[token] for token in tokens]
        self.both(
            lambda: self.broker.modify_ack_deadline(name, ack_ids, seconds),
            lambda _: self.model.modify_ack_deadline(name, tokens, seconds),
        )

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
        self.ledger.call()
        run(lambda: self.clock.advance_ns(amount))
        self.ledger.check()
        self.model.advance(amount, self.ledger.turns[1:])

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
        """Compare the Pulls and streams that have ended, and remember what Pulls delivered."""
        for reply in self.open:
            assert reply.pull.done is reply.expected["done"]
            assert reply.times == reply.pull.done
            assert (reply.pull.error and reply.pull.error.code.name) == reply.expected["error"]
            assert reply.tokens == reply.expected["got"]
            for token, ack_id in zip(reply.tokens, reply.ack_ids, strict=True):
                self._note(reply.subscription.name, token, ack_id)
        self.written += [reply for reply in self.open if reply.leases]
        self.open = [reply for reply in self.open if not reply.pull.done]
        assert not any(reply.times for reply in self.cancelled), "a Pull was answered after its caller had left"
        for tap in self.taps:
            errors = [tap.expected["error"]] if tap.expected["error"] else []
            assert [error.code.name for error in tap.reader.errors] == errors
        self.taps = [tap for tap in self.taps if not tap.reader.errors]

    def _note(self, name: str, token: Token, ack_id: str) -> None:
        assert ack_id not in self.ack_ids.values()
        self.ack_ids[token] = ack_id
        self.delivered.append((name, token))

    def seen(self) -> Row:
        """What the engine shows, in the words of the model's view."""
        dump: Any = self.broker.dump()
        counts = self.broker.counts()
        return {
            "published": dump["messages"],
            "topics": {name: listed for name, (_, listed) in dump["topics"].items()},
            "subscriptions": {
                name: {
                    "topic": sub["topic"],
                    "detached": sub["detached"],
                    "messages": {
                        number: ("waiting" if place == "behind" else place, failures, lease and lease[1])
                        for number, place, failures, lease in sub["messages"]
                    },
                }
                for name, sub in dump["subscriptions"].items()
            },
            "waiting_pulls": counts["waiting_pulls"],
            "pull_streams": counts["pull_streams"],
        }
