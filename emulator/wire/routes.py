"""Which target a method and a raw path lead to: google.api.http templates, compiled once into a tree of segments."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from emulator.errors import http as http_errors
from emulator.wire import percent
from emulator.wire.status import HttpFailure

T = TypeVar("T")

_KNOWN = 1_024
_KNOWN_MAX_CHARACTERS = 512

_TEMPLATE = re.compile(
    r"(?P<before>[^{}]*)\{(?P<field>[\w.]+)=(?P<pattern>[^{}]+)\}(?P<after>[^{}:]*)(?::(?P<verb>\w+))?"
)
_ABSOLUTE_FORM = re.compile(r"https?://[^/]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Template:
    """A path such as `/v1/{topic=projects/*/topics/*}:publish`.

    verb: what follows the colon, or "". field_path: the field that takes what segments `start` to `stop` hold.
    """

    segments: tuple[str, ...]
    verb: str
    field_path: tuple[str, ...]
    start: int
    stop: int

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Raises ValueError for a template that does not have exactly one field."""
        parsed = _TEMPLATE.fullmatch(text)
        if parsed is None:
            raise ValueError(f"not a template with one field: {text}")
        before, pattern, after = (_split(parsed[name]) for name in ("before", "pattern", "after"))
        stop = len(before) + len(pattern)
        field_path = tuple(parsed["field"].split("."))
        return cls((*before, *pattern, *after), parsed["verb"] or "", field_path, len(before), stop)


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """Where a request leads, and the resource name in its path."""

    target: T
    name: str


@dataclass(frozen=True, slots=True)
class _Leaf(Generic[T]):
    template: Template
    target: T


@dataclass(slots=True)
class _Node(Generic[T]):
    literals: "dict[str, _Node[T]]" = field(default_factory=dict)
    wildcard: "_Node[T] | None" = None
    leaves: "dict[str, dict[str, _Leaf[T]]]" = field(default_factory=dict)  # custom verb -> HTTP method -> leaf

    def step(self, segment: str) -> "_Node[T] | None":
        """The node for a decoded segment. A literal wins over `*`, and `*` never matches an empty segment."""
        return self.literals.get(segment) or (self.wildcard if segment else None)


class Routes(Generic[T]):
    """Methods and templates, and what each pair leads to."""

    __slots__ = ("_count", "_known", "_root")

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._count = 0
        # Callers come back to few addresses.
        self._known: dict[tuple[str, str], Found[T]] = {}

    def add(self, method: str, template: Template, target: T) -> None:
        """Raises ValueError for what is there already."""
        node = self._root
        for segment in template.segments:
            if segment == "*":
                node.wildcard = node.wildcard or _Node()
                node = node.wildcard
            else:
                node = node.literals.setdefault(segment, _Node())
        methods = node.leaves.setdefault(template.verb, {})
        if method in methods:
            raise ValueError(f"{method} {template} is there already")
        methods[method] = _Leaf(template, target)
        self._count += 1
        self._known.clear()

    def find(self, method: str, raw_path: str) -> Found[T]:
        """The target of a request; the path is split raw, and each segment decoded once (service.md §1.7.10).

        Raises INVALID_ARGUMENT for a segment that cannot be decoded or holds a slash; HttpFailure 404 for a path that
        no template has and 405 for a method that the path lacks (service.md §1.1).
        """
        known = self._known.get((method, raw_path))
        if known is not None:
            return known
        found = self._find(method, raw_path)
        if len(raw_path) <= _KNOWN_MAX_CHARACTERS:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[method, raw_path] = found
        return found

    def _find(self, method: str, raw_path: str) -> Found[T]:
        methods, segments = self._lead(method, raw_path)
        leaf = methods.get(method)
        if leaf is None:
            allowed = _allow(methods)
            raise HttpFailure(405, http_errors.method_not_allowed(method, raw_path, allowed), {"allow": allowed})
        return Found(leaf.target, "/".join(segments[leaf.template.start : leaf.template.stop]))

    def allowed(self, raw_path: str) -> str:
        """The value of an `Allow` header; raises as `find` does, but for the method."""
        return _allow(self._lead("OPTIONS", raw_path)[0])

    def _lead(self, method: str, raw_path: str) -> "tuple[Mapping[str, _Leaf[T]], list[str]]":
        """What the path offers by method, and its decoded segments without the custom verb."""
        segments = _decoded(raw_path)
        node: _Node[T] | None = self._root
        for segment in segments[:-1]:
            node = node.step(segment) if node else None
        if node is not None:
            last, colon, verb = segments[-1].rpartition(":")
            if verb and (end := node.step(last)) and (methods := end.leaves.get(verb)):
                return methods, [*segments[:-1], last]
            # No such custom verb. Taken as part of the name it gets an error that says what is wrong with the name, but
            # only where the method fits: `POST …/topics/t:frobnicate` is an unknown path, not a method to be corrected.
            end = node.step(segments[-1])
            if end and (methods := end.leaves.get("")) and (not colon or method in methods):
                return methods, segments
        raise HttpFailure(404, http_errors.unknown_path(raw_path))

    def __repr__(self) -> str:
        return f"<Routes templates={self._count}>"


def _split(part: str) -> list[str]:
    return [segment for segment in part.split("/") if segment]


def _decoded(raw_path: str) -> list[str]:
    # Proxies send the absolute form, and an endpoint configured with a final slash makes the path start with two.
    path = raw_path if raw_path.startswith("/") else _ABSOLUTE_FORM.sub("", raw_path, count=1)
    segments = []
    for raw in path.lstrip("/").split("/"):
        segment = percent.decode(raw, "path")
        if "/" in segment:
            raise http_errors.bad_path_segment(raw)
        segments.append(segment)
    return segments


def _allow(methods: Mapping[str, object]) -> str:
    implied = ("OPTIONS", "HEAD") if "GET" in methods else ("OPTIONS",)
    return ", ".join(sorted((*methods, *implied)))
