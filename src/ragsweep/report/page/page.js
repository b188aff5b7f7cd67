"use strict";
const ragsweep = (async () => {  // a promise that is fulfilled when all charts are drawn
  // Texts reach the page as text nodes only, never as markup.
  const sheet = JSON.parse(document.getElementById("data").textContent);
  const ROWS = 50, PAGE = 25, SHORT = 28, NARROW = 560, SHORTEST = 13, LETTER = 7, SYMBOL = 8, PAPER = 700;
  const LIGHT = { accent: "#0b63a5", muted: "#8a929c", ink: "#1a1d21", grid: "#dfe3e8", surface: "#ffffff",
                  band: "rgba(11, 99, 165, .16)" };
  const DARK = { accent: "#63b3ed", muted: "#7d8792", ink: "#e6e8eb", grid: "#323941", surface: "#14171b",
                 band: "rgba(99, 179, 237, .2)" };
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const charts = [];
  let printing = false, drawable = false;

  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  const meanings = new Map(sheet.sections.flatMap((one) => one.items).flatMap((item) => (item.kind === "definitions" ? item.rows : [])));
  const meaning = (name) => meanings.get(name.split(" ")[0]);

  const heading = (item) => (item.title ? [el("h3", {}, item.title)] : []);

  // --- charts --------------------------------------------------------------------------------------------------

  function coloured(value, palette) {
    if (Array.isArray(value)) return value.map((one) => coloured(one, palette));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, coloured(one, palette)]));
    }
    return typeof value === "string" && value[0] === "$" && value.slice(1) in palette ? palette[value.slice(1)] : value;
  }

  function themed(figure) {
    const palette = dark.matches && !printing ? DARK : LIGHT;
    const { data, layout } = coloured(figure, palette);
    const axis = { gridcolor: palette.grid, zeroline: false, linecolor: palette.grid, automargin: true, fixedrange: true };
    const legend = { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" };
    return { data, layout: {
      showlegend: false, hovermode: "closest", bargap: 0.3,
      modebar: { bgcolor: "rgba(0,0,0,0)", color: palette.muted, activecolor: palette.accent },
      margin: { l: 10, r: 20, t: layout.showlegend ? 40 : 24, b: 10 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: palette.ink },
      hoverlabel: { bgcolor: palette.surface, bordercolor: palette.muted, font: { color: palette.ink }, align: "left" },
      ...layout, legend: { ...legend, ...layout.legend },
      ...Object.fromEntries(["xaxis", ...Object.keys(layout).filter((name) => /^yaxis\d*$/.test(name))]
        .map((name) => [name, { ...axis, ...layout[name] }])),
    } };
  }

  // Long names below or, on a phone, beside a chart would leave no room for the chart; the hover text shows whole names.
  function shortened(node, data, { xaxis, yaxis }) {
    const width = printing ? PAPER : node.clientWidth, narrow = width <= NARROW, letters = Math.floor(width / LETTER);
    const cut = (line, most) => {
      const found = line.match(/&\w+;|./gsu) || [];  // names are escaped for plotly
      return found.length > most ? `${found.slice(0, most).join("")}…` : line;
    };
    for (const trace of data) if (trace.name) trace.name = cut(trace.name, letters - SYMBOL);  // in the legend
    if (narrow && xaxis.title) xaxis.title.text = xaxis.title.text.replace(": ", ":<br>");
    const ticks = (axis, side, room) => {
      if (axis.type !== "category") return 0;
      const names = [...new Set(data.flatMap((trace) => trace[side]))].filter(Boolean);
      const most = Math.max(SHORTEST, Math.floor(room / names.length));
      const ticktext = names.map((name) => name.split("<br>").map((line) => cut(line, most)).join("<br>"));
      Object.assign(axis, { tickmode: "array", tickvals: names, ticktext });
      return Math.max(...ticktext.map((text) => text.length));
    };
    ticks(xaxis, "x", letters - ticks(yaxis, "y", narrow ? 0 : Infinity));
  }

  function draw(chart) {
    if (!drawable) return;
    const { data, layout } = themed(chart.options[chart.shown].figure);
    shortened(chart.node, data, layout);
    if (printing) layout.width = PAPER;
    chart.node.style.minHeight = `${layout.height}px`;
    Plotly.react(chart.node, data, layout, { responsive: true, displaylogo: false, modeBarButtons: [["toImage"]],
                                             toImageButtonOptions: { format: "svg", filename: "ragsweep" } });
  }

  const drawAll = () => charts.forEach(draw);

  async function drawCharts() {
    drawable = true;
    dark.addEventListener("change", drawAll);
    window.addEventListener("beforeprint", () => { printing = true; drawAll(); });
    window.addEventListener("afterprint", () => { printing = false; drawAll(); });
    for (const chart of charts) {
      draw(chart);
      await new Promise((resume) => setTimeout(resume));  // lets the browser show this chart before the next is drawn
    }
    document.body.dataset.drawn = charts.length;
  }

  function chartItem(item) {
    const node = el("div", { class: "chart" });
    const chart = { node, options: item.options, shown: 0 };
    charts.push(chart);
    const note = el("p", { class: "note" });
    const explain = () => { note.textContent = item.options[chart.shown].note || item.note; };
    explain();
    const tabs = item.options.map((option, n) => el("button", { type: "button", "aria-pressed": String(n === 0), onclick: () => {
      chart.shown = n;
      tabs.forEach((tab, place) => tab.setAttribute("aria-pressed", String(place === n)));
      explain();
      draw(chart);
    } }, option.label));
    return [...heading(item), ...(tabs.length > 1 ? [el("div", { class: "tabs", role: "group" }, ...tabs)] : []), node, note];
  }

  // --- tables --------------------------------------------------------------------------------------------------

  function compare(one, other) {
    if (one === null || other === null) return (one === null) - (other === null);
    if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
    return typeof one === "number" ? one - other : one.localeCompare(other, undefined, { numeric: true });
  }

  function tableItem(item) {
    const body = el("tbody");
    let order = item.rows.map((_, n) => n), all = item.rows.length <= ROWS, sorted = -1, descending = false;
    const more = el("button", { type: "button", class: "more", onclick: () => { all = true; fill(); } },
                    `Show all ${item.rows.length.toLocaleString("en")} rows`);
    function fill() {
      body.replaceChildren(...order.slice(0, all ? undefined : ROWS).map((row) => el(
        "tr", { class: item.marked && item.marked[row] ? "marked" : null },
        ...item.rows[row].map((text, n) => el("td", { class: item.right[n] ? "right" : text.length <= SHORT ? "short" : null }, text)))));
      more.hidden = all;
    }
    function sort(column) {
      const numbers = item.keys.some((keys) => typeof keys[column] === "number");
      descending = sorted === column ? !descending : numbers && column > 0;
      sorted = column;
      const sign = descending ? -1 : 1;
      order = item.rows.map((_, n) => n).sort((one, other) => {
        const a = item.keys[one][column], b = item.keys[other][column];
        return (a === null || b === null ? compare(a, b) : sign * compare(a, b)) || one - other;
      });
      heads.forEach((head, n) => head.setAttribute("aria-sort", n !== column ? "none" : descending ? "descending" : "ascending"));
      fill();
    }
    const heads = item.header.map((name, n) => el("th", { scope: "col", "aria-sort": "none", class: item.right[n] ? "right" : null },
      el("button", { type: "button", onclick: () => sort(n), title: meaning(name), "aria-label": name || `column ${n + 1}` }, name)));
    fill();
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body);
    return [...heading(item), el("div", { class: "wide" }, table), more, item.note ? el("p", { class: "note" }, item.note) : null];
  }

  // --- texts ---------------------------------------------------------------------------------------------------

  const items = {
    charts: chartItem,
    table: tableItem,
    browser: browserItem,
    text: (item) => [el("p", { class: "text" }, item.text)],
    facts: (item) => [...heading(item), el("dl", {}, ...item.rows.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]))],
    definitions: (item) => [el("details", { class: "definitions" }, el("summary", {}, "What the metrics mean"), items.facts(item)[0])],
    blocks: (item) => [el("div", { class: "blocks" }, ...item.rows.map(([word, sentences]) => el(
      "div", {}, el("h3", {}, word), el("div", {}, ...sentences.map((sentence) => el("p", {}, sentence))))))],
    commands: (item) => [...heading(item), el("ul", { class: "commands" }, ...item.rows.map(([command, what]) => el(
      "li", {}, el("code", {}, command), el("span", {}, what))))],
  };

  // --- questions -----------------------------------------------------------------------------------------------

  function browserItem(item) {
    const [metric] = item.metrics, configs = item.configs, base = configs[0];
    const sign = item.lowerIsBetter ? -1 : 1;
    const digits = (value) => value === null || value === undefined ? "–" : Number.isInteger(value) ? value.toLocaleString("en")
      : Math.abs(value) < 0.1 ? value.toPrecision(2) : Math.abs(value) < 10 ? value.toFixed(2) : Math.round(value).toLocaleString("en");
    const gain = (config, q) => {
      const own = config.compared[q], first = base.compared[q];
      return own === null || first === null ? 0 : sign * (own - first);
    };
    const state = { config: Math.min(1, configs.length - 1), kind: "all", label: "", text: "", found: [], at: 0 };
    const kinds = [["all", "all questions"], ...(item.missable ? [["missed", "missed: score 0"]] : []),
      ...(configs.length > 1 ? [["helped", `helped: better than ${base.name}`], ["hurt", `hurt: worse than ${base.name}`],
                                ["disagree", "disagreement: configs differ"]] : []),
      ...[...new Set(configs.flatMap((config) => config.lost))].filter(Boolean).map((stage) => [`lost ${stage}`, `lost by: ${stage}`])];
    const differ = (q) => new Set(configs.map((config) => config.scores[metric][q])).size > 1;
    const tests = {
      disagree: differ,
      all: () => true,
      missed: (q) => configs[state.config].scores[metric][q] === 0,
      helped: (q) => gain(configs[state.config], q) > 0,
      hurt: (q) => gain(configs[state.config], q) < 0,
    };
    const values = Object.entries(item.labels).flatMap(([label, column]) =>
      [...new Set(column)].filter(Boolean).sort().map((value) => [JSON.stringify([label, value]), `${label}: ${value}`]));

    const choice = (name, options, changed) => el("label", {}, name, el("select", { onchange: (event) => { changed(event.target.value); filter(); } },
      ...options.map(([value, text]) => el("option", { value, selected: name === "Config" && value === state.config }, text))));
    const search = el("input", { type: "search", "aria-label": "Text", oninput: () => { state.text = search.value.toLowerCase(); filter(); } });
    const filters = el("div", { class: "filters" },
      configs.length > 1 ? choice("Config", configs.map((config, n) => [n, config.name + (config.role ? ` (${config.role})` : "")]),
                                  (value) => { state.config = Number(value); }) : null,
      choice("Show", kinds, (value) => { state.kind = value; }),
      values.length ? choice("Slice", [["", "all"], ...values], (value) => { state.label = value; }) : null,
      el("label", { class: "grow" }, "Text", search));
    const list = el("div", { class: "list", role: "listbox", tabindex: "0", "aria-label": "Questions", onkeydown: (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); move(step); }
    } });
    const count = el("span", { "aria-live": "polite" });
    const turn = (text, step) => el("button", { type: "button", onclick: () => select(
      Math.max(0, Math.min(state.found.length - 1, (Math.floor(state.at / PAGE) + step) * PAGE))) }, text);
    const pager = el("div", { class: "pager" }, turn("Previous", -1), turn("Next", 1), count);
    const detail = el("div", { class: "question" });

    function filter() {
      const chosen = state.label ? JSON.parse(state.label) : null;
      state.found = item.ids.map((_, q) => q).filter((q) => (state.kind.startsWith("lost ") ? configs[state.config].lost[q] === state.kind.slice(5) : tests[state.kind](q))
        && (!chosen || item.labels[chosen[0]][q] === chosen[1])
        && (!state.text || searchable(q).includes(state.text)));
      select(0);
    }
    const searchable = (q) => [item.ids[q], item.questions[q], item.references ? item.references[q] : "",
      ...configs.flatMap((config) => Object.values(config.texts).map((texts) => texts[q]))].join("\n").toLowerCase();

    function select(at) {
      state.at = at;
      const start = Math.floor(at / PAGE) * PAGE, config = configs[state.config];
      list.replaceChildren(...state.found.slice(start, start + PAGE).map((q, n) => el(
        "div", { role: "option", id: `q${q}`, "aria-selected": String(start + n === at), onclick: () => select(start + n) },
        el("span", {}, item.questions[q]), el("span", {}, digits(config.scores[metric][q])))));
      const current = list.children[at - start];
      list.setAttribute("aria-activedescendant", current ? current.id : "");
      if (current) {  // scroll only the list, not the page
        if (current.offsetTop < list.scrollTop) list.scrollTop = current.offsetTop;
        const below = current.offsetTop + current.offsetHeight - list.clientHeight;
        if (below > list.scrollTop) list.scrollTop = below;
      }
      count.textContent = state.found.length
        ? `${(at + 1).toLocaleString("en")} of ${state.found.length.toLocaleString("en")}` : "no question";
      pager.children[0].disabled = start === 0;
      pager.children[1].disabled = start + PAGE >= state.found.length;
      show(state.found[at]);
    }

    function move(step) {
      const at = state.at + step;
      if (at >= 0 && at < state.found.length) select(at);
    }

    function show(q) {
      if (q === undefined) { detail.replaceChildren(el("p", { class: "note" }, "No question matches these filters.")); return; }
      const marks = [item.ids[q], ...Object.entries(item.labels).filter(([, column]) => column[q]).map(([label, column]) => `${label}: ${column[q]}`),
        item.evidence ? `${item.evidence[q]} ${item.evidence[q] === 1 ? "piece" : "pieces"} of evidence` : ""];
      const reference = item.references && item.references[q]
        ? [el("p", { class: "reference" }, el("strong", {}, "Reference "), item.references[q])] : [];
      const expected = item.expected[q].map((text) => el("p", { class: "reference" }, el("strong", {}, "Evidence "), text));
      detail.replaceChildren(el("h3", {}, item.questions[q]), el("p", { class: "note" }, marks.filter(Boolean).join(" · ")), ...reference, ...expected,
        el("div", { class: "wide" }, el("table", {},
          el("thead", {}, el("tr", {}, el("th", {}), ...configs.map((config) => el("th", { scope: "col" }, config.name,
            config.role ? el("small", {}, config.role) : null)))),
          el("tbody", {}, ...lines(q)))));
    }

    function chunkNode(config, q, chunk, n) {
      const name = `${n + 1}. ${item.chunks[chunk]}`, found = config.ranks[q] === n + 1 ? "chunk found" : "chunk";
      if (!item.texts[chunk]) return el("span", { class: found }, name);
      return el("details", { class: "text", open: n === 0 }, el("summary", { class: found }, name), el("div", {}, item.texts[chunk]));
    }

    function promptNodes(config, q) {
      const written = (piece) => piece >= 0 ? item.lines[piece] : item.texts[~piece] || `[${item.chunks[~piece]}]`;
      return (config.prompts[q] || []).map(([role, pieces]) => {
        const text = pieces.map(written).join("");
        return el("details", { class: "text" }, el("summary", {}, `${role}, ${text.length.toLocaleString("en")} characters`), el("div", {}, text));
      });
    }

    function lines(q) {
      const line = (name, cell) => {
        const cells = configs.map((config) => cell(config));
        if (cells.every((one) => one === null || one.length === 0)) return null;
        return el("tr", {}, el("th", { scope: "row", title: meaning(name) }, name), ...cells.map((one) => el("td", {}, ...[one].flat().filter((part) => part !== null))));
      };
      const score = (name) => (config) => {
        const value = config.scores[name] ? config.scores[name][q] : null;
        const text = value !== null ? digits(value) : name === metric && config.unscored[q] || "";
        const better = name === metric ? gain(config, q) : 0;
        return text && el("span", { class: better > 0 ? "better" : better < 0 ? "worse" : null },
                          text + (better > 0 ? " helped" : better < 0 ? " hurt" : ""));
      };
      const texts = [...new Set(configs.flatMap((config) => Object.keys(config.texts)))];
      const numbers = [...new Set(configs.flatMap((config) => Object.keys(config.numbers)))].filter((name) => !item.metrics.includes(name));
      return [
        ...item.metrics.map((name) => line(name, score(name))),
        line("first evidence at rank", (config) => !item.evidence || !item.evidence[q] || (config.ranks[q] ?? null) === null ? null
          : config.ranks[q] > 0 ? digits(config.ranks[q]) : "not retrieved"),
        line("evidence by stage", (config) => (config.paths[q] || []).map((path) => el("span", { class: "chunk" }, path))),
        line("context", (config) => (config.contexts[q] || []).map((chunk, n) => chunkNode(config, q, chunk, n))),
        line("prompt", (config) => promptNodes(config, q)),
        ...texts.map((name) => line(name.replaceAll("_", " "), (config) => (config.texts[name] ? config.texts[name][q] : ""))),
        ...numbers.map((name) => line(name.replaceAll("_", " "), (config) => config.numbers[name] && config.numbers[name][q] !== null ? digits(config.numbers[name][q]) : "")),
      ].filter(Boolean);
    }

    document.addEventListener("keydown", (event) => {
      const step = { j: 1, k: -1 }[event.key];
      if (step && !event.ctrlKey && !event.metaKey && !event.altKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) move(step);
    });
    filter();
    const note = item.asked > item.ids.length ? `The first ${item.ids.length.toLocaleString("en")} of ${item.asked.toLocaleString("en")} questions. ` : "";
    return [filters, el("div", { class: "browser" }, el("div", {}, list, pager), detail),
            el("p", { class: "note" }, `${note}Press j and k, or the arrow keys in the list, to go through the questions. `
              + `The number beside a question is its ${metric}. In the context, the first chunk with evidence is in colour; click a chunk to read it. ${item.leftOut}`)];
  }

  // --- the page ------------------------------------------------------------------------------------------------

  document.getElementById("head").append(el("p", {}, "ragsweep report"), el("h1", {}, sheet.title));
  document.getElementById("contents").append(el("div", {}, ...sheet.sections.map((one) => el("a", { href: `#${one.id}` }, one.title))));
  document.getElementById("main").replaceChildren(...sheet.sections.map((one) => el("section", { id: one.id, "aria-labelledby": `${one.id}-title` },
    el("h2", { id: `${one.id}-title` }, one.title), ...one.items.flatMap((item) => items[item.kind](item)))));
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (one) => one.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  document.head.append(el("script", {}, await new Response(unpacked).text()));
  await drawCharts();
})();
