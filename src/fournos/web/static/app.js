// What pages do beyond HTML: times, copying, the theme, and changes in an open tab.
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

// --- changes -------------------------------------------------------------------------------------------------
// An open tab asks for its page every few seconds, one in the background less often.  The server answers 304 while
// nothing has changed; else htmx morphs the content, which keeps the focus, what is typed, and what is open.

const ASK_EVERY = 5000;
const HIDDEN_EVERY = 60000;

function state(text) {
  const element = document.getElementById("connection");
  element.textContent = text;
  element.hidden = !text;
}

async function ask(live) {
  let answer;
  let text;
  try {
    const headers = { "If-None-Match": live.dataset.tag };
    answer = await fetch(location.pathname + location.search, { headers, cache: "no-store", redirect: "manual" });
    text = await answer.text();
  } catch {
    state("Reconnecting …");
    return;
  }
  // The login has ended: the page itself leads to the next one.
  if (answer.type === "opaqueredirect" || answer.status === 401) {
    location.reload();
    return;
  }
  if (answer.status === 429 || answer.status >= 500) {
    state("Reconnecting …");
    return;
  }
  state("");
  if (answer.status === 304) return;
  // An error takes the place of what may no longer be seen.
  live.dataset.tag = answer.headers.get("ETag") ?? "";
  await htmx.swap({ text, target: document.getElementById("main"), select: "#main", swap: "outerMorph", sourceElement: live });
}

function follow(live) {
  let asked = Date.now();
  let busy = false;
  const look = async () => {
    if (busy || Date.now() - asked < (document.hidden ? HIDDEN_EVERY : ASK_EVERY)) return;
    busy = true;
    try { await ask(live); } finally { asked = Date.now(); busy = false; }
  };
  setInterval(look, 1000);
  addEventListener("visibilitychange", look);
}

// --- beginning -----------------------------------------------------------------------------------------------

addEventListener("DOMContentLoaded", () => {
  showTheme();
  offerExactTimes();
  reveal();
  showTimes();
  setInterval(() => { if (!document.hidden) showTimes(); }, 1000);
  document.addEventListener("htmx:after:swap", () => { showTimes(); reveal(); });
  const live = document.getElementById("live");
  if (live) follow(live);
});
