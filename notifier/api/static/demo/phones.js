// Four phones with their alerts, newest first: one line per burst, however often it was sent.

import { ask } from "./service.js";
import { clock, make, PLATFORMS, RINGS } from "./words.js";

const KEPT = 3; // maximum number of lines per phone
const NAMES = { vip: "VIP", active: "Active", occasional: "Occasional", away: "Away" };
const phones = new Map();
let after = 0;
let looking = false;
let seen = false; // alerts from before the page was opened do not animate

// Two requests at a time would show an alert twice.
export async function look() {
  if (looking) return;
  looking = true;
  try {
    const found = await ask("GET", `/demo/phones?after=${after}`);
    for (const each of found.phones) phone(each).show(each, seen);
    after = found.after;
    seen = true;
  } catch {
    // retried with the next snapshot
  }
  looking = false;
}

function phone({ kind }) {
  if (!phones.has(kind)) {
    const made = new Phone(kind);
    phones.set(kind, made);
    document.getElementById("phones").append(made.node);
  }
  return phones.get(kind);
}

class Phone {
  constructor(kind) {
    this.kind = kind;
    this.by = make("span");
    this.lines = make("ol");
    this.rings = make("div", { role: "log", "aria-label": `Alerts of ${NAMES[kind]}` }, this.lines);
    this.node = make("li", {}, make("h3", {}, NAMES[kind], this.by), make("p", { class: "soft" }, RINGS[kind]), this.rings);
    this.node.addEventListener("animationend", () => this.node.classList.remove("buzz"));
  }

  show({ platforms, alerts }, live) {
    this.by.textContent = platforms.map((name) => PLATFORMS[name]).join(", ") || "no device";
    for (const alert of alerts) this.ring(alert, live);
  }

  // A repeated alert replaces the first, as on a real phone.
  ring({ at, place, text, language }, live) {
    const old = [...this.lines.children].find((line) => line.dataset.place === place);
    const times = Number(old?.dataset.times ?? 0) + 1;
    const again = times > 1 ? ` · sent ${times} times` : "";
    const line = make("li", { "data-place": place, "data-times": times }, make("p", { lang: language, dir: "auto" }, text), make("time", { datetime: at }, clock(new Date(at)) + again));
    if (old) old.replaceWith(line);
    else this.lines.prepend(line);
    while (this.lines.children.length > KEPT) this.lines.lastChild.remove();
    if (live && !old) this.node.classList.add("buzz");
  }
}
