"""The engine and the model side by side under any sequence of calls."""

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from emulator.engine.values import Draft
from tests.engine import draws
from tests.engine.draws import picks, plain_settings, subscriptions, topics
from tests.engine.ledger import Tap
from tests.engine.options_machine import OptionsMachine
from tests.engine.rows import Row

STEPS_BEFORE_RESET = 30


class EngineMachine(OptionsMachine):
    """Subscriptions come and go too, and calls are refused."""

    @initialize(first=draws.settings_drawn, second=st.just(plain_settings), third=draws.settings_drawn)
    def begin(self, first: Row, second: Row, third: Row) -> None:
        super().begin(first, second, third)

    @rule(name=subscriptions, settings=draws.settings_changed)
    def update_subscription(self, name: str, settings: Row) -> None:
        self._update(name, settings)

    @rule(
        action=st.sampled_from(["create", "create", "detach", "delete", "recreate", "recreate"]),
        name=subscriptions,
        topic=topics,
        settings=draws.settings_drawn,
    )
    def change_subscriptions(self, action: str, name: str, topic: str, settings: Row) -> None:
        if action == "detach":
            self.both(lambda: self.broker.detach_subscription(name), lambda _: self.model.detach_subscription(name))
        if action in ("delete", "recreate"):
            self.both(lambda: self.broker.delete_subscription(name), lambda _: self.model.delete_subscription(name))
        if action in ("create", "recreate"):
            self.create_subscription(name, topic, settings)

    @precondition(lambda self: self.steps > STEPS_BEFORE_RESET)
    @rule()
    def reset(self) -> None:
        self.both(self.broker.reset, lambda _: self.model.reset())
        assert self.clock.timer_count() == 0
        self.begin(plain_settings, plain_settings, plain_settings)

    @rule(name=topics, drafts=st.sampled_from([(), (draws.GOOD, draws.EMPTY), (draws.GOOD, draws.KEYED)]))
    def publish_what_is_refused(self, name: str, drafts: tuple[Draft, ...]) -> None:
        status = "FAILED_PRECONDITION" if draws.KEYED in drafts else "INVALID_ARGUMENT"
        self.both(lambda: self.broker.publish(name, drafts), lambda _: self.model.refuse_to_publish(name, status))

    @precondition(lambda self: self.open or self.written)
    @rule(pick=st.integers(0, 3))
    def real_time_is_up(self, pick: int) -> None:
        replies = self.open + self.written[-1:]
        reply = replies[pick % len(replies)]
        self.both(
            lambda: reply.subscription.hurry(reply.pull), lambda _: self.model.stop_pull(reply.expected, answered=True)
        )

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

    @precondition(lambda self: len(self.taps) > 1)
    @rule()
    def a_connection_with_all_streams_breaks(self) -> None:
        taps, self.taps = self.taps, []

        def on_model() -> None:
            for tap in taps:
                self.model.close_stream(tap.expected)

        self.both(lambda: break_off(taps), lambda _: on_model())


def break_off(taps: Sequence[Tap]) -> None:
    """Nothing may go from one of them to another."""
    for tap in taps:
        tap.subscription.stop_stream(tap.reader.stream)
    for tap in taps:
        tap.subscription.take_back(tap.reader.stream.close())
    for subscription in dict.fromkeys(tap.subscription for tap in taps):
        subscription.give_back(())
