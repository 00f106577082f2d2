// Draw a chart: fill the declared spec with names, rows and the width there is.

// Replace "$name" by what the chart's rows call for; rows come later, so no text of theirs is read.
function filled(spec, names) {
  if (typeof spec === "string") return spec.startsWith("$") ? names[spec.slice(1)] : spec;
  if (Array.isArray(spec)) return spec.map((part) => filled(part, names));
  if (spec && typeof spec === "object")
    return Object.fromEntries(Object.entries(spec).map(([key, part]) => [key, filled(part, names)]));
  return spec;
}

const DRAWN = {
  improvement: { rows: improvementRows, size: facets, empty: "Nothing to show for this choice." },
  path: { rows: pathRows, size: single(260), empty: "There are no such rows." },
  tradeoff: { rows: tradeoffRows, size: single(260), empty: "There are no rows of novel classes." },
  reliability: { rows: reliabilityRows, size: single(280), empty: "The run kept no reliability bins for this setting." },
  differences: { rows: differenceRows, size: single(280), empty: "There are no trials for this setting." },
  contrasts: { rows: contrastRows, size: forest, empty: "There is no other method on the same trials." },
};

function single(height) {
  return (width) => ({ width: width - 62, height });
}

function facets(width, { titles }) {
  const fit = Math.max(1, Math.min(titles.length, Math.floor(width / 300), 3));
  const columns = titles.length === 4 && fit === 3 ? 2 : fit;
  return { columns, width: Math.floor((width - 62) / columns - 24), height: columns === 1 ? 250 : 220 };
}

function forest(width, { settings: named, series }) {
  return { width: width - 190 > 180 ? width - 190 : width - 130, height: named.length * (series.length * 13 + 10) };
}

// As many legend entries side by side as fit.
function legendColumns(width, entries) {
  const longest = Math.max(...entries.map((entry) => entry.length));
  return Math.max(1, Math.floor((width - 60) / (longest * 6.5 + 34)));
}

// Labels lie flat where they fit beside one another.
function labelAngle(width, labels) {
  const longest = Math.max(...labels.map((label) => label.length));
  return longest * 6.5 + 8 > width / labels.length && longest > 5 ? -30 : 0;
}

const views = {};
async function draw(name) {
  const { rows: make, size, empty } = DRAWN[name];
  const place = document.getElementById(`chart-${name}`);
  const { rows, names } = make();
  const note = place.parentElement.querySelector(".empty");
  note.hidden = place.hidden = rows.length > 0;
  place.hidden = !rows.length;
  note.textContent = empty;
  views[name]?.finalize();
  delete views[name];
  if (!rows.length) return;
  const width = place.clientWidth;
  const columns = legendColumns(width, names.series ?? names.states);
  const sizes = size(width, names);
  const angle = names.labels ? labelAngle(sizes.width, names.labels) : 0;
  const spec = filled(charts[name], { ...names, ...sizes, legendColumns: columns, labelAngle: angle, labelOverlap: angle ? false : "greedy" });
  spec.datasets = { rows };
  const drawn = await vegaEmbed(place, { config: charts.config, ...spec }, { renderer: "svg", actions: false });
  views[name] = drawn;
}

const DETAIL = ["path", "tradeoff", "reliability", "differences", "contrasts"];
const drawAll = (names) => Promise.all(names.map(draw));
