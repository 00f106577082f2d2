// Sortable tables and downloads.

function sortBy(heading) {
  const table = heading.closest("table"), body = table.tBodies[0], at = heading.cellIndex;
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = (row) => row.cells[at].dataset.sort ?? row.cells[at].textContent;
  const compare = (a, b) => {
    const [x, y] = [key(a), key(b)], [m, n] = [Number(x), Number(y)];
    if (x === "" || y === "") return (x === "") - (y === ""); // what is missing stays last
    const order = Number.isNaN(m) || Number.isNaN(n) ? x.localeCompare(y, "en", { numeric: true }) : m - n;
    return down ? -order : order;
  };
  body.append(...[...body.rows].sort(compare));
}

async function download(button) {
  const packed = document.getElementById(button.dataset.download).textContent;
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const file = await new Response(stream).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([file], { type: "text/csv" }));
  link.download = button.dataset.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

for (const button of document.querySelectorAll(".sortable th button"))
  button.addEventListener("click", () => sortBy(button.closest("th")));
for (const button of document.querySelectorAll("[data-download]"))
  button.addEventListener("click", () => download(button));
