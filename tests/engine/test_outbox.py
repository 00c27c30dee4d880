"""The outbox: whose turn it is, which events are dropped, and who is woken."""

from itertools import pairwise

import pytest

from emulator.engine.outbox import Letter, Outbox
from emulator.errors import Code, PubsubError
from emulator.limits import MAX_PENDING_DEFAULT
from tests.engine.streams import Shelf, drain, letters, outbox, seen, send


@pytest.fixture
def box() -> Outbox:
    return outbox()


class TestEvents:
    @pytest.mark.rule("O3")
    def test_leave_in_the_order_in_which_they_came(self, box: Outbox) -> None:
        box.add_subscription("a")

        send(box, "a", range(1, 6))

        assert seen(drain(box)) == [("a", number) for number in range(1, 6)]

    @pytest.mark.rule("O3")
    def test_a_thousand_are_kept_unless_another_number_is_chosen(self, box: Outbox) -> None:
        box.add_subscription("a")

        send(box, "a", range(1_001))

        assert (len(letters(box)), box.dropped("a"), MAX_PENDING_DEFAULT) == (1_000, 1, 1_000)

    @pytest.mark.rule("O3", "A3")
    @pytest.mark.parametrize("max_pending", [1, 2, 3, 50])
    def test_the_number_kept_is_each_subscriptions_own(self, box: Outbox, max_pending: int) -> None:
        box.add_subscription("a", max_pending)
        box.add_subscription("b", 4)

        send(box, "a", range(100))
        send(box, "b", range(100))

        kept = [letter.subscription for letter in letters(box)]
        assert (kept.count("a"), kept.count("b")) == (max_pending, 4)

    @pytest.mark.rule("O3")
    @pytest.mark.parametrize("max_pending", [0, -1])
    def test_none_kept_is_refused(self, box: Outbox, max_pending: int) -> None:
        with pytest.raises(PubsubError, match=r"argument=max_pending") as caught:
            box.add_subscription("a", max_pending)

        assert caught.value.code is Code.INVALID_ARGUMENT
        box.add_subscription("a", 1)  # the name is still free

    @pytest.mark.rule("O3")
    def test_a_name_is_used_once_at_a_time(self, box: Outbox) -> None:
        box.add_subscription("a", 2)
        send(box, "a", [1])

        with pytest.raises(PubsubError, match="event subscription") as caught:
            box.add_subscription("a", 5)

        assert (caught.value.code, seen(drain(box))) == (Code.ALREADY_EXISTS, [("a", 1)])

    @pytest.mark.rule("O4", "A3")
    @pytest.mark.parametrize("max_pending", [1, 3, 10])
    def test_each_one_too_many_pushes_out_the_oldest_and_counts_one(self, box: Outbox, max_pending: int) -> None:
        box.add_subscription("a", max_pending)
        send(box, "a", range(max_pending))
        counted = []

        for number in range(max_pending, max_pending + 7):
            send(box, "a", [number])
            counted.append(box.dropped("a"))

        assert counted == [1, 2, 3, 4, 5, 6, 7]
        assert seen(drain(box)) == [("a", number) for number in range(7, max_pending + 7)]

    @pytest.mark.rule("O4")
    def test_one_that_has_left_makes_room_for_another(self, box: Outbox) -> None:
        box.add_subscription("a", 2)
        send(box, "a", [1, 2])
        first = box.take()

        send(box, "a", [3])

        assert first is not None
        assert (box.dropped("a"), seen([first, *drain(box)])) == (0, [("a", 1), ("a", 2), ("a", 3)])

    @pytest.mark.rule("O11")
    def test_each_tells_its_place_among_all_and_how_many_were_dropped(self, box: Outbox) -> None:
        box.add_subscription("a", 3)

        send(box, "a", range(1, 6))
        early = letters(box)
        send(box, "a", [6])
        late = letters(box)

        assert [(letter.seq, letter.dropped) for letter in early + late] == [(3, 2), (4, 2), (5, 2), (6, 2)]

    @pytest.mark.rule("O11")
    def test_the_count_in_one_is_of_when_it_leaves(self, box: Outbox) -> None:
        box.add_subscription("a", 2)
        send(box, "a", [1, 2])

        send(box, "a", [3])
        first = box.take()
        send(box, "a", [4, 5])

        assert isinstance(first, Letter)
        later = letters(box)
        assert [(each.seq, each.dropped) for each in [first, *later]] == [(2, 1), (4, 2), (5, 2)]

    @pytest.mark.rule("O11", "A12")
    def test_the_gaps_of_a_slow_reader_come_to_what_was_dropped(self, box: Outbox) -> None:
        box.add_subscription("a", 3)
        got = []

        for round_of in range(20):
            send(box, "a", range(1 + round_of % 6))
            item = box.take()
            assert isinstance(item, Letter)
            got.append(item)
        got += letters(box)

        gaps = sum(after.seq - before.seq - 1 for before, after in pairwise(got))
        assert got[-1].dropped > 0
        assert gaps + got[0].seq - 1 == got[-1].dropped == box.dropped("a")

    @pytest.mark.rule("O7", "A5")
    def test_subscriptions_take_turns_event_by_event(self, box: Outbox) -> None:
        box.add_subscription("a")
        box.add_subscription("b")
        send(box, "a", range(100))
        send(box, "b", range(3))

        order = [letter.subscription for letter in letters(box)]

        assert order[:6] == ["a", "b"] * 3
        assert order[6:] == ["a"] * 97

    @pytest.mark.rule("O7")
    def test_one_that_comes_late_gets_its_turn_next(self, box: Outbox) -> None:
        for name in "abc":
            box.add_subscription(name)
        send(box, "a", range(10))
        send(box, "b", range(10))
        drained = [box.take() for _ in range(5)]

        send(box, "c", [1])

        order = [letter.subscription for letter in letters(box)]
        assert (len(drained), order.index("c") <= 2) == (5, True)

    @pytest.mark.rule("O12")
    def test_of_a_subscription_that_ended_are_discarded_which_is_no_drop(self, box: Outbox) -> None:
        box.add_subscription("a", 2)
        box.add_subscription("b")
        send(box, "a", range(3))
        send(box, "b", [7])

        box.remove_subscription("a")
        box.remove_subscription("a")

        assert (seen(drain(box)), box.event_drops) == ([("b", 7)], 1)

    @pytest.mark.rule("O10", "O11")
    def test_a_name_used_again_starts_anew(self, box: Outbox) -> None:
        box.add_subscription("a", 1)
        send(box, "a", range(3))
        box.remove_subscription("a")

        box.add_subscription("a", 2)
        send(box, "a", range(10, 13))

        assert [(each.seq, each.dropped) for each in letters(box)] == [(2, 1), (3, 1)]
        assert (box.dropped("a"), box.event_drops) == (1, 3)

    @pytest.mark.rule("O10")
    def test_drops_of_all_subscriptions_are_counted_together(self, box: Outbox) -> None:
        box.add_subscription("a", 1)
        box.add_subscription("b", 2)

        send(box, "a", range(5))
        send(box, "b", range(5))
        box.remove_subscription("a")

        assert (box.event_drops, box.dropped("b")) == (7, 3)

    @pytest.mark.rule("O10", "A8")
    def test_drops_stay_counted_when_the_outbox_is_closed(self, box: Outbox) -> None:
        box.add_subscription("a", 1)
        send(box, "a", range(5))

        box.close()

        assert (box.event_drops, box.dropped("a")) == (4, 4)


class TestDeliveriesAndEvents:
    @pytest.mark.rule("O6", "A4")
    def test_a_delivery_goes_before_events_that_came_before_it(self, box: Outbox) -> None:
        box.add_subscription("a")
        shelf = Shelf(box)
        send(box, "a", range(5))

        shelf.put(1)

        assert seen(drain(box)) == [[1], *[("a", number) for number in range(5)]]

    @pytest.mark.rule("O6")
    def test_a_delivery_that_comes_between_events_is_next(self, box: Outbox) -> None:
        box.add_subscription("a")
        shelf = Shelf(box)
        send(box, "a", [1, 2])
        first = box.take()

        shelf.put(7)

        assert first is not None
        assert seen([first, *drain(box)]) == [("a", 1), [7], ("a", 2)]

    @pytest.mark.rule("O4", "O6", "A1")
    def test_ten_events_and_a_delivery_with_room_for_three(self, box: Outbox) -> None:
        box.add_subscription("a", 3)
        shelf = Shelf(box)
        send(box, "a", range(1, 11))
        shelf.put(1)

        dropped = box.dropped("a")

        assert dropped == 7
        assert seen(drain(box)) == [[1], ("a", 8), ("a", 9), ("a", 10)]

    @pytest.mark.rule("O5", "A2")
    def test_deliveries_are_not_bounded_by_what_events_are(self, box: Outbox) -> None:
        box.add_subscription("a", 3)
        shelf = Shelf(box)

        shelf.put(*range(50))
        drain(box)

        assert [number for response in shelf.written for number in response] == list(range(50))
        assert (box.dropped("a"), box.event_drops) == (0, 0)

    @pytest.mark.rule("O6", "O17")
    def test_deliveries_that_have_no_room_do_not_hold_up_events(self, box: Outbox) -> None:
        box.add_subscription("a")
        Shelf(box, space=0).put(1)

        send(box, "a", [1])

        assert seen(drain(box)) == [("a", 1)]


@pytest.mark.rule("O1")
class TestWaking:
    def test_whoever_puts_something_in_is_not_called_back(self) -> None:
        woken: list[str] = []
        box = Outbox(lambda: woken.append("woken"), 100)
        box.add_subscription("a")
        shelf = Shelf(box)

        shelf.put(1, 2, 3)
        send(box, "a", range(3))

        assert (shelf.written, woken) == ([], ["woken", "woken"])

    @pytest.mark.parametrize("what", ["delivery", "note", "event", "resume"])
    def test_something_that_can_leave_wakes(self, what: str) -> None:
        woken: list[str] = []
        box = Outbox(lambda: woken.append("woken"), 100)
        box.add_subscription("a")
        shelf = Shelf(box)
        if what == "resume":
            shelf.space = 0
            shelf.put(1)
            drain(box)
            shelf.space = 100
            woken.clear()

        if what == "delivery":
            shelf.put(1)
        elif what == "note":
            shelf.pile.note()
        elif what == "event":
            send(box, "a", [1])
        else:
            shelf.pile.resume()

        assert (woken, len(drain(box))) == (["woken"], 1)

    @pytest.mark.rule("O17")
    def test_what_cannot_leave_wakes_nobody(self) -> None:
        woken: list[str] = []
        box = Outbox(lambda: woken.append("woken"), 100)
        shelf = Shelf(box, space=0)
        shelf.put(1)
        drain(box)
        woken.clear()

        shelf.put(2)
        shelf.pile.note()

        assert woken == []

    def test_room_for_a_recipient_with_nothing_to_say_wakes_nobody(self) -> None:
        woken: list[str] = []
        box = Outbox(lambda: woken.append("woken"), 100)

        Shelf(box).pile.resume()

        assert woken == []


def test_an_outbox_and_its_piles_show_themselves(box: Outbox) -> None:
    box.add_subscription("a", 1)
    shelf = Shelf(box, space=0)
    shelf.put(1, 2)
    send(box, "a", range(2))
    pile = repr(shelf.pile)
    drain(box)
    shut = repr(shelf.pile)
    open_box = repr(box)

    box.close()

    assert (pile, shut) == ("<Pile waiting=2 bytes=20>", "<Pile waiting=2 bytes=20 shut>")
    assert (open_box, repr(box)) == ("<Outbox deliveries=2 feeds=1>", "<Outbox deliveries=0 feeds=1 closed>")
