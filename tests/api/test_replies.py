"""The contracts of the two replies that are more than a message: Undoable and Parked."""

from functools import partial

import pytest

from emulator.api.replies import Parked, Undoable


class Handler:
    """What a handler does with a reply that it parked."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.parked: Parked[str] = Parked(lambda: self.told.append("cancel"), self.answer)

    def answer(self) -> None:
        self.told.append("hurry")
        self.parked.complete("what there is")

    def __repr__(self) -> str:
        return f"<Handler {self.told}>"


@pytest.fixture
def handler() -> Handler:
    return Handler()


def test_an_undoable_reply_is_a_message_and_its_way_back() -> None:
    undone: list[str] = []

    reply = Undoable("message", lambda: undone.append("undone"))
    reply.give_back()

    assert (reply.message, undone, repr(reply)) == ("message", ["undone"], "<Undoable str>")


def test_a_parked_reply_has_no_result_while_it_waits(handler: Handler) -> None:
    assert (handler.parked.done, repr(handler.parked)) == (False, "<Parked waiting>")
    with pytest.raises(RuntimeError, match="not there yet"):
        handler.parked.result()


@pytest.mark.parametrize("value", ["reply", ""])
def test_a_completed_reply_has_its_result(handler: Handler, value: str) -> None:
    handler.parked.complete(value)

    assert (handler.parked.done, handler.parked.result(), repr(handler.parked)) == (True, value, "<Parked done>")


def test_a_failed_reply_raises_its_error(handler: Handler) -> None:
    handler.parked.fail(ValueError("no"))

    assert handler.parked.done
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            handler.parked.result()


def test_a_reply_is_given_once(handler: Handler) -> None:
    handler.parked.complete("first")

    with pytest.raises(RuntimeError, match="given once"):
        handler.parked.complete("second")
    with pytest.raises(RuntimeError, match="given once"):
        handler.parked.fail(ValueError())
    assert handler.parked.result() == "first"


def test_callbacks_run_once_in_order_when_the_reply_is_there(handler: Handler) -> None:
    seen: list[str] = []
    for name in ("a", "b"):
        handler.parked.when_done(partial(seen.append, name))

    assert seen == []
    handler.parked.complete("reply")

    assert seen == ["a", "b"]
    handler.parked.when_done(partial(seen.append, "late"))
    assert seen == ["a", "b", "late"]


def test_cancelling_tells_the_handler_and_nobody_else(handler: Handler) -> None:
    seen: list[str] = []
    handler.parked.when_done(lambda: seen.append("called"))

    handler.parked.cancel()
    handler.parked.cancel()

    assert (handler.told, seen, handler.parked.done) == (["cancel"], [], True)
    with pytest.raises(RuntimeError, match="went away"):
        handler.parked.result()


def test_a_reply_that_was_taken_cannot_be_cancelled(handler: Handler) -> None:
    handler.parked.complete("reply")
    handler.parked.result()

    handler.parked.cancel()

    assert (handler.told, handler.parked.result()) == ([], "reply")


def test_a_reply_that_nobody_took_is_undone() -> None:
    told: list[str] = []
    parked: Parked[Undoable[str]] = Parked(lambda: told.append("cancel"), lambda: None)
    parked.complete(Undoable("reply", lambda: told.append("undone")))

    parked.cancel()
    parked.cancel()

    assert told == ["undone"]


class TestMadeLater:
    """Replies that are made when they are taken."""

    def test_it_is_made_once_and_not_before(self, handler: Handler) -> None:
        made: list[str] = []
        seen: list[str] = []
        handler.parked.when_done(lambda: seen.append("done"))

        def make() -> str:
            made.append("made")
            return "reply"

        handler.parked.complete_later(make)
        assert (seen, made, handler.parked.done) == (["done"], [], True)

        assert [handler.parked.result(), handler.parked.result()] == ["reply", "reply"]
        assert made == ["made"]

    def test_it_may_fail(self, handler: Handler) -> None:
        handler.parked.complete_later(lambda: str(1 // 0))

        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                handler.parked.result()

    def test_it_is_never_made_for_a_caller_that_went_away(self, handler: Handler) -> None:
        handler.parked.complete_later(lambda: "never")

        handler.parked.cancel()

        assert handler.told == ["cancel"]
        with pytest.raises(RuntimeError, match="went away"):
            handler.parked.result()


def test_a_hurried_handler_answers_at_once(handler: Handler) -> None:
    handler.parked.hurry()
    handler.parked.hurry()

    assert (handler.told, handler.parked.result()) == (["hurry"], "what there is")


def test_nobody_hurries_after_a_caller_that_went_away(handler: Handler) -> None:
    handler.parked.cancel()

    handler.parked.hurry()

    assert handler.told == ["cancel"]


class TestMap:
    """The same wait with another reply at its end."""

    def test_it_ends_in_the_changed_reply(self, handler: Handler) -> None:
        mapped = handler.parked.map(len)

        assert not mapped.done
        handler.parked.complete("four")

        assert mapped.result() == 4

    def test_it_may_begin_when_the_reply_is_there(self, handler: Handler) -> None:
        handler.parked.complete("four")

        assert handler.parked.map(len).result() == 4

    def test_it_fails_with_the_same_error(self, handler: Handler) -> None:
        mapped = handler.parked.map(len)

        handler.parked.fail(ValueError("no"))

        with pytest.raises(ValueError, match="no"):
            mapped.result()

    def test_it_fails_if_the_change_does(self, handler: Handler) -> None:
        mapped = handler.parked.map(int)

        handler.parked.complete("four")

        with pytest.raises(ValueError, match="four"):
            mapped.result()

    def test_it_passes_cancel_and_hurry_on(self, handler: Handler) -> None:
        hurried = handler.parked.map(len)
        hurried.hurry()
        other = Handler()
        cancelled = other.parked.map(len).map(str)
        cancelled.cancel()

        assert (handler.told, hurried.result()) == (["hurry"], 13)
        assert (other.told, cancelled.done, other.parked.done) == (["cancel"], True, True)

    def test_no_callback_runs_after_it_was_cancelled(self, handler: Handler) -> None:
        seen: list[str] = []
        mapped = handler.parked.map(len)
        mapped.when_done(lambda: seen.append("called"))

        mapped.cancel()

        assert seen == []
