"""Registries: names found, listed per project in order, and paged while they come and go."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.engine.registry import Registry
from emulator.errors import Code, PubsubError
from tests.engine.helpers import World

ids = st.text(alphabet="abCz09-_.~+%", min_size=1, max_size=4)
projects = st.sampled_from(["p", "p2", "P", "q"])
names_drawn = st.builds("projects/{}/topics/{}".format, projects, ids)


def name(identifier: str, project: str = "p") -> str:
    return f"projects/{project}/topics/{identifier}"


def registry_of(*names: str) -> Registry[str]:
    registry: Registry[str] = Registry()
    for one in names:
        registry.add(one, one)
    return registry


def all_pages(registry: Registry[str], project: str, size: int) -> list[list[str]]:
    pages: list[list[str]] = []
    after = ""
    while True:
        page, after = registry.page(project, after, size)
        pages.append(page)
        if not after:
            return pages


@pytest.mark.rule("S1.9.1", "S1.9.4", "S1.9.5")
@given(names=st.sets(names_drawn, max_size=30), size=st.integers(1, 10))
def test_the_pages_of_a_project_are_its_sorted_names_cut_in_pieces(names: set[str], size: int) -> None:
    registry = registry_of(*names)

    for project in ("p", "p2", "P", "q", "none"):
        pages = all_pages(registry, project, size)

        listed = [one for page in pages for one in page]
        assert listed == sorted(one for one in names if one.split("/")[1] == project)
        assert all(len(page) == size for page in pages[:-1])
        assert len(pages) == max(1, -(-len(listed) // size))


@pytest.mark.rule("S1.9.3")
@given(names=st.sets(names_drawn, min_size=1, max_size=30), size=st.integers(1, 5), data=st.data())
def test_a_place_in_the_list_stays_usable_whatever_is_deleted_or_added(
    names: set[str], size: int, data: st.DataObject
) -> None:
    registry = registry_of(*names)
    _, after = registry.page("p", "", size)
    left = {one for one in names if one > after and one.split("/")[1] == "p"} if after else set()
    gone = data.draw(st.sets(st.sampled_from(sorted(names))))
    added = data.draw(st.sets(names_drawn, max_size=5)) - names
    for one in gone:
        registry.remove(one)
    for one in added:
        registry.add(one, one)

    rest: list[str] = []
    while after:
        page, after = registry.page("p", after, size)
        rest += page

    assert rest == sorted(set(rest))
    assert left - gone <= set(rest)
    assert not set(rest) & gone


@pytest.mark.rule("S1.9.3")
def test_a_list_goes_on_behind_a_name_that_was_deleted() -> None:
    registry = registry_of(name("a"), name("b"), name("c"))
    _, after = registry.page("p", "", 2)

    registry.remove(name("b"))

    assert (after, registry.page("p", after, 2)) == (name("b"), ([name("c")], ""))


@pytest.mark.rule("S1.9.4")
@pytest.mark.parametrize("size", [2, 3])
def test_a_page_that_reaches_the_end_is_the_last(size: int) -> None:
    assert registry_of(name("a"), name("b")).page("p", "", size) == ([name("a"), name("b")], "")


@given(names=st.lists(names_drawn, max_size=30))
def test_a_name_is_there_from_its_adding_to_its_removing(names: list[str]) -> None:
    registry: Registry[str] = Registry()
    there: set[str] = set()

    for one in names:
        if one in there:
            assert registry.remove(one) == one
            there.remove(one)
        else:
            registry.add(one, one)
            there.add(one)
        assert set(registry) == there
        assert len(registry) == len(there)
        assert (registry.find(one) is not None) is (one in there)

    assert sum(len(listed) for listed in registry._by_project.values()) == len(there)
    assert all(registry._by_project.values())


@pytest.mark.parametrize("call", [Registry[str].get, Registry[str].remove])
def test_what_is_not_there_is_not_found(call: Callable[[Registry[str], str], str]) -> None:
    registry = registry_of(name("a"))

    with pytest.raises(PubsubError, match="projects/p/topics/b") as caught:
        call(registry, name("b"))

    assert caught.value.code is Code.NOT_FOUND


@pytest.mark.rule("S3.6")
def test_a_name_is_taken_once() -> None:
    registry = registry_of(name("a"))

    with pytest.raises(PubsubError, match="projects/p/topics/a") as caught:
        registry.add(name("a"), "another")

    assert caught.value.code is Code.ALREADY_EXISTS
    assert registry.get(name("a")) == name("a")


def test_it_may_be_emptied_while_it_is_walked_through() -> None:
    registry = registry_of(name("a"), name("b"))

    for one in registry:
        registry.remove(one)

    assert len(registry) == 0


def test_it_shows_how_much_it_holds() -> None:
    assert repr(registry_of(name("a"), name("b"), name("a", "q"))) == "<Registry resources=3 projects=2>"


@pytest.mark.rule("S1.9.1", "S1.9.3", "S1.9.5")
def test_a_topic_lists_its_subscriptions_of_every_project_by_name(empty: World) -> None:
    topic = empty.create_topic()
    every = [f"projects/{project}/subscriptions/{identifier}" for project in "qp" for identifier in ("bbb", "aaa")]
    for one in every:
        empty.subscribe(one)

    first, after = topic.page("", 2)
    empty.broker.delete_subscription(after)
    second, end = topic.page(after, 2)

    assert [one.name for one in (*first, *second)] == sorted(every)
    assert end == ""
