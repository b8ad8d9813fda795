// The demo page: shows each snapshot of the system.

import { Books } from "./books.js";
import { controls, held, note, say } from "./doings.js";
import { legend, Tier } from "./map.js";
import { inbox } from "./people.js";
import { look } from "./phones.js";
import { watch } from "./service.js";
import { brief, make, number, TIERS } from "./words.js";

const $ = (id) => document.getElementById(id);
const tiers = Object.keys(TIERS).map((name) => new Tier(name));
const books = new Books($("bar"), $("accounts"), $("sum"));
let before = null;
let generation = null; // generation of the data in Redis when it was last complete

$("tiers").append(...tiers.map((tier) => tier.node));
$("states").append(...legend());

function show(system) {
  $("mentions").textContent = number(system.mentions_per_second);
  $("deliveries").textContent = brief(system.deliveries_per_second);
  $("rows").textContent = brief(system.rows_per_second);
  $("bursts").textContent = number(system.open_bursts);
  const throttle = system.throttles.findLast(({ tier, state }) => tier === "p2" && state === "active") ?? system.throttles.findLast(({ tier }) => tier === "p2");
  if (system.running) running(system, throttle);
  held(throttle);
  roles(system);
  loading(system.loading);
  look();
  if (before) changes(system, throttle);
  if (system.redis.state === "ok") generation = system.redis.generation;
  before = system;
}

// Progress while users and follows are loaded.
function loading(percent) {
  const busy = percent !== null;
  if (busy) say(`${number(percent)} % of the users and their follows are loaded.`);
  else if (before && before.loading !== null) say("All users are loaded. The first mention follows.");
  $("storm").disabled = busy || $("storm").dataset.busy === "yes";
}

function running({ running, backlog, throttles }, throttle) {
  const [, name] = running.burst.match(/:(.*)#/);
  $("named").textContent = `@${name}`;
  $("followers").textContent = number(running.followers);
  $("burst").textContent = `${number(running.count)} ${running.count === 1 ? "mention" : "mentions"} of @${name}`;
  $("grown").textContent = `Burst ${running.burst}: one notification for each of ${number(running.followers)} followers, in ${number(running.shards)} shards. ${running.finished ? "Delivered; dormant followers see it by the pull path." : "In delivery."}`;
  for (const tier of tiers) {
    const given = running.tiers[tier.name];
    if (given) tier.show(given, running.shards, backlog[tier.name], tier.name === "p2" ? throttle : throttles.find((each) => each.tier === tier.name));
  }
  books.show(running.recipients, running.shards);
}

function roles({ roles, redis }) {
  const nodes = Object.entries(roles).map(([role, { pid, replaced }]) => {
    const news = before?.roles[role] && before.roles[role].pid !== pid;
    return chip(role, `process ${pid}${replaced ? `, replaced ${replaced} ×` : ""}`, news);
  });
  const state = { ok: "answers", rebuilding: "empty, being rebuilt from the store", unavailable: "does not answer; delivery continues without it" }[redis.state];
  $("roles").replaceChildren(...nodes, chip("Redis", state, redis.state !== "ok"));
}

const chip = (name, words, news) => make("li", news ? { class: "news" } : {}, make("b", {}, name), make("span", {}, words));

// Changes that no button caused, one sentence each.
function changes(system, throttle) {
  for (const [role, { pid }] of Object.entries(system.roles)) {
    const old = before.roles[role]?.pid;
    if (old && old !== pid) tell(`${role} was replaced: process ${old} is now ${pid}. It continues from the ledger.`);
  }
  const { redis } = system;
  if (redis.state === "unavailable" && before.redis.state !== "unavailable") tell("Redis does not answer: inboxes read the store, and nothing is lost.");
  if (redis.state === "ok" && generation && redis.generation !== generation) tell("Redis was empty: inboxes read the store meanwhile, and the index has been rebuilt from it. Nothing is lost.");
  if (throttle?.state === "ramping" && held.state === "active") tell("The pause is over: P2 resumes over half a minute.");
  held.state = throttle?.state;
  if (system.running?.finished && before.running && !before.running.finished && system.running.burst === before.running.burst) {
    tell(`${system.running.burst} is delivered to all active followers.`);
  }
}

const tell = (words) => (say(words), note(words));

function line(live) {
  $("line").className = `chip ${live ? "live" : "lost"}`;
  const words = live ? "live" : "reconnecting";
  if ($("line").textContent !== words) $("line").textContent = words;
}

controls();
inbox();
watch(show, line);
