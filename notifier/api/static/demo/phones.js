// Four phones with their latest alerts. As on a real phone, an alert replaces an earlier one with the same `place`.

import { requestJson } from "./api.js";
import { $, el } from "./dom.js";
import { PHONE_TEXTS, PLATFORMS, timeOfDay, USERS } from "./texts.js";

const MAX_ALERTS = 3; // per phone
const phones = new Map(); // kind of user to Phone
let after = 0; // offset from which the next request reads
let loading = false;
let loaded = false; // alerts from before the page was opened do not animate

// Loads new alerts. One request at a time: two would show an alert twice.
export async function loadAlerts() {
  if (loading) return;
  loading = true;
  try {
    const response = await requestJson("GET", `/demo/phones?after=${after}`);
    for (const phone of response.phones) phoneOf(phone.kind).update(phone, loaded);
    after = response.after;
    loaded = true;
  } catch {
    // retried with the next snapshot
  }
  loading = false;
}

function phoneOf(kind) {
  if (!phones.has(kind)) {
    const phone = new Phone(kind);
    phones.set(kind, phone);
    $("phones").append(phone.node);
  }
  return phones.get(kind);
}

class Phone {
  constructor(kind) {
    this.platforms = el("span");
    this.list = el("ol");
    const alerts = el("div", { role: "log", "aria-label": `Alerts of ${USERS[kind]}` }, this.list);
    this.node = el("li", {}, el("h3", {}, USERS[kind], this.platforms), el("p", { class: "muted" }, PHONE_TEXTS[kind]), alerts);
    this.node.addEventListener("animationend", () => this.node.classList.remove("buzz"));
  }

  update({ platforms, alerts }, animate) {
    this.platforms.textContent = platforms.map((name) => PLATFORMS[name]).join(", ") || "no device";
    for (const alert of alerts) this.addAlert(alert, animate);
  }

  addAlert({ at, place, text, language }, animate) {
    const old = [...this.list.children].find((item) => item.dataset.place === place);
    const times = Number(old?.dataset.times ?? 0) + 1;
    const repeated = times > 1 ? ` · sent ${times} times` : "";
    const time = el("time", { datetime: at }, timeOfDay(new Date(at)) + repeated);
    const item = el("li", { "data-place": place, "data-times": times }, el("p", { lang: language, dir: "auto" }, text), time);
    if (old) old.replaceWith(item);
    else this.list.prepend(item);
    while (this.list.children.length > MAX_ALERTS) this.list.lastChild.remove();
    if (animate && !old) this.node.classList.add("buzz");
  }
}
