// What pages do beyond HTML: relative times, copying, the theme, and the stream of changes.
"use strict";

// --- times ---------------------------------------------------------------------------------------------------

const STEPS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

function showTimes(root = document) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const seconds = (Date.parse(element.dateTime) - Date.now()) / 1000;
    const [unit, size] = STEPS.find(([, size]) => Math.abs(seconds) >= size) ?? STEPS.at(-1);
    const text = relative.format(Math.trunc(seconds / size), unit);
    if (element.textContent !== text) element.textContent = text;
  }
}

// --- copying and the theme -----------------------------------------------------------------------------------

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-from]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy ?? document.getElementById(button.dataset.copyFrom).textContent);
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
});

function showTheme() {
  const button = document.getElementById("theme");
  const dark = () => (document.documentElement.dataset.theme ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    const theme = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("fournos-theme", theme); } catch { /* it lasts for this page only */ }
    label();
  });
}

function reveal(root = document) {
  for (const button of root.querySelectorAll("[data-copy][hidden], [data-copy-from][hidden]")) button.hidden = !navigator.clipboard;
}

// --- the stream of changes -----------------------------------------------------------------------------------
// HTTP/1.1 allows six connections a host.  At most four tabs of a browser hold a stream (Web Locks); the others
// ask again every few seconds, which costs nothing while nothing changes (ETag).

const STREAMS = 4;
const ASK_EVERY = 5000;

function state(text) {
  const element = document.getElementById("connection");
  element.textContent = text;
  element.hidden = !text;
}

// The attribute is set here: htmx may look at the page before its extension for streams is loaded.
function connect(live) {
  live.setAttribute("hx-sse:connect", live.dataset.live);
  htmx.process(live);
}

async function follow(live) {
  for (let number = 1; number <= STREAMS; number += 1) {
    const held = await new Promise((resolve) => {
      navigator.locks.request(`fournos-stream-${number}`, { ifAvailable: true }, (lock) => {
        resolve(lock !== null);
        return lock === null ? undefined : new Promise(() => { /* held until the tab closes */ });
      });
    });
    if (held) {
      connect(live);
      return;
    }
  }
  askRegularly();
}

function askRegularly() {
  setInterval(() => { if (!document.hidden) ask(); }, ASK_EVERY);
}

async function ask() {
  try {
    await htmx.ajax("GET", location.pathname + location.search, { target: "#main", select: "#main", swap: "outerMorph" });
    state("");
  } catch {
    state("Reconnecting …");
  }
}

// --- beginning -----------------------------------------------------------------------------------------------

addEventListener("DOMContentLoaded", () => {
  showTheme();
  reveal();
  showTimes();
  setInterval(() => { if (!document.hidden) showTimes(); }, 1000);
  const live = document.getElementById("live");
  if (!live) return;
  document.addEventListener("htmx:after:swap", () => { showTimes(); reveal(); });
  // The extension tries again once it had a stream.  A tab whose first one is refused asks, as those without one do.
  live.addEventListener("htmx:response:error", askRegularly, { once: true });
  live.addEventListener("htmx:sse:error", ({ detail }) => {
    if (detail.status === 401) location.reload(); // the session has ended: the page asks for a login
    state("Reconnecting …");
  });
  live.addEventListener("htmx:sse:after:connection", () => state(""));
  // htmx looks at the page in a timer that it has set before this one.
  setTimeout(() => {
    if (navigator.locks) follow(live);
    else connect(live);
  });
});
