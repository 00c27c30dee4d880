"""Filters: what is of the language, what is refused and in which words, and which messages pass (service.md §11)."""

import contextlib
import re
from collections.abc import Mapping
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.engine import filters
from emulator.engine.filters import Filter
from emulator.errors import Code, PubsubError
from emulator.limits import STRICT

PLENTY = 1_000_000

Attributes: TypeAlias = Mapping[str, str]


def parsed(source: str, max_bytes: int = PLENTY) -> Filter:
    found = filters.parse(source, max_bytes)
    assert found is not None
    return found


def refusal(source: str, max_bytes: int = PLENTY) -> str:
    with pytest.raises(PubsubError) as caught:
        filters.parse(source, max_bytes)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert caught.value.message.startswith("Invalid value for filter: ")
    assert caught.value.message.endswith(" (argument=filter).")
    return caught.value.message


class TestFilter:
    @pytest.mark.rule("S11.1")
    def test_the_empty_text_is_none(self) -> None:
        assert filters.parse("", STRICT.filter_max_bytes) is None

    def test_filters_of_one_text_are_equal(self) -> None:
        assert parsed("attributes:a") == parsed("attributes:a") != parsed("attributes:b")
        assert len({parsed("attributes:a"), parsed("attributes:a"), parsed(" attributes:a")}) == 2

    def test_it_shows_its_text(self) -> None:
        assert repr(parsed("attributes:a")) == "Filter(source='attributes:a')"
        assert repr(filters._Parser("attributes:a")) == "<_Parser at 0 of 'attributes:a'>"
        assert repr(filters._Level(negated=True)) == "<_Level NOT 0 >"


class TestLength:
    @pytest.mark.rule("S11.1")
    @pytest.mark.parametrize("source", [f"attributes:{'k' * 245}", f'attributes:"{"é" * 121}a"'])
    def test_256_bytes_are_allowed(self, source: str) -> None:
        assert len(source.encode()) == 256
        assert parsed(source, STRICT.filter_max_bytes).source == source

    @pytest.mark.rule("S11.1")
    @pytest.mark.parametrize(
        ("source", "size"),
        [(f"attributes:{'k' * 246}", 257), (f'attributes:"{"é" * 122}"', 257), ("(" * 300, 300)],
    )
    def test_one_more_is_refused(self, source: str, size: int) -> None:
        assert f"{size} bytes, at most 256 are allowed" in refusal(source, STRICT.filter_max_bytes)

    @pytest.mark.rule("S11.1")
    @pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("-(", ")"), ("NOT (", ")")])
    def test_what_fits_may_be_nested_as_deep_as_it_goes(self, opening: str, closing: str) -> None:
        depth = (256 - len("attributes:k")) // len(opening + closing)
        found = parsed(opening * depth + "attributes:k" + closing * depth, STRICT.filter_max_bytes)

        assert found.matches({"k": ""}) == (opening == "(" or depth % 2 == 0)

    @pytest.mark.rule("S11.1")
    @pytest.mark.parametrize("opening", ["(", "-(", "- ("])
    def test_what_is_never_closed_is_refused_however_deep(self, opening: str) -> None:
        assert "expected a condition" in refusal(opening * 10_000)


# Attributes of a message, and the filters that it passes or does not.
A_IS_X: Attributes = {"a": "x"}


@pytest.mark.rule("S11.3")
@pytest.mark.parametrize(
    ("source", "attributes", "passes"),
    [
        ("attributes:a", A_IS_X, True),
        ("attributes:a", {"a": ""}, True),
        ("attributes:a", {"b": "x"}, False),
        ("attributes:a", {}, False),
        ('attributes.a = "x"', A_IS_X, True),
        ('attributes.a = "y"', A_IS_X, False),
        ('attributes.a = "x"', {}, False),
        ('attributes.a = ""', {"a": ""}, True),
        ('attributes.a = ""', {}, False),
        ('attributes.a != "x"', A_IS_X, False),
        ('attributes.a != "y"', A_IS_X, True),
        ('attributes.a != "x"', {}, True),
        ('attributes.a != ""', {}, True),
        ('hasPrefix(attributes.a, "x")', {"a": "xy"}, True),
        ('hasPrefix(attributes.a, "x")', A_IS_X, True),
        ('hasPrefix(attributes.a, "xy")', A_IS_X, False),
        ('hasPrefix(attributes.a, "x")', {"a": "yx"}, False),
        ('hasPrefix(attributes.a, "x")', {}, False),
        ('hasPrefix(attributes.a, "")', {"a": ""}, True),
        ('hasPrefix(attributes.a, "")', A_IS_X, True),
        ('hasPrefix(attributes.a, "")', {}, False),
    ],
)
def test_conditions(source: str, attributes: Attributes, passes: bool) -> None:
    assert parsed(source).matches(attributes) is passes
    assert parsed(f"NOT {source}").matches(attributes) is not passes
    assert parsed(f"-{source}").matches(attributes) is not passes


@pytest.mark.rule("S11.4")
@pytest.mark.parametrize(
    ("source", "attributes", "passes"),
    [
        ("attributes:A", A_IS_X, False),
        ('attributes.a = "X"', A_IS_X, False),
        ('hasPrefix(attributes.a, "X")', A_IS_X, False),
        ('attributes.a = "é"', {"a": "e\u0301"}, False),
        ('attributes.a = "é"', {"a": "é"}, True),
        ('attributes.a = " x"', A_IS_X, False),
        ('attributes."a b/c.d" = "x"', {"a b/c.d": "x"}, True),
        ('attributes:"み"', {"み": ""}, True),
        ('attributes:"a"', A_IS_X, True),
        ('attributes:""', A_IS_X, False),
        ("attributes:1-_b", {"1-_b": ""}, True),
        ("attributes:a-", {"a-": ""}, True),
        ("attributes:AND AND attributes:NOT", {"AND": "", "NOT": ""}, True),
        ("attributes:attributes", {"attributes": ""}, True),
        ('attributes.a = "AND (NOT -"', {"a": "AND (NOT -"}, True),
    ],
)
def test_keys_and_values_are_taken_to_the_letter(source: str, attributes: Attributes, passes: bool) -> None:
    assert parsed(source).matches(attributes) is passes


# Octal and hexadecimal numbers are code points, not bytes; the grammar has octal ones up to 777.
@pytest.mark.rule("S11.4")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"\"\\\'\?", "\"\\'?"),
        (r"\a\b\f\n\r\t\v", "\a\b\f\n\r\t\v"),
        (r"\101\000\377", "A\0\xff"),
        (r"\400\777", "\u0100\u01ff"),
        (r"\1019", "A9"),
        (r"\x41\X6a\xE9", "Aj\xe9"),
        (r"\u307F\ud7ff\uE000", "み\ud7ff\ue000"),
        (r"\U0001F600\U0010ffff", "\U0001f600\U0010ffff"),
        ("\t\r\0'é", "\t\r\0'é"),
    ],
)
@pytest.mark.parametrize("source", ['attributes.k = "{}"', 'hasPrefix(attributes."k", "{}")'])
def test_escapes(source: str, written: str, meant: str) -> None:
    assert parsed(source.replace("{}", written)).matches({"k": meant})
    assert parsed(f'attributes:"{written}"').matches({meant: ""})


@pytest.mark.rule("S11.2")
@pytest.mark.parametrize(
    ("source", "passing"),
    [
        ("attributes:a AND attributes:b", ["ab", "abc"]),
        ("attributes:a OR attributes:b", ["a", "b", "ab", "ac", "bc", "abc"]),
        ("attributes:a AND attributes:b AND attributes:c", ["abc"]),
        ("attributes:a OR attributes:b OR attributes:c", ["a", "b", "c", "ab", "ac", "bc", "abc"]),
        ("NOT attributes:a AND attributes:b", ["b", "bc"]),
        ("-attributes:a OR attributes:b", ["", "b", "c", "ab", "bc", "abc"]),
        ("attributes:a AND - attributes:b", ["a", "ac"]),
        ("NOT (attributes:a OR attributes:b)", ["", "c"]),
        ("NOT (NOT (-attributes:a))", ["", "b", "c", "bc"]),
        ("(attributes:a AND attributes:b) OR attributes:c", ["c", "ab", "ac", "bc", "abc"]),
        ("attributes:a AND (attributes:b OR attributes:c)", ["ab", "ac", "abc"]),
        ("((attributes:a)) AND -(attributes:b AND attributes:c)", ["a", "ab", "ac"]),
        ("attributes:a AND NOT (attributes:b OR -attributes:c)", ["ac"]),
    ],
)
def test_operators(source: str, passing: list[str]) -> None:
    every = ["", "a", "b", "c", "ab", "ac", "bc", "abc"]
    found = parsed(source)

    assert [keys for keys in every if found.matches(dict.fromkeys(keys, "x"))] == passing


@pytest.mark.rule("S11.1")
@pytest.mark.parametrize(
    "source",
    [
        " attributes:k ",
        "\n\tattributes\r:\n k\t",
        '( attributes . k = "v" )',
        '(attributes.k="v")',
        'attributes."k"!="w"',
        '\thasPrefix\n(\tattributes . k\t,\r"v"\n)\t',
        'hasPrefix(attributes.k,"v")',
        "attributes:k\nAND\t\tattributes :k",
        "(attributes:k) OR (attributes:x)",
        "NOT\n-".replace("-", "(- attributes:k)"),
    ],
)
def test_white_space_may_stand_between_the_parts(source: str) -> None:
    assert parsed(source).matches({"k": "v"})


@pytest.mark.rule("S11.1", "S11.2", "S11.4", "S11.5")
@pytest.mark.parametrize(
    ("source", "position", "expectation"),
    [
        (" ", 2, "a condition, such as attributes:KEY"),
        ("()", 2, "a condition"),
        ("bogus (", 1, "hasPrefix, the only function"),
        ('startsWith(attributes.k, "v")', 1, "hasPrefix, the only function"),
        ('hasprefix(attributes.k, "v")', 1, "hasPrefix, the only function"),
        ('data = "v"', 1, "attributes; nothing else of a message can be filtered"),
        ('orderingKey = "v"', 1, "attributes; nothing else"),
        ('attribute.k = "v"', 1, "attributes; nothing else"),
        ("attributes", 11, '"." or ":" and a key'),
        ("attributes k", 12, '"." or ":" and a key'),
        ("attributes:", 12, "a key: letters, digits, _ and -"),
        ("attributes:*", 12, "a key"),
        ("attributes:-k", 12, "a key"),
        ("attributes:み", 12, "a key"),
        (r"attributes:\u307F", 12, "a key: letters, digits, _ and -, or any text in double quotes"),
        ("attributes:'k'", 12, "a key"),
        ("attributes:kみ", 13, "AND, OR or the end"),
        ('attributes.a.b = "v"', 13, '"=" or "!="; a key with other characters'),
        ("attributes.k", 13, '"=" or "!=" (argument'),
        ('attributes.k < "v"', 14, '"=" or "!="; values have no order'),
        ('attributes.k >= "v"', 14, '"=" or "!="; values have no order'),
        ('attributes.k:"v"', 13, '"=" or "!="; attributes:KEY asks whether a key is there'),
        ('attributes.k == "v"', 15, "a value in double quotes"),
        ("attributes.k =", 15, "a value in double quotes"),
        ("attributes.k = v", 16, "a value in double quotes"),
        ("attributes.k = 5", 16, "a value in double quotes"),
        ("attributes.k = 'v'", 16, "a value in double quotes"),
        ("attributes.a = attributes.b", 16, "double quotes; attributes are not compared with each other"),
        ('"v" = attributes.k', 1, "a condition; a value stands on the right"),
        ('attributes.k = "a" AND ("a" OR "b")', 25, "a condition; a value stands on the right"),
        ('attributes:k = "v"', 14, 'AND, OR or the end; a value is compared as in attributes.KEY = "VALUE"'),
        ('(attributes:k != "v")', 15, 'AND, OR or ")"; a value is compared'),
        ('attributes.k = "v', 18, 'the closing "'),
        ('attributes:"k', 14, 'the closing "'),
        ('attributes.k = "v\n"', 18, r'the closing " (a newline is written \n)'),
        (r'attributes.k = "\q"', 17, "an escape: "),
        (r'attributes.k = "\N"', 17, "an escape: "),
        (r'attributes.k = "v\12"', 18, "an escape: "),
        (r'attributes.k = "\189"', 17, "an escape: "),
        (r'attributes.k = "\x4"', 17, "an escape: "),
        (r'attributes.k = "\u12"', 17, "an escape: "),
        (r'attributes.k = "\U0001F60"', 17, "an escape: "),
        (r'attributes.k = "\ud800"', 17, "the number of a character"),
        (r'attributes.k = "a\uDFFF"', 18, "the number of a character"),
        (r'attributes.k = "\U0000d83d"', 17, "the number of a character"),
        (r'attributes.k = "\ud83d\ude00"', 17, "no surrogate"),
        (r'attributes.k = "\U00110000"', 17, r"up to \U0010FFFF"),
        (r'attributes.k = "\Uffffffff"', 17, r"up to \U0010FFFF"),
        ('attributes.k = "\\', 17, "an escape: "),
        ('hasPrefix attributes.k, "v"', 11, '"("'),
        ('hasPrefix("v", attributes.k)', 11, "attributes.KEY"),
        ('hasPrefix(attributes:k, "v")', 21, '"." and a key'),
        ("hasPrefix(attributes.k)", 23, '","'),
        ("hasPrefix(attributes.k, v)", 25, "a value in double quotes"),
        ('hasPrefix(attributes.k, "v"', 28, '")"'),
        ('hasPrefix(attributes.k, "v", "w")', 28, '")"'),
        ("attributes:a AND", 17, "white space and a condition after AND"),
        ("attributes:a AND ", 18, "a condition"),
        ("attributes:a AND OR attributes:b", 18, "a condition, such as"),
        ("AND attributes:a", 1, "a condition, such as"),
        ("attributes:a AND(attributes:b)", 17, "white space and a condition after AND"),
        ("(attributes:a)AND attributes:b", 15, "white space before AND"),
        ('attributes.a = "v"OR attributes:b', 19, "white space before OR"),
        ('hasPrefix(attributes.a, "v")OR attributes:b', 29, "white space before OR"),
        ("attributes:a attributes:b", 14, "AND, OR or the end"),
        ("attributes:a ANDY attributes:b", 14, "AND, OR or the end"),
        ("attributes:a && attributes:b", 14, "AND, OR or the end"),
        ("attributes:a and attributes:b", 14, "AND, in upper case"),
        ("attributes:a Or attributes:b", 14, "OR, in upper case"),
        ("attributes:a NOT attributes:b", 14, "AND, OR or the end"),
        ("attributes:a -attributes:b", 14, "AND, OR or the end"),
        ("not attributes:a", 1, "NOT, in upper case, or -"),
        ("attributes:a AND Not attributes:b", 18, "NOT, in upper case, or -"),
        ("!attributes:a", 1, "NOT, in upper case, or -"),
        ("NOT(attributes:a)", 4, "white space and a condition after NOT"),
        ("NOT NOT attributes:a", 5, "a condition, such as"),
        ("NOT -attributes:a", 5, "a condition, such as"),
        ("--attributes:a", 2, "a condition, such as"),
        ("NOT", 4, "white space and a condition after NOT"),
        ("attributes:a AND attributes:b OR attributes:c", 31, "AND again, or parentheses"),
        ("attributes:a OR attributes:b AND attributes:c", 30, "OR again, or parentheses: AND and OR do not mix"),
        ("attributes:z OR (attributes:a OR attributes:b AND attributes:c)", 47, "OR again, or parentheses"),
        ("(attributes:a", 14, 'AND, OR or ")"'),
        ("attributes:a)", 13, "AND, OR or the end"),
        ("(attributes:a))", 15, "AND, OR or the end"),
        ("attributes:k;", 13, "AND, OR or the end"),
        ("attributes:k\xa0", 13, "AND, OR or the end"),
    ],
)
def test_what_is_not_of_the_language_is_refused_with_the_place(source: str, position: int, expectation: str) -> None:
    message = refusal(source)

    assert f"; at character {position}, expected {expectation}" in message or (
        f"; at character {position}, expected " in message and expectation in message
    )


# Random filters: trees, each printed in one of the many ways to write it, and an evaluator of trees for comparison.

Tree: TypeAlias = tuple[Any, ...]

KEYS = ("a", "b", "_1", "c-d", "AND", "é", "x y", 'q"', "back\\slash", "line\n", "\x01", "\U0001f600", "")
VALUES = ("", "v", "vw", "w", "é", "éa", '"', "\\", "\\\\v", "\n\t", "'?\a\b\f\r\v", "\xff\u0100\u01ff", "み\U0010ffff")
ESCAPED = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v"}
ESCAPED |= {'"': '"', "\\": "\\", "'": "'", "?": "?"}
LEAVES = st.one_of(
    st.tuples(st.just("has"), st.sampled_from(KEYS)),
    st.tuples(st.sampled_from(["=", "!=", "hasPrefix"]), st.sampled_from(KEYS), st.sampled_from(VALUES)),
)


def _branches(trees: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(trees, min_size=2, max_size=4).map(tuple)
    return st.one_of(st.tuples(st.just("NOT"), trees), st.tuples(st.sampled_from(["AND", "OR"]), several))


TREES: st.SearchStrategy[Any] = st.recursive(LEAVES, _branches, max_leaves=12)
RANDOMS = st.randoms(use_true_random=False)
ATTRIBUTES = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=6)


def evaluate(tree: Tree, attributes: Attributes) -> bool:
    match tree:
        case ("has", key):
            return key in attributes
        case ("=", key, value):
            return key in attributes and attributes[key] == value
        case ("!=", key, value):
            return not (key in attributes and attributes[key] == value)
        case ("hasPrefix", key, value):
            return key in attributes and attributes[key].encode().startswith(value.encode())
        case ("NOT", inner):
            return not evaluate(inner, attributes)
        case ("AND", parts):
            return all(evaluate(part, attributes) for part in parts)
        case ("OR", parts):
            return any(evaluate(part, attributes) for part in parts)
    raise AssertionError(tree)


def spelled(tree: Tree, random: Random) -> str:
    """The tree as an expression of the language."""
    if tree[0] in ("AND", "OR"):
        parts = [spelled_unary(part, random) for part in tree[1]]
        return "".join(
            part if not index else f"{blanks(random, 1)}{tree[0]}{blanks(random, 1)}{part}"
            for index, part in enumerate(parts)
        )
    return spelled_unary(tree, random)


def spelled_unary(tree: Tree, random: Random) -> str:
    if tree[0] != "NOT":
        return spelled_term(tree, random)
    sign = random.choice([f"NOT{blanks(random, 1)}", f"-{blanks(random)}"])
    return sign + spelled_term(tree[1], random)


def spelled_term(tree: Tree, random: Random) -> str:
    if tree[0] in ("AND", "OR", "NOT"):
        return f"({blanks(random)}{spelled(tree, random)}{blanks(random)})"
    condition = spelled_condition(tree, random)
    return random.choice([condition, condition, f"({blanks(random)}{condition}{blanks(random)})"])


def spelled_condition(tree: Tree, random: Random) -> str:
    kind, key, *values = tree
    if kind == "has":
        return joined(random, "attributes", ":", spelled_key(key, random))
    attribute = joined(random, "attributes", ".", spelled_key(key, random))
    value = spelled_string(values[0], random)
    if kind == "hasPrefix":
        return joined(random, "hasPrefix", "(", attribute, ",", value, ")")
    return joined(random, attribute, kind, value)


def joined(random: Random, *parts: str) -> str:
    return "".join(part if not index else blanks(random) + part for index, part in enumerate(parts))


def blanks(random: Random, least: int = 0) -> str:
    return "".join(random.choice(" \t\n\r") for _ in range(random.randint(least, 2)))


def spelled_key(key: str, random: Random) -> str:
    bare = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", key) and random.random() < 0.7
    return key if bare else spelled_string(key, random)


def spelled_string(text: str, random: Random) -> str:
    return f'"{"".join(spelled_character(character, random) for character in text)}"'


def spelled_character(character: str, random: Random) -> str:
    number = ord(character)
    ways = [f"\\U{number:08x}", f"\\U{number:08X}"]
    if number <= 0xFFFF:
        ways += [f"\\u{number:04x}", f"\\u{number:04X}"]
    if number <= 0xFF:
        ways += [f"\\x{number:02x}", f"\\X{number:02X}"]
    if number <= 0o777:
        ways.append(f"\\{number:03o}")
    if character in ESCAPED:
        ways.append(f"\\{ESCAPED[character]}")
    if character not in '"\\\n':
        ways += [character] * len(ways)
    return random.choice(ways)


@pytest.mark.rule("S11.1", "S11.2", "S11.3", "S11.4")
@given(tree=TREES, random=RANDOMS, messages=st.lists(ATTRIBUTES, min_size=1, max_size=8))
def test_a_filter_decides_as_the_tree_does_that_it_was_written_from(
    tree: Tree, random: Random, messages: list[dict[str, str]]
) -> None:
    source = f"{blanks(random)}{spelled(tree, random)}{blanks(random)}"

    found = parsed(source)

    assert [found.matches(attributes) for attributes in messages] == [evaluate(tree, each) for each in messages]


# The grammar once more, as a reader of another kind: strings become one letter, then conditions, then parentheses from
# the inside, until nothing changes. The letters are ones that no text below has outside of its strings.
STRING, TERM = "\ue001", "\ue002"
W = r"[ \t\n\r]"
KEY = rf"(?:[A-Za-z0-9_][A-Za-z0-9_-]*|{STRING})"
ATTRIBUTE = rf"attributes{W}*\.{W}*{KEY}"
CONDITION = (
    rf"attributes{W}*:{W}*{KEY}|{ATTRIBUTE}{W}*!?={W}*{STRING}"
    rf"|hasPrefix{W}*\({W}*{ATTRIBUTE}{W}*,{W}*{STRING}{W}*\)"
)
UNARY = rf"(?:NOT{W}+|-{W}*)?{TERM}"
EXPRESSION = rf"{W}*{UNARY}(?:(?:{W}+AND{W}+{UNARY})*|(?:{W}+OR{W}+{UNARY})*){W}*"
HEX, SURROGATE = "[0-9A-Fa-f]", "[dD][89A-Fa-f]"
NUMBER = rf"[0-7]{{3}}|[xX]{HEX}{{2}}|u(?!{SURROGATE}){HEX}{{4}}|U(?!0000{SURROGATE})(?:0010|000{HEX}){HEX}{{4}}"
QUOTED = rf"""(?s:"(?:[^"\\\n]|\\(?:["\\'?abfnrtv]|{NUMBER}))*")"""


def is_of_the_language(source: str) -> bool:
    before, after = "", re.sub(CONDITION, TERM, re.sub(QUOTED, STRING, source))
    while after != before:
        before, after = after, re.sub(rf"\({EXPRESSION}\)", TERM, after)
    return re.fullmatch(EXPRESSION, after) is not None


PIECES = (*'"\\()=!-.:,<&nxuU0 \n\tAé', "AND", "OR", "NOT", "and", "attributes", "hasPrefix", "\\u12", "ab", "")


def mutated(source: str, random: Random) -> str:
    """The text with up to three pieces put in, taken out or replaced."""
    for _ in range(random.randint(0, 3)):
        at = random.randint(0, len(source))
        source = source[:at] + random.choice(PIECES) + source[at + random.randint(0, 2) :]
    return source


@pytest.mark.rule("S11.1")
@given(
    source=st.one_of(
        st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
        st.builds(lambda tree, random: mutated(spelled(tree, random), random), TREES, RANDOMS),
    )
)
def test_what_is_taken_is_what_the_grammar_has(source: str) -> None:
    if not source:
        assert filters.parse(source, PLENTY) is None
    elif is_of_the_language(source):
        assert parsed(source).matches({}) in (True, False)
    else:
        place = re.search(r"; at character (\d+), expected ", refusal(source))
        assert place
        assert 1 <= int(place[1]) <= len(source) + 1


@pytest.mark.rule("S11.1")
@given(source=st.text(max_size=300))
def test_any_text_is_taken_or_refused(source: str) -> None:
    with contextlib.suppress(PubsubError):
        filters.parse(source, STRICT.filter_max_bytes)
