// Opens the record of a run, and shows what a point of the figure is.

const plot = document.getElementById("plot");
let chosen = null; // the configuration whose rows alone are shown

page.isChosen = (row) => chosen === null || row.dataset.configuration === chosen;
page.chosen = () => (chosen === null ? "" : ": those of one configuration");
page.forget = () => (chosen = null);
page.show = (shown) => markPoints(new Set(shown.map((row) => row.dataset.configuration)));

function prepareRecords() {
  rows.forEach((row, position) => {
    const name = row.cells[0].textContent;
    const open = create("button", { type: "button", onclick: () => showRecord(position) }, name);
    open.setAttribute("aria-label", `${name}: record of the run`);
    row.cells[0].replaceChildren(open);
    row.cells[0].dataset.value = name;
  });
}

// The rows of runs.tsv are in the records.
async function listRuns() {
  const header = readJson("header");
  details ??= await unpack();
  return [header, ...details.map(({ values }) => header.map((name) => values[name] ?? ""))];
}

// The record of a run

let details = null;

async function unpack() {
  const packed = Uint8Array.from(atob(document.getElementById("details").textContent), (letter) => letter.charCodeAt());
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function* flatten(value, name = "") {
  const isNested = (each) => each !== null && typeof each === "object";
  if (Array.isArray(value) && !value.some(isNested)) yield [name, value.join(" ")];
  else if (isNested(value))
    for (const [key, each] of Object.entries(value)) yield* flatten(each, name ? `${name}.${key}` : key);
  else yield [name, value === null ? "none" : String(value)];
}

function makePairs(value) {
  const lines = [...flatten(value)].map(([key, text]) =>
    create("tr", {}, create("th", { scope: "row" }, key), create("td", {}, text)),
  );
  return create("table", { className: "pairs" }, create("tbody", {}, ...lines));
}

function makeSection(title, content, open = false) {
  return create("details", { open }, create("summary", {}, title), content);
}

function makeFile(name, path, remark = "") {
  // An address relative to the report exists only if the page is opened as a file: inside of the report it has none.
  const isBeside = location.protocol !== "data:";
  const shown = create("code", {}, `results/${path}`);
  const link = isBeside ? create("a", { href: encodeURI(path) }, shown) : shown;
  return create("li", {}, `${name}: `, link, remark);
}

function makeFiles(run) {
  const list = create("ul");
  if (run.record) list.append(makeFile("record", run.record));
  if (run.log) list.append(makeFile("log", run.log));
  const path = `timelines/${run.run}.svg`;
  const command = create("code", {}, `.venv/bin/snakemake results/${path} --profile profiles/local`);
  if (run.record) list.append(makeFile("timeline", path, create("span", {}, ", if it was drawn by ", command)));
  return list;
}

const PHASES = { first_step: "#000000", training: "#c4c4c4", evaluation: "#aa4499" };
const LINES = { devices: "#0072b2", host: "#d55e00" };

function makeTimeline(timeline) {
  const draw = (name, attributes) => {
    const shape = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) shape.setAttribute(key, value);
    return shape;
  };
  const svg = draw("svg", { viewBox: "0 0 100 122", preserveAspectRatio: "none", class: "timeline", role: "img" });
  svg.setAttribute("aria-label", `Timeline of ${timeline.end_s} seconds: phases, utilisation of devices and host`);
  const bottom = Array(100).fill(0);
  for (const [phase, fill] of Object.entries(PHASES))
    (timeline[phase] ?? []).forEach((share, x) => {
      if (share) svg.append(draw("rect", { x, y: 12 * (bottom[x] / 100), width: 1.02, height: 0.12 * share, fill }));
      bottom[x] += share ?? 0;
    });
  for (const [line, stroke] of Object.entries(LINES)) {
    let pen = "M";
    const path = (timeline[line] ?? []).map((value, x) => {
      const step = value === null ? "" : `${pen}${x + 0.5} ${120 - Math.min(value, 100)}`;
      pen = value === null ? "M" : "L";
      return step;
    });
    const look = { d: path.join(""), stroke, fill: "none", "stroke-width": 1.5, "vector-effect": "non-scaling-stroke" };
    if (path.length) svg.append(draw("path", look));
  }
  const key = create("p", { className: "key" }, `Time from 0 to ${timeline.end_s} s. Strip above:`);
  const name = (word, colour) => key.append(create("span", { style: `background: ${colour}` }), word.replace("_", " "));
  for (const [phase, colour] of Object.entries(PHASES)) name(phase, colour);
  key.append("; white: start-up, logs, waiting. Lines from 0 to 100 %, mean utilisation:");
  for (const [line, colour] of Object.entries(LINES)) if (timeline[line]) name(line, colour);
  return create("div", {}, svg, key);
}

async function showRecord(position) {
  const dialog = document.getElementById("record");
  const close = create("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const title = create("h2", { id: "record-name" }, `Run ${position + 1}`);
  dialog.replaceChildren(create("div", { className: "head" }, title, close));
  dialog.showModal();
  try {
    details ??= await unpack();
  } catch (error) {
    dialog.append(create("p", {}, `This browser cannot unpack the records (${error}); one of 2023 or later can.`));
    return;
  }
  const run = details[position], values = run.values;
  title.textContent = run.run;
  const because = values.reason ? `: ${values.reason}` : "";
  dialog.append(create("p", {}, create("strong", {}, values.status.replaceAll("_", " ")), because));
  if (run.log_end) dialog.append(makeSection("Last lines of the log", create("pre", {}, run.log_end.join("\n")), true));
  if (run.timeline) dialog.append(makeSection("Timeline", makeTimeline(run.timeline), true));
  const place = location.protocol === "data:" ? "results/all_runs.html has links to them" : "these links need the folder";
  dialog.append(makeSection(`Files in the folder results (${place})`, makeFiles(run), true));
  dialog.append(makeSection("Rates, quality and provenance: the row of runs.tsv", makePairs(values), true));
  if (run.record) {
    dialog.append(makeSection("Settings", makePairs({ ...run.settings, ...(run.code && { code_sha256: run.code }) })));
    const framework = { ...run.versions, ...run.framework };
    if (Object.keys(framework).length) dialog.append(makeSection("Framework: versions and settings", makePairs(framework)));
    if (run.attempts.length) dialog.append(makeSection("Failed attempts", makePairs(run.attempts)));
    dialog.append(makeSection("Rest of the record", makePairs(run.rest)));
  } else dialog.append(create("p", {}, "The run has no record, because it was not started."));
}

// The figure

function showTip(point) {
  hideTip();
  const tip = create("div", { id: "tip" }, point.getAttribute("aria-label"));
  plot.append(tip);
  const [around, at] = [plot.getBoundingClientRect(), point.getBoundingClientRect()];
  const left = Math.min(at.right - around.left + 8, around.width - tip.offsetWidth);
  tip.style.left = `${Math.max(0, left) + plot.scrollLeft}px`;
  tip.style.top = `${at.bottom - around.top + 6}px`;
}

const hideTip = () => document.getElementById("tip")?.remove();
const listPoints = () => [...(plot?.querySelectorAll("a") ?? [])];
const findRow = (point) => document.getElementById(point.getAttribute("href").slice(1));

function markPoints(configurations) {
  for (const point of listPoints())
    point.style.opacity = configurations.has(findRow(point).dataset.configuration) ? 1 : 0.2;
}

function drawFigure() {
  const study = document.getElementById("study").value;
  plot.replaceChildren(document.querySelector(`template[data-study="${study}"]`).content.cloneNode(true));
  for (const point of listPoints()) {
    point.onmouseenter = point.onfocus = () => showTip(point);
    point.onmouseleave = point.onblur = hideTip;
    point.onclick = (event) => {
      event.preventDefault();
      filters.reset();
      chosen = findRow(point).dataset.configuration;
      document.querySelector(".scroll").focus();
    };
  }
  filter();
}

prepareTable(listRuns);
prepareRecords();
if (plot) {
  document.getElementById("study").onchange = drawFigure;
  document.addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
  drawFigure();
} else filter();
