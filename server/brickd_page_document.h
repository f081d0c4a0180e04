// SPDX-License-Identifier: Apache-2.0
// The document of brickd's page. What comes from the brick is put in as text only.
#pragma once

namespace brickfs {

constexpr const char* kPageDocument = R"html(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>brick</title>
<style>
:root { color-scheme: light dark; --back: #f6f7f9; --card: #fff; --text: #1c2330; --faint: #667085; --line: #dfe3ea; --a: #2563eb; --b: #d97706; --bad: #b42318; }
@media (prefers-color-scheme: dark) {
  :root { --back: #11151c; --card: #1a202b; --text: #e6e9ef; --faint: #98a2b3; --line: #2d3543; --a: #6ea0ff; --b: #f5b04c; --bad: #ff7a6b; }
}
* { box-sizing: border-box; }
body { margin: 0; padding: 16px; overflow-wrap: anywhere; background: var(--back); color: var(--text); font: 15px/1.4 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: baseline; margin-bottom: 12px; }
h1 { font-size: 20px; margin: 0; }
h2 { font-size: 15px; margin: 0 0 8px; }
.faint { color: var(--faint); }
.bad { color: var(--bad); font-weight: 600; }
main { display: grid; gap: 12px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px; min-width: 0; }
.wide { grid-column: 1 / -1; }
.bar { height: 10px; background: var(--line); border-radius: 5px; overflow: hidden; margin: 4px 0 10px; }
.bar i { display: block; height: 100%; background: var(--a); }
.bar.full i { background: var(--bad); }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--faint); font-size: 15px; }
.legend { display: flex; gap: 14px; font-size: 13px; }
.legend b::before { content: ""; display: inline-block; width: 10px; height: 10px; border-radius: 2px; background: currentColor; margin-right: 5px; }
.legend b { font-weight: 400; }
.scroll { overflow: auto; max-height: 24em; }  /* a long list scrolls in its place */
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 5px 10px 5px 0; border-top: 1px solid var(--line); white-space: nowrap; }
th { border-top: 0; color: var(--faint); font-weight: 400; }
td.bars { min-width: 90px; width: 30%; }
td .bar { margin: 0; }
@media (max-width: 640px) {  /* a row is a card: nothing is wider than a phone */
  body { padding: 8px; }
  table, tbody, tr, td { display: block; }
  tr.heads { display: none; }
  tr { border-top: 1px solid var(--line); padding: 5px 0; }
  td { border: 0; padding: 1px 0; white-space: normal; }
  td[data-head]:not([data-head=""])::before { content: attr(data-head) ": "; color: var(--faint); }
  td.bars { width: auto; }
  .legend { flex-wrap: wrap; }
}
</style>
<header><h1 id="name">brick</h1><span id="medium" class="faint"></span><span id="trouble" class="bad"></span><span id="live" class="faint"></span></header>
<main>
<section id="capacity"><h2>Capacity</h2><div></div></section>
<section id="throughput"><h2>Throughput over TCP, last hour</h2><div></div></section>
<section id="latency"><h2>Control calls, last hour</h2><div></div></section>
<section class="wide"><h2>Volumes</h2><div class="scroll"><table id="volumes"></table></div></section>
<section class="wide" id="sets" hidden><h2>Replicated sets with a copy on this brick</h2><div></div></section>
<section class="wide"><h2>Clients</h2><div class="scroll"><table id="clients"></table></div></section>
</main>
<script>
"use strict";
const byId = id => document.getElementById(id);
function make(name, attributes, ...children) {
  const svg = ["svg", "polyline", "line", "text"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (Math.round(bytes) >= 1024 && unit + 1 < units.length) { bytes /= 1024; ++unit; }
  return (bytes >= 100 || unit === 0 ? Math.round(bytes) : bytes.toFixed(1)) + " " + units[unit];
}
function time(us) { return us >= 1e6 ? (us / 1e6).toFixed(1) + " s" : us >= 1e3 ? (us / 1e3).toFixed(1) + " ms" : Math.round(us) + " µs"; }
function bar(part, whole, isRoom = true) {
  const share = whole > 0 ? Math.min(1, part / whole) : 0;
  const inner = make("i");
  inner.style.width = (100 * share).toFixed(1) + "%";
  return make("div", { class: isRoom && share > 0.9 ? "bar full" : "bar" }, inner);
}
// The last hour, on a scale of time: a brick that began lately has a short line at the right.
function chart(place, now, history, lines, describe) {
  const width = 600, height = 170, left = 4, bottom = 150, top = 22, span = 3600;
  const most = Math.max(1e-9, ...lines.flatMap(line => history.map(point => point[line.key])));
  const x = point => left + (width - 2 * left) * Math.max(0, 1 - (now - point.at) / span);
  const y = value => bottom - (bottom - top) * value / most;
  const picture = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (const part of [0, 0.5, 1]) picture.append(make("line", { x1: left, x2: width - left, y1: y(most * part), y2: y(most * part), stroke: "var(--line)" }));
  picture.append(make("text", { x: left, y: 14 }, describe(most <= 1e-9 ? 0 : most)));
  picture.append(make("text", { x: left, y: 166 }, "60 min ago"), make("text", { x: width - left, y: 166, "text-anchor": "end" }, "now"));
  for (const line of lines) {
    const points = history.map(point => x(point).toFixed(1) + "," + y(point[line.key]).toFixed(1)).join(" ");
    picture.append(make("polyline", { points, fill: "none", stroke: line.color, "stroke-width": 2, "stroke-linejoin": "round" }));
  }
  const last = history[history.length - 1];
  const legend = make("div", { class: "legend" }, ...lines.map(line => {
    const entry = make("b", {}, line.name + (last ? " " + describe(last[line.key]) : ""));
    entry.style.color = line.color;
    return entry;
  }));
  place.replaceChildren(picture, legend);
}
function table(place, heads, rows, none) {
  const cell = (one, at) => make("td", { class: one instanceof Element ? "bars" : "", "data-head": heads[at] || "" }, one);
  const body = rows.length ? rows.map(row => make("tr", {}, ...row.map(cell))) : [make("tr", {}, make("td", {}, none))];
  place.replaceChildren(...(rows.length ? [make("tr", { class: "heads" }, ...heads.map(head => make("th", {}, head)))] : []), ...body);
}
// "disk2" before "disk10".
const naturally = new Intl.Collator("en", { numeric: true }).compare;
const byName = list => [...list].sort((one, other) => naturally(one.name, other.name));
function copyState(copy) {
  let text = copy.state;
  if (copy.state === "stale") text = "left out" + (copy.since ? ` since generation ${copy.since}` : "");
  if (copy.state === "syncing") text = "being brought up to date" + (copy.total_bytes ? `: ${size(copy.copied_bytes)} of ${size(copy.total_bytes)}` : "");
  if (copy.leaving) text += ", leaving";
  const isCopied = copy.state === "syncing" && copy.total_bytes;
  return make("div", { class: copy.state === "stale" ? "bad" : "" }, text, ...(isCopied ? [bar(copy.copied_bytes, copy.total_bytes, false)] : []));
}
function showSets(replicated, now) {
  byId("sets").hidden = !replicated;
  if (!replicated) return;
  const parts = [];
  const isOld = now - replicated.at > 15;
  if (replicated.trouble) parts.push(make("div", { class: "bad" }, replicated.trouble));
  else if (isOld) parts.push(make("div", { class: "faint" }, "etcd is being asked"));
  else if (!replicated.sets.length) parts.push(make("div", { class: "faint" }, "none"));
  if (isOld && replicated.sets.length) parts.push(make("div", { class: "faint" }, "as it was at " + new Date(replicated.at * 1000).toLocaleString()));
  for (const set of byName(replicated.sets)) {
    const holder = !set.holder ? "nobody has had it yet" : set.holder.let_go ? `not held; ${set.holder.name} had it last` : `held by ${set.holder.name}`;
    parts.push(make("div", {}, make("strong", {}, set.name), " ", make("span", { class: set.degraded ? "bad" : "faint" },
      set.degraded ? `fewer than ${set.copies_wanted} copies in sync` : `${set.copies_wanted} copies in sync`), ` · ${holder} · generation ${set.generation}`));
    const copies = make("table");
    table(copies, ["place", "copy", "", "state"], set.copies.map(copy => [String(copy.place), copy.source, copy.here ? "this brick" : "", copyState(copy)]), "none");
    parts.push(make("div", { class: "scroll" }, copies));
  }
  byId("sets").lastElementChild.replaceChildren(...parts);
}
function holderOf(volume) {
  const words = [volume.holder || "–"];
  if (volume.shared_at) words.push(`coordinates at ${volume.shared_at}`);
  if (volume.holder && !volume.connected) words.push("(not connected)");
  if (volume.readers > 1) words.push(`and ${volume.readers - 1} more readers`);
  if (!volume.members.length) return words.join(" ");
  return make("div", {}, words.join(" "), make("div", { class: "faint" }, "members here: " + volume.members.join(", ")));
}
function show(status) {
  document.title = byId("name").textContent = "brick on " + status.host;
  byId("medium").textContent = (status.durable ? "durable, " : "volatile, ") + status.medium + ", brickd " + status.version;
  byId("trouble").textContent = status.trouble;
  byId("capacity").lastElementChild.replaceChildren(
    make("div", {}, `${size(status.used_bytes)} of ${size(status.capacity_bytes)} allocated`), bar(status.used_bytes, status.capacity_bytes),
    make("div", {}, `${size(status.in_memory_bytes)} of ${size(status.memory_bytes)} memory in use`), bar(status.in_memory_bytes, status.memory_bytes),
    make("div", { class: "faint" }, `${status.volumes.length} volumes, ${status.clients.length} clients`));
  const perSecond = value => size(value) + "/s";
  chart(byId("throughput").lastElementChild, status.now, status.history,
    [{ key: "read_bytes_per_second", name: "read", color: "var(--a)" }, { key: "written_bytes_per_second", name: "written", color: "var(--b)" }], perSecond);
  chart(byId("latency").lastElementChild, status.now, status.history,
    [{ key: "call_p50_us", name: "median", color: "var(--a)" }, { key: "call_p99_us", name: "99 %", color: "var(--b)" }], time);
  table(byId("volumes"), ["name", "used", "size", "", "in memory", "holder"], byName(status.volumes).map(volume => [volume.name, size(volume.used_bytes), size(volume.capacity_bytes),
    bar(volume.used_bytes, volume.capacity_bytes), size(volume.in_memory_bytes), holderOf(volume)]), "none");
  showSets(status.replicated, status.now);
  table(byId("clients"), ["client", "volume", "", "since"], byName(status.clients).map(client => [client.name, client.volume, client.mode, new Date(client.since * 1000).toLocaleString()]), "none");
}
async function ask() {
  try {
    const answer = await fetch("status.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    show(await answer.json());
    byId("live").textContent = "";
    byId("live").className = "faint";
  } catch (error) {
    byId("live").textContent = "the brick does not answer; what is here is old";
    byId("live").className = "bad";
  }
  setTimeout(ask, 5000);
}
ask();
</script>
</html>
)html";

}  // namespace brickfs
