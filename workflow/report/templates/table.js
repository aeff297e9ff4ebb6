"use strict";
// Sorts and filters the rows of a table, and saves the table as a file.

const table = document.getElementById("rows");
const rows = [...table.tBodies[0].rows];
const words = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
const filters = document.getElementById("filters");
// A page with more than a table may choose among its rows, say what it has chosen, and follow what is shown.
const page = { isChosen: () => true, chosen: () => "", forget: () => {}, show: () => {} };

const create = (name, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
};
const readJson = (id) => JSON.parse(document.getElementById(id).textContent);
const valueOf = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();

function sortBy(header) {
  const column = header.cellIndex, isNumber = header.classList.contains("number");
  const direction = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", direction);
  const sign = direction === "ascending" ? 1 : -1;
  const readNumber = (text) => (text === "" ? text : Number(text.replace(/inf$/, "Infinity")));
  const read = (text) => (isNumber ? readNumber(text) : text);
  const keys = new Map(rows.map((row) => [row, read(valueOf(row, column))]));
  const compare = (x, y) => (isNumber ? (x > y) - (x < y) : x.localeCompare(y, "en", { numeric: true }));
  const isMissing = (x) => x === "" || Number.isNaN(x);
  // Rows without a value are last in both directions.
  const sorted = [...rows].sort((one, other) => {
    const [x, y] = [keys.get(one), keys.get(other)];
    return isMissing(x) || isMissing(y) ? isMissing(x) - isMissing(y) : sign * compare(x, y);
  });
  table.tBodies[0].append(...sorted);
}

function filter() {
  const searched = document.getElementById("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const selected = [...filters.querySelectorAll("select")].filter((select) => select.value);
  const isShown = (row) =>
    page.isChosen(row) &&
    selected.every((select) => `=${valueOf(row, select.dataset.column)}` === select.value) &&
    searched.every((word) => words.get(row).includes(word));
  for (const row of rows) row.hidden = !isShown(row);
  const shown = rows.filter((row) => !row.hidden);
  const count = `${shown.length} of ${rows.length} ${table.dataset.noun} are shown${page.chosen()}.`;
  document.getElementById("count").textContent = count;
  page.show(shown);
}

// The file is as the workflow writes it: values between tabs, and quoted if a tab, a line or a quote is in them.
const quote = (text) => (/[\t\n\r"]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const writeLines = (lines) => lines.map((line) => line.map(quote).join("\t") + "\n").join("");

// All rows in the order of the file, whatever is sorted or filtered.
function listLines() {
  const header = readJson("header");
  // A place is the number of a column; a column with one value in all rows has this value instead.
  const find = (row, place) => (typeof place === "number" ? valueOf(row, place) : place);
  const lines = rows.map((row) => header.map(([, place]) => find(row, place)));
  return [header.map(([name]) => name), ...lines];
}

async function save(name, list) {
  const address = URL.createObjectURL(new Blob([writeLines(await list())], { type: "text/tab-separated-values" }));
  create("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function prepareTable(list = listLines) {
  for (const header of table.tHead.rows[0].cells) {
    const button = create("button", { type: "button", onclick: () => sortBy(header) }, header.firstChild.data.trim());
    header.replaceChild(button, header.firstChild);
  }
  filters.oninput = filter;
  filters.onsubmit = (event) => event.preventDefault();
  filters.onreset = () => {
    page.forget();
    setTimeout(filter); // after the fields are empty
  };
  const saving = document.getElementById("save");
  saving.onclick = () => save(saving.dataset.name, list);
}
