"""The calls that must be refused, sent as HTTP requests: status, error document, and nothing changed."""

import json
import re
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from emulator.wire.rest import Rest, RestRequest, RestResponse
from emulator.wire.status import HTTP_STATUS
from tests.api.error_cases import REST_CASES, Case
from tests.api.world import Data, populated, row

VARIABLE = re.compile(r"\{(?P<field>[\w.]+)=[^}]+\}")


def http_request(method: str, request: Data) -> RestRequest:
    """The RPC as its first binding has it: the name in the path, the rest in body or query."""
    binding = row(method).http[0]
    (field,) = VARIABLE.findall(binding.template)
    fields = json.loads(json.dumps(request))
    name = taken(fields, field)
    path = VARIABLE.sub(lambda _: "/".join(quote(part, safe="") for part in name.split("/")), binding.template)
    if binding.body:
        assert binding.body == "*"
        return RestRequest(binding.verb, path, "", {}, json.dumps(fields).encode())
    return RestRequest(binding.verb, path, urlencode(fields), {}, b"")


def taken(fields: dict[str, Any], path: str) -> str:
    """The value of a nested field, which is then gone from `fields`."""
    *above, leaf = path.split(".")
    for each in above:
        fields = fields[each]
    return str(fields.pop(leaf))


@pytest.mark.rule("S1.6")
@pytest.mark.parametrize("case", REST_CASES, ids=lambda case: case.name)
def test_a_refused_call_says_why_and_changes_nothing(case: Case) -> None:
    world = populated()
    rest = Rest(world.dispatcher)
    request = http_request(case.method, world.fill(case.request))
    before = world.state()

    response = rest.handle(request)

    assert isinstance(response, RestResponse)
    error = json.loads(response.body)["error"]
    number = HTTP_STATUS[case.code]
    assert (response.status, error["code"], error["status"]) == (number, number, case.code.name)
    assert [text for text in world.fill(case.says) if text not in error["message"]] == [], error["message"]
    assert world.state() == before
