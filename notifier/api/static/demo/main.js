// The demo page: shows each snapshot of the system.

import { Accounting } from "./accounting.js";
import { connectButtons, log, setMessage, updatePauseButton } from "./actions.js";
import { followSystem } from "./api.js";
import { $, el } from "./dom.js";
import { loadAlerts } from "./phones.js";
import { compactNumber, isPause, number, TIERS } from "./texts.js";
import { legend, Tier } from "./tier.js";
import { showInbox } from "./users.js";

const tiers = Object.keys(TIERS).map((name) => new Tier(name));
const accounting = new Accounting($("accounting-bar"), $("accounting"), $("accounting-total"));
let previous = null; // snapshot
let generation = null; // generation of the data in Redis when it was last complete
let pauseState; // state of P2's throttle in the previous snapshot

$("tiers").append(...tiers.map((tier) => tier.node));
$("legend").append(...legend());

function showSnapshot(system) {
  $("mentions").textContent = number(system.mentions_per_second);
  $("deliveries").textContent = compactNumber(system.deliveries_per_second);
  $("rows").textContent = compactNumber(system.rows_per_second);
  $("bursts").textContent = number(system.open_bursts);
  const throttle = strictestThrottle(system.throttles, "p2");
  if (system.running) showBurst(system);
  updatePauseButton(throttle);
  showProcesses(system);
  showLoading(system.loading);
  loadAlerts();
  if (previous) reportChanges(system, throttle);
  if (system.redis.state === "ok") generation = system.redis.generation;
  previous = system;
}

// Progress while users and follows are loaded.
function showLoading(percent) {
  const loading = percent !== null;
  if (loading) setMessage(`${number(percent)} % of the users and their follows are loaded.`);
  else if (previous && previous.loading !== null) setMessage("All users are loaded. The first mention follows.");
  $("storm").disabled = loading || $("storm").dataset.busy === "yes";
}

// A pause is stricter than a rate, and a rate is stricter than a ramp.
function strictestThrottle(throttles, name) {
  const ofTier = throttles.filter(({ tier }) => tier === name);
  const active = ofTier.filter(({ state }) => state === "active");
  return active.find(isPause) ?? active.at(-1) ?? ofTier.at(-1);
}

function showBurst({ running, backlog, throttles }) {
  const [, name] = running.burst.match(/:(.*)#/);
  $("celebrity-name").textContent = `@${name}`;
  $("followers").textContent = number(running.followers);
  $("burst").textContent = `${number(running.count)} ${running.count === 1 ? "mention" : "mentions"} of @${name}`;
  const progress = running.finished ? "Delivered; dormant followers see it by the pull path." : "In delivery.";
  $("burst-text").textContent = `Burst ${running.burst}: one notification for each of ${number(running.followers)} followers, in ${number(running.shards)} shards. ${progress}`;
  for (const tier of tiers) {
    const delivery = running.tiers[tier.name];
    if (delivery) tier.update(delivery, running.shards, backlog[tier.name], strictestThrottle(throttles, tier.name));
  }
  accounting.update(running.recipients, running.shards);
}

function showProcesses({ roles, redis }) {
  const items = Object.entries(roles).map(([role, { pid, replaced }]) => {
    const changed = previous?.roles[role] && previous.roles[role].pid !== pid;
    return processItem(role, `process ${pid}${replaced ? `, replaced ${replaced} ×` : ""}`, changed);
  });
  const state = { ok: "answers", rebuilding: "empty, being rebuilt from the store", unavailable: "does not answer; delivery continues without it" }[redis.state];
  $("roles").replaceChildren(...items, processItem("Redis", state, redis.state !== "ok"));
}

const processItem = (name, text, highlighted) => el("li", highlighted ? { class: "changed" } : {}, el("b", {}, name), el("span", {}, text));

// Reports what changed since the previous snapshot, one sentence each.
function reportChanges(system, throttle) {
  for (const [role, { pid }] of Object.entries(system.roles)) {
    const oldPid = previous.roles[role]?.pid;
    if (oldPid && oldPid !== pid) report(`${role} was replaced: process ${oldPid} is now ${pid}.`);
  }
  const { redis, running } = system;
  if (redis.state === "unavailable" && previous.redis.state !== "unavailable") report("Redis does not answer: inboxes read the store, and nothing is lost.");
  if (redis.state === "ok" && generation && redis.generation !== generation) report("Redis was empty: inboxes read the store meanwhile, and the index has been rebuilt from it. Nothing is lost.");
  if (throttle?.state === "ramping" && pauseState === "active") report("P2 resumes over half a minute.");
  pauseState = throttle?.state;
  if (running?.finished && previous.running && !previous.running.finished && running.burst === previous.running.burst) {
    report(`${running.burst} is delivered to all active followers.`);
  }
}

function report(text) {
  setMessage(text);
  log(text);
}

function showConnection(connected) {
  $("connection").className = `chip ${connected ? "live" : "lost"}`;
  const text = connected ? "live" : "reconnecting";
  if ($("connection").textContent !== text) $("connection").textContent = text;
}

connectButtons();
showInbox();
followSystem(showSnapshot, showConnection);
