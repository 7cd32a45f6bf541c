// What pages do beyond HTML: times, copying, the theme, and the stream of changes.
"use strict";

// --- times ---------------------------------------------------------------------------------------------------

const STEPS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

function exactTimes() {
  return document.documentElement.dataset.times === "exact";
}

function showTimes(root = document) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    if (exactTimes()) {
      if (element.textContent !== element.title) element.textContent = element.title;
      continue;
    }
    const seconds = (Date.parse(element.dateTime) - Date.now()) / 1000;
    const [unit, size] = STEPS.find(([, size]) => Math.abs(seconds) >= size) ?? STEPS.at(-1);
    const text = relative.format(Math.trunc(seconds / size), unit);
    if (element.textContent !== text) element.textContent = text;
  }
}

function keep(name, value) {
  document.documentElement.dataset[name] = value;
  try { localStorage.setItem(`fournos-${name}`, value); } catch { /* it lasts for this page only */ }
}

function offerExactTimes() {
  const button = document.getElementById("times");
  const state = () => button.setAttribute("aria-pressed", String(exactTimes()));
  button.hidden = false;
  state();
  button.addEventListener("click", () => {
    keep("times", exactTimes() ? "relative" : "exact");
    state();
    showTimes();
  });
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

// An open question closes by Escape, as a dialogue does, and by a click elsewhere.
addEventListener("keydown", (event) => {
  const open = event.key === "Escape" && document.activeElement?.closest("details.confirm[open]");
  if (!open) return;
  open.open = false;
  open.querySelector("summary").focus();
});

document.addEventListener("click", (event) => {
  for (const one of document.querySelectorAll("details.confirm[open]")) if (!one.contains(event.target)) one.open = false;
});

function showTheme() {
  const button = document.getElementById("theme");
  const dark = () => (document.documentElement.dataset.theme ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    keep("theme", dark() ? "light" : "dark");
    label();
  });
}

function reveal(root = document) {
  for (const button of root.querySelectorAll("[data-copy][hidden], [data-copy-from][hidden]")) button.hidden = !navigator.clipboard;
  for (const button of root.querySelectorAll("[data-day][hidden]")) button.hidden = false;
}

// --- a day from the browser's calendar -----------------------------------------------------------------------

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-day]");
  if (!button) return;
  const field = button.previousElementSibling;
  const calendar = Object.assign(document.createElement("input"), { type: "date", value: field.value.slice(0, 10), tabIndex: -1 });
  calendar.setAttribute("aria-hidden", "true");
  calendar.addEventListener("change", () => { field.value = calendar.value; field.focus(); });
  button.parentElement.querySelector("[type=date]")?.remove();
  button.after(calendar);
  calendar.showPicker();
});

// --- the stream of changes -----------------------------------------------------------------------------------
// HTTP/1.1 allows six connections a host.  At most four tabs of a browser have a stream (Web Locks); the others
// ask again every few seconds, which costs nothing while nothing changes (ETag).  A hidden tab gives its slot back.

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

// Other scripts of a page with streams of their own take these slots, too.
const slots = {
  free() { /* replaced by what gives the slot back */ },
  async take() {
    if (!navigator.locks) return true;
    for (let number = 1; number <= STREAMS; number += 1) {
      const held = await new Promise((resolve) => {
        navigator.locks.request(`fournos-stream-${number}`, { ifAvailable: true }, (lock) => {
          resolve(lock !== null);
          return lock === null ? undefined : new Promise((done) => { slots.free = done; });
        });
      });
      if (held && document.hidden) slots.free();
      if (held) return !document.hidden;
    }
    return false;
  },
};

let asking = 0;
let connected = false;
let following = false;
let refused = false;

// Connects, or resumes after the tab was hidden.  Without a slot it polls, and tries to connect again.
async function follow(live) {
  if (following || document.hidden) return;
  following = true;
  const held = !refused && await slots.take();
  following = false;
  if (document.hidden) return;
  if (!held) {
    asking ||= setInterval(() => { if (!document.hidden) { ask(); follow(live); } }, ASK_EVERY);
    return;
  }
  clearInterval(asking);
  asking = 0;
  if (connected) document.dispatchEvent(new CustomEvent("visibilitychange", { detail: "resume" }));
  else connect(live);
  connected = true;
}

function onVisibility(event, live) {
  if (event.detail === "resume") return;
  if (document.hidden) {
    slots.free();
    return; // the extension pauses its stream
  }
  event.stopImmediatePropagation(); // the extension resumes its stream when there is a slot
  if (asking) ask();
  follow(live);
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
  offerExactTimes();
  reveal();
  showTimes();
  setInterval(() => { if (!document.hidden) showTimes(); }, 1000);
  const live = document.getElementById("live");
  if (!live) return;
  document.addEventListener("htmx:after:swap", () => { showTimes(); reveal(); });
  // The extension reconnects a stream that was open.  A tab whose first stream is refused polls, as one without a slot.
  live.addEventListener("htmx:response:error", () => { refused = true; slots.free(); follow(live); }, { once: true });
  live.addEventListener("htmx:sse:error", ({ detail }) => {
    if (detail.status === 401) location.reload(); // the session has ended: the page asks for a login
    state("Reconnecting …");
  });
  live.addEventListener("htmx:sse:after:connection", () => state(""));
  // htmx looks at the page in a timer that it has set before this one.
  setTimeout(() => {
    addEventListener("visibilitychange", (event) => onVisibility(event, live), { capture: true });
    follow(live);
  });
});
