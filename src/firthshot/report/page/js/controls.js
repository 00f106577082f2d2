// Selects: filled with what there is, hidden where there is nothing to choose.

const control = (id) => document.getElementById(id);
const chosen = (id) => control(id).value;
const ALL = "*";

function fill(id, entries, { hideSingle = true } = {}) {
  const select = control(id);
  const before = select.value;
  select.replaceChildren(
    ...entries.map(([value, text]) => {
      const option = document.createElement("option");
      option.value = value;
      option.textContent = text;
      return option;
    }),
  );
  if (entries.some(([value]) => String(value) === before)) select.value = before;
  select.closest(".choice").hidden = hideSingle && entries.length < 2;
}

const named = (values) => values.map((value) => [value, value]);
const withAll = (values) => (values.length < 2 ? named(values) : [[ALL, "all"], ...named(values)]);
const matches = (id, value) => chosen(id) === ALL || chosen(id) === value;

function fillOverview() {
  fill("metric", Object.entries(METRICS).map(([name, metric]) => [name, metric.label]));
  const theory = settings.some((row) => row.theory_improvement != null);
  fill("value", [["chosen", "chosen on val"], ...(theory ? [["theory", "from theory"]] : [])]);
  const several = (name) => distinct(settings.map((row) => row[name])).length > 1;
  const axes = [["shots", "shots"], ["ways", "ways"]];
  fill("axis", axes.filter(([name]) => several(name) || name === "shots"));
  if (!several("shots") && several("ways")) control("axis").value = "ways";
  for (const name of ["bank", "head", "penalty"])
    fill(`${name}-all`, withAll(distinct(methods.map((method) => method[name]))));
}

// The method in detail: each choice narrows the next.
function fillDetail() {
  let left = methods;
  for (const name of ["bank", "head", "penalty"]) {
    fill(name, named(distinct(left.map((method) => method[name]))));
    left = left.filter((method) => method[name] === chosen(name));
  }
  const own = settings.filter((row) => row.method === left[0].number);
  fill("ways", named(distinct(own.map((row) => row.ways)).sort(byNumber)));
  const here = own.filter((row) => String(row.ways) === chosen("ways"));
  fill("shots", distinct(here.map((row) => row.shots)).sort(byShots).map((shots) => [shots, shots]));
  fill("path-metric", Object.entries(SCORES).map(([name, score]) => [name, score.label]));
  const splits = distinct(curves.filter((row) => row.method === left[0].number).map((row) => row.split));
  fill("split", named(splits.sort().reverse()));
  fill("loss", [["ece_pooled", "calibration error (ECE)"], ["nll", "nll"], ["brier", "Brier score"]]);
}

// Begin with the setting that has the largest effect: there is most to see.
function showLargest() {
  const effect = (row) => Math.abs(row.improvement ?? 0);
  const largest = settings.reduce((best, row) => (effect(row) > effect(best) ? row : best));
  for (const name of ["bank", "head", "penalty"]) {
    control(name).value = methods[largest.method][name];
    fillDetail();
  }
  for (const name of ["ways", "shots"]) {
    control(name).value = String(largest[name]);
    fillDetail();
  }
}

const detail = () => methods.find((m) => ["bank", "head", "penalty"].every((name) => m[name] === chosen(name)));
