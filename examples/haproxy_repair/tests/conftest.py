"""Skip what needs Debian's packages where they are not installed."""

from collections.abc import Sequence

import pytest

from haproxy_repair.corpus import documents, read_manual
from haproxy_repair.validator import find_haproxy


def _missing() -> str:
    try:
        find_haproxy()
        read_manual()
    except FileNotFoundError as fault:
        return str(fault)
    return ""


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Skip every test, with the reason, without HAProxy or its manual."""
    if reason := _missing():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def manual() -> dict[str, str]:
    """Texts of the manual's documents by id."""
    return {document["id"]: document["text"] for document in documents(read_manual())}
