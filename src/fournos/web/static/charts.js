// Draws the plots of a page with uPlot in place of the server's SVG: a pointer shows values, a click opens a run,
// a drag enlarges.
"use strict";

(() => {
  // A canvas needs colours as they are computed: the tokens have one for light and one for dark.
  function colours() {
    const probe = document.body.appendChild(document.createElement("span"));
    const of = (name) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    const names = ["accent", "busy", "good", "wait", "bad", "idle", "text", "focus"];
    const found = {
      lines: names.map(of),
      soft: of("soft"),
      rule: of("rule"),
      band: of("busy-ground"),
      regression: of("bad"),
      improvement: of("good"),
      change: of("idle"),
    };
    probe.remove();
    return found;
  }

  // The band of noise below the lines, and a dashed line where something changed.
  function below(plot, given, colour) {
    const { left, top, width, height } = plot.bbox;
    const { ctx } = plot;
    ctx.save();
    if (given.band) {
      const [low, high] = given.band.map((y) => Math.min(top + height, Math.max(top, plot.valToPos(y, "y", true))));
      ctx.fillStyle = colour.band;
      ctx.fillRect(left, high, width, low - high);
    }
    if (given.baseline != null) {
      const y = plot.valToPos(given.baseline, "y", true);
      ctx.lineWidth = 1;
      ctx.strokeStyle = colour.soft;
      ctx.beginPath();
      ctx.moveTo(left, y);
      ctx.lineTo(left + width, y);
      ctx.stroke();
    }
    ctx.setLineDash([6, 4]);
    ctx.lineWidth = 2;
    for (const mark of given.marks) {
      const x = plot.valToPos(mark.x, "x", true);
      ctx.strokeStyle = colour[mark.state] ?? colour.change;
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
    }
    ctx.restore();
  }

  // Of "2026-03-31 14:30" or "31 Mar 14:30" the date, or of one day the hour; any other text as it is.
  function tick(text, oneDay) {
    if (!text.includes(":")) return text;
    const words = text.split(" ");
    return oneDay ? words.at(-1) : words.slice(0, -1).join(" ");
  }

  function reading(given, label, text, idx) {
    const found = given.series.filter(({ y }) => y[idx] != null).map(({ name, y }) => `${name}: ${text(y[idx])}`);
    const run = given.runs[idx]?.[0];
    return [...(run ? [run] : []), `${label(given.x[idx])} ${given.xTitle}`.trim(), ...found].join(" · ");
  }

  // A click opens the run of the nearest point, with Shift its comparison with the run of the page. A drag enlarges.
  function openRun(plot, given, event) {
    const run = given.runs[plot.cursor.idx];
    if (run && plot.select.width === 0) location.assign((event.shiftKey && run[2]) || run[1]);
  }

  function draw(element) {
    const given = JSON.parse(element.dataset.chart);
    const colour = colours();
    const { lines, soft, rule } = colour;
    const axis = { stroke: soft, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 } };
    const text = (value) => (value == null ? "–" : Number(value.toPrecision(5)).toString());
    const series = given.series.map(({ name }, number) => ({
      label: name,
      stroke: lines[number % lines.length],
      width: 2,
      spanGaps: true,
      points: { show: given.dots || given.x.length <= 64, size: 6 },
      ...(given.dots ? { paths: () => null } : {}),
    }));
    const label = (value) => (given.labels.length ? given.labels[Math.round(value)] ?? "" : text(value));
    const oneDay = new Set(given.labels.map((one) => one.split(" ")[0])).size === 1;
    const values = element.parentElement.querySelector(".values");
    const height = element.clientHeight;
    element.replaceChildren();
    new uPlot(
      {
        width: element.clientWidth,
        height,
        padding: [null, given.labels.length ? 32 : null, null, null], // half of the last label
        legend: { show: false },
        scales: { x: { time: false } },
        hooks: {
          ready: [(plot) => {
            if (given.runs.length) plot.over.style.cursor = "pointer";
            plot.over.addEventListener("click", (event) => openRun(plot, given, event));
          }],
          drawClear: [(plot) => below(plot, given, colour)],
          setCursor: [({ cursor: { idx } }) => { values.textContent = idx == null ? "" : reading(given, label, text, idx); }],
        },
        series: [{}, ...series],
        axes: [
          {
            ...axis,
            ...(given.xTitle ? { label: given.xTitle, labelSize: 20 } : {}),
            ...(given.labels.length ? { space: 80, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] } : {}),
            ...(given.xTitle ? {} : { size: 32 }),
            // Of a time only the date, or within one day only the hour: the legend has all of it.
            // Neighbours with the same text say it once.
            values: (_, found) => found.map((value) => tick(label(value), oneDay))
              .map((one, at, all) => (one === all[at - 1] ? "" : one)),
          },
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
