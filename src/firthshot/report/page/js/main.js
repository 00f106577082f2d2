// Start the page: controls, charts, print.

// A printed page shows what is folded away.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll(":is(details.table, details.more):not([open])")) {
    part.open = true;
    part.dataset.opened = "";
  }
});
addEventListener("afterprint", () => {
  for (const part of document.querySelectorAll("details[data-opened]")) {
    part.open = false;
    delete part.dataset.opened;
  }
});

if (methods.length) {
  fillOverview();
  fillDetail();
  showLargest();
  const redrawDetail = () => { fillDetail(); drawAll(DETAIL); };
  const on = (ids, act) => ids.forEach((id) => control(id).addEventListener("change", act));
  on(["metric", "value", "axis", "bank-all", "head-all", "penalty-all"], () => draw("improvement"));
  on(["bank", "head", "penalty", "ways", "shots"], redrawDetail);
  on(["path-metric", "split"], () => draw("path"));
  on(["loss"], () => draw("tradeoff"));
  for (const form of document.querySelectorAll("form.controls")) form.addEventListener("submit", (event) => event.preventDefault());
  let width = innerWidth, waiting;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // a phone's address bar changes only the height
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => drawAll(Object.keys(DRAWN)), 150);
  });
  await drawAll(Object.keys(DRAWN));
}
root.dataset.ready = "true";
