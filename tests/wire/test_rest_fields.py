"""Partial replies."""

from contextlib import suppress

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from emulator.api import pb
from emulator.errors import Code, PubsubError
from emulator.wire.field_selection import FieldSelection
from emulator.wire.rest_json import descriptor_of

from .rest_fake import Face

TOPICS = {
    "topics": [
        {"name": "a", "labels": {"x": "1", "y": "2"}, "messageStoragePolicy": {"allowedPersistenceRegions": ["r"]}},
        {"name": "b", "schemaSettings": {"schema": "s", "encoding": "JSON"}, "messageRetentionDuration": "600s"},
    ],
    "nextPageToken": "n",
}


def select(text: str, document: object = TOPICS, message: type[Message] = pb.ListTopicsResponse) -> object:
    return FieldSelection(text, descriptor_of(message)).apply(document)


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(
    "text", ["topics.name,nextPageToken", "topics/name,next_page_token", "topics(name), nextPageToken"]
)
def test_only_the_named_fields_are_left(text: str) -> None:
    assert select(text) == {"topics": [{"name": "a"}, {"name": "b"}], "nextPageToken": "n"}


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("*", TOPICS),
        ("nextPageToken", {"nextPageToken": "n"}),
        ("topics.labels.x", {"topics": [{"labels": {"x": "1"}}, {}]}),
        ("topics/labels/*", {"topics": [{"labels": {"x": "1", "y": "2"}}, {}]}),
        ("topics(labels(x,y))", {"topics": [{"labels": {"x": "1", "y": "2"}}, {}]}),
        ("topics.schemaSettings(schema)", {"topics": [{}, {"schemaSettings": {"schema": "s"}}]}),
        ("topics/schema_settings.schema", {"topics": [{}, {"schemaSettings": {"schema": "s"}}]}),
        ("topics.*.schema", {"topics": [{"labels": {}}, {"schemaSettings": {"schema": "s"}}]}),
        ("*/name", {"topics": [{"name": "a"}, {"name": "b"}]}),
        ("topics,topics.name,nextPageToken", TOPICS),
        ("topics.name,topics,nextPageToken", TOPICS),
        (
            "topics(name),topics(messageRetentionDuration)",
            {"topics": [{"name": "a"}, {"name": "b", "messageRetentionDuration": "600s"}]},
        ),
        (
            "topics(message_storage_policy/allowedPersistenceRegions,name)",
            {"topics": [{"name": "a", "messageStoragePolicy": {"allowedPersistenceRegions": ["r"]}}, {"name": "b"}]},
        ),
        ("topics.kmsKeyName", {"topics": [{}, {}]}),
    ],
)
def test_every_form_of_path_is_applied(text: str, left: object) -> None:
    assert select(text) == left


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("bogus", "bogus"),
        ("topics.bogus", "topics.bogus"),
        ("nextPageToken.x", "nextPageToken.x"),
        ("topics.name,topics.bogus", "topics.bogus"),
        ("topics.labels.x.y", "topics.labels.x.y"),
        ("topics,topics.bogus", "topics.bogus"),
        ("*.bogus", "*.bogus"),
        ("topics.messageRetentionDuration.seconds", "topics.messageRetentionDuration.seconds"),
    ],
)
def test_a_path_that_the_reply_does_not_have_is_refused(text: str, named: str) -> None:
    with pytest.raises(PubsubError) as refused:
        select(text)

    assert refused.value.code is Code.INVALID_ARGUMENT
    assert named in refused.value.message
    assert "(argument=fields)" in refused.value.message


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(
    "text",
    [
        ",",
        " ",
        "topics,",
        ",topics",
        "topics,,nextPageToken",
        "topics.",
        ".topics",
        "topics..name",
        "topics(",
        "topics()",
        "topics)",
        "topics(name",
        "topics(name))",
        "topics(name)nextPageToken",
        "topics(name).name",
        "topics(name)(name)",
        "(topics)",
        "topics name",
        "topics(name,)",
        "a." * 100 + "a",
        "a(" * 30_000,
    ],
)
def test_what_is_not_a_list_of_paths_is_refused(text: str) -> None:
    with pytest.raises(PubsubError, match=r"expected a list of paths .* \(argument=fields\)"):
        select(text)


@given(text=st.text(st.sampled_from("ab*,./() "), max_size=12) | st.text(max_size=12))
def test_any_text_is_either_applied_or_refused(text: str) -> None:
    with suppress(PubsubError):
        assert isinstance(select(text), dict)


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("parameter", ["fields", "$fields"])
def test_the_parameter_is_applied_to_a_call(parameter: str) -> None:
    face = Face(list_topics=lambda: pb.ListTopicsResponse(topics=[pb.Topic(name="a")], next_page_token="n"))

    assert face.reply("GET", f"/v1/projects/p/topics?{parameter}=topics(name)") == {"topics": [{"name": "a"}]}


@pytest.mark.rule("S1.7.4")
def test_an_unknown_path_is_refused_before_the_call() -> None:
    face = Face()

    error = face.error("DELETE", "/v1/projects/p/topics/t?fields=bogus")

    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")


def test_a_selection_shows_its_text() -> None:
    assert repr(FieldSelection("name", descriptor_of(pb.Topic))) == "<FieldSelection name>"
