"""How every target has to read requests and write replies; where Google's emulator doesn't: differences.toml."""

import pytest

from compat_tests.rest import INVALID, MISSING, Project, Rest

CLIENT = "plain REST"


@pytest.mark.rule("S1.7.1")
def test_requests_may_be_in_snake_case(project: Project) -> None:
    body = {"topic": project.topic(), "ack_deadline_seconds": 33}

    assert project.rest.call("PUT", project.subscription_name(), body).ok()["ackDeadlineSeconds"] == 33


@pytest.mark.rule("S1.7.5", "B086")
@pytest.mark.parametrize("collection", ["topics", "subscriptions"])
def test_a_body_may_repeat_the_name_of_the_path(project: Project, collection: str) -> None:
    topic = project.topic()
    name = f"{project.name}/{collection}/again"
    body = {"name": name} if collection == "topics" else {"name": name, "topic": topic}

    assert project.rest.call("PUT", name, body).ok()["name"] == name


@pytest.mark.rule("S1.1")
@pytest.mark.parametrize("path", ["nothing", "projects/p/nothing/n", "projects/p/topics/t:frobnicate"])
def test_an_unknown_path_is_not_found(rest: Rest, path: str) -> None:
    assert rest.call("POST", path, {}).status == 404


@pytest.mark.rule("S1.6", "S1.1")
def test_an_unknown_path_has_a_json_error(rest: Rest) -> None:
    assert rest.call("GET", "my-project/topics").refusal == MISSING


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"nonsense", b'{"labels": {"a": "b"}'])
def test_a_body_that_is_no_json_object_is_refused(project: Project, body: bytes) -> None:
    assert project.rest.call("PUT", project.topic_name(), body).refusal == INVALID


@pytest.mark.rule("S1.7.4")
def test_an_unknown_query_parameter_is_refused(project: Project) -> None:
    assert project.rest.call("GET", f"{project.name}/topics", query={"noSuch": "1"}).refusal == INVALID


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("name", ["alt", "$alt"])
def test_enums_are_numbers_when_asked_for(project: Project, name: str) -> None:
    project.pair()

    answer = project.rest.call("GET", project.subscription_name(), query={name: "json;enum-encoding=int"})

    assert answer.ok()["state"] == 1


@pytest.mark.rule("S1.7.4")
def test_a_reply_can_be_cut_to_chosen_fields(project: Project) -> None:
    _, subscription = project.pair()

    answer = project.rest.call("GET", subscription, query={"fields": "name,ackDeadlineSeconds"})

    assert answer.ok() == {"name": subscription, "ackDeadlineSeconds": 10}
