// Draws the plots of a page with uPlot in place of the server's SVG: a pointer shows values, a drag enlarges.
"use strict";

(() => {
  const HEIGHT = 260;

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const names = ["accent", "busy", "good", "wait", "bad", "idle", "text", "focus"];
    return {
      lines: names.map((name) => style.getPropertyValue(`--${name}`).trim()),
      soft: style.getPropertyValue("--soft").trim(),
      rule: style.getPropertyValue("--rule").trim(),
    };
  }

  function draw(element) {
    const given = JSON.parse(element.dataset.chart);
    const { lines, soft, rule } = colours();
    const axis = { stroke: soft, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 } };
    const text = (value) => (value == null ? "–" : Number(value.toPrecision(5)).toString());
    const series = given.series.map(({ name }, number) => ({
      label: name,
      stroke: lines[number % lines.length],
      width: 2,
      spanGaps: true,
      points: { show: given.dots || given.x.length <= 64, size: 6 },
      value: (_, value) => text(value),
      ...(given.dots ? { paths: () => null } : {}),
    }));
    const label = (value) => (given.labels.length ? given.labels[Math.round(value)] ?? "" : text(value));
    element.replaceChildren();
    new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        scales: { x: { time: false } },
        series: [{ label: given.xTitle || "x", value: (_, value) => (value == null ? "–" : label(value)) }, ...series],
        axes: [
          { ...axis, label: given.xTitle, labelSize: 20, values: (_, found) => found.map(label) },
          { ...axis, label: given.yTitle, labelSize: 20, size: 64 },
        ],
        cursor: { focus: { prox: 24 } },
      },
      [given.x, ...given.series.map(({ y }) => given.x.map((_, at) => y[at] ?? null))],
      element,
    );
    element.dataset.drawn = element.dataset.chart;
  }

  function drawAll() {
    if (typeof uPlot === "undefined") return;
    for (const element of document.querySelectorAll("[data-chart]")) {
      if (element.dataset.drawn !== element.dataset.chart || !element.querySelector(".uplot")) draw(element);
    }
  }

  function redraw() {
    for (const element of document.querySelectorAll("[data-drawn]")) delete element.dataset.drawn;
    drawAll();
  }

  drawAll();
  document.addEventListener("htmx:after:swap", drawAll);
  document.getElementById("theme")?.addEventListener("click", redraw);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
})();
