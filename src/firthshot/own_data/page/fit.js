// A click on the matrix lists the rows of a cell; a click on a heading sorts the table.

const { names = [], rows = {} } = JSON.parse(document.getElementById("cells").textContent);
const panel = document.getElementById("cell");
const make = (tag, words = "", kind = "") => {
  const made = document.createElement(tag);
  made.textContent = words;
  if (kind) made.className = kind;
  return made;
};

function card(row) {
  const made = make("article", "", "look");
  if (row.picture) {
    const picture = make("img");
    picture.src = row.picture;
    picture.alt = "";
    made.append(picture);
  }
  if (row.text) made.append(make("blockquote", row.text));
  else made.append(make("p", row.name, "file"));
  made.append(make("p", `${row.p} %`, "swap"));
  return made;
}

function show(button) {
  const pressed = button.getAttribute("aria-pressed") === "true";
  for (const other of document.querySelectorAll("[data-cell]")) other.setAttribute("aria-pressed", "false");
  panel.replaceChildren();
  if (pressed) return;
  button.setAttribute("aria-pressed", "true");
  const key = button.dataset.cell, [label, predicted] = key.split("-").map((at) => names[at]);
  const held = rows[key] ?? [], count = Number(button.textContent);
  const words = label === predicted ? `${label}, predicted right` : `${label}, predicted as ${predicted}`;
  const cards = make("div", "", "looks");
  cards.append(...held.map(card));
  panel.append(make("h3", words), cards);
  if (held.length < count) panel.append(make("p", `${count - held.length} more rows are not in the page.`, "note"));
}
for (const button of document.querySelectorAll("[data-cell]")) button.addEventListener("click", () => show(button));

const value = (line, at) => line.cells[at].dataset.sort ?? line.cells[at].textContent;
for (const head of document.querySelectorAll(".sortable th")) {
  head.addEventListener("click", () => {
    const table = head.closest("table"), at = head.cellIndex, up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const lines = [...table.tBodies[0].rows].sort((one, other) =>
      (up ? 1 : -1) * value(one, at).localeCompare(value(other, at), undefined, { numeric: true }));
    table.tBodies[0].append(...lines);
  });
}
document.documentElement.dataset.ready = "true";
