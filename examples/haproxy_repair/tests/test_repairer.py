"""The repairer repairs what its passages cover, and nothing else."""

import json
from typing import Any

import pytest
from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Answer, Passage, Request
from ragsweep.testing.generators import GeneratorContract

from haproxy_repair.cases import read_cases
from haproxy_repair.findings import count_matches
from haproxy_repair.repairer import Repairer

CASES = {case["id"]: case for case in read_cases()}


class TestRepairer(GeneratorContract):
    part = Repairer


def repaired(case: dict[str, Any], manual: dict[str, str], *names: str) -> dict[str, Any]:
    passages = [(name, manual[name]) for name in names]
    return Repairer().repair(case["input"], passages)


@pytest.mark.parametrize(
    "name",
    [
        "shop_httplog", "wiki_set_header", "api_default_backend", "threads_global",  # misspelt keywords
        "balance_in_frontend", "bind_in_backend",  # wrong sections
        "timeout_unit_sec", "server_ciphers", "alpn_and_dh", "algorithm_typo", "reuse_and_retry", "path_begin",
    ],
)  # fmt: skip
def test_passages_make_the_difference(name: str, manual: dict[str, str]) -> None:
    case = CASES[name]
    evidence = [one["document"] for one in case["evidence"]]
    helped, alone = repaired(case, manual, *evidence), repaired(case, manual)
    assert helped["config"] == case["expected"]
    assert count_matches(helped["findings"], case["findings"]) == len(case["findings"])
    assert alone == {"findings": [], "config": case["input"]}


@pytest.mark.parametrize("name", ["default_backend_typo", "use_backend_renamed", "two_frontends", "acl_undefined"])
def test_names_in_the_configuration_need_no_passages(name: str, manual: dict[str, str]) -> None:
    assert repaired(CASES[name], manual)["config"] == CASES[name]["expected"]


def test_timeouts_are_added_where_the_manual_warns(manual: dict[str, str]) -> None:
    case = CASES["timeouts_absent"]
    names = [f"4.2 timeout {name}" for name in ("client", "connect", "server")]
    assert [one["element"] for one in repaired(case, manual, *names)["findings"]] == [
        "timeout client", "timeout connect", "timeout server",
    ]  # fmt: skip
    assert [one["element"] for one in repaired(case, manual, names[0])["findings"]] == ["timeout client"]


def test_passages_on_other_keywords_change_little(manual: dict[str, str]) -> None:
    """Right configurations stay as they are."""
    changed = 0
    for case in CASES.values():
        passages = [(one["document"], manual[one["document"]]) for one in case["evidence"]]
        changed += Repairer().repair(case["expected"], passages)["config"] != case["expected"]
    assert changed <= 3


def test_expected_findings_are_not_needed(manual: dict[str, str]) -> None:
    """A request has only the configuration and passages."""
    answers: list[Answer] = []
    case = CASES["shop_httplog"]
    passage = Passage("4.2 option httplog", manual["4.2 option httplog"])
    Repairer().generate([Request(case["input"], (passage,))], lambda _, answer: answers.append(answer))
    assert json.loads(answers[0].text)["config"] == case["expected"]
    assert answers[0].seconds >= 0


def test_similarity_is_checked() -> None:
    with pytest.raises(ConfigError, match="similarity"):
        Repairer(similarity=0).check()
