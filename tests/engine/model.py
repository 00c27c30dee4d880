"""What the engine should do, told a second time in plain dictionaries; not a line of it is the engine's.

Who gets a message is the engine's choice among those who may: the model is told of each handout and judges it. Times
are nanoseconds. A token, what an ack id stands for, is (subscription's number, message's number, lease's number).
"""

from collections.abc import Iterable, Sequence

from tests.engine import rows
from tests.engine.letters import Content, dead_letter, wanted
from tests.engine.rows import Handout, Row, Token, Turn

S = 1_000_000_000
MS = 1_000_000

PULL_WAIT = 5 * S
MAX_MESSAGES_PULLED = 1_000
MAX_DEADLINE_S = 600

INVALID = "PERMANENT_FAILURE_INVALID_ACK_ID"
UNORDERED = "TRANSIENT_FAILURE_UNORDERED_ACK_ID"


class Refused(Exception):
    """The call fails with this status; under exactly-once `codes` are those of the ids that were refused."""

    def __init__(self, status: str, codes: dict[Token, str] | None = None) -> None:
        super().__init__(status)
        self.codes = codes or {}


class Model:
    """Topics and subscriptions as rows; every rule applied in the most obvious way.

    `settle` comes after every call.
    """

    def __init__(self, now: int) -> None:
        self.now = now
        self.topics: dict[str, Row] = {}
        self.subscriptions: dict[str, Row] = {}
        self.published = 0
        self.created = 0
        self.dead: list[tuple[Row, Row]] = []

    # Topics

    def create_topic(self, name: str) -> None:
        if name in self.topics:
            raise Refused("ALREADY_EXISTS")
        self.topics[name] = {"name": name}

    def delete_topic(self, name: str) -> None:
        gone = self._topic(name)
        del self.topics[name]
        for sub in self.subscriptions.values():
            if sub["topic"] is gone:
                sub["topic"] = None

    def publish(self, name: str, contents: Sequence[Content]) -> list[int]:
        topic = self._topic(name)
        numbers = [self.published + place for place in range(1, len(contents) + 1)]
        self.published += len(contents)
        for sub in self.subscriptions.values():
            if sub["topic"] is topic and not sub["detached"]:
                for number, content in zip(numbers, contents, strict=True):
                    if wanted(sub["filter"], content.attributes):
                        sub["messages"][number] = rows.message(number, content, self.now - self.now % MS)
        return numbers

    def refuse_to_publish(self, name: str, status: str) -> None:
        """A request that no topic takes."""
        self._topic(name)
        raise Refused(status)

    # Subscriptions

    def create_subscription(self, name: str, topic: str, settings: Row) -> None:
        its_topic = self._topic(topic)
        if name in self.subscriptions:
            raise Refused("ALREADY_EXISTS")
        self.created += 1
        self.subscriptions[name] = {
            "name": name,
            "number": self.created,
            "topic": its_topic,
            "detached": False,
            **settings,
            "messages": {},
            "leases": 0,
            "pulls": [],
            "streams": [],
            "used": self.now,
        }

    def update_subscription(self, name: str, settings: Row) -> None:
        sub = self._subscription(name)
        sub.update(settings, used=self.now)
        if settings["delivery"] != "pull":
            self._end_consumers(sub, "FAILED_PRECONDITION")
        self._pass(sub)

    def detach_subscription(self, name: str) -> None:
        sub = self._subscription(name)
        sub.update(detached=True, messages={}, used=self.now)
        self._end_consumers(sub, "FAILED_PRECONDITION")

    def delete_subscription(self, name: str) -> None:
        self._forget(self._subscription(name))

    def reset(self) -> None:
        for sub in list(self.subscriptions.values()):
            self._forget(sub)
        self.topics.clear()

    # Consumers

    def pull(self, name: str, most: int, who: object) -> Row:
        sub = self._subscription(name)
        if most <= 0:
            raise Refused("INVALID_ARGUMENT")
        self._require_pullable(sub)
        sub["used"] = self.now
        pull: Row = {
            "subscription": sub,
            "who": who,
            "most": min(most, MAX_MESSAGES_PULLED),
            "deadline": None,
            "until": self.now + PULL_WAIT,
            "done": False,
            "error": None,
            "got": [],
        }
        sub["pulls"].append(pull)
        return pull

    def stop_pull(self, pull: Row, *, answered: bool) -> None:
        """It waits no longer: its caller went away, having taken no answer, or it is answered with what it has."""
        self._leave(pull)
        pull["done"] = pull["done"] or answered

    def open_stream(self, name: str, who: object, deadline: int, most: int, most_bytes: int) -> Row:
        sub = self._subscription(name)
        self._require_pullable(sub)
        stream: Row = {
            "subscription": sub,
            "who": who,
            "most": most or None,
            "most_bytes": most_bytes or None,
            "deadline": deadline,
            "error": None,
        }
        sub["streams"].append(stream)
        return stream

    def write(self, stream: Row) -> list[Token]:
        """All that waits for a stream leaves; what that is."""
        written = rows.unwritten(stream)
        for row in written:
            row["lease"]["written"] = True
        return [rows.token(stream["subscription"], row) for row in written]

    def close_stream(self, stream: Row) -> None:
        self._leave(stream)
        self._give_back_unwritten(stream)

    # Leases

    def acknowledge(self, name: str, tokens: list[Token | None]) -> None:
        sub, named = self._named(name, tokens)
        refused: dict[Token, str] = {}
        if not sub["exactly_once"]:
            for number, message_number, lease in named:
                row = sub["messages"].get(message_number) if number == sub["number"] else None
                if row is not None and lease > row["void"]:
                    self._ack(sub, row)
            return
        for token in sorted(set(named)):
            row = rows.leased(sub, token)
            if row is None:
                refused[token] = INVALID
            elif row is not next(one for one in sub["messages"].values() if rows.same_key(sub, one, row)):
                refused[token] = UNORDERED
            else:
                self._ack(sub, row)
        if refused:
            raise Refused("INVALID_ARGUMENT", refused)

    def modify_ack_deadline(self, name: str, tokens: list[Token | None], seconds: int) -> None:
        if name in self.subscriptions and not 0 <= seconds <= MAX_DEADLINE_S:
            raise Refused("INVALID_ARGUMENT")
        sub, named = self._named(name, tokens)
        refused: dict[Token, str] = {}
        for token in sorted(set(named), reverse=True):
            row = rows.leased(sub, token)
            if row is None:
                refused[token] = INVALID
            elif seconds:
                row["lease"]["until"] = self.now + seconds * S
            else:
                self._come_back(sub, row, failed=True)
        if refused and sub["exactly_once"]:
            raise Refused("INVALID_ARGUMENT", refused)

    def give_back(self, tokens: Iterable[Token]) -> None:
        """Deliveries of one reply that was never written."""
        for sub in self.subscriptions.values():
            for token in tokens:
                row = rows.leased(sub, token)
                if row is not None:
                    self._come_back(sub, row, failed=False)

    def _ack(self, sub: Row, row: Row) -> None:
        row.update(acked=True, lease=None, delayed_until=None)
        self._tidy(sub)

    def _tidy(self, sub: Row) -> None:
        """An acked message is done when all before it of its key are."""
        unfinished: set[object] = set()
        for row in list(sub["messages"].values()):
            lane = rows.lane(sub, row)
            if row["acked"] and lane not in unfinished:
                del sub["messages"][row["number"]]
            else:
                unfinished.add(lane)

    def _come_back(self, sub: Row, row: Row, *, failed: bool) -> None:
        """A lease ends without an ack; everything after it of its key has to come again."""
        self._lose(sub, row, failed=failed)
        for later in list(sub["messages"].values()):
            if later["number"] > row["number"] and rows.same_key(sub, later, row):
                if later["lease"] and later["lease"]["until"] <= self.now:
                    self._lose(sub, later, failed=True)
                elif later["lease"] or later["acked"]:
                    lost_by = later["lease"] and later["lease"]["who"]
                    later.update(lease=None, acked=False, void=sub["leases"], lost_by=lost_by)

    def _lose(self, sub: Row, row: Row, *, failed: bool) -> None:
        lease, row["lease"] = row["lease"], None
        if failed:
            row["lost_by"] = lease["who"]
        if failed and lease["written"]:
            row["failures"] += 1
            topic, most = sub["dead_letter"] or ("", 0)
            if topic in self.topics and row["failures"] >= most:
                del sub["messages"][row["number"]]
                self.dead.append((sub, row))
            elif sub["retry"]:
                wait, longest = sub["retry"]
                for _ in range(row["failures"] - 1):
                    wait *= 2
                row["delayed_until"] = self.now + min(wait, longest) if wait else None

    # Time

    def advance(self, amount: int, turns: Iterable[Turn]) -> None:
        target = self.now + amount
        for turn in turns:
            assert (self.next_event() or turn.when) >= turn.when, "something was due before"
            self.now = turn.when
            for sub in list(self.subscriptions.values()):
                if sub["number"] == turn.subscription:
                    self._pass(sub)
            self.settle(turn.handouts)
        assert (self.next_event() or target + 1) > target, "something was due and didn't happen"
        self.now = target

    def next_event(self) -> int | None:
        """When something happens next if nobody calls."""
        times: list[int] = []
        for sub in self.subscriptions.values():
            for row in sub["messages"].values():
                times.append(row["published"] + sub["retention"] + 1)
                if row["lease"]:
                    times.append(row["lease"]["until"])
                if row["delayed_until"] is not None:
                    times.append(row["delayed_until"])
            times += [pull["until"] for pull in sub["pulls"]]
            if sub["ttl"] is not None and not sub["pulls"] and not sub["streams"]:
                times.append(sub["used"] + sub["ttl"])
        return min(times, default=None)

    def _pass(self, sub: Row) -> None:
        """Let happen what is due at this moment."""
        used = sub["pulls"] or sub["streams"]
        if sub["ttl"] is not None and not used and sub["used"] + sub["ttl"] <= self.now:
            self._forget(sub)
            return
        for row in list(sub["messages"].values()):
            if row["lease"] and row["lease"]["until"] <= self.now:
                self._come_back(sub, row, failed=True)
            if row["delayed_until"] is not None and row["delayed_until"] <= self.now:
                row["delayed_until"] = None
        for row in list(sub["messages"].values()):
            if self.now - row["published"] > sub["retention"]:
                del sub["messages"][row["number"]]
        for pull in [pull for pull in sub["pulls"] if pull["until"] <= self.now]:
            self.stop_pull(pull, answered=True)

    # What follows from every call

    def settle(self, handouts: Iterable[Handout]) -> None:
        """Dead letters are published, and whoever has room has got what there is."""
        dead, self.dead = sorted(self.dead, key=lambda one: one[1]["number"]), []
        for topic in dict.fromkeys(sub["dead_letter"][0] for sub, _ in dead):
            self.publish(topic, [dead_letter(sub, row) for sub, row in dead if sub["dead_letter"][0] == topic])
        for sub in self.subscriptions.values():
            self._tidy(sub)
        for handout in handouts:
            (sub,) = [sub for sub in self.subscriptions.values() if sub["number"] == handout.subscription]
            rows.judge(sub, handout, self.now)
        for sub in self.subscriptions.values():
            for pull in [pull for pull in sub["pulls"] if pull["got"]]:
                self.stop_pull(pull, answered=True)
            for consumer in rows.with_room(sub):
                left = [row["number"] for row in rows.free_for(sub, consumer["who"])]
                assert not left, f"{left} wait, and there is room for them"

    # Steps of the above

    def _topic(self, name: str) -> Row:
        if name not in self.topics:
            raise Refused("NOT_FOUND")
        return self.topics[name]

    def _subscription(self, name: str) -> Row:
        if name not in self.subscriptions:
            raise Refused("NOT_FOUND")
        return self.subscriptions[name]

    def _require_pullable(self, sub: Row) -> None:
        if sub["detached"] or sub["delivery"] != "pull":
            raise Refused("FAILED_PRECONDITION")

    def _named(self, name: str, tokens: list[Token | None]) -> tuple[Row, list[Token]]:
        """The subscription and the tokens, of which none is another's; None stands for a malformed ack id."""
        sub = self._subscription(name)
        others = {other["number"] for other in self.subscriptions.values()} - {sub["number"]}
        if not tokens or any(token is None or token[0] in others for token in tokens):
            raise Refused("INVALID_ARGUMENT")
        sub["used"] = self.now
        return sub, [token for token in tokens if token is not None]

    def _give_back_unwritten(self, stream: Row) -> None:
        self.give_back([rows.token(stream["subscription"], row) for row in rows.unwritten(stream)])

    def _leave(self, consumer: Row) -> None:
        """A Pull or a stream takes no more; as long as it did, the subscription was in use."""
        sub = consumer["subscription"]
        for kind in ("pulls", "streams"):
            rest = [other for other in sub[kind] if other is not consumer]
            if len(rest) < len(sub[kind]):
                sub.update({kind: rest, "used": self.now})

    def _end_consumers(self, sub: Row, error: str) -> None:
        pulls, streams = sub["pulls"], sub["streams"]
        sub.update(pulls=[], streams=[])
        for pull in pulls:
            pull.update(done=True, error=error)
        for stream in streams:
            stream["error"] = error
            self._give_back_unwritten(stream)

    def _forget(self, sub: Row) -> None:
        del self.subscriptions[sub["name"]]
        sub["messages"] = {}
        self._end_consumers(sub, "NOT_FOUND")

    # For comparison

    def view(self) -> Row:
        return {
            "published": self.published,
            "topics": {
                name: [
                    sub_name
                    for sub_name, sub in self.subscriptions.items()
                    if sub["topic"] is topic and not sub["detached"]
                ]
                for name, topic in self.topics.items()
            },
            "subscriptions": {
                name: {
                    "topic": sub["topic"]["name"] if sub["topic"] else None,
                    "detached": sub["detached"],
                    "messages": {number: rows.shown(row) for number, row in sub["messages"].items()},
                }
                for name, sub in self.subscriptions.items()
            },
            "waiting_pulls": sum(len(sub["pulls"]) for sub in self.subscriptions.values()),
            "pull_streams": sum(len(sub["streams"]) for sub in self.subscriptions.values()),
        }
