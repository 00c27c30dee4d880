"""What the machine draws: names, settings, messages, times."""

from hypothesis import strategies as st

from emulator.engine.filters import parse
from emulator.engine.values import DeadLetterPolicy, DeliveryKind, Draft, RetryPolicy, SubscriptionSettings
from tests.engine.letters import NOT_RED, RED
from tests.engine.model import S
from tests.engine.rows import Row

TOPICS = ["projects/p/topics/one", "projects/p/topics/two"]
SUBSCRIPTIONS = ["projects/p/subscriptions/one", "projects/p/subscriptions/two", "projects/p/subscriptions/three"]

FILTER_MAX_BYTES = 256

GOOD, EMPTY, KEYED = Draft(b"good", {}), Draft(b"", {}), Draft(b"good", {}, ordering_key="key")

topics = st.sampled_from([TOPICS[0], TOPICS[0], *TOPICS])
subscriptions = st.sampled_from([SUBSCRIPTIONS[0], SUBSCRIPTIONS[0], *SUBSCRIPTIONS])
picks = st.lists(st.integers(0, 5), min_size=1, max_size=3)
steps = st.tuples(
    st.sampled_from(["ack", "ack", "nack", "nack", "extend", "wait"]),
    st.sampled_from([[0], [1], [2], [1, 0], [1, 2], [0, 1, 2]]),
)
# Any steps, or such as seldom come together: acks before their turn that are undone and repeated.
work = st.lists(steps, max_size=4) | st.sampled_from(
    [
        [("ack", [1]), ("nack", [0]), ("ack", [1])],
        [("ack", [1, 2]), ("wait", []), ("ack", [2])],
        [("nack", [1, 2]), ("ack", [2]), ("nack", [0]), ("ack", [2])],
    ]
)
seconds = st.sampled_from([1, 5, 10, 30, 600])
keys = st.sampled_from(["", "k", "k", "k", "other"])
colors = st.sampled_from(["", "", "red", "blue"])

# What an update may change.
changes = {
    "ack_deadline": st.sampled_from([10 * S, 15 * S]),
    "retention": st.sampled_from([600 * S, 600 * S, 600 * S, 45 * S, 12 * S]),
    "ttl": st.sampled_from([None, None, None, None, 60 * S, 25 * S]),
    "delivery": st.sampled_from(["pull", "pull", "pull", "pull", "push_config"]),
    "exactly_once": st.sampled_from([False, False, False, True]),
    "retry": st.sampled_from([None, None, None, (0, 0), (2 * S, 3 * S)]),
    "dead_letter": st.sampled_from(
        [None, None, None, None, (TOPICS[1], 1), (TOPICS[1], 2), (TOPICS[0], 1), (TOPICS[0], 3)]
    ),
}
settings_changed = st.fixed_dictionaries(changes)
settings_drawn = st.fixed_dictionaries(
    {**changes, "ordered": st.booleans(), "filter": st.sampled_from([None, None, RED, NOT_RED])}
)
# Nothing that ends a subscription or its consumers, and options everywhere.
options = {
    **changes,
    "retention": st.just(600 * S),
    "ttl": st.none(),
    "delivery": st.just("pull"),
    "exactly_once": st.booleans(),
    "dead_letter": st.sampled_from([None, None, (TOPICS[1], 1), (TOPICS[1], 2), (TOPICS[0], 1), (TOPICS[0], 3)]),
    "retry": st.sampled_from([None, (0, 0), (1 * S, 3 * S), (2 * S, 3 * S), (2 * S, 600 * S)]),
}
options_changed = st.fixed_dictionaries(options)
options_drawn = st.fixed_dictionaries(
    {**options, "ordered": st.sampled_from([True, True, True, False]), "filter": st.sampled_from([None, RED, NOT_RED])}
)
plain_settings: Row = {
    "ack_deadline": 10 * S,
    "retention": 600 * S,
    "ttl": None,
    "delivery": "pull",
    "exactly_once": False,
    "ordered": True,
    "retry": None,
    "dead_letter": None,
    "filter": None,
}


def engine_settings(settings: Row) -> SubscriptionSettings:
    return SubscriptionSettings(
        ack_deadline=settings["ack_deadline"],
        retention=settings["retention"],
        expiration_ttl=settings["ttl"],
        delivery=DeliveryKind(settings["delivery"]),
        exactly_once=settings["exactly_once"],
        ordered=settings["ordered"],
        retry=settings["retry"] and RetryPolicy(*settings["retry"]),
        dead_letter=settings["dead_letter"] and DeadLetterPolicy(*settings["dead_letter"]),
        filter=settings["filter"] and parse(settings["filter"], FILTER_MAX_BYTES),
    )
