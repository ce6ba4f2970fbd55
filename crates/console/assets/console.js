// The script of the console: live regions, the keyboard, copying, and the theme. Every page works without it.
"use strict";

const byId = (id) => document.getElementById(id);
const isTyping = (target) => target.closest("input, select, textarea") !== null;

// Status: what happened, for eyes and for screen readers.

let statusTimer = 0;

function say(text, tone, link) {
  const status = byId("status");
  if (!status) return;
  clearTimeout(statusTimer);
  status.dataset.tone = tone;
  status.replaceChildren(text, ...(link ?? []));
  if (tone === "good") statusTimer = setTimeout(() => status.replaceChildren(), 15000);
}

// Live region: the server sends markup that it made; only nodes that differ are replaced, so focus, scroll and selection stay.

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id : "");
const isSame = (one, other) => one.nodeName === other.nodeName && keyOf(one) === keyOf(other);

function morph(from, to) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  for (const { name } of [...from.attributes]) {
    // The reader opened it.
    if (!to.hasAttribute(name) && name !== "open") from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  morphChildren(from, to);
}

function morphChildren(from, to) {
  const keyed = new Map();
  for (const child of from.children) if (child.id) keyed.set(child.id, child);
  let here = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const known = keyOf(wanted) ? keyed.get(wanted.id) : undefined;
    const match = known ?? (here && isSame(here, wanted) ? here : undefined);
    if (match) {
      if (match === here) here = here.nextSibling;
      else from.insertBefore(match, here);
      morph(match, wanted);
    } else {
      from.insertBefore(document.importNode(wanted, true), here);
    }
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

function showFragment(markup) {
  const leader = byId("place")?.dataset.leader;
  const parsed = new DOMParser().parseFromString(markup, "text/html");
  for (const wanted of parsed.querySelectorAll("#live, #place")) {
    const present = byId(wanted.id);
    if (present) morph(present, wanted);
  }
  receivedAt = Date.now();
  const place = byId("place");
  // Compared with what the page showed: a leader that died before the stream began is told, too.
  if (place && place.dataset.leader !== leader) say(`${place.textContent}.`, place.dataset.leader ? "good" : "warning");
  prepare(document);
  correctAddresses();
  select(selected);
}

let source = null;
let retry = 0;
let delay = 500;
let node = null;
let others = [];
let receivedAt = Date.now();
let heardAt = 0;
// A frozen node closes no connection. The server sends an event every 3 seconds at least.
const SILENCE_MAX = 10000;

function connect() {
  const main = byId("main");
  if (!main || !main.dataset.live || document.hidden || source) return;
  const events = new EventSource(main.dataset.live);
  source = events;
  heardAt = Date.now();
  const on = (name, act) =>
    events.addEventListener(name, (event) => {
      heardAt = Date.now();
      act(JSON.parse(event.data));
    });
  on("addresses", (known) => {
    if (delay > 500) say("Connected again. The page is live.", "good");
    delay = 500;
    node = known.node ?? node;
    if (known.others.length > 0) others = known.others;
  });
  on("fragment", showFragment);
  on("status", ({ text, tone }) => say(text, tone));
  on("full", (text) => {
    disconnect();
    // The next stream, when the reader returns to this tab, says that the page is live.
    delay = 1000;
    say(text, "warning");
  });
  on("login", () => location.reload());
  on("alive", () => {});
  on("reconnect", () => again(0));
  events.onerror = lost;
}

function lost() {
  again(delay);
  if (delay > 500) offline();
  delay = Math.min(delay * 2, 8000);
}

function watchSilence() {
  if (!source || Date.now() - heardAt < SILENCE_MAX) return;
  delay = Math.max(delay, 1000);
  lost();
}

function disconnect() {
  clearTimeout(retry);
  source?.close();
  source = null;
}

function again(wait) {
  disconnect();
  retry = setTimeout(connect, wait);
}

function offline() {
  const name = node === null ? "The node of this page" : `Node ${node}`;
  const links = others.flatMap((address) => {
    const link = document.createElement("a");
    link.href = address;
    link.textContent = address;
    return [" ", link];
  });
  const text = `${name} does not answer. The page shows the state of ${clock(receivedAt)} and tries again.`;
  say(text + (links.length > 0 ? " Other nodes:" : ""), "bad", links);
}

const clock = (time) => new Date(time).toISOString().slice(11, 19) + " UTC";

document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
window.addEventListener("pagehide", disconnect);
window.addEventListener("pageshow", connect);

// Times count on between two updates, in the words of the server.

function span(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const pair = (large, small, names) =>
    `${Math.floor(seconds / large)} ${names[0]} ${Math.floor((seconds % large) / small)} ${names[1]}`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return pair(60, 1, ["min", "s"]);
  if (seconds < 86400) return pair(3600, 60, ["h", "min"]);
  return pair(86400, 3600, ["d", "h"]);
}

// The clock of the browser may be wrong: the page has the time of the server when it was made.
let clockOffset = 0;

function countTimes() {
  if (document.hidden) return;
  const now = Date.now() - clockOffset;
  for (const time of document.querySelectorAll("time[data-count]")) {
    const then = Date.parse(time.dateTime);
    const text = span(time.dataset.count === "until" ? then - now : now - then);
    if (time.textContent !== text) time.textContent = text;
  }
}

// Keyboard: rows with j, k and Enter; the filter with /; the keys with ?.

let selected = null;

const rows = () => [...document.querySelectorAll("table.rows tbody tr")];

function select(id, focus) {
  for (const row of rows()) row.classList.toggle("selected", id !== null && row.id === id);
  if (!focus) return;
  const link = byId(id)?.querySelector("a");
  link?.focus();
  link?.scrollIntoView({ block: "nearest" });
}

function step(by) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.findIndex((row) => row.id === selected);
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by));
  selected = all[next].id;
  select(selected, true);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = byId("keys");
  const filter = document.querySelector("[data-filter]");
  if (event.key === "Escape" && !keys?.open) {
    if (event.target === filter) filter.blur();
    selected = null;
    select(null);
    return;
  }
  if (isTyping(event.target) || keys?.open) return;
  if (event.key === "/" && filter) filter.focus();
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "Enter" && selected && event.target === document.body) byId(selected)?.querySelector("a")?.click();
  else if (event.key === "?") keys?.showModal();
  else return;
  event.preventDefault();
});

// A form is sent once: a second click of an impatient reader makes no second change.

let sent = new WeakSet();

document.addEventListener("submit", (event) => {
  if (sent.has(event.target)) event.preventDefault();
  if (event.target.method === "post") sent.add(event.target);
});
window.addEventListener("pageshow", () => {
  sent = new WeakSet();
});

// Copying. Lines name the address that the reader's browser has, also behind a proxy with a prefix.

async function copy(button) {
  const text = byId(button.dataset.copy)?.textContent ?? "";
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.", "good");
  } catch {
    // Without TLS, browsers allow no clipboard: select the text instead.
    getSelection().selectAllChildren(byId(button.dataset.copy));
    say("Selected: press Ctrl+C.", "good");
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});

function correctAddresses() {
  const shown = document.documentElement.dataset.address;
  const base = new URL("..", location.href).href.replace(/\/$/, "");
  if (!shown || shown === base) return;
  for (const line of document.querySelectorAll(".snippet code")) {
    if (line.textContent.includes(shown)) line.textContent = line.textContent.replaceAll(shown, base);
  }
}

// Theme: that of the system, or the reader's choice.

function showTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  const button = byId("theme");
  if (button) button.textContent = `Theme: ${theme ?? "system"}`;
}

function nextTheme() {
  const order = [null, "dark", "light"];
  const theme = order[(order.indexOf(localStorage.getItem("holdfast-theme")) + 1) % order.length];
  if (theme) localStorage.setItem("holdfast-theme", theme);
  else localStorage.removeItem("holdfast-theme");
  showTheme(theme);
}

function prepare(root) {
  for (const part of root.querySelectorAll(".scripted[hidden]")) part.hidden = false;
}

showTheme(localStorage.getItem("holdfast-theme"));
byId("theme")?.addEventListener("click", nextTheme);
for (const choice of document.querySelectorAll("form.filters select")) {
  choice.addEventListener("change", () => choice.form.requestSubmit());
}
const made = Number(document.documentElement.dataset.now);
if (made) clockOffset = Date.now() - made;
if (Math.abs(clockOffset) < 2000) clockOffset = 0;
prepare(document);
correctAddresses();
connect();
setInterval(countTimes, 1000);
setInterval(watchSilence, 1000);
