"""Named resources of one collection, listed per project in code-point order."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

from emulator import errors, names

T = TypeVar("T")


class Registry(Generic[T]):
    """A name → resource map that also lists each project's names, sorted (service.md §1.9).

    They are sorted when somebody asks, and stay so until one comes or goes: making the ten-thousandth is no dearer than
    making the first, nor is deleting it.
    """

    __slots__ = ("_by_name", "_by_project", "_sorted")

    def __init__(self) -> None:
        self._by_name: dict[str, T] = {}
        self._by_project: dict[str, set[str]] = {}
        self._sorted: dict[str, list[str]] = {}

    def get(self, name: str) -> T:
        """The resource; raises NOT_FOUND."""
        resource = self._by_name.get(name)
        if resource is None:
            raise errors.not_found(name)
        return resource

    def find(self, name: str) -> T | None:
        return self._by_name.get(name)

    def require_free(self, name: str) -> None:
        """Raise ALREADY_EXISTS if the name is taken."""
        if name in self._by_name:
            raise errors.already_exists(name)

    def add(self, name: str, resource: T) -> None:
        """Raises ALREADY_EXISTS."""
        self.require_free(name)
        self._by_name[name] = resource
        project = names.project_of(name)
        self._by_project.setdefault(project, set()).add(name)
        self._sorted.pop(project, None)

    def remove(self, name: str) -> T:
        """Take the resource out; raises NOT_FOUND."""
        resource = self.get(name)
        del self._by_name[name]
        project = names.project_of(name)
        own = self._by_project[project]
        own.remove(name)
        self._sorted.pop(project, None)
        if not own:
            del self._by_project[project]
        return resource

    def page(self, project: str, after: str, size: int) -> tuple[list[T], str]:
        """Up to `size` resources of a project with names after `after`, and the name to go on after ("" at the end)."""
        listed = self._sorted.get(project)
        if listed is None:
            listed = sorted(self._by_project.get(project, ()))
            if listed:
                self._sorted[project] = listed
        return page_of(listed, self._by_name, after, size)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"<Registry resources={len(self)} projects={len(self._by_project)}>"


def page_of(listed: list[str], by_name: dict[str, T], after: str, size: int) -> tuple[list[T], str]:
    """One page of a sorted list of names: usable even when the item named `after` was deleted (service.md §1.9.3)."""
    start = bisect_right(listed, after)
    chosen = listed[start : start + size]
    more = start + size < len(listed)
    return [by_name[name] for name in chosen], chosen[-1] if more else ""
