"""Cases of a task: what becomes of their fields, of templates, and of faults."""

import json
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.types import Evidence, Request, Turn
from ragsweep.parts.datasets import Jsonl, TaskCases
from ragsweep.parts.generators import Baseline
from ragsweep.testing.contract import collect

CASE = {
    "id": "c1", "input": "listn 80", "expected": "listen 80", "category": "typo", "difficulty": "easy",
    "findings": [{"line": 1}], "errors": "line 1: unknown keyword", "evidence": [{"document": "manual"}],
}  # fmt: skip


def cases(folder: Path, *rows: dict[str, Any], query: str = "{errors}", request: str = "Mend: {input}") -> TaskCases:
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "corpus.jsonl").write_text(json.dumps({"id": "manual", "text": "listen: a section"}) + "\n")
    return TaskCases(str(folder / "cases.jsonl"), str(folder / "corpus.jsonl"), query, request, "error", None, 0)


def test_templates_make_query_and_request_and_every_other_key_is_a_field(tmp_path: Path) -> None:
    [case] = cases(tmp_path, CASE | {"severity": None}).load().golden.questions
    assert (case.query, case.text, case.expected) == ("line 1: unknown keyword", "Mend: listn 80", ("listen 80",))
    assert (case.category, case.labels, case.evidence[0].document) == ("typo", {"difficulty": "easy"}, "manual")
    assert case.fields == {key: CASE[key] for key in CASE if key not in ("id", "evidence")}
    assert isinstance(case.evidence[0], Evidence)


def test_field_that_is_no_text_is_written_as_json_and_doubled_braces_are_braces(tmp_path: Path) -> None:
    [case] = cases(tmp_path, CASE, query="{findings}", request='{{"in": {input}}}').load().golden.questions
    assert (case.query, case.text) == ('[{"line": 1}]', '{"in": listn 80}')


def test_pages_of_a_folder_are_documents_too(tmp_path: Path) -> None:
    made = cases(tmp_path, CASE | {"evidence": [{"document": "tls.md"}]})
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "tls.md").write_text("# TLS\n\nbind ssl crt")
    made.corpus = str(tmp_path / "pages")
    assert list(made.load().corpus.ids) == ["tls.md"]


def test_edited_field_or_query_is_another_golden_set(tmp_path: Path) -> None:
    def digest(**changes: Any) -> str:
        query = changes.pop("query", "{errors}")
        return cases(tmp_path, CASE | changes, query=query).load().golden.digest

    digests = {digest(), digest(findings=[]), digest(query="{input}"), digest(errors="none")}
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"id": "c1"}], r'cases\.jsonl:1.*has no "input"'),
        ([CASE, CASE], r'cases\.jsonl:2.*case "c1" occurs twice'),
        ([{"id": "c1", "input": "x", "erors": "y"}], r'no field "errors"; did you mean "erors"'),
        ([CASE | {"errors": None}], r'cases\.jsonl:1.*no field "errors"'),
        ([CASE | {"evidence": [{"document": "nowhere"}]}], "nowhere"),
    ],
)
def test_fault_of_a_case_is_named_with_its_line(rows: list[dict[str, Any]], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        cases(tmp_path, *rows).load()


@pytest.mark.parametrize("template", ["{input", "{input.x}", "{input!r}", "{}", "{0}"])
def test_template_that_is_none_is_refused(template: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="request: "):
        cases(tmp_path, CASE, request=template).check()


def baseline(folder: Path, answer: Any) -> str:
    return collect(Baseline(cases(folder, CASE), answer).generate, [Request("Mend: listn 80")])[0].text


def test_baselines_answer_with_fields_of_the_case(tmp_path: Path) -> None:
    assert baseline(tmp_path, "{input}") == "listn 80"
    assert baseline(tmp_path, "{expected}") == "listen 80"
    made = baseline(tmp_path, {"findings": "{findings}", "config": "{expected}", "notes": ["of {category}"]})
    assert json.loads(made) == {"findings": [{"line": 1}], "config": "listen 80", "notes": ["of typo"]}
    with pytest.raises(
        InputError, match=r'cases\.jsonl:1: llm\.answer cannot be filled in: no field "inptu"; did you mean "input"'
    ):
        baseline(tmp_path, "{inptu}")


def test_answers_of_a_baseline_change_with_the_cases(tmp_path: Path) -> None:
    before = Baseline(cases(tmp_path, CASE), "{expected}").fingerprint()
    assert before == Baseline(cases(tmp_path, CASE), "{expected}").fingerprint()
    assert before != Baseline(cases(tmp_path, CASE | {"expected": "listen 81"}), "{expected}").fingerprint()


def test_baseline_tells_conversations_that_end_with_the_same_words_apart(tmp_path: Path) -> None:
    asked = {capital: (Turn("user", f"{capital} is the capital of?"),) for capital in ("Paris", "Rome")}
    rows = [{"question": "And now?", "reference": one, "history": [vars(turn) for turn in asked[one]]} for one in asked]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps({"id": row["reference"], **row}) + "\n" for row in rows))
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"id": "a", "text": "capitals"}) + "\n")
    files = (str(tmp_path / "corpus.jsonl"), str(tmp_path / "golden.jsonl"))
    part = Baseline(Jsonl(*files, "error", None, 0, False), "{expected}")
    requests = [Request("And now?", (), history) for history in asked.values()]
    assert [answer.text for answer in collect(part.generate, requests)] == ["Paris", "Rome"]
