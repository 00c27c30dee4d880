"""What every target has to do with topics and subscriptions; where Google's emulator doesn't: differences.toml."""

from typing import Any
from urllib.parse import quote

import pytest

from compat_tests.rest import EXISTS, INVALID, MISSING, PRECONDITION, Project

CLIENT = "plain REST"

DAY = 86_400


@pytest.mark.rule("S1.5", "B095")
def test_a_created_topic_is_answered_and_got(project: Project) -> None:
    created = project.rest.call("PUT", project.topic_name(), {"labels": {"team": "red"}}).ok()

    assert created["name"] == project.topic_name()
    assert created["labels"] == {"team": "red"}
    assert project.rest.call("GET", project.topic_name()).ok() == created


@pytest.mark.rule("S4.topic.satisfies_pzs")
def test_a_topic_says_that_it_is_active(project: Project) -> None:
    topic = project.topic()

    assert project.rest.call("GET", topic).ok()["state"] == "ACTIVE"


@pytest.mark.rule("S1.7.6")
@pytest.mark.parametrize("body", [b"", None], ids=["empty", "none"])
def test_a_missing_body_counts_as_an_empty_object(project: Project, body: bytes | None) -> None:
    assert project.rest.call("PUT", project.topic_name(), body).ok()["name"] == project.topic_name()


@pytest.mark.rule("S1", "B095")
def test_creating_a_topic_twice_is_refused(project: Project) -> None:
    topic = project.topic()

    again = project.rest.call("PUT", topic, {})

    assert again.refusal == EXISTS


@pytest.mark.rule("S1.6")
def test_an_error_names_the_resource(project: Project) -> None:
    topic = project.topic()

    missing = project.rest.call("GET", project.topic_name("nobody"))
    existing = project.rest.call("PUT", topic, {})

    assert f"(resource={project.topic_name('nobody')})" in missing.error["message"]
    assert f"(resource={topic})" in existing.error["message"]


@pytest.mark.rule("S1", "B095")
def test_creating_a_subscription_twice_is_refused(project: Project) -> None:
    topic, subscription = project.pair()

    assert project.rest.call("PUT", subscription, {"topic": topic}).refusal == EXISTS


@pytest.mark.rule("S1", "B095")
@pytest.mark.parametrize("collection", ["topics", "subscriptions"])
def test_deleting_answers_an_empty_object_and_then_there_is_nothing(project: Project, collection: str) -> None:
    topic, subscription = project.pair()
    name = topic if collection == "topics" else subscription

    deleted = project.rest.call("DELETE", name)

    assert deleted.ok() == {}
    assert deleted.headers["content-type"].startswith("application/json")
    assert project.rest.call("GET", name).refusal == MISSING
    assert project.rest.call("DELETE", name).refusal == MISSING


@pytest.mark.rule("S1", "S1.6", "K11", "S7.2.6")
@pytest.mark.parametrize(
    ("verb", "suffix", "body"),
    [
        ("GET", "topics/nobody", None),
        ("DELETE", "topics/nobody", None),
        ("POST", "topics/nobody:publish", {"messages": [{"data": "eA=="}]}),
        ("PATCH", "topics/nobody", {"topic": {}, "updateMask": "messageRetentionDuration"}),
        ("GET", "subscriptions/nobody", None),
        ("DELETE", "subscriptions/nobody", None),
        ("POST", "subscriptions/nobody:pull", {"maxMessages": 1, "returnImmediately": True}),
        ("POST", "subscriptions/nobody:acknowledge", {"ackIds": ["x"]}),
        ("POST", "subscriptions/nobody:modifyAckDeadline", {"ackIds": ["x"], "ackDeadlineSeconds": 10}),
        ("POST", "subscriptions/nobody:modifyPushConfig", {"pushConfig": {}}),
        ("PATCH", "subscriptions/nobody", {"subscription": {}, "updateMask": "ackDeadlineSeconds"}),
    ],
)
def test_what_does_not_exist_is_not_found(project: Project, verb: str, suffix: str, body: Any) -> None:
    assert project.rest.call(verb, f"{project.name}/{suffix}", body).refusal == MISSING


@pytest.mark.rule("S1", "S1.9.5")
def test_subscriptions_of_a_missing_topic_are_not_found(project: Project) -> None:
    assert project.rest.call("GET", f"{project.topic_name('nobody')}/subscriptions").refusal == MISSING


@pytest.mark.rule("S4.subscription.name", "B124")
def test_a_subscription_to_a_missing_topic_is_not_found(project: Project) -> None:
    answer = project.rest.call("PUT", project.subscription_name(), {"topic": project.topic_name()})

    assert answer.refusal == MISSING


@pytest.mark.rule("S3.2", "B157")
@pytest.mark.parametrize("topic", ["topic", "topics/topic", "projects/p/subscriptions/topic", "projects/p/topics/"])
def test_only_full_names_are_accepted(project: Project, topic: str) -> None:
    assert project.rest.call("PUT", project.subscription_name(), {"topic": topic}).refusal == INVALID


@pytest.mark.rule("S4.subscription.name")
def test_a_subscription_needs_a_topic(project: Project) -> None:
    assert project.rest.call("PUT", project.subscription_name(), {}).refusal == INVALID


@pytest.mark.rule("S3.1", "B152")
@pytest.mark.parametrize(
    "identifier", ["ab", "a" * 256, "1abc", "-abc", "goog-x", "a*b", "a^b", "goog-illegal*to^^^name", "topicé"]
)
@pytest.mark.parametrize("collection", ["topics", "subscriptions"])
def test_a_malformed_id_is_refused(project: Project, collection: str, identifier: str) -> None:
    topic = project.topic()
    body = {} if collection == "topics" else {"topic": topic}

    answer = project.rest.call("PUT", f"{project.name}/{collection}/{quote(identifier)}", body)

    assert answer.refusal == INVALID


@pytest.mark.rule("S3.1")
@pytest.mark.parametrize("identifier", ["abc", "a" * 255, "Goog1", "a-_.~+", "a%20c"])
def test_a_well_formed_id_is_accepted(project: Project, identifier: str) -> None:
    created = project.rest.call("PUT", f"{project.name}/topics/{quote(identifier, safe='+')}", {}).ok()

    assert created["name"] == f"{project.name}/topics/{identifier}"


@pytest.mark.rule("S4.subscription.ack_deadline_seconds", "S4.subscription.message_retention_duration")
@pytest.mark.rule("S4.subscription.push_config", "S1.7.1")
def test_a_bare_subscription_has_defaults(project: Project) -> None:
    topic, subscription = project.pair()

    resource = project.rest.call("GET", subscription).ok()

    assert resource["topic"] == topic
    assert resource["ackDeadlineSeconds"] == 10
    assert resource["messageRetentionDuration"] == "604800s"
    assert resource["pushConfig"] == {}
    assert "retainAckedMessages" not in resource
    assert "labels" not in resource


@pytest.mark.rule("S4.subscription.expiration_policy")
def test_a_bare_subscription_expires_after_31_days(project: Project) -> None:
    _, subscription = project.pair()

    assert project.rest.call("GET", subscription).ok()["expirationPolicy"] == {"ttl": "2678400s"}


@pytest.mark.rule("S1.5", "S1.7.1", "S1.7.3")
def test_a_subscription_comes_back_as_it_was_set(project: Project) -> None:
    topic = project.topic()
    fields = {
        "ackDeadlineSeconds": 42,
        "retainAckedMessages": True,
        "messageRetentionDuration": "3600s",
        "labels": {"a": "b"},
        "enableMessageOrdering": True,
        "expirationPolicy": {"ttl": "86400s"},
        "filter": 'attributes.x = "y"',
        "deadLetterPolicy": {"deadLetterTopic": topic, "maxDeliveryAttempts": 7},
        "retryPolicy": {"minimumBackoff": "1.500s", "maximumBackoff": "60s"},
    }

    created = project.rest.call("PUT", project.subscription_name(), {"topic": topic, **fields}).ok()

    assert {key: created[key] for key in fields} == fields
    assert project.rest.call("GET", project.subscription_name()).ok() == created


DEADLINE = pytest.mark.rule("S4.subscription.ack_deadline_seconds", "B155")
RETENTION = pytest.mark.rule("S4.subscription.message_retention_duration")
EXPIRATION = pytest.mark.rule("S4.subscription.expiration_policy")
BACKOFF = pytest.mark.rule("S4.subscription.retry_policy")
LABELS = pytest.mark.rule("S3.7", "B154")
MAPPING = pytest.mark.rule("S1.7.4")

BAD_FIELDS = [
    pytest.param("ackDeadlineSeconds", 1, marks=DEADLINE, id="deadline-1"),
    pytest.param("ackDeadlineSeconds", 9, marks=DEADLINE, id="deadline-9"),
    pytest.param("ackDeadlineSeconds", 601, marks=DEADLINE, id="deadline-601"),
    pytest.param("ackDeadlineSeconds", -1, marks=DEADLINE, id="deadline-negative"),
    pytest.param("messageRetentionDuration", "599s", marks=RETENTION, id="retention-short"),
    pytest.param("messageRetentionDuration", "2678401s", marks=RETENTION, id="retention-long"),
    pytest.param("expirationPolicy", {"ttl": "86399s"}, marks=EXPIRATION, id="ttl-below-a-day"),
    pytest.param("expirationPolicy", {"ttl": "90000s"}, marks=EXPIRATION, id="ttl-below-retention"),
    pytest.param("retryPolicy", {"minimumBackoff": "601s"}, marks=BACKOFF, id="backoff-long"),
    pytest.param("retryPolicy", {"minimumBackoff": "9s", "maximumBackoff": "8s"}, marks=BACKOFF, id="backoff-order"),
    pytest.param("labels", {"key": "gram.ping.v1.Message"}, marks=LABELS, id="label-value"),
    pytest.param("labels", {"Key": "x"}, marks=LABELS, id="label-key"),
    pytest.param("labels", {"k" * 64: "x"}, marks=LABELS, id="label-key-long"),
    pytest.param("labels", {f"k{n}": "x" for n in range(65)}, marks=LABELS, id="labels-65"),
    pytest.param("filter", "x" * 257, marks=pytest.mark.rule("B055"), id="filter-long"),
    pytest.param("filter", "bogus (", marks=pytest.mark.rule("B055", "S11.1"), id="filter-bogus"),
    pytest.param("noSuchField", 1, marks=MAPPING, id="unknown-field"),
    pytest.param("ackDeadlineSeconds", "ten", marks=MAPPING, id="text-for-number"),
    pytest.param("messageRetentionDuration", "an hour", marks=MAPPING, id="malformed-duration"),
]


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS)
def test_a_subscription_with_a_bad_field_is_refused(project: Project, field: str, value: object) -> None:
    topic = project.topic()

    answer = project.rest.call("PUT", project.subscription_name(), {"topic": topic, field: value})

    assert answer.refusal == INVALID
    assert project.rest.call("GET", project.subscription_name()).refusal == MISSING


@pytest.mark.rule("S4.subscription.message_retention_duration")
@pytest.mark.parametrize("days", [7, 31])
def test_a_subscription_may_retain_for_days(project: Project, days: int) -> None:
    _, subscription = project.pair(messageRetentionDuration=f"{days * DAY}s", expirationPolicy={})

    assert project.rest.call("GET", subscription).ok()["messageRetentionDuration"] == f"{days * DAY}s"


@pytest.mark.rule("S4.subscription.retry_policy")
def test_absent_back_offs_are_filled_in(project: Project) -> None:
    _, subscription = project.pair(retryPolicy={})

    policy = project.rest.call("GET", subscription).ok()["retryPolicy"]

    assert policy == {"minimumBackoff": "10s", "maximumBackoff": "600s"}


@pytest.mark.rule("S4.subscription.dead_letter_policy")
def test_five_attempts_are_the_default(project: Project) -> None:
    topic = project.topic()
    subscription = project.subscription(topic, deadLetterPolicy={"deadLetterTopic": topic})

    assert project.rest.call("GET", subscription).ok()["deadLetterPolicy"]["maxDeliveryAttempts"] == 5


@pytest.mark.rule("S4.subscription.dead_letter_policy")
def test_a_dead_letter_topic_has_to_exist(project: Project) -> None:
    policy = {"deadLetterTopic": project.topic_name("nobody")}
    body = {"topic": project.topic(), "deadLetterPolicy": policy}

    assert project.rest.call("PUT", project.subscription_name(), body).refusal == MISSING


@pytest.mark.rule("S4.subscription.dead_letter_policy")
@pytest.mark.parametrize("attempts", [4, 101])
def test_attempts_out_of_range_are_a_bad_request(project: Project, attempts: int) -> None:
    topic = project.topic()
    body = {"topic": topic, "deadLetterPolicy": {"deadLetterTopic": topic, "maxDeliveryAttempts": attempts}}

    assert project.rest.call("PUT", project.subscription_name(), body).status == 400


@pytest.mark.rule("S4.topic.message_retention_duration")
@pytest.mark.parametrize("retention", ["599s", "2678401s"])
def test_a_topic_with_a_bad_retention_is_refused(project: Project, retention: str) -> None:
    answer = project.rest.call("PUT", project.topic_name(), {"messageRetentionDuration": retention})

    assert answer.refusal == INVALID


@pytest.mark.rule("S4.subscription.topic_message_retention_duration")
def test_a_subscription_shows_the_retention_of_its_topic(project: Project) -> None:
    topic = project.topic(messageRetentionDuration="3600s")
    subscription = project.subscription(topic)

    assert project.rest.call("GET", subscription).ok()["topicMessageRetentionDuration"] == "3600s"


@pytest.mark.rule("S3.5", "S1.9.5")
def test_a_topic_may_have_subscriptions_in_another_project(project: Project) -> None:
    topic = project.topic()
    foreign = Project(project.rest, f"{project.id}-2").subscription(topic, "foreign")
    own = project.subscription(topic, "own")

    listed = project.rest.call("GET", f"{topic}/subscriptions").ok()["subscriptions"]

    assert sorted(listed) == sorted([own, foreign])


@pytest.mark.rule("S1.9.5", "S6.3")
def test_a_deleted_subscription_is_no_longer_listed_under_its_topic(project: Project) -> None:
    topic, subscription = project.pair()
    kept = project.subscription(topic, "kept")

    project.rest.call("DELETE", subscription).ok()

    assert project.rest.call("GET", f"{topic}/subscriptions").ok() == {"subscriptions": [kept]}


@pytest.mark.rule("S6.1")
def test_a_deleted_topic_leaves_its_subscription_behind(project: Project) -> None:
    topic, subscription = project.pair()
    project.publish(topic, b"kept")

    project.rest.call("DELETE", topic).ok()

    assert project.rest.call("GET", subscription).ok()["topic"] == "_deleted-topic_"
    assert project.data(subscription) == [b"kept"]


@pytest.mark.rule("S6.1", "S3.6")
def test_a_recreated_topic_has_no_tie_to_the_old_one(project: Project) -> None:
    topic, subscription = project.pair()
    project.rest.call("DELETE", topic).ok()

    project.topic()
    project.publish(topic, b"new")

    assert project.rest.call("GET", subscription).ok()["topic"] == "_deleted-topic_"
    assert project.pull(subscription) == []
    assert project.rest.call("GET", f"{topic}/subscriptions").ok() == {}


@pytest.mark.rule("S6.2", "S7.2.6")
def test_a_detached_subscription_cannot_be_pulled(project: Project) -> None:
    topic, subscription = project.pair()

    assert project.rest.call("POST", f"{subscription}:detach").ok() == {}

    pull = project.rest.call("POST", f"{subscription}:pull", {"maxMessages": 1, "returnImmediately": True})
    assert pull.refusal == PRECONDITION
    assert project.rest.call("GET", subscription).ok()["detached"] is True
    assert project.rest.call("GET", f"{topic}/subscriptions").ok() == {}


@pytest.mark.rule("S7.2.5")
def test_a_push_subscription_cannot_be_pulled(project: Project) -> None:
    _, subscription = project.pair(pushConfig={"pushEndpoint": "http://localhost:9/"})

    pull = project.rest.call("POST", f"{subscription}:pull", {"maxMessages": 1, "returnImmediately": True})

    assert pull.refusal == PRECONDITION


@pytest.mark.rule("S4.subscription.push_config")
def test_a_push_config_can_be_set_and_taken_away(project: Project) -> None:
    _, subscription = project.pair()

    def endpoint(config: object) -> object:
        project.rest.call("POST", f"{subscription}:modifyPushConfig", {"pushConfig": config}).ok()
        return project.rest.call("GET", subscription).ok()["pushConfig"].get("pushEndpoint")

    assert endpoint({"pushEndpoint": "http://localhost:9/x"}) == "http://localhost:9/x"
    assert endpoint({}) is None
