import gzip
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Evidence
from ragsweep.parts.datasets import Trec
from ragsweep.testing.datasets import DatasetContract
from support import faults_of

CORPUS = '{"_id": "d1", "title": "Rain", "text": "It rains.", "year": 1957}\n{"_id": "d2", "text": ""}\n'
OPEN_TAGS = """
<top>

<num> Number: 301
<title> Topic: heavy
rain

<desc> Description:
When does it rain?

<narr> Narrative:
Any rain < 3 mm counts.

</top>
<top>
<num> Number: 302
<title> snow
<desc> When does it snow?
<narr> Snow.
</top>
"""
CLOSED_TAGS = """<top><num>301</num><title>heavy rain</title>
<desc>When does it rain?</desc><narr>Any rain &lt; 3 mm counts.</narr></top>
<top><num>302</num><title>snow</title><desc>When does it snow?</desc><narr>Snow.</narr></top>
"""
TABS = "301\theavy rain\n302\tsnow\n"
XML = """<?xml version="1.0"?>
<!DOCTYPE topics>
<topics task="ad hoc">
<topic number="301"><query>heavy rain</query><question>When does it rain?</question>
  <narrative>Any rain &lt; 3 mm counts.</narrative></topic>
<topic number='302' type="x"><query>snow</query><question>When does it snow?</question><narrative>Snow.</narrative>
  <subtopic number="1">unread</subtopic></topic>
</topics>
"""
NUMBERED = """<topics><topic><num>301</num><title>heavy rain</title><description>When does it rain?</description>
<narrative>Any rain &lt; 3 mm counts.</narrative></topic><topic><number>302</number><title>snow</title></topic></topics>
"""
PLAIN_XML = '<topics>\n<topic number="301">heavy\nrain</topic>\n<topic number="302">snow</topic>\n</topics>'
FORMATTED = """<topics><topic number="301"><query>hea<b>vy</b> <I class="x">rain</I></query></topic>
<topic number="302"><query><![CDATA[snow]]></query></topic></topics>
"""
QRELS = "301 0 d1 2\n301 Q0 d2 0\n302 0 d2 1\n"


def trec(folder: Path, topics: str, qrels: str = QRELS, **arguments: Any) -> Trec:
    files = {"corpus": CORPUS, "topics": topics, "qrels": qrels}
    for name, content in files.items():
        (folder / name).write_text(content)
    usual = {"fields": ["title"], "grades": None, "unknown": "error", "limit": None, "seed": 0}
    return Trec(**{name: str(folder / name) for name in files}, **(usual | arguments))


def refused(folder: Path, topics: str, qrels: str = QRELS) -> list[str]:
    return faults_of(trec(folder, topics, qrels).load, folder)


class TestTrec(DatasetContract):
    @pytest.fixture(autouse=True)
    def _reader(self, tmp_path: Path) -> None:
        part = trec(tmp_path, OPEN_TAGS)
        self.part = lambda: part


KINDS = {
    "open tags": OPEN_TAGS,
    "closed tags": CLOSED_TAGS,
    "tabs": TABS,
    "xml": XML,
    "numbers": NUMBERED,
    "plain xml": PLAIN_XML,
    "formatted": FORMATTED,
}


@pytest.mark.parametrize("topics", KINDS.values(), ids=KINDS)
def test_topics_and_qrels_become_questions_with_evidence(tmp_path: Path, topics: str) -> None:
    dataset = trec(tmp_path, topics).load()
    assert (dataset.name, dataset.corpus.ids, dataset.corpus.titles) == ("qrels", ["d1", "d2"], ["Rain", ""])
    first, second = dataset.golden.questions
    assert (first.id, first.text, second.id, second.text) == ("301", "heavy rain", "302", "snow")
    assert first.evidence == (Evidence("d1", grade=2.0), Evidence("d2", grade=0.0))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (["description"], "When does it rain?"),
        (["description", "title"], "When does it rain? heavy rain"),
        (["narrative"], "Any rain < 3 mm counts."),
    ],
)
def test_fields_of_a_topic_make_the_question_in_their_order(tmp_path: Path, fields: list[str], text: str) -> None:
    for topics in (OPEN_TAGS, XML):
        assert trec(tmp_path, topics, fields=fields).load().golden.questions[0].text == text


@pytest.mark.parametrize("header", ["query_id iter doc_id rel", "qid\t0\tdocno\tlabel", "query-id\tcorpus-id\tscore"])
def test_a_header_of_the_qrels_is_no_label(tmp_path: Path, header: str) -> None:
    rows = QRELS if len(header.split()) == 4 else "301\td1\t2\n301\td2\t0\n302\td2\t1\n"
    with_header = trec(tmp_path, XML, f"{header}\n{rows}").load().golden
    assert [len(question.evidence) for question in with_header.questions] == [2, 1]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [(["desc"], 'a topic has no "desc"; did you mean "description"?'), ([], "must name at least one part of a topic")],
)
def test_unknown_field_is_refused_before_anything_is_read(fields: list[str], fault: str) -> None:
    nowhere = {"corpus": "no", "topics": "no", "qrels": "no", "grades": None, "unknown": "error", "limit": None}
    config = {"_target_": "ragsweep.parts.datasets.Trec", **nowhere, "seed": 0, "fields": fields}
    with pytest.raises(ConfigError) as caught:
        Builder().build(config, "dataset")
    assert str(caught.value).startswith(f"dataset.fields: {fault}")


def test_gzipped_files_are_found_by_their_plain_names(tmp_path: Path) -> None:
    plain = trec(tmp_path, OPEN_TAGS)
    digest = plain.load().golden.digest
    for name in ("corpus", "topics", "qrels"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        (tmp_path / name).unlink()
    assert plain.load().golden.digest == digest


def test_topics_without_a_label_are_counted_and_labels_without_a_topic_refused(tmp_path: Path) -> None:
    golden = trec(tmp_path, TABS, "301 0 d1 1\n").load().golden
    assert ([question.id for question in golden.questions], golden.left_out) == (["301"], {"not in the qrels": 1})
    assert refused(tmp_path, TABS, "303 0 d1 1\n")[1:] == ['qrels:1: question "303" is not in the queries']


def test_faults_of_topics_are_reported_at_once(tmp_path: Path) -> None:
    topics = "<top>\n<num> 1\n</top>\nstray\n<top>\n<num> 2\n<title> a\n<top>\n<num> 2\n<title> b\n"
    assert refused(tmp_path, topics) == [
        "topics:1: the topic has no <title>; complete the topic, or choose other dataset.fields",
        'topics:4: "stray" is outside a topic; remove it',
        "topics:8: a topic begins before the topic in topics:5 ends; close the earlier one with </top>",
        "topics:8: the topic has no end; close it with </top>",
        'topics:8: question "2" occurs twice; first in topics:5; remove or rename one',
    ]
    assert refused(tmp_path, "301\theavy rain\n302 snow\n") == [
        "topics:2: has no tab; write a question's id, a tab and its text, or begin the file with <top>"
    ]
