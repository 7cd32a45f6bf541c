// The log of a job: all lines up to a limit in the page, where the browser's own search finds them; new ones are
// appended while the job runs.  Without scripts the page shows the last lines.
"use strict";

(() => {
  const list = document.getElementById("log");
  if (!list?.dataset.stream) return;
  const state = document.getElementById("log-state");
  const follow = document.getElementById("log-follow");
  const most = Number(list.dataset.most);
  const going = list.dataset.follow === "yes";
  const AGAIN = 3000;
  let last = 0;
  let cut = 0;
  let waiting = [];
  let drawing = false;
  let stop = null;
  let began = false;

  function item(text) {
    const [number, source, ...rest] = text.split("\t");
    const element = document.createElement("li");
    const link = document.createElement(number === "0" ? "span" : "a");
    link.className = "n";
    if (number === "0") {
      element.className = "about";
    } else {
      last = Number(number);
      element.id = `L${number}`;
      link.href = `#L${number}`;
      link.tabIndex = -1; // the field Line leads there by keyboard
      link.textContent = number;
    }
    const from = document.createElement("span");
    from.className = "s";
    from.textContent = source;
    const code = document.createElement("code");
    code.textContent = rest.join("\t");
    element.append(link, from, code);
    return element;
  }

  function atEnd() {
    return innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
  }

  // The heights of lines that were never seen are estimates, so the end moves when it is reached.
  function toEnd(times = 3) {
    list.lastElementChild?.scrollIntoView({ block: "end" });
    if (times > 1) requestAnimationFrame(() => toEnd(times - 1));
  }

  function draw() {
    drawing = false;
    const stay = going && follow.checked && atEnd();
    if (!began) { list.replaceChildren(); began = true; }
    const part = document.createDocumentFragment();
    for (const text of waiting) part.append(item(text));
    waiting = [];
    list.append(part);
    while (list.childElementCount > most) { list.firstElementChild.remove(); cut += 1; }
    state.textContent = `${last} ${last === 1 ? "line" : "lines"}${cut ? `, the last ${most} are here: search finds the others` : ""}`;
    target();
    if (stay || (going && follow.checked && !location.hash && last && list.dataset.shown !== "yes")) toEnd();
    list.dataset.shown = "yes";
  }

  function target() {
    for (const old of list.querySelectorAll(".target")) old.classList.remove("target");
    const found = /^#L\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (!found) return;
    found.classList.add("target");
    if (list.dataset.at !== location.hash) { list.dataset.at = location.hash; found.scrollIntoView({ block: "center" }); }
  }

  function add(lines) {
    waiting.push(...lines);
    if (!drawing && waiting.length) { drawing = true; requestAnimationFrame(draw); }
  }

  async function read(following) {
    stop = new AbortController();
    const url = new URL(list.dataset.stream, location.href);
    url.searchParams.set("from", last + 1);
    if (following) url.searchParams.set("follow", "yes");
    const response = await fetch(url, { signal: stop.signal });
    if (!response.ok) return response.status >= 500;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      const lines = (rest + (value ?? "")).split("\n");
      rest = lines.pop();
      add(lines);
      if (done) return false;
    }
  }

  const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
  const shown = () => document.hidden
    ? new Promise((resolve) => { document.addEventListener("visibilitychange", resolve, { once: true }); })
    : Promise.resolve();

  async function run() {
    for (;;) {
      await shown();
      const streams = going && await slots.take(); // of app.js
      let again = going;
      try {
        again = await read(streams) || (going && !streams);
      } catch {
        again = true;
      }
      if (streams) slots.free();
      if (!again) return;
      await pause(AGAIN);
    }
  }

  document.addEventListener("visibilitychange", () => { if (document.hidden && going) stop?.abort(); });
  addEventListener("hashchange", target);
  if (going) follow.closest("label").hidden = false;
  follow.addEventListener("change", () => { if (follow.checked) toEnd(); });
  run();
})();
