"""The rooms, each tested at its own level; `tests.tools` holds the development tools."""
