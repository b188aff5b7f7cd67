"""Each metric, from both sides, against values computed by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Question
from ragsweep.parts.outputs import JsonObject

import haproxy_repair
from haproxy_repair import metrics, validator
from haproxy_repair.changes import agreement, find_changes
from haproxy_repair.findings import count_matches, pair_kinds
from haproxy_repair.grammar import elements

INPUT = """\
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
listen web
    bind 127.0.0.1:8080
    balanc roundrobin
    server s1 10.0.0.1:80 wieght 10
"""
HALF = INPUT.replace("balanc ", "balance ")
EXPECTED = HALF.replace("wieght", "weight")
FINDINGS = [
    {"kind": "unknown_directive", "line": 8, "element": "balanc", "message": ""},
    {"kind": "unknown_directive", "line": 9, "element": "wieght", "message": ""},
]
PROSE = "I am sorry, but I cannot repair this.\nPlease ask somebody else.\n"


def question(**fields: Any) -> Question:
    return Question("q", INPUT, fields={"input": INPUT, "expected": EXPECTED, "findings": FINDINGS, **fields})


def score(metric: Any, config: str = INPUT, findings: list[Any] | None = None, **fields: Any) -> float:
    scored = metric.score_output(question(**fields), {"findings": findings or [], "config": config})
    assert isinstance(scored, float)
    return scored


def finding(kind: str = "unknown_directive", line: int = 8, element: str = "balanc") -> dict[str, Any]:
    return {"kind": kind, "line": line, "element": element, "message": ""}


# --- findings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "matched"),
    [
        ([], 0),
        ([finding()], 1),
        ([finding(line=10)], 1),  # two lines away
        ([finding(line=11)], 0),  # three
        ([finding(kind="tls")], 0),
        ([finding(element="Balanc "), finding(element='"wieght"', line=9)], 2),
        ([finding(element="balance")], 0),
        ([finding(), finding()], 1),  # one to one
    ],
)
def test_findings_match_by_kind_element_and_near_line(stated: list[Any], matched: int) -> None:
    assert count_matches(stated, FINDINGS) == matched


def test_each_finding_is_matched_to_the_nearest() -> None:
    stated = [finding(line=5), finding(line=7)]
    expected = [finding(line=5), finding(line=6)]
    assert count_matches(stated, expected) == 2


@pytest.mark.parametrize(
    ("stated", "expected", "precision", "recall", "f1"),
    [
        ([finding()], FINDINGS, 1.0, 0.5, 2 / 3),
        ([finding(), finding(line=1), finding(line=2), finding(line=3)], FINDINGS, 0.25, 0.5, 1 / 3),
        (FINDINGS, FINDINGS, 1.0, 1.0, 1.0),
        ([], FINDINGS, 0.0, 0.0, 0.0),
        ([finding()], [], 0.0, 1.0, 0.0),
        ([], [], 1.0, 1.0, 1.0),  # nothing expected, nothing stated
    ],
)
def test_precision_recall_f1_and_detection(
    stated: list[Any], expected: list[Any], precision: float, recall: float, f1: float
) -> None:
    values = [
        metric.score_output(question(findings=expected), {"findings": stated, "config": INPUT})
        for metric in (
            metrics.FindingsPrecision(), metrics.FindingsRecall(), metrics.FindingsF1(), metrics.Detection(),
        )
    ]  # fmt: skip
    assert values == pytest.approx([precision, recall, f1, 100 * recall])


def test_kinds_are_paired_by_element_and_line() -> None:
    stated = [finding(kind="tls"), finding(element="mode", line=2)]
    assert sorted(pair_kinds(stated, FINDINGS)) == [
        ("", "unknown_directive"), ("unknown_directive", ""), ("unknown_directive", "tls"),
    ]  # fmt: skip


# --- compliance ------------------------------------------------------------------------------------------------------


def test_compliance_takes_a_tenth_for_an_error_and_two_hundredths_for_a_warning() -> None:
    assert score(metrics.Compliance(), EXPECTED) == 1.0
    assert score(metrics.Compliance(), INPUT) == 0.8
    assert score(metrics.Compliance(), HALF) == 0.9
    warned = EXPECTED.replace("listen web", "backend web")  # bind is ignored there
    assert score(metrics.Compliance(), warned) == 0.98
    assert [score(metrics.ErrorCount(), text) for text in (EXPECTED, HALF, INPUT, warned)] == [0, 1, 2, 0]
    assert [score(metrics.WarningCount(), text) for text in (EXPECTED, INPUT, warned)] == [0, 0, 1]


def test_compliance_has_a_floor() -> None:
    unknown = "".join(f"    nonsense{number}\n" for number in range(14))
    assert score(metrics.ErrorCount(), EXPECTED + unknown) > 10
    assert score(metrics.Compliance(), EXPECTED + unknown) == 0.0


@pytest.mark.parametrize("config", ["", PROSE, EXPECTED * 1000, "global\n lua-load /tmp/x\n"])
def test_what_is_refused_has_no_compliance_and_one_error(config: str) -> None:
    assert score(metrics.Compliance(), config) == 0.0
    assert score(metrics.ErrorCount(), config) == 1.0
    assert score(metrics.RefusedConfig(), config) == 1.0
    assert score(metrics.RefusedConfig(), INPUT) == 0.0


def test_missing_haproxy_is_an_error_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validator.shutil, "which", lambda *_, **__: None)
    for metric in (metrics.Compliance(), metrics.Hallucination()):
        with pytest.raises(ConfigError, match="apt-get install haproxy"):
            metric.check()


# --- optimisation ----------------------------------------------------------------------------------------------------


def test_optimisation_is_the_share_of_changes_that_are_expected() -> None:
    optimisation = metrics.Optimisation()
    assert score(optimisation, EXPECTED) == 100.0
    assert score(optimisation, INPUT) == 0.0
    # One of two lines is replaced: 2 changed lines here, 4 expected, 2 pairs of equal lines: 2 x 2 / 6.
    assert score(optimisation, HALF) == pytest.approx(100 * 4 / 6)
    # All that is expected, and two lines more: 2 x 4 / 10.
    assert score(optimisation, EXPECTED + "    retries 3\n    option redispatch\n") == pytest.approx(80.0)
    assert score(optimisation, INPUT, expected=INPUT) == 100.0  # nothing expected, nothing changed
    assert score(optimisation, HALF, expected=INPUT) == 0.0


def test_optimisation_precision_is_the_share_of_proposed_changes_that_are_expected() -> None:
    precision = metrics.OptimisationPrecision()
    assert score(precision, EXPECTED) == 100.0
    assert score(precision, HALF) == 100.0  # what is missing does not lower it
    # two lines removed and two added as expected, and two added that nobody expects
    assert score(precision, EXPECTED + "    retries 3\n    option redispatch\n") == pytest.approx(100 * 4 / 6)
    assert score(precision, INPUT) == 0.0
    assert score(precision, INPUT, expected=INPUT) == 100.0
    assert score(precision, HALF, expected=INPUT) == 0.0


def test_similar_lines_count_their_similarity() -> None:
    before, expected = "global\n maxconn 1000\n", "global\n maxconn 2000\n"
    made = find_changes(before, "global\n maxconn 3000\n")
    assert (made.removed, made.added, made.changed) == (("maxconn 1000",), ("maxconn 3000",), 1)
    # The removed line is equal; 11 of 12 characters of the added ones are: 2 x (1 + 22/24) / 4.
    assert agreement(made, find_changes(before, expected)) == pytest.approx((1 + 22 / 24) / 2)
    assert agreement(find_changes(before, "global\n maxconn 1000\n daemon\n"), find_changes(before, expected)) == 0.0


def test_indentation_comments_and_blank_lines_are_no_changes() -> None:
    tidied = "# tidied\n\n" + INPUT.replace("    ", "\t") + "\n"
    assert find_changes(INPUT, tidied) == ((), (), 0)


def test_changed_added_and_removed_lines() -> None:
    more = EXPECTED.replace("    mode http\n", "") + "    retries 3\n"
    values = [score(metrics.LineCount(of), more) for of in ("changed", "added", "removed")]
    assert values == [2, 3, 3]
    with pytest.raises(ConfigError, match="of: must be"):
        metrics.LineCount("deleted")


def test_huge_output_is_compared_in_time() -> None:
    huge = INPUT + "".join(f"    http-request set-header X-{number} {'v' * 40}\n" for number in range(3000))
    assert score(metrics.Optimisation(), huge) < 1.0


# --- hallucination ---------------------------------------------------------------------------------------------------


def test_hallucination_is_the_share_of_unknown_elements_by_type() -> None:
    config = "frontend f\n    bind :80\n    option httplgo\n    timeot client 3s\n    timeout client 3x\n"
    found = [(element.kind, element.name, element.known) for element in elements(config)]
    assert found == [
        ("directive", "frontend", True), ("directive", "bind", True), ("value", ":80", True),
        ("directive", "option", True), ("option", "httplgo", False), ("directive", "timeot", False),
        ("directive", "timeout", True), ("parameter", "client", True), ("value", "client 3x", False),
    ]  # fmt: skip
    values = [score(metrics.Hallucination(of), config) for of in (None, "option", "directive", "parameter", "value")]
    assert values == pytest.approx([100 * 3 / 9, 100 / 9, 100 / 9, 0.0, 100 / 9])


def test_hallucination_of_other_outputs() -> None:
    rate = metrics.Hallucination()
    assert score(rate, "") == 0.0  # no element
    assert score(rate, EXPECTED) == 0.0
    assert score(rate, PROSE) == 100.0
    assert score(rate, INPUT) > 0.0


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("server s 10.0.0.1:80 check weight 256", ""),
        ("server s 10.0.0.1:80 check weight 257", "weight 257"),
        ("server s 10.0.0.1:65535 check", ""),
        ("server s 10.0.0.1:65536 check", "10.0.0.1:65536"),
        ("server s 10.0.0.1:80 wieght 3 check", "wieght"),
        ("server s [2001:db8::1]:80 check inter 3s", ""),
        ("server s 10.0.0.1:80 check inter 3q", "inter 3q"),
        ("timeout tunnel 24d", ""),
        ("timeout tunnel 25d", "tunnel 25d"),
        ("timeout clinet 3s", "clinet"),
        ("balance hdr(host)", ""),
        ("balance lestconn", "lestconn"),
        ("option httpchk GET /x", ""),
        ("no option httplog", ""),
        ("http-request deny deny_status 429 if { src_conn_rate gt 3 }", ""),
        ("http-request deny deny_status 42 if { src_conn_rate gt 3 }", "deny_status 42"),
        ("http-request deny if !{ src_rate gt 3 }", "src_rate"),
        ("http-request set-header X %[req.hdr(a),lower,field(1,:)]", ""),
        ("http-request set-header X %[req.hdr(a),lowercase]", "lowercase"),
        ("http-request track-sc0 src", ""),
        ("http-request set-var(txn.a) path", ""),
        ("http-request sett-var(txn.a) path", "sett-var(txn.a)"),
        ("redirect scheme https code 302 if !{ ssl_fc }", ""),
        ("redirect scheme https code 305 if !{ ssl_fc }", "code 305"),
        ("acl a hdr_beg(host) -i www.", ""),
        ("acl a hdr_begin(host) -i www.", "hdr_begin"),
        ("maxconn many", "maxconn many"),
        ("bind :443 ssl alpn h2,http/1.1 ssl-min-ver TLSv1.2", ""),
        ("bind :443 ssl alnp h2", "alnp"),
        ("stick-table type ip size 1m expire 10min store gpc0", "expire 10min"),
    ],
)
def test_what_is_known(line: str, unknown: str) -> None:
    found = [element.name for element in elements(f"listen l\n    {line}\n") if not element.known]
    assert found == ([unknown] if unknown else [])


# --- composites, and reading -----------------------------------------------------------------------------------------


def global_score(parts: dict[str, float]) -> float:
    """Compute the formula as the issue states it."""
    return (
        0.30 * parts["detection"] + 0.30 * 100 * parts["compliance"] + 0.25 * parts["optimisation"]
        + 0.15 * (100 - parts["hallucination_rate"])
    )  # fmt: skip


def test_weights_and_criteria_of_the_task_are_those_of_the_formula() -> None:
    task = yaml.safe_load((Path(haproxy_repair.__file__).parent / "conf/task/haproxy_repair.yaml").read_text("utf-8"))
    node = task["metrics"]["global_score"]
    names = {"detection": "detection", "compliance": "compliance", "optimisation": "optimisation",
             "hallucination": "hallucination_rate"}  # fmt: skip

    def composed(parts: dict[str, float]) -> float:
        return float(node["constant"] + sum(term["weight"] * parts[names[key]] for key, term in node["terms"].items()))

    for parts in (
        {"detection": 100.0, "compliance": 1.0, "optimisation": 100.0, "hallucination_rate": 0.0},
        {"detection": 0.0, "compliance": 0.0, "optimisation": 0.0, "hallucination_rate": 100.0},
        {"detection": 50.0, "compliance": 0.8, "optimisation": 30.0, "hallucination_rate": 10.0},
    ):
        assert composed(parts) == pytest.approx(global_score(parts))
    criteria = task["metrics"]["repair_success"]["criteria"]
    assert [(key, one.get("at_least"), one.get("at_most")) for key, one in criteria.items()] == [
        ("compliance", 0.8, None), ("hallucination", None, 10), ("global", 60, None),
    ]  # fmt: skip


@pytest.fixture
def reader() -> JsonObject:
    return JsonObject(str(Path(haproxy_repair.__file__).with_name("schema.json")))


def test_answers_are_read_by_the_schema(reader: JsonObject) -> None:
    answer = json.dumps({"findings": FINDINGS, "config": EXPECTED})
    assert reader.read(answer)["config"] == EXPECTED
    assert reader.read(f"Here it is:\n```json\n{answer}\n```\n")["findings"] == FINDINGS


@pytest.mark.parametrize(
    "answer",
    [
        "",
        PROSE,
        "[]",
        json.dumps({"config": EXPECTED}),
        json.dumps({"findings": [{"kind": "other", "line": 1, "element": "x", "message": ""}], "config": ""}),
        json.dumps({"findings": [{"kind": "tls", "line": 0, "element": "x", "message": ""}], "config": ""}),
        json.dumps({"findings": [], "config": "x" * 65_537}),
        json.dumps({"findings": [finding()] * 101, "config": ""}),
    ],
)
def test_answers_that_cannot_be_read(answer: str, reader: JsonObject) -> None:
    with pytest.raises(ValueError, match=r"JSON|\$"):
        reader.read(answer)
