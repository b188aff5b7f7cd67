"""The page of a sweep in a browser: it draws, sorts, filters and follows the keyboard, also in a sandboxed frame."""

import json
import math
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from ragsweep.commands.report import report
from ragsweep.core.errors import RagsweepError
from ragsweep.core.results import Result
from ragsweep.parts.tracking import CHOSEN
from ragsweep.records.ledger import Ledger
from ragsweep.report.sweep_report import PageTexts
from ragsweep.sweep.concluding.parent_run import sweep_run
from ragsweep.sweep.concluding.summarise import past_sweeps, summarise_sweep
from support.pages import COUNT, HOSTILE, grid
from support.results import changed, record_sweep, refuse
from support.servers.chromium import BROWSER, HEADLESS

pytestmark = pytest.mark.slow

PARENT = "feed" * 8
LONG = {"how": "how it is done in the long name of a category"}
FRAME = """<!doctype html><pre id="said"></pre><script>
addEventListener("message", (event) => { document.getElementById("said").textContent = event.data; });
</script><iframe sandbox="allow-scripts" src="driven.html" style="width:390px;height:900px"></iframe>"""

LISTEN = """<script>
const faults = [];
addEventListener("error", (event) => faults.push(event.message));
addEventListener("securitypolicyviolation", (event) => faults.push(`${event.violatedDirective} ${event.blockedURI}`));
console.error = (...words) => faults.push(words.join(" "));
</script>"""
"""Goes to the head of the page, before its own scripts."""

DRIVE = """<script>
(async () => {
  await ragsweep;
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const pause = () => new Promise((done) => setTimeout(done, 50));
  const table = document.querySelector("#configs table");
  const column = (n) => all("tbody tr", table).map((row) => row.children[n].textContent);
  const named = (name) => all("th", table).findIndex((head) => head.textContent === name);
  const sort = (name) => { all("th button", table)[named(name)].click(); return column(named(name)); };
  const listed = () => document.querySelector("#questions .pager span").textContent;
  const current = () => document.querySelector("#questions .question h3").textContent;
  const choose = (label, text) => {
    const select = all("#questions label").find((one) => one.firstChild.data === label).querySelector("select");
    select.value = [...select.options].find((one) => one.textContent.startsWith(text)).value;
    select.dispatchEvent(new Event("change"));
  };
  const press = (key, target = document.body) =>
    target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const write = (text) => {
    const box = document.querySelector("#questions input");
    box.value = text; box.dispatchEvent(new Event("input"));
  };
  await pause();
  const heads = all("#questions tbody tr").map((row) => [row.children[0].textContent, row.textContent]);
  const said = { charts: all(".chart").length };
  said.drawn = all(".chart").every((one) => one.querySelector(".main-svg"));
  said.descending = sort("k"); said.ascending = sort("k");
  said.aria = all("th", table)[named("k")].getAttribute("aria-sort");
  said.first = current(); said.all = listed();
  press("j"); said.second = current(); press("k"); said.back = current();
  press("ArrowDown", document.querySelector("#questions .list")); said.arrow = current();
  press("j", document.querySelector("#questions input")); said.typed = current();
  for (const kind of ["helped", "hurt"]) {
    choose("Show", kind);
    said[kind] = ["#2", "#3", "#6"].map((config) => { choose("Config", config); return listed(); });
  }
  choose("Show", "all"); choose("Slice", "category: why"); said.slice = listed();
  write("question 13"); said.found = [listed(), current()];
  write("owned"); choose("Slice", "all"); said.hostile = [listed(), current()];
  said.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const titles = all(".xtitle, .ytitle"), style = (node) => getComputedStyle(node);
  const outside = (of) => (one) => {
    const own = one.getBoundingClientRect();
    return own.right > innerWidth || own.top < of.top || own.bottom > of.bottom;
  };
  said.cut = all(".chart").flatMap((chart) => all(".xtitle, .ytitle, .xtick text", chart)
    .filter(outside(chart.getBoundingClientRect())).map((one) => one.textContent));
  said.pale = titles.filter((one) => style(one).fill !== style(document.body).color).map((one) => one.textContent);
  const cell = table.querySelector("td.short");
  cell.removeAttribute("class");  // as of a long text
  said.cell = parseFloat(style(cell).minWidth);
  table.style.fontSize = "7px";  // as in print
  said.head = style(table.querySelector("th button")).fontSize;
  said.names = style(document.querySelector("#questions thead th:last-child")).overflowWrap;
  said.title = document.title; said.images = all("img").length;
  said.empty = heads.filter(([head, row]) => head === row).map(([head]) => head);
  said.meanings = [all("th button", table)[named("ndcg")].title,
                   document.querySelector("details.definitions dd").textContent];
  said.faults = faults;
  parent.postMessage(JSON.stringify(said), "*");
})().catch((fault) => parent.postMessage(JSON.stringify({ faults: [fault.stack] }), "*"));
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_the_page_works_in_a_sandboxed_frame_by_mouse_and_keyboard(tmp_path: Path) -> None:
    metrics = {"metrics": {"ndcg": {"_target_": "ragsweep.parts.metrics.Ndcg", "cutoff": None, "gain": "linear"}}}
    results = [
        with_long_names(changed(one, config=one.run.config | metrics | {"baseline": 1}))
        for one in grid({"3": 0.0, "5": 0.2, "10": -0.1})
    ]
    record_sweep(tmp_path, PARENT, *results)
    assert report([PARENT[:6], "--path", str(tmp_path), "-o", str(tmp_path / "page.html")]) == 0
    said = _driven(tmp_path)
    assert said["faults"] == []
    assert (said["charts"] > 5, said["drawn"]) == (True, True)
    assert said["descending"] == ["10", "10", "5", "5", "3", "3"]
    assert said["ascending"] == ["3", "3", "5", "5", "10", "10"]
    assert said["aria"] == "ascending"
    assert said["all"] == f"1 of {COUNT}"
    assert (said["first"], said["second"], said["back"], said["arrow"]) == (
        HOSTILE,
        "question 1",
        HOSTILE,
        "question 1",
    )
    assert said["typed"] == "question 1"  # a letter in the search box moves nothing
    assert said["helped"] == ["no question", f"1 of {COUNT}", "no question"]  # as good, better, worse than the baseline
    assert said["hurt"] == ["no question", "no question", f"1 of {COUNT}"]
    assert said["slice"] == f"1 of {COUNT // 2}"
    assert said["found"] == ["1 of 1", "question 13"]
    assert said["hostile"] == ["1 of 3", HOSTILE]  # in a question, an answer and a reference
    assert said["empty"] == []  # no row without a cell
    assert all(text.startswith("Discounted cumulative gain") for text in said["meanings"])
    assert (said["cut"], said["pale"]) == ([], [])  # texts of axes
    assert said["cell"] > 200  # pixels: a long text is no column of single words
    assert said["head"] == "7px"
    assert said["names"] == "anywhere"  # a long name makes no column wider than its texts
    assert said["wide"] == 0  # as wide as a phone, and not wider
    assert (said["title"], said["images"]) == ("k × b", 0)


def with_long_names(result: Result) -> Result:
    """Give a config and its first category long names."""
    groups = {"category": {LONG.get(name, name): found for name, found in result.summaries.groups["category"].items()}}
    values = [LONG.get(name, name) for name in result.questions["category"]]
    name = f"{result.name} {'long_' * 20}"
    return changed(result, {"category": values}, name=name, groups=groups)


def _driven(folder: Path) -> dict[str, Any]:
    """Open the page in a frame, with a script that uses it, and return what that saw."""
    page = (folder / "page.html").read_text(encoding="utf-8")
    before, body, after = page.rpartition("</body>")
    driven = before.replace("<head>", f"<head>{LISTEN}", 1) + DRIVE + body + after
    (folder / "driven.html").write_text(driven, encoding="utf-8")
    (folder / "frame.html").write_text(FRAME)
    command = [
        str(BROWSER), *HEADLESS, "--window-size=500,1000",
        "--disable-features=IsolateSandboxedIframes", "--disable-site-isolation-trials",  # one clock for both documents
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
        f"file://{folder / 'frame.html'}",
    ]  # fmt: skip
    dumped = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return json.loads(unescape(dumped.partition('<pre id="said">')[2].partition("</pre>")[0]))


def test_the_parent_run_holds_the_page_that_the_command_writes(tmp_path: Path) -> None:
    record_sweep(tmp_path, PARENT, *grid({"3": 0.0, "5": 0.2}))
    assert report([PARENT, "--path", str(tmp_path), "-o", str(tmp_path / "page.html")]) == 0
    ledger = Ledger(tmp_path)
    (sweep,) = ledger.sweeps()
    summary = summarise_sweep(ledger, ledger.records(sweep.id))
    parent = sweep_run(summary, sweep, PageTexts(), CHOSEN)
    assert parent.files["report.html"] == (tmp_path / "page.html").read_bytes()


def test_the_same_sweep_is_markdown_for_a_pull_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_sweep(tmp_path, PARENT, *grid({"3": 0.0, "5": 0.2}))
    assert report([PARENT, "--path", str(tmp_path), "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("## ")
    assert text.count("\n| ") >= 5  # the header, its line, and the configs
    file = tmp_path / "report.md"
    assert report([PARENT, "--path", str(tmp_path), "--format", "markdown", "-o", str(file)]) == 0
    assert file.read_text() == text


def test_bad_input_is_refused(tmp_path: Path) -> None:
    record_sweep(tmp_path, PARENT, *grid({"3": 0.0, "5": 0.2}))
    path = ["--path", str(tmp_path)]
    refuse(report, {'no sweep "beef"': ["beef"], "invalid choice": [PARENT, "--format", "pdf"]}, *path)
    refuse(report, {"- means standard output": [PARENT, "-o", "-"]}, *path)
    with pytest.raises(RagsweepError, match=r"cannot be written.*-o"):
        report([PARENT, *path, "-o", str(tmp_path / "none" / "page.html")])


def test_the_history_has_the_best_of_each_earlier_sweep_on_the_same_questions(tmp_path: Path) -> None:
    first, second = grid({"3": 0.0, "5": 0.2}), grid({"3": 0.1, "5": 0.3, "10": math.nan})
    others = [changed(one, dataset=replace(one.run.dataset, golden_digest="e" * 64)) for one in first]
    parents = [f"{n}{PARENT[1:]}" for n in range(4)]
    for parent, results in zip(parents, (first, others, second, first), strict=True):
        record_sweep(tmp_path, parent, *results)
    ledger = Ledger(tmp_path)
    past = past_sweeps(ledger, ledger.sweeps()[2].id, first[0].run.dataset, "ndcg")
    assert [one.reference for one in past] == [parents[0][:8], parents[2][:8]]  # no others' questions, nothing later
    assert [one.best for one in past] == ["#3 k=5 b=1", "#3 k=5 b=1"]
    assert [one.summary.value for one in past] == pytest.approx([0.7, 0.8])
