// The data of the page: compact tables turned into objects.

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const charts = read("chart-specs");
const data = read("page-data");
const methods = data.methods.map((method, number) => ({ ...method, number }));

const rowsOf = ({ columns, rows }) =>
  rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at]])));
const settings = rowsOf(data.settings);
const curves = rowsOf(data.curves);
const bins = rowsOf(data.bins);
const differences = rowsOf(data.differences);
const contrasts = rowsOf(data.contrasts);

const distinct = (values) => [...new Set(values)];
const isNumber = (text) => /^\d+$/.test(text);
// Numbers of shots in their order, then the named schemes.
const byShots = (a, b) =>
  isNumber(a) !== isNumber(b) ? (isNumber(a) ? -1 : 1) : a.localeCompare(b, "en", { numeric: true });
const byNumber = (a, b) => a - b;

// Numbers as the page says them.
const signed = (value, digits = 2) => {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : (value > 0 ? "+" : "−") + text;
};
const within = (value, width, digits = 2, sign = true) =>
  (sign ? signed(value, digits) : value.toFixed(digits)) + (width == null ? "" : ` ± ${width.toFixed(digits)}`);
const compact = (value) => (value == null ? "–" : String(Number(value.toPrecision(3))));
const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
const pValue = (p) => (p < 0.001 ? "< 0.001" : p.toFixed(3));
const shotWords = (shots) => (isNumber(shots) ? `${shots} shot${shots === "1" ? "" : "s"}` : shots);
const settingWords = (row) => `${row.ways} ways, ${shotWords(row.shots)}`;
const interval = (low, high, scale = 100) =>
  low == null ? "not known" : `${signed(scale * low)} to ${signed(scale * high)}`;
