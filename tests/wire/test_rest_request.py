"""Path, body and query into a request message."""

import pytest

from emulator.api import pb
from emulator.api.catalogue import BY_PATH, HttpBinding, Rpc
from emulator.errors import PubsubError
from emulator.wire.rest_json import Readers, descriptor_of
from emulator.wire.rest_request import RequestReader, canonical_path

from .rest_fake import Face

TOPIC = "/v1/projects/p/topics/t"
SUBSCRIPTION = "/v1/projects/p/subscriptions/s"


@pytest.fixture
def face() -> Face:
    return Face()


# The path


@pytest.mark.rule("S1.7.5", "B086")
@pytest.mark.parametrize("name", ["projects/p/topics/t", "projects/p/topics/other", "", "no name at all", None])
def test_the_path_beats_a_name_in_the_body(face: Face, name: str | None) -> None:
    topic = face.request("PUT", TOPIC, {"name": name, "labels": {"a": "b"}})

    assert topic == pb.Topic(name="projects/p/topics/t", labels={"a": "b"})


@pytest.mark.rule("S1.7.5", "B088", "B091")
@pytest.mark.parametrize("name", [{"name": "projects/p/subscriptions/s"}, {"name": "projects/x/subscriptions/y"}, {}])
def test_the_path_beats_a_wrapped_name_in_the_body(face: Face, name: dict[str, str]) -> None:
    body = {"subscription": {**name, "ackDeadlineSeconds": 30}, "updateMask": "ackDeadlineSeconds"}

    request = face.request("PATCH", SUBSCRIPTION, body)

    assert request == pb.UpdateSubscriptionRequest(
        subscription=pb.Subscription(name="projects/p/subscriptions/s", ack_deadline_seconds=30),
        update_mask=pb.FieldMask(paths=["ack_deadline_seconds"]),
    )


@pytest.mark.rule("S1.7.5")
@pytest.mark.parametrize("verb", ["pull", "acknowledge", "modifyAckDeadline", "modifyPushConfig", "seek"])
def test_the_path_beats_the_name_in_the_body_of_a_custom_verb(face: Face, verb: str) -> None:
    request = face.request("POST", f"{SUBSCRIPTION}:{verb}", {"subscription": "projects/x/subscriptions/y"})

    assert request.subscription == "projects/p/subscriptions/s"


@pytest.mark.rule("S1.7.5")
@pytest.mark.parametrize("name", ["projects/p/subscriptions/s", "projects/x/subscriptions/y", "", None])
@pytest.mark.parametrize(
    ("method", "target", "field"),
    [
        ("POST", f"{SUBSCRIPTION}:detach", "subscription"),
        ("GET", SUBSCRIPTION, "subscription"),
        ("DELETE", SUBSCRIPTION, "subscription"),
        ("GET", TOPIC, "topic"),
        ("DELETE", TOPIC, "topic"),
        ("GET", "/v1/projects/p/topics", "project"),
        ("GET", f"{TOPIC}/subscriptions", "topic"),
        ("GET", "/v1/projects/p/schemas/s", "name"),
        ("GET", f"{TOPIC}:getIamPolicy", "resource"),
    ],
)
def test_the_path_beats_the_name_in_the_body_of_a_call_that_takes_none(
    face: Face, method: str, target: str, field: str, name: str | None
) -> None:
    without = face.request(method, target)

    assert face.request(method, target, {field: name}) == without


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("verb", ["pull", "detach"])
def test_a_name_that_the_path_beats_must_still_be_text(face: Face, verb: str) -> None:
    error = face.error("POST", f"{SUBSCRIPTION}:{verb}", {"subscription": 1})

    assert "(argument=subscription)" in error["message"]


# The body


@pytest.mark.rule("S1.7.6")
@pytest.mark.parametrize("body", [b"", b"{}", b" \r\n\t", b" { } "])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", TOPIC),
        ("POST", f"{SUBSCRIPTION}:pull"),
        ("POST", f"{SUBSCRIPTION}:detach"),
        ("POST", "/v1/projects/p/schemas"),
        ("PATCH", TOPIC),
        ("GET", TOPIC),
        ("DELETE", TOPIC),
    ],
)
def test_no_body_equals_an_empty_object_everywhere(face: Face, method: str, path: str, body: bytes) -> None:
    assert face.send(method, path, body).status == 200


@pytest.mark.rule("S1.7.6")
@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "x", "/;="])
def test_the_content_type_does_not_matter(face: Face, content_type: str) -> None:
    answer = face.send("PUT", TOPIC, {"labels": {"a": "b"}}, {"content-type": content_type})

    assert answer.status == 200
    assert face.handlers.calls[0].request == pb.Topic(name="projects/p/topics/t", labels={"a": "b"})


@pytest.mark.rule("S1.7.4", "S1.7.6")
@pytest.mark.parametrize(("method", "path"), [("GET", TOPIC), ("DELETE", TOPIC), ("POST", f"{SUBSCRIPTION}:detach")])
def test_a_field_where_the_call_takes_no_body_is_unknown(face: Face, method: str, path: str) -> None:
    error = face.error(method, path, {"pageSize": 1})

    assert error["status"] == "INVALID_ARGUMENT"
    assert "(argument=pageSize)" in error["message"]


@pytest.mark.rule("S1.3")
def test_a_body_may_be_one_field_of_the_request(face: Face) -> None:
    request = face.request("POST", "/v1/projects/p/schemas?schemaId=s", {"type": "AVRO", "name": "ignored"})

    assert request == pb.CreateSchemaRequest(
        parent="projects/p",
        schema_id="s",
        schema=pb.Schema(name="ignored", type=2),
    )


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(("body", "argument"), [({"type": "X"}, "schema.type"), ([], "schema")])
def test_an_error_in_such_a_body_names_the_field_it_stands_for(face: Face, body: object, argument: str) -> None:
    assert f"(argument={argument})" in face.error("POST", "/v1/projects/p/schemas", body)["message"]


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", "JSON"),
        (b"[]", "a list"),
        (b"null", "null"),
        (b'"x"', "x"),
        (b"3", "3"),
        (b"NaN", "NaN"),
        (b"\xff", "utf-8"),
        (b'{"messages": {}}', "messages"),
        (b'{"messages": [1]}', "messages[0]"),
        (b'{"messages": [{"data": "a b"}]}', "messages[0].data"),
        (b'{"messages": [{"data": 3}]}', "messages[0].data"),
        (b'{"messages": [{"attributes": {"k": 3}}]}', "messages[0].attributes.k"),
        (b'{"messages": [{}, {"bogus": 3}]}', "messages[1].bogus"),
        (b'{"messages": [{"publishTime": "now"}]}', "messages[0].publish_time"),
        (b'{"messages": [], "messages": []}', "messages"),
        (b'{"messages": [{"data": "\\ud800"}]}', "messages[0].data"),
        (b'{"messages": [{"orderingKey": "\\ud800"}]}', "messages[0].ordering_key"),
        (b'{"messages": ' + b"[" * 100_000, "nested"),
        (b'{"bogus": ' + b"[" * 900 + b"]" * 900 + b"}", "bogus"),
    ],
)
def test_an_unreadable_body_is_400_and_named(face: Face, body: bytes, named: str) -> None:
    error = face.error("POST", f"{TOPIC}:publish", body)

    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert named in error["message"]


# The query


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(
    "query",
    [
        "pageSize=3&pageToken=a+b%2B",
        "page_size=3&page_token=a%20b%2b",
        "page_token=a+b%2B&&pageSize=3&",
        "alt=json&key=k&$key=k&access_token=t&quotaUser=u&pageSize=3&pageToken=a+b%2B&uploadType=x&upload_protocol=x",
        "callback=cb&$.xgafv=2&$callback=x&$prettyPrint=1&fields=&$fields=&$$.xgafv=1&pageSize=3&pageToken=a+b%2B",
    ],
)
def test_parameters_are_fields_in_either_spelling(face: Face, query: str) -> None:
    request = face.request("GET", f"/v1/projects/p/topics?{query}")

    assert request == pb.ListTopicsRequest(project="projects/p", page_size=3, page_token="a b+")


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("name", ["options.requestedPolicyVersion", "options.requested_policy_version"])
def test_nested_parameters_are_dotted(face: Face, name: str) -> None:
    request = face.request("GET", f"{TOPIC}:getIamPolicy?{name}=3")

    assert request == pb.GetIamPolicyRequest(
        resource="projects/p/topics/t", options=pb.GetPolicyOptions(requested_policy_version=3)
    )


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("view", ["FULL", "2"])
def test_enum_parameters_are_names_or_numbers(face: Face, view: str) -> None:
    assert face.request("GET", f"/v1/projects/p/schemas?view={view}").view == 2


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(
    ("method", "target", "name", "value"),
    [
        ("GET", "/v1/projects/p/topics?bogus=v", "bogus", "v"),
        ("GET", "/v1/projects/p/topics?Page_Size=v", "Page_Size", "v"),
        ("GET", "/v1/projects/p/topics?bogus", "bogus", "(empty)"),
        ("GET", "/v1/projects/p/topics?=v", "", "v"),
        ("GET", "/v1/projects/p/topics?project=projects/x", "project", "projects/x"),
        ("GET", f"{TOPIC}?topic=projects/p/topics/t", "topic", "projects/p/topics/t"),
        ("GET", f"{TOPIC}:getIamPolicy?options=3", "options", "3"),
        ("GET", f"{TOPIC}:getIamPolicy?options.bogus=3", "options.bogus", "3"),
        ("POST", f"{SUBSCRIPTION}:pull?maxMessages=3", "maxMessages", "3"),
        ("PUT", f"{TOPIC}?labels=3", "labels", "3"),
        ("PATCH", f"{TOPIC}?topic.kmsKeyName=k", "topic.kmsKeyName", "k"),
        ("POST", "/v1/projects/p/schemas?schema.name=n", "schema.name", "n"),
        ("GET", "/v1/projects/p/topics?%20bogus=%01", " bogus", "\\x01"),
    ],
)
def test_another_parameter_is_refused_by_name_and_value(
    face: Face, method: str, target: str, name: str, value: str
) -> None:
    error = face.error(method, target)

    assert error["status"] == "INVALID_ARGUMENT"
    assert f"(argument={name})" in error["message"]
    assert value in error["message"]


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(
    ("target", "argument"),
    [
        ("/v1/projects/p/topics?pageSize=x", "page_size"),
        ("/v1/projects/p/topics?pageSize=", "page_size"),
        ("/v1/projects/p/topics?pageSize=3&page_size=3", "page_size"),
        ("/v1/projects/p/schemas?view=BOGUS", "view"),
        (f"{TOPIC}:getIamPolicy?options.requestedPolicyVersion=x", "options.requested_policy_version"),
        ("/v1/projects/p/topics?pageToken=%", "query"),
        ("/v1/projects/p/topics?pageToken=%FF", "query"),
        ("/v1/projects/p/topics?pageToken=\udcff", "query"),
        ("/v1/projects/p/topics?alt=media", "alt"),
        ("/v1/projects/p/topics?alt=", "alt"),
        ("/v1/projects/p/topics?$alt=proto", "$alt"),
        ("/v1/projects/p/topics?$alt=json;enum-encoding=string", "$alt"),
        ("/v1/projects/p/topics?alt=xml&$alt=json", "alt"),
    ],
)
def test_an_unreadable_parameter_is_refused(face: Face, target: str, argument: str) -> None:
    error = face.error("GET", target)

    assert error["status"] == "INVALID_ARGUMENT"
    assert f"(argument={argument})" in error["message"]


# Bindings that Pub/Sub does not have, but HTTP rules allow


def reader_of(rpc: Rpc, body: str) -> RequestReader:
    return RequestReader(
        rpc, HttpBinding("GET", "/v1/{x=*}", body), (rpc.request.DESCRIPTOR.fields[0].name,), Readers()
    )


@pytest.mark.rule("S1.7.4")
def test_a_list_is_a_parameter_given_several_times() -> None:
    reader = reader_of(BY_PATH["/google.iam.v1.IAMPolicy/TestIamPermissions"], "")

    request = reader.read("r", [("permissions", "a"), ("permissions", "b")], b"")

    assert request == pb.TestIamPermissionsRequest(resource="r", permissions=["a", "b"])


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False)])
def test_parameters_reach_into_messages(text: str, value: bool) -> None:
    reader = reader_of(BY_PATH["/google.pubsub.v1.Subscriber/CreateSubscription"], "")
    parameters = [
        ("retainAckedMessages", text),
        ("retryPolicy.minimum_backoff", "3s"),
        ("pushConfig.noWrapper.writeMetadata", "true"),
        ("push_config.pushEndpoint", "e"),
    ]

    request = reader.read("n", parameters, b"")

    assert request == pb.Subscription(
        name="n",
        retain_acked_messages=value,
        retry_policy=pb.RetryPolicy(minimum_backoff=pb.Duration(seconds=3)),
        push_config=pb.PushConfig(push_endpoint="e", no_wrapper=pb.PushConfig.NoWrapper(write_metadata=True)),
    )


@pytest.mark.rule("S1.7.4")
@pytest.mark.parametrize("name", ["labels", "labels.a", "messageTransforms", "messageTransforms.disabled", "name"])
def test_maps_and_lists_of_messages_are_no_parameters(name: str) -> None:
    reader = reader_of(BY_PATH["/google.pubsub.v1.Subscriber/CreateSubscription"], "")

    with pytest.raises(PubsubError, match="no such query parameter"):
        reader.read("n", [(name, "x")], b"")


def test_a_body_that_is_no_message_is_refused_when_the_address_is_built() -> None:
    with pytest.raises(TypeError, match="GetTopicRequest"):
        reader_of(BY_PATH["/google.pubsub.v1.Publisher/GetTopic"], "topic")


def test_a_reader_shows_its_request() -> None:
    assert repr(reader_of(BY_PATH["/google.pubsub.v1.Publisher/GetTopic"], "")) == "<RequestReader GetTopicRequest>"


# Masks


@pytest.mark.rule("S1.7.7", "S1.7.9", "S1.8.1", "K10", "B091", "K12")
@pytest.mark.parametrize(
    "paths", ["ackDeadlineSeconds,pushConfig.noWrapper", "ack_deadline_seconds,push_config.no_wrapper"]
)
@pytest.mark.parametrize("place", ["updateMask in body", "update_mask in body", "updateMask=", "update_mask="])
def test_a_mask_is_read_from_either_place_in_either_spelling(face: Face, place: str, paths: str) -> None:
    body: dict[str, object] = {"subscription": {"ackDeadlineSeconds": 30}}
    target = SUBSCRIPTION
    if place.endswith("="):
        target += f"?{place}{paths}"
    else:
        body[place.partition(" ")[0]] = paths

    request = face.request("PATCH", target, body)

    assert request.update_mask.paths == ["ack_deadline_seconds", "push_config.no_wrapper"]
    assert request.subscription.ack_deadline_seconds == 30


@pytest.mark.rule("S1.7.7")
@pytest.mark.parametrize("target", [f"{TOPIC}?updateMask=", TOPIC])
def test_an_empty_mask_has_no_paths(face: Face, target: str) -> None:
    body = {"topic": {}} if "?" in target else {"topic": {}, "updateMask": ""}

    request = face.request("PATCH", target, body)

    assert request.HasField("update_mask")
    assert request.update_mask.paths == []


@pytest.mark.rule("B097")
def test_a_mask_that_is_missing_stays_missing(face: Face) -> None:
    assert not face.request("PATCH", TOPIC, {"topic": {}}).HasField("update_mask")


@pytest.mark.rule("S1.7.7")
def test_several_parameters_make_one_mask(face: Face) -> None:
    request = face.request("PATCH", f"{TOPIC}?updateMask=labels&updateMask=kmsKeyName", {"topic": {}})

    assert request.update_mask.paths == ["labels", "kms_key_name"]


@pytest.mark.rule("S1.7.7")
def test_the_same_mask_in_both_places_is_one_mask(face: Face) -> None:
    body = {"topic": {}, "updateMask": "labels,kmsKeyName"}

    request = face.request("PATCH", f"{TOPIC}?update_mask=kms_key_name,labels", body)

    assert sorted(request.update_mask.paths) == ["kms_key_name", "labels"]


@pytest.mark.rule("S1.7.7")
def test_two_different_masks_are_refused(face: Face) -> None:
    error = face.error("PATCH", f"{TOPIC}?updateMask=labels", {"topic": {}, "updateMask": "kmsKeyName"})

    assert error["status"] == "INVALID_ARGUMENT"
    assert "(argument=update_mask)" in error["message"]
    assert "labels" in error["message"]
    assert "kmsKeyName" in error["message"]


@pytest.mark.rule("S1.7.7", "S1.8.1")
@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("*", "*"),
        ("", ""),
        ("labels.myKey", "labels.myKey"),
        ("pushConfig.attributes.xGoogVersion", "push_config.attributes.xGoogVersion"),
        ("deadLetterPolicy.maxDeliveryAttempts", "dead_letter_policy.max_delivery_attempts"),
        ("expirationPolicy.ttl", "expiration_policy.ttl"),
        ("messageTransforms", "message_transforms"),
        ("bogusField", "bogusField"),
        ("pushConfig.bogusField", "push_config.bogusField"),
        ("ackDeadlineSeconds.someThing", "ack_deadline_seconds.someThing"),
        ("push_config.push_endpoint", "push_config.push_endpoint"),
    ],
)
def test_paths_are_respelled_as_far_as_they_name_fields(path: str, canonical: str) -> None:
    assert canonical_path(path, descriptor_of(pb.Subscription)) == canonical


@pytest.mark.rule("S1.7.7")
def test_a_policy_mask_is_about_the_policy(face: Face) -> None:
    request = face.request("POST", f"{TOPIC}:setIamPolicy", {"policy": {"etag": "YQ=="}, "updateMask": "etag,bindings"})

    assert request == pb.SetIamPolicyRequest(
        resource="projects/p/topics/t",
        policy=pb.Policy(etag=b"a"),
        update_mask=pb.FieldMask(paths=["etag", "bindings"]),
    )
