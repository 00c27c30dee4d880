"""The filter of a subscription: its language, and a text of it compiled into one function (service.md §11)."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from emulator import errors
from emulator.errors import PubsubError

Predicate: TypeAlias = Callable[[Mapping[str, str]], bool]

_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_WORD: Final = re.compile(r"[A-Za-z0-9_]*")
_IDENTIFIER: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_-]*)?")
_PLAIN: Final = re.compile(r'[^"\\\n]*')
_ESCAPE: Final = re.compile(
    r"""\\(?:(?P<simple>["\\'?abfnrtv])|(?P<octal>[0-7]{3})"""
    r"|(?:[xX](?P<x>[0-9A-Fa-f]{2})|u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})))"
)
_SIMPLE: Final = MappingProxyType(dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)))

_LAST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)

# What the parser says it expected.
_CONDITION: Final = 'a condition, such as attributes:KEY or attributes.KEY = "VALUE"'
_KEY: Final = "a key: letters, digits, _ and -, or any text in double quotes"
_QUOTED_KEY: Final = "; a key with other characters than letters, digits, _ and - stands in double quotes"
_COMPARISON_HINTS: Final = MappingProxyType(
    {
        "": "",
        "<": "; values have no order",
        ">": "; values have no order",
        ":": "; attributes:KEY asks whether a key is there, whatever its value",
    }
)


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter; two of the same text are equal. `matches`: whether a message with these attributes passes."""

    source: str
    matches: Predicate = field(compare=False, repr=False)


def parse(source: str, max_bytes: int) -> Filter | None:
    """The filter that `source` spells, None for the empty text: no filter.

    Raises INVALID_ARGUMENT for more than `max_bytes` of UTF-8, and with the place and what was expected there for
    what is not of the language (service.md §11).
    """
    if not source:
        return None
    if (size := len(source.encode())) > max_bytes:
        raise errors.too_long("filter", source, size, max_bytes)
    return Filter(source, _Parser(source).parse())


class _Level:
    """What was read so far between one pair of parentheses, or around all of them."""

    __slots__ = ("negated", "operands", "operator")

    def __init__(self, *, negated: bool) -> None:
        self.negated = negated
        self.operands: list[Predicate] = []
        self.operator = ""

    def add(self, operand: Predicate, *, negated: bool) -> None:
        self.operands.append(_not(operand) if negated else operand)

    def joined(self) -> Predicate:
        if len(self.operands) == 1:
            return self.operands[0]
        return _all(self.operands) if self.operator == "AND" else _any(self.operands)

    def __repr__(self) -> str:
        return f"<_Level {'NOT ' if self.negated else ''}{len(self.operands)} {self.operator}>"


class _Parser:
    """Reads a text once, from left to right. Levels are kept in a list, so that no depth of them is too deep."""

    __slots__ = ("_at", "_source")

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0

    def __repr__(self) -> str:
        return f"<_Parser at {self._at} of {self._source!r}>"

    def parse(self) -> Predicate:
        levels = [_Level(negated=False)]
        while True:
            self._run(_BLANKS)
            negated = self._negation()
            if self._takes("("):
                levels.append(_Level(negated=negated))
                continue
            levels[-1].add(self._condition(), negated=negated)
            blanks = self._run(_BLANKS)
            while len(levels) > 1 and self._takes(")"):
                inner = levels.pop()
                levels[-1].add(inner.joined(), negated=inner.negated)
                blanks = self._run(_BLANKS)
            if self._at == len(self._source) and len(levels) == 1:
                return levels[0].joined()
            self._operator(levels[-1], '")"' if len(levels) > 1 else "the end", after_blanks=bool(blanks))

    def _negation(self) -> bool:
        if self._takes("-"):
            self._run(_BLANKS)
            return True
        if self._word() != "NOT":
            return False
        self._at += len("NOT")
        self._require_blanks_after("NOT")
        return True

    def _operator(self, level: _Level, closing: str, *, after_blanks: bool) -> None:
        word = self._word()
        if word not in ("AND", "OR"):
            raise self._expected(self._instead_of_an_operator(word, closing))
        if not after_blanks:
            raise self._expected(f"white space before {word}")
        if level.operator and word != level.operator:
            raise self._expected(f"{level.operator} again, or parentheses: AND and OR do not mix on one level")
        self._at += len(word)
        self._require_blanks_after(word)
        level.operator = word

    def _instead_of_an_operator(self, word: str, closing: str) -> str:
        if word.upper() in ("AND", "OR"):
            return f"{word.upper()}, in upper case"
        if self._source[self._at : self._at + 1] in ("=", "!", "<", ">"):
            return f'AND, OR or {closing}; a value is compared as in attributes.KEY = "VALUE"'
        return f"AND, OR or {closing}"

    def _condition(self) -> Predicate:
        word = self._word()
        if word == "hasPrefix":
            self._at += len(word)
            return self._prefix()
        if word != "attributes":
            raise self._expected(self._instead_of_a_condition(word))
        self._at += len(word)
        self._run(_BLANKS)
        if self._takes(":"):
            return _has(self._key())
        return self._comparison(self._key_after_a_dot('"." or ":"'))

    def _instead_of_a_condition(self, word: str) -> str:
        if word.upper() == "NOT" != word or self._source.startswith("!", self._at):
            return "NOT, in upper case, or -"
        if self._source.startswith('"', self._at):
            return 'a condition; a value stands on the right, as in attributes.KEY = "VALUE"'
        if not word or word.upper() in ("AND", "OR", "NOT"):
            return _CONDITION
        if self._source[self._at + len(word) :].lstrip().startswith("("):
            return "hasPrefix, the only function"
        return "attributes; nothing else of a message can be filtered"

    def _comparison(self, key: str) -> Predicate:
        self._run(_BLANKS)
        if self._takes("="):
            return _equals(key, self._value())
        if self._takes("!="):
            return _differs(key, self._value())
        hint = _COMPARISON_HINTS.get(self._source[self._at : self._at + 1], _QUOTED_KEY)
        raise self._expected(f'"=" or "!="{hint}')

    def _prefix(self) -> Predicate:
        """hasPrefix(attributes.KEY, "VALUE"), after its name."""
        self._require("(")
        self._run(_BLANKS)
        if self._word() != "attributes":
            raise self._expected("attributes.KEY")
        self._at += len("attributes")
        key = self._key_after_a_dot('"."')
        self._require(",")
        value = self._value()
        self._require(")")
        return _starts(key, value) if value else _has(key)

    def _key_after_a_dot(self, expectation: str) -> str:
        self._run(_BLANKS)
        if not self._takes("."):
            raise self._expected(f"{expectation} and a key")
        return self._key()

    def _key(self) -> str:
        self._run(_BLANKS)
        if self._takes('"'):
            return self._string()
        if key := self._run(_IDENTIFIER):
            return key
        raise self._expected(_KEY)

    def _value(self) -> str:
        self._run(_BLANKS)
        if self._takes('"'):
            return self._string()
        hint = "; attributes are not compared with each other" if self._word() == "attributes" else ""
        raise self._expected(f"a value in double quotes{hint}")

    def _string(self) -> str:
        """The rest of a string whose opening quote was read."""
        parts = [self._run(_PLAIN)]
        while not self._takes('"'):
            parts.append(self._escape())
            parts.append(self._run(_PLAIN))
        return "".join(parts)

    def _escape(self) -> str:
        found = _ESCAPE.match(self._source, self._at)
        if found is None:
            if self._source.startswith("\\", self._at):
                raise self._expected(r"an escape: \" \\ \' \? \a \b \f \n \r \t \v \ooo \xhh \uhhhh \Uhhhhhhhh")
            raise self._expected(r'the closing " (a newline is written \n)')
        if simple := found["simple"]:
            character = _SIMPLE.get(simple, simple)
        else:
            # Code points, not bytes, as in all strings of Google's expression languages.
            number = int(found["octal"], 8) if found["octal"] else int(found["x"] or found["u"] or found["U"], 16)
            if number > _LAST_CODE_POINT or number in _SURROGATES:
                raise self._expected(r"the number of a character: up to \U0010FFFF, and no surrogate")
            character = chr(number)
        self._at = found.end()
        return character

    # Steps

    def _run(self, pattern: re.Pattern[str]) -> str:
        """Take what the pattern matches here, which may be nothing."""
        found = pattern.match(self._source, self._at)
        assert found is not None  # each pattern matches the empty text too
        self._at = found.end()
        return found[0]

    def _takes(self, token: str) -> bool:
        if not self._source.startswith(token, self._at):
            return False
        self._at += len(token)
        return True

    def _require(self, token: str) -> None:
        self._run(_BLANKS)
        if not self._takes(token):
            raise self._expected(f'"{token}"')

    def _require_blanks_after(self, word: str) -> None:
        if not self._run(_BLANKS):
            raise self._expected(f"white space and a condition after {word}")

    def _word(self) -> str:
        """The letters, digits and _ from here on, without taking them."""
        found = _WORD.match(self._source, self._at)
        assert found is not None  # it matches the empty text too
        return found[0]

    def _expected(self, expectation: str) -> PubsubError:
        return errors.bad_filter(self._source, self._at + 1, expectation)


# What a filter is compiled into (service.md §11.3, §11.4)


def _has(key: str) -> Predicate:
    return lambda attributes: key in attributes


def _equals(key: str, value: str) -> Predicate:
    return lambda attributes: attributes.get(key) == value


def _differs(key: str, value: str) -> Predicate:
    return lambda attributes: attributes.get(key) != value


def _starts(key: str, prefix: str) -> Predicate:
    """`prefix` is not empty: an attribute that is absent begins with nothing, as one that is empty does."""
    return lambda attributes: attributes.get(key, "").startswith(prefix)


def _not(operand: Predicate) -> Predicate:
    return lambda attributes: not operand(attributes)


def _all(operands: Sequence[Predicate]) -> Predicate:
    def matches(attributes: Mapping[str, str]) -> bool:
        for operand in operands:  # noqa: SIM110  # all() over a generator takes twice as long
            if not operand(attributes):
                return False
        return True

    return matches


def _any(operands: Sequence[Predicate]) -> Predicate:
    def matches(attributes: Mapping[str, str]) -> bool:
        for operand in operands:  # noqa: SIM110  # as above
            if operand(attributes):
                return True
        return False

    return matches
