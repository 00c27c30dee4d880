"""A subscription as the model keeps it: which messages may go, and to whom."""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from tests.engine.letters import Content

Token: TypeAlias = tuple[int, int, int]
Row: TypeAlias = dict[str, Any]


class Handout(NamedTuple):
    """A message was given to `who`, under a lease until then."""

    subscription: int
    message: int
    lease: int
    until: int
    who: object
    content: Content
    size: int


class Turn(NamedTuple):
    """What one subscription's timer led to."""

    subscription: int
    when: int
    handouts: list[Handout]


def message(number: int, content: Content, published: int) -> Row:
    """A new one. Acks of leases up to `void` have no effect; `lost_by` had it last and has to stand back."""
    return {
        "number": number,
        "content": content,
        "published": published,
        "failures": 0,
        "lease": None,
        "acked": False,
        "delayed_until": None,
        "void": 0,
        "lost_by": None,
    }


def shown(row: Row) -> tuple[str, int, int | None]:
    """Where a message is, how often it failed, and until when it is leased."""
    if row["lease"]:
        return "leased", row["failures"], row["lease"]["until"]
    place = "acked" if row["acked"] else "waiting" if row["delayed_until"] is None else "delayed"
    return place, row["failures"], None


def leased(sub: Row, named: Token) -> Row | None:
    """The message whose present lease the token stands for."""
    row: Row | None = sub["messages"].get(named[1])
    return row if row is not None and row["lease"] and token(sub, row) == named else None


def token(sub: Row, row: Row) -> Token:
    return sub["number"], row["number"], row["lease"]["number"]


def lane(sub: Row, row: Row) -> object:
    """What it shares with those that it has to come after; without a key only itself."""
    return row["content"].key if sub["ordered"] and row["content"].key else row["number"]


def same_key(sub: Row, row: Row, other: Row) -> bool:
    return lane(sub, row) == lane(sub, other)


def held_by(stream: Row) -> list[Row]:
    messages = stream["subscription"]["messages"].values()
    return [row for row in messages if row["lease"] and row["lease"]["who"] is stream["who"]]


def unwritten(stream: Row) -> list[Row]:
    """What waits in its outbox, in the order of their leases."""
    held = [row for row in held_by(stream) if not row["lease"]["written"]]
    return sorted(held, key=lambda row: int(row["lease"]["number"]))


def judge(sub: Row, handout: Handout, now: int) -> None:
    """A message was handed out at this time: somebody has room, may take it, and it is the oldest such one."""
    who = handout.who
    ready = with_room(sub)
    takers = [consumer for consumer in ready if consumer["who"] is who]
    assert takers, "handed out to somebody without room"
    row = next(iter(free_for(sub, who)), None)
    assert row is not None, "handed out, and not to be had"
    assert row["number"] == handout.message, "not the oldest that there is to be had"
    assert row["content"] == handout.content
    others = [one for one in ready if one["who"] is not who and row in free_for(sub, one["who"])]
    assert not others or row["lost_by"] is None or row["lost_by"] is not who, "back to the one that lost it"
    pulls = [one for one in sub["pulls"] if one in [*others, *takers]]
    assert takers[0] not in pulls[1:], "an older Pull waits"
    sub["leases"] += 1
    assert handout.lease == sub["leases"]
    row["lease"] = {
        "number": handout.lease,
        "until": now + (takers[0]["deadline"] or sub["ack_deadline"]),
        "who": who,
        "size": handout.size,
        "written": "got" in takers[0],
    }
    assert handout.until == row["lease"]["until"]
    if "got" in takers[0]:
        takers[0]["got"].append(token(sub, row))


def free_for(sub: Row, who: object) -> list[Row]:
    """What somebody may take, oldest first."""
    return [row for row, only in free(sub) if only is None or only is who]


def free(sub: Row) -> Iterator[tuple[Row, object]]:
    """What may be taken, and by whom alone, or None: the next of a key by whoever has those before it."""
    holders: dict[object, object] = {}
    stopped: set[object] = set()
    for row in sub["messages"].values():
        its_lane = lane(sub, row)
        if row["lease"]:
            assert its_lane not in stopped, "went out before an earlier one of its key"
            assert holders.setdefault(its_lane, row["lease"]["who"]) is row["lease"]["who"], "two have one key"
        elif not row["acked"] and its_lane not in stopped:
            stopped.add(its_lane)
            if row["delayed_until"] is None:
                yield row, holders.get(its_lane)


def with_room(sub: Row) -> list[Row]:
    pulls = [pull for pull in sub["pulls"] if len(pull["got"]) < pull["most"]]
    return pulls + [stream for stream in sub["streams"] if has_credit(stream)]


def has_credit(stream: Row) -> bool:
    sizes = [row["lease"]["size"] for row in held_by(stream)]
    return (stream["most"] is None or len(sizes) < stream["most"]) and (
        stream["most_bytes"] is None or sum(sizes) < stream["most_bytes"]
    )
