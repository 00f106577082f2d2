// From the tables to the rows of each chart, for the reader's choice.

const METRICS = {
  improvement: { label: "accuracy gained (points)", title: "Accuracy gained (points)", scale: 100, interval: true },
  relative_improvement: { label: "accuracy gained (relative, %)", title: "Accuracy gained (% of the accuracy without)", scale: 100 },
  base_accuracy: { label: "accuracy without penalty (%)", title: "Accuracy without penalty (%)", scale: 100, absolute: true },
  nll: { label: "change of nll", title: "Change of nll (lower is better)", loss: "nll" },
  ece_pooled: { label: "change of calibration error", title: "Change of ECE, pooled (lower is better)", loss: "ece_pooled" },
  brier: { label: "change of Brier score", title: "Change of Brier score (lower is better)", loss: "brier" },
};
const SCORES = {
  accuracy: { label: "accuracy", title: "Accuracy (%)", scale: 100 },
  nll: { label: "nll", title: "nll (lower is better)", scale: 1 },
  ece_pooled: { label: "calibration error", title: "ECE, pooled (lower is better)", scale: 1 },
  brier: { label: "Brier score", title: "Brier score (lower is better)", scale: 1 },
};

// The value of a metric in a setting, with its half-width where it has one, or null.
function measured(row, name, theory) {
  const metric = METRICS[name];
  const gain = theory ? row.theory_improvement : row.improvement;
  const width = theory ? row.theory_improvement_ci : row.improvement_ci;
  if (gain == null) return null;
  if (name === "improvement") return [100 * gain, width == null ? null : 100 * width];
  if (name === "base_accuracy") return [100 * row.base_accuracy, 100 * (row.base_accuracy_ci ?? 0)];
  if (name === "relative_improvement")
    return row.base_accuracy ? [(100 * gain) / row.base_accuracy, width == null ? null : (100 * width) / row.base_accuracy] : null;
  const after = theory ? (metric.loss === "ece_pooled" ? theoryEce(row) : row[`theory_${metric.loss}`]) : row[metric.loss];
  return after == null ? null : [after - row[`base_${metric.loss}`], null];
}

const samePlace = (one) => (other) => one.method === other.method && one.ways === other.ways && one.shots === other.shots;
const theoryEce = (row) =>
  curves.find((each) => each.theory && each.split === "novel" && samePlace(row)(each))?.ece_pooled;

function improvementRows() {
  const name = chosen("metric"), theory = chosen("value") === "theory", axis = chosen("axis");
  const other = axis === "shots" ? "ways" : "shots";
  const shown = settings.filter(({ method }) =>
    ["bank", "head", "penalty"].every((what) => matches(`${what}-all`, methods[method][what])),
  );
  const order = { shots: distinct(shown.map((r) => r.shots)).sort(byShots), ways: distinct(shown.map((r) => r.ways)).sort(byNumber) };
  const dodge = 0.09;
  const rows = shown.flatMap((row) => {
    const found = measured(row, name, theory);
    if (!found) return [];
    const [value, width] = found;
    const at = order[other].indexOf(row[other]) - (order[other].length - 1) / 2;
    const classes = theory ? [row.theory_improvement_classes_low, row.theory_improvement_classes_high] : [row.improvement_classes_low, row.improvement_classes_high];
    const metric = METRICS[name];
    return [{
      title: methods[row.method].title,
      x: order[axis].indexOf(row[axis]) + dodge * at,
      series: seriesWords(other, row[other]),
      use: !theory && !metric.absolute && row.coefficient === 0 ? "λ = 0 chosen" : "λ > 0",
      line: `${row[other]} ${axis === "shots" && !isNumber(row.shots) ? row.shots : ""}`,
      value, low: width == null ? value : value - width, high: width == null ? value : value + width,
      classesLow: metric.interval && classes[0] != null ? 100 * classes[0] : value,
      classesHigh: metric.interval && classes[1] != null ? 100 * classes[1] : value,
      setting: settingWords(row),
      shown: within(value, width, metric.loss ? 3 : 2, !metric.absolute),
      classes: `${interval(...classes)} points`,
      base: within(100 * row.base_accuracy, row.base_accuracy_ci == null ? null : 100 * row.base_accuracy_ci, 2, false) + " %",
      lambda_: theory ? `${compact(row.theory_coefficient)} (theory${row.theory_exact ? ", exact" : ""})` : `${compact(row.coefficient)}${row.at_edge ? " (edge of the grid)" : ""}`,
      won: percent(theory ? row.theory_share_won : row.share_won),
      trials: (theory ? row.theory_trials : row.trials).toLocaleString("en"),
      p: theory || row.coefficient === 0 ? "not tested" : pValue(row.p_holm),
    }];
  });
  const titles = methods.map((m) => m.title).filter((title) => rows.some((row) => row.title === title));
  const ticks = order[axis].map((_, at) => at);
  return {
    rows,
    names: {
      metric: METRICS[name].title, titles, ticks, labels: order[axis].map(String),
      domain: [-0.5, ticks.length - 0.5], xTitle: axis === "shots" ? "Shots" : "Ways",
      series: order[other].map((value) => seriesWords(other, value)), seriesTitle: "",
      useLegend: rows.some((row) => row.use !== "λ > 0") ? { title: null, values: ["λ = 0 chosen"], symbolFillColor: "var(--muted)", symbolStrokeWidth: 0 } : null,
    },
  };
}

const seriesWords = (what, value) => (what === "ways" ? `${value} ways` : shotWords(String(value)));

// λ on a scale that is logarithmic and has a place for zero.
function lambdaScale(values) {
  const positive = values.filter((value) => value > 0);
  const first = Math.log10(Math.min(...positive, 1)) - 0.8;
  const place = (value) => Number((value > 0 ? Math.log10(value) : first).toFixed(4));
  return { place, domain: [first - 0.15, Math.log10(Math.max(...positive, 1)) + 0.15] };
}

function curveRows(split) {
  const own = curves.filter((row) => here(row) && row.split === split && row.trials);
  const shots = distinct(own.map((row) => row.shots)).sort(byShots);
  const { place, domain } = lambdaScale(own.map((row) => row.coefficient));
  const picked = (row) => settings.find(samePlace(row))?.coefficient === row.coefficient;
  const rows = own.map((row) => ({
    ...row,
    x: place(row.coefficient),
    kind: row.theory ? "theory" : picked(row) ? "chosen on val" : "of the grid",
    series: shotWords(row.shots),
    percent: 100 * row.accuracy,
    setting: settingWords(row),
    lambda_: compact(row.coefficient),
    gain: `${within(100 * row.improvement, row.improvement_ci == null ? null : 100 * row.improvement_ci)} points`,
    ece: row.ece_pooled == null ? "–" : row.ece_pooled.toFixed(3),
  }));
  const grid = distinct(own.filter((row) => !row.theory).map((row) => row.coefficient)).sort(byNumber);
  return { rows, names: { ticks: grid.map(place), labels: grid.map(compact), domain, series: shots.map(shotWords), seriesTitle: "" } };
}

function pathRows() {
  const name = chosen("path-metric"), { scale, title } = SCORES[name];
  const { rows, names } = curveRows(chosen("split"));
  const wide = name === "accuracy" ? (row) => scale * (row.accuracy_ci ?? 0) : () => 0;
  return {
    rows: rows.filter((row) => row[name] != null).map((row) => ({
      ...row, value: scale * row[name], low: scale * row[name] - wide(row), high: scale * row[name] + wide(row), ...scoreWords(row),
    })),
    names: { ...names, metric: `${title.replace(" (", `, ${chosen("split")} classes (`)}` },
  };
}

const scoreWords = (row) => ({
  accuracy: within(100 * row.accuracy, row.accuracy_ci == null ? null : 100 * row.accuracy_ci, 2, false) + " %",
  nll: row.nll.toFixed(3), brier: row.brier.toFixed(3), trials: row.trials.toLocaleString("en"),
});

function tradeoffRows() {
  const name = chosen("loss"), titles = { ece_pooled: "Calibration error (ECE, pooled)", nll: "nll", brier: "Brier score" };
  const { rows, names } = curveRows("novel");
  const known = rows.filter((row) => row[name] != null);
  const few = names.series.length <= 4; // more tags than that would hide one another
  return {
    rows: known.map((row) => ({
      ...row, loss: row[name], tag: few && !row.theory && row.coefficient === 0 ? "λ = 0" : "", ...scoreWords(row),
    })),
    names: { ...names, lossTitle: titles[name] },
  };
}

const STATE_COLOURS = { "without penalty": "var(--muted)", "chosen λ": "var(--s1)", "theory λ": "var(--s2)" };
function stateNames(rows) {
  const states = Object.keys(STATE_COLOURS).filter((state) => rows.some((row) => row.series === state));
  return { states, stateColours: states.map((state) => STATE_COLOURS[state]) };
}
const STATES = { without: "without penalty", chosen: "chosen λ", theory: "theory λ" };
const here = (row) => row.method === detail().number && String(row.ways) === chosen("ways") && row.shots === chosen("shots");

function reliabilityRows() {
  const own = bins.filter(here);
  const totals = {};
  for (const row of own) totals[row.series] = (totals[row.series] ?? 0) + row.count;
  const rows = own.map((row) => ({
    ...row,
    series: STATES[row.series], part: row.count / totals[row.series],
    bin: `${row.bin + 1} of 15`, shown: percent(row.hit), sure: percent(row.confidence),
    share: `${row.count.toLocaleString("en")} (${percent(row.count / totals[row.series])})`,
  }));
  return { rows, names: stateNames(rows) };
}

function differenceRows() {
  const changed = settings.find(here)?.coefficient !== 0; // at λ = 0 every difference is zero
  const rows = differences.filter((row) => here(row) && (changed || row.theory)).map((row) => ({
    series: STATES[row.theory ? "theory" : "chosen"], theory: row.theory,
    low: 100 * row.low, high: 100 * row.high, part: row.count / row.trials,
    range: `${interval(row.low, row.high)} points`,
    shown: `${row.count.toLocaleString("en")} of ${row.trials.toLocaleString("en")}`,
  }));
  return { rows, names: stateNames(rows) };
}

function contrastRows() {
  const own = contrasts.filter((row) => row.method === detail().number);
  own.sort((a, b) => a.ways - b.ways || byShots(a.shots, b.shots));
  return {
    rows: own.map((row) => {
      const width = row.difference_ci == null ? null : 100 * row.difference_ci, value = 100 * row.difference;
      return {
        series: row.against, setting: settingWords(row), value,
        low: value - (width ?? 0), high: value + (width ?? 0),
        classesLow: row.difference_classes_low == null ? value : 100 * row.difference_classes_low,
        classesHigh: row.difference_classes_high == null ? value : 100 * row.difference_classes_high,
        shown: `${within(value, width)} points`, classes: `${interval(row.difference_classes_low, row.difference_classes_high)} points`,
        nll: signed(row.nll_difference, 3), trials: row.trials.toLocaleString("en"), p: pValue(row.p_holm),
      };
    }),
    names: { settings: distinct(own.map(settingWords)), series: distinct(own.map((row) => row.against)), seriesTitle: "against" },
  };
}
