"""Every rule of service.md §1 to §7.2 and of §12 that names an error, as a table of calls that must be refused."""

from tests.api.error_cases import creation, lists, messages, names, snapshots, updates
from tests.api.error_cases.case import Case, GrpcCase

CASES: tuple[Case, ...] = (
    *names.CASES,
    *lists.CASES,
    *updates.CASES,
    *creation.CASES,
    *messages.CASES,
    *snapshots.CASES,
)
REST_CASES = tuple(case for case in CASES if not isinstance(case, GrpcCase))

__all__ = ["CASES", "REST_CASES", "Case", "GrpcCase"]
