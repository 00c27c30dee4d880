"""A query string, taken apart into what any call understands and the request's own fields (service.md §1.7.4)."""

from dataclasses import dataclass
from urllib.parse import unquote_plus

from emulator import errors
from emulator.wire import percent

# Google's system parameters without a meaning here. Each also exists with "$" in front.
_IGNORED = frozenset(
    {"access_token", "callback", "key", "quotaUser", "uploadType", "upload_protocol", "$.xgafv"},
)
# Of these, the values that open doors elsewhere.
_CREDENTIALS = frozenset({"access_token", "oauth_token", "key"})
_ALT_JSON = "json"
_ALT_ENUMS_AS_NUMBERS = "json;enum-encoding=int"


@dataclass(frozen=True, slots=True)
class Query:
    """parameters: decoded name and value of each that is not a system parameter, in order.

    selection: the text of `fields`, "" for everything. pretty: whether the reply is to be indented.
    """

    parameters: tuple[tuple[str, str], ...] = ()
    enums_as_numbers: bool = False
    pretty: bool = False
    selection: str = ""


_EMPTY = Query()


def parse(text: str) -> Query:
    """Raises INVALID_ARGUMENT for broken percent-escapes and for an `alt` other than JSON."""
    if not text:
        return _EMPTY
    parameters: list[tuple[str, str]] = []
    system = {"alt": _ALT_JSON, "fields": "", "prettyPrint": "false"}
    for pair in text.split("&"):
        name, _, value = (percent.decode(part.replace("+", " "), "query") for part in pair.partition("="))
        plain = name.removeprefix("$")
        if plain == "alt" and value not in (_ALT_JSON, _ALT_ENUMS_AS_NUMBERS):
            raise errors.unsupported_choice(name, value, (_ALT_JSON, _ALT_ENUMS_AS_NUMBERS))
        if plain in system:
            system[plain] = value
        elif pair and name not in _IGNORED and plain not in _IGNORED:
            parameters.append((name, value))
    return Query(
        parameters=tuple(parameters),
        enums_as_numbers=system["alt"] == _ALT_ENUMS_AS_NUMBERS,
        pretty=system["prettyPrint"] == "true",
        selection=system["fields"],
    )


def without_credentials(target: str) -> str:
    """A request target as it may be logged: as it came, but for the values of credentials."""
    path, question, text = target.partition("?")
    return path + question + "&".join(_hidden(pair) for pair in text.split("&"))


def _hidden(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    plain = unquote_plus(name).strip().removeprefix("$").lower()
    return f"{name}{equals}***" if equals and plain in _CREDENTIALS else pair
