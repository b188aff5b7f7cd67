"""Generators and judges against a server that this project did not write: llama.cpp's, with a real language model."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import httpx
import pytest

from ragsweep.core.missing import THINKING, TOO_LONG, TRUNCATED
from ragsweep.core.types import Passage, Request
from ragsweep.parts.generators import OpenAI
from ragsweep.testing.contract import collect
from support import free_port, write_rows
from support.commands import RUN, Finished, call, write_dataset
from support.models import PROMPT, smollm2

pytestmark = pytest.mark.nightly

CODE = """
import json, sys, time, xllamacpp
path, port, settings = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_parallel, params.n_ctx, params.verbosity = path, port, 4, 4096, -1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
for name, value in settings.items():
    setattr(params, name, value)
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
time.sleep(10**6)
"""


class Server:
    """llama.cpp's server with SmolLM2 on a port of loopback."""

    def __init__(self, **settings: Any) -> None:
        self.port, self.settings, self.path = free_port(), settings, smollm2()._file()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        command = [sys.executable, "-c", CODE, str(self.path), str(self.port), json.dumps(self.settings)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            time.sleep(0.1)
            try:
                if httpx.get(f"{self.url}/models").status_code == 200:
                    return
            except httpx.HTTPError:
                continue
        raise AssertionError("the server does not answer")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def generator(self, **parameters: Any) -> OpenAI:
        return OpenAI(self.url, "smollm2", PROMPT, **{"max_tokens": 16, "retries": 1, "timeout": 120, **parameters})


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.kill()


COLOURS = [Request(f"Name {n} colours.", ()) for n in range(1, 9)]


def test_requests_at_once_are_answered_each_by_its_own_answer_with_the_tokens_of_the_server(server: Server) -> None:
    answers = collect(server.generator(concurrency=4, max_tokens=40).generate, COLOURS)
    assert not [answer.failed for answer in answers if answer.failed not in ("", TRUNCATED)]
    assert all(
        answer.usage.calls == 1 and answer.usage.tokens_in > 10 < answer.usage.tokens_out + 10 for answer in answers
    )
    assert not any(answer.usage.estimated for answer in answers)


def test_prompt_longer_than_the_window_and_answer_longer_than_allowed_have_their_own_reasons(server: Server) -> None:
    asked = [Request("word " * 6000, ()), Request("Tell me a long story about a fox and a crow.", ()), COLOURS[0]]
    failed = [answer.failed for answer in collect(server.generator(max_tokens=12).generate, asked)]
    assert failed[:2] == [TOO_LONG, TRUNCATED]


def test_schema_of_the_reply_is_kept_by_the_server(server: Server) -> None:
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
    form = {"type": "json_schema", "json_schema": {"name": "colour", "schema": schema}}
    (answer,) = collect(server.generator(extra={"response_format": form}, max_tokens=60).generate, COLOURS[:1])
    assert set(json.loads(answer.text)) == {"colour"}


def test_server_that_is_killed_and_started_again_midway_loses_no_answer() -> None:
    server = Server()
    again = Timer(1.0, lambda: (server.kill(), server.start()))
    again.start()
    try:
        asked = [Request(f"Name {n} towns.", ()) for n in range(40)]
        answers = collect(server.generator(retries=12, concurrency=4, deadline=600).generate, asked)
        assert [answer.failed for answer in answers if answer.failed not in ("", TRUNCATED)] == []
    finally:
        again.join()
        server.kill()


def test_thoughts_in_a_reply_are_no_part_of_the_answer_and_thoughts_without_end_are_a_failure(server: Server) -> None:
    whole = 'root ::= "<think>" [a-z ]{5,20} "</think>" [a-z]{3,12}'
    (answer,) = collect(server.generator(extra={"grammar": whole}, max_tokens=60).generate, COLOURS[:1])
    assert answer.text.isalpha()
    assert answer.thoughts
    endless = 'root ::= "<think>" [a-z ]{100,200}'
    (answer,) = collect(server.generator(extra={"grammar": endless}).generate, COLOURS[:1])
    assert (answer.text, answer.failed) == ("", THINKING)


def judged(server: Server, folder: Path, *overrides: str, without: Sequence[str] = ()) -> Finished:
    """Have the small model judge answers cut from passages, but for the metrics that cost most calls."""
    judge = [f"judge.base_url={server.url}", "judge.model=smollm2", "judge.max_tokens=48", "judge.concurrency=4"]
    costly = ("answer_correctness", "factual_correctness", "semantic_similarity", "noise_sensitivity", *without)
    left_out = [f"~metrics.ragas_{name}" for name in costly]
    options = ["llm=extractive", "judge=vllm", "metrics=[retrieval,ragas]", "tracking=none", *judge, *left_out]
    return call(folder, RUN, *overrides, *options)


def test_small_model_as_a_judge_is_shown_to_be_a_bad_one(server: Server, tmp_path: Path) -> None:
    """Its replies are cut, or the prompt is too long for it: no score, a reason, and a choice that is not by it."""
    overrides = ("-m", "top_k=1,2", *write_dataset(tmp_path), "objective=ragas_faithfulness")
    done = judged(server, tmp_path, *overrides, without=["answer_relevancy"])
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == 1, done.stdout + done.stderr
    printed = " ".join(done.stdout.split())
    assert re.search(r"failed [0-9]+ calls? truncated;", printed)
    assert re.search(r"failed [0-9]+ calls? prompt too long;", printed)
    assert re.search(r"is PARTIAL: ragas_faithfulness is known for 0 % of its questions \([0-9]+ truncated\)", printed)
    assert "The objective, ragas_faithfulness, does not decide" in printed


def test_calibration_shows_that_verdicts_of_the_small_model_do_not_follow_the_answers(
    server: Server, tmp_path: Path
) -> None:
    """Three answers are quoted from the right passage, three answer nothing."""
    right = {"where does the cat sleep": "cats", "what do dogs guard": "dogs", "what do ships carry": "ships"}
    wrong = ["who painted the mat", "how old is the stove", "why is the sea blue"]
    golden: list[dict[str, object]] = [
        {"evidence": [{"document": name}], "question": text} for text, name in right.items()
    ]
    golden += [{"answerable": False, "question": text} for text in wrong]
    overrides = write_dataset(tmp_path, [{"id": row["question"], **row} for row in golden])
    left_out = ("faithfulness", "context_precision_without_reference")
    judged(server, tmp_path, *overrides, "top_k=1", "llm.threshold=-1", "name=judged", without=left_out)
    labels = [
        {"question_id": text, "metric": "ragas_answer_relevancy", "label": int(text in right)}
        for text in (*right, *wrong)
    ]
    write_rows(tmp_path / "labels.jsonl", labels)
    done = call(tmp_path, "-m", "ragsweep", "judge", "calibrate", "labels.jsonl", "--run", "judged", "--json")
    (found,) = json.loads(done.stdout)
    assert found["n_compared"] == 6
    assert found["kappa"][0] < 0.5
    assert found["corrected_passed"] == [None, None, None]


def test_served_model_and_the_same_file_in_process_read_the_same_prompt(server: Server) -> None:
    asked = Request("Where is Normandy?", (Passage("n", "Normandy is a region in the north of France."),))
    (served,), (local,) = (collect(one.generate, [asked]) for one in (server.generator(), smollm2(max_new_tokens=16)))
    assert served.usage.tokens_in == local.usage.tokens_in
