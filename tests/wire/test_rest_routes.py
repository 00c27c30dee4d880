"""Methods and raw paths to RPCs and resource names."""

import pytest

from emulator.api import pb
from emulator.api.catalogue import RPCS
from emulator.errors import Code, PubsubError
from emulator.wire.routes import Routes, Template
from emulator.wire.status import HttpFailure

from .rest_fake import Face


@pytest.fixture
def routes() -> Routes[str]:
    routes: Routes[str] = Routes()
    for rpc in RPCS:
        for binding in rpc.http:
            routes.add(binding.verb, Template.parse(binding.template), rpc.name)
    return routes


@pytest.mark.rule("S1")
@pytest.mark.parametrize(
    ("method", "path", "rpc", "name"),
    [
        ("PUT", "/v1/projects/p/topics/t", "create_topic", "projects/p/topics/t"),
        ("PATCH", "/v1/projects/p/topics/t", "update_topic", "projects/p/topics/t"),
        ("GET", "/v1/projects/p/topics/t", "get_topic", "projects/p/topics/t"),
        ("DELETE", "/v1/projects/p/topics/t", "delete_topic", "projects/p/topics/t"),
        ("GET", "/v1/projects/p/topics", "list_topics", "projects/p"),
        ("POST", "/v1/projects/p/topics/t:publish", "publish", "projects/p/topics/t"),
        ("GET", "/v1/projects/p/topics/t/subscriptions", "list_topic_subscriptions", "projects/p/topics/t"),
        ("GET", "/v1/projects/p/topics/t/snapshots", "list_topic_snapshots", "projects/p/topics/t"),
        ("POST", "/v1/projects/p/subscriptions/s:pull", "pull", "projects/p/subscriptions/s"),
        ("POST", "/v1/projects/p/subscriptions/s:detach", "detach_subscription", "projects/p/subscriptions/s"),
        ("POST", "/v1/projects/p/schemas", "create_schema", "projects/p"),
        ("POST", "/v1/projects/p/schemas:validate", "validate_schema", "projects/p"),
        ("DELETE", "/v1/projects/p/schemas/s@0123abcd:deleteRevision", "delete_schema_revision", None),
        ("GET", "/v1/projects/p/snapshots/s:getIamPolicy", "get_iam_policy", "projects/p/snapshots/s"),
        ("POST", "/v1/projects/p/schemas/s:testIamPermissions", "test_iam_permissions", "projects/p/schemas/s"),
    ],
)
def test_a_method_and_a_path_lead_to_an_rpc(
    routes: Routes[str], method: str, path: str, rpc: str, name: str | None
) -> None:
    found = routes.find(method, path)

    assert found.target == rpc
    assert found.name == (name or "projects/p/schemas/s@0123abcd")


@pytest.mark.rule("S1", "S1.7.8")
def test_every_binding_of_every_row_is_reachable(routes: Routes[str]) -> None:
    for rpc in RPCS:
        for binding in rpc.http:
            path = binding.template.replace("*", "abc").replace("{", "").replace("}", "")
            path = "/v1/" + path.removeprefix("/v1/").partition("=")[2]
            assert routes.find(binding.verb, path).target == rpc.name


@pytest.mark.rule("S1.7.10", "S3.2")
@pytest.mark.parametrize(
    ("segment", "name"),
    [
        ("a+b", "a+b"),
        ("a+b%20c", "a+b c"),
        ("a%2Bb", "a+b"),
        ("a%2bb", "a+b"),
        ("a%20c", "a c"),
        ("a%2520c", "a%20c"),
        ("a%253Ab", "a%3Ab"),
        ("caf%C3%A9", "café"),
        ("caf\udcc3\udca9", "café"),  # the bytes unescaped, as servers hand them over
        ("café", "café"),
        ("a%00b", "a\x00b"),
        ("a%0Ab", "a\nb"),
        ("a%0D%0A", "a\r\n"),
        ("a~b-c_d.e", "a~b-c_d.e"),
        ("a:b", "a:b"),
        ("a%3Ab", "a:b"),
        ("a:", "a:"),
    ],
)
def test_each_segment_is_decoded_once(routes: Routes[str], segment: str, name: str) -> None:
    assert routes.find("GET", f"/v1/projects/p/topics/{segment}").name == f"projects/p/topics/{name}"


@pytest.mark.rule("S1.7.10")
@pytest.mark.parametrize("colon", [":", "%3A", "%3a"])
def test_the_verb_follows_the_last_colon(routes: Routes[str], colon: str) -> None:
    found = routes.find("POST", f"/v1/projects/example.com:p/topics/a:b{colon}publish")

    assert (found.target, found.name) == ("publish", "projects/example.com:p/topics/a:b")


@pytest.mark.rule("S1.7.10", "S3.3")
@pytest.mark.parametrize("project", ["example.com:p", "example.com%3Ap", "-", "UPPER", "12", "publish", "topics"])
def test_a_project_is_any_segment(routes: Routes[str], project: str) -> None:
    found = routes.find("GET", f"/v1/projects/{project}/topics")

    assert (found.target, found.name) == ("list_topics", f"projects/{project.replace('%3A', ':')}")


@pytest.mark.rule("S1.7.10")
@pytest.mark.parametrize("segment", ["a%2Fb", "a%2fb", "%2F", "t%2F:publish"])
def test_a_slash_inside_a_segment_is_refused(routes: Routes[str], segment: str) -> None:
    with pytest.raises(PubsubError) as refused:
        routes.find("GET", f"/v1/projects/p/topics/{segment}")

    assert refused.value.code is Code.INVALID_ARGUMENT
    assert segment in refused.value.message


@pytest.mark.rule("S1.7.10")
@pytest.mark.parametrize("segment", ["%", "a%2", "%zz", "%C3", "%C3%28", "%ED%A0%80", "\udcff", chr(0xD800), "a%0G"])
def test_a_segment_that_cannot_be_decoded_is_refused(routes: Routes[str], segment: str) -> None:
    with pytest.raises(PubsubError) as refused:
        routes.find("GET", f"/v1/projects/p/topics/{segment}")

    assert refused.value.code is Code.INVALID_ARGUMENT


@pytest.mark.rule("S1.1")
@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "*",
        "/v2/projects/p/topics",
        "/v1",
        "/v1/",
        "/v1/projects",
        "/v1/projects/p",
        "/v1/projects//topics",
        "/v1/projects/p/topics/",
        "/v1/projects/p/topics/t/",
        "/v1//projects/p/topics",
        "/v1/projects/p/queues/q",
        "/v1/projects/p/topics/t/subscriptions/s",
        "/v1/projects/p/topics/t:frobnicate",
        "/v1/projects/p/topics:publish",
        "/v1/projects/p/topics/:publish",
        "/v1/projects/p/subscriptions/s:streamingPull",
        "/v1/projects/p/subscriptions/s/topics",
        "/V1/projects/p/topics",
    ],
)
def test_an_unknown_path_is_404(routes: Routes[str], path: str) -> None:
    with pytest.raises(HttpFailure) as refused:
        routes.find("POST", path)

    assert refused.value.status == 404
    assert refused.value.error.code is Code.NOT_FOUND


@pytest.mark.rule("S1.1")
@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/v1/projects/p/topics/t", "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"),
        ("GET", "/v1/projects/p/topics/t:publish", "OPTIONS, POST"),
        ("DELETE", "/v1/projects/p/topics", "GET, HEAD, OPTIONS"),
        ("get", "/v1/projects/p/topics", "GET, HEAD, OPTIONS"),
        ("BREW", "/v1/projects/p/schemas", "GET, HEAD, OPTIONS, POST"),
    ],
)
def test_a_known_path_with_another_method_is_405(routes: Routes[str], method: str, path: str, allow: str) -> None:
    with pytest.raises(HttpFailure) as refused:
        routes.find(method, path)

    assert refused.value.status == 405
    assert refused.value.headers == {"allow": allow}
    assert method in refused.value.error.message


@pytest.mark.rule("S3.1")
def test_an_unknown_verb_is_part_of_the_name_where_the_method_fits(routes: Routes[str]) -> None:
    found = routes.find("PUT", "/v1/projects/p/topics/t:frobnicate")

    assert (found.target, found.name) == ("create_topic", "projects/p/topics/t:frobnicate")


@pytest.mark.rule("K12")
@pytest.mark.parametrize("prefix", ["//", "http://localhost:8085/", "HTTP://[::1]:8085//", "https://x/"])
def test_what_stands_before_the_version_does_not_matter(routes: Routes[str], prefix: str) -> None:
    assert routes.find("GET", prefix + "v1/projects/p/topics").target == "list_topics"


@pytest.mark.parametrize("template", ["/v1/topics", "/v1/{a}/topics", "/v1/{a=*}/{b=*}", "/v1/{a=*"])
def test_a_template_without_exactly_one_field_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="one field"):
        Template.parse(template)


def test_two_targets_for_one_address_are_refused(routes: Routes[str]) -> None:
    with pytest.raises(ValueError, match="already"):
        routes.add("GET", Template.parse("/v1/{name=projects/*/topics/*}"), "another")


def test_a_literal_wins_over_a_wildcard() -> None:
    routes: Routes[str] = Routes()
    routes.add("GET", Template.parse("/v1/{name=things/*}"), "any")
    routes.add("GET", Template.parse("/v1/{name=things/special}"), "special")

    assert [routes.find("GET", f"/v1/things/{each}").target for each in ("other", "special")] == ["any", "special"]


def test_routes_show_how_many_they_are(routes: Routes[str]) -> None:
    assert repr(routes) == f"<Routes templates={sum(len(rpc.http) for rpc in RPCS)}>"


@pytest.mark.rule("T11")
def test_headers_do_not_route() -> None:
    face = Face()
    headers = {
        "x-goog-request-params": "topic=projects%2Fother%2Ftopics%2Fother",
        "x-goog-api-client": "gl-python/3.11",
        "x-goog-user-project": "other",
        "authorization": "Bearer nonsense",
        "user-agent": "",
        "traceparent": "00-0-0-0",
        "google-cloud-resource-prefix": "projects/other",
    }

    face.send("GET", "/v1/projects/p/topics/t", headers=headers)

    assert face.handlers.calls[0].request == pb.GetTopicRequest(topic="projects/p/topics/t")
