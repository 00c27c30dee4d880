"""How every target has to list; where Google's emulator doesn't: differences.toml."""

from collections.abc import Iterator

import pytest

from compat_tests.rest import INVALID, Project

CLIENT = "plain REST"

COLLECTIONS = pytest.mark.parametrize("collection", ["topics", "subscriptions", "snapshots"])


def fill(project: Project, collection: str, *identifiers: str) -> None:
    if collection == "topics":
        for identifier in identifiers:
            project.topic(identifier)
    else:
        topic = project.topic()
        for identifier in identifiers:
            subscription = project.subscription(topic, identifier)
            if collection == "snapshots":
                project.snapshot(subscription, identifier)


def pages(project: Project, collection: str, size: int) -> Iterator[list[str]]:
    """The ids of each page, to the last."""
    query = {"pageSize": str(size)}
    while True:
        page = project.rest.call("GET", f"{project.name}/{collection}", query=query).ok()
        yield [one["name"].rpartition("/")[2] for one in page.get(collection, [])]
        if not (token := page.get("nextPageToken")):
            return
        query["pageToken"] = token


@pytest.mark.rule("S1.7.1", "B089")
@COLLECTIONS
def test_a_list_of_nothing_is_an_empty_object(project: Project, collection: str) -> None:
    answer = project.rest.call("GET", f"{project.name}/{collection}")

    assert answer.ok() == {}
    assert answer.headers["content-type"].startswith("application/json")


@pytest.mark.rule("S1.9.1", "S1.9.4")
@COLLECTIONS
def test_lists_are_sorted_and_paged(project: Project, collection: str) -> None:
    identifiers = ["aaa", "Zzz", "a-a", "a_a", "aaa0"]
    fill(project, collection, *identifiers)

    found = list(pages(project, collection, 2))

    assert found == [["Zzz", "a-a"], ["a_a", "aaa"], ["aaa0"]]


@pytest.mark.rule("S1.9.4")
def test_a_last_page_that_is_full_has_no_token(project: Project) -> None:
    fill(project, "topics", "one", "two")

    assert list(pages(project, "topics", 2)) == [["one", "two"]]


@pytest.mark.rule("S1.9.2")
@pytest.mark.parametrize("query", [{}, {"pageSize": "0"}], ids=["absent", "0"])
def test_a_page_holds_100_by_default(project: Project, query: dict[str, str]) -> None:
    fill(project, "topics", *(f"t{n:03}" for n in range(101)))

    page = project.rest.call("GET", f"{project.name}/topics", query=query).ok()

    assert len(page["topics"]) == 100
    assert page["nextPageToken"]


@pytest.mark.rule("S1.9.2")
@COLLECTIONS
def test_a_negative_page_size_is_refused(project: Project, collection: str) -> None:
    assert project.rest.call("GET", f"{project.name}/{collection}", query={"pageSize": "-1"}).refusal == INVALID


@pytest.mark.rule("S1.9.3")
def test_a_token_outlives_the_item_it_points_at(project: Project) -> None:
    fill(project, "topics", "aaa", "bbb", "ccc")
    first = project.rest.call("GET", f"{project.name}/topics", query={"pageSize": "1"}).ok()
    for identifier in ("aaa", "bbb"):
        project.rest.call("DELETE", project.topic_name(identifier)).ok()

    second = project.rest.call("GET", f"{project.name}/topics", query={"pageToken": first["nextPageToken"]}).ok()

    assert [one["name"] for one in second["topics"]] == [project.topic_name("ccc")]


@pytest.mark.rule("S1.9.3")
def test_a_token_that_was_made_up_is_refused(project: Project) -> None:
    fill(project, "topics", "aaa")

    assert project.rest.call("GET", f"{project.name}/topics", query={"pageToken": "nonsense"}).refusal == INVALID


@pytest.mark.rule("S1.9.3")
def test_a_token_of_another_list_is_refused(project: Project) -> None:
    fill(project, "topics", "aaa", "bbb")
    token = project.rest.call("GET", f"{project.name}/topics", query={"pageSize": "1"}).ok()["nextPageToken"]

    answer = project.rest.call("GET", f"{project.name}/subscriptions", query={"pageToken": token})

    assert answer.refusal == INVALID


@pytest.mark.rule("S1.9.5", "B158")
@COLLECTIONS
def test_only_the_own_project_is_listed(project: Project, collection: str) -> None:
    longer = Project(project.rest, f"{project.id}2")
    fill(project, collection, "own")
    fill(longer, collection, "foreign")

    listed = [identifier for page in pages(project, collection, 10) for identifier in page]

    assert "own" in listed
    assert "foreign" not in listed


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("name", ["pageSize", "page_size"])
def test_query_parameters_come_in_either_spelling(project: Project, name: str) -> None:
    fill(project, "topics", "aaa", "bbb")

    page = project.rest.call("GET", f"{project.name}/topics", query={name: "1"}).ok()

    assert len(page["topics"]) == 1
