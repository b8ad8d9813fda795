// Dialog for account-wide preferences: loads the current ones and sends the changed ones.

import { el } from "./dom.js";
import { SETTINGS_WORDS } from "./settings-words.js";

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.settings { inline-size: min(440px, 100vw - 32px); max-block-size: calc(100dvh - 32px); margin: auto; padding: 20px 24px; overflow: auto; border: 1px solid var(--line); border-radius: 16px;
  color: var(--ink); background: var(--raised); box-shadow: var(--shadow); }
.settings::backdrop { background: rgb(0 0 0 / .4); }
.settings form, .fields { display: grid; grid-template-columns: minmax(0, 1fr); gap: 16px; }
.settings h3 { font-size: 17px; font-weight: 680; outline: none; }
.settings fieldset { display: grid; grid-template-columns: minmax(0, 1fr); gap: 2px; min-inline-size: 0; padding: 0; border: 0; }
.settings legend { padding: 0; margin-block-end: 4px; font-size: 13.5px; font-weight: 620; color: var(--soft); }
.choice { display: grid; grid-template-columns: 20px 1fr; gap: 12px; align-items: center; min-block-size: 44px; padding-block: 4px; cursor: pointer; }
.choice input { inline-size: 18px; block-size: 18px; margin: 0; accent-color: var(--accent); }
.hours { display: grid; grid-template-columns: repeat(auto-fit, minmax(136px, 1fr)); gap: 12px; padding-block: 4px; }
.named { display: grid; gap: 4px; min-inline-size: 0; font-size: 13.5px; color: var(--soft); }
.named :is(input, select) { font: inherit; font-size: 16px; inline-size: 100%; min-block-size: 44px; padding: 8px 10px; border-radius: 8px; border: 1px solid var(--soft); color: var(--ink); background: var(--paper); }
.hint { color: var(--soft); }
.wrong { color: light-dark(#b3261e, #ffb4ab); }
.wrong:empty { display: none; }
.done { display: flex; justify-content: flex-end; align-items: center; gap: 8px; }
.done button { margin: 0; min-block-size: 40px; }
.retry:disabled { opacity: .5; cursor: default; }
`);

const VOLUMES = ["all", "first", "digest", "off"];
const NIGHT = { from: "22:00", to: "07:00" };

export class Settings {
  constructor(inbox) {
    this.inbox = inbox;
    this.words = { ...SETTINGS_WORDS, ...inbox.words };
  }

  arrange() {
    const { words, inbox: { view, ended } } = this;
    if (this.dialog || ended.signal.aborted) return;
    this.body = el("div", { class: "fields" }, el("p", { class: "hint" }, words.settingsLoading));
    this.wrong = el("p", { class: "wrong", role: "alert" });
    this.save = el("button", { type: "submit", class: "retry", disabled: true }, words.save);
    const heading = el("h3", { id: "settings", tabindex: "-1", autofocus: true }, words.settings);
    const done = el("div", { class: "done" }, el("button", { type: "button", class: "older", onclick: () => this.close() }, words.cancel), this.save);
    const form = el("form", { onsubmit: (event) => this.send(event) }, heading, this.body, this.wrong, done);
    this.dialog = el("dialog", { class: "settings", "aria-labelledby": "settings", onclose: () => this.gone(), onkeydown: (event) => event.stopPropagation() }, form);
    const root = view.gear.getRootNode();
    if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets.push(sheet);
    view.gear.after(this.dialog);
    this.dialog.showModal();
    this.load();
  }

  close() {
    this.dialog?.close();
  }

  gone() {
    this.dialog?.remove();
    this.dialog = null;
    this.inbox.view.gear.focus();
  }

  async load() {
    const { words, inbox: { api } } = this;
    const dialog = this.dialog;
    try {
      const stands = await api.preferences();
      if (this.dialog === dialog) this.fill(stands);
    } catch {
      if (this.dialog !== dialog) return;
      this.body.replaceChildren(el("p", { class: "hint" }, words.settingsFailed));
      this.body.append(el("button", { type: "button", class: "link", onclick: () => this.load() }, words.retry));
    }
  }

  fill(stands) {
    const { words } = this;
    this.stands = stands;
    const volumes = VOLUMES.map((volume) => choice("radio", words.volumes[volume], { name: "volume", value: volume, checked: stands.volume === volume, onchange: () => this.opened() }));
    this.push = box(stands.push);
    this.quiet = box(Boolean(stands.quiet_hours), () => this.opened());
    const hours = stands.quiet_hours ?? NIGHT;
    this.from = el("input", { type: "time", required: true, value: hours.from });
    this.to = el("input", { type: "time", required: true, value: hours.to });
    this.zone = el("select", {}, ...zones(stands).map((name) => el("option", { value: name, selected: name === zoneOf(stands) }, name.replaceAll("_", " "))));
    this.hours = el("div", { class: "hours" }, named(words.quietFrom, this.from), named(words.quietTo, this.to));
    this.hour = el("select", { onchange: () => this.opened() }, ...hoursOf(this.inbox.view.times.lang, stands.digest_hour));
    this.place = named(words.timeZone, this.zone);
    this.mentions = el("select", {}, ...Object.entries(words.mentionsBy).map(([value, text]) => el("option", { value, selected: value === stands.mentions }, text)));
    this.body.replaceChildren(
      el("fieldset", {}, el("legend", {}, words.volume), ...volumes),
      el("fieldset", {}, el("legend", {}, words.alerts), choiceOf(this.push, words.push), choiceOf(this.quiet, words.quiet), this.hours),
      el("fieldset", {}, el("legend", {}, words.digest), el("div", { class: "hours" }, named(words.digestHour, this.hour))),
      this.place,
      named(words.mentions, this.mentions),
    );
    this.save.disabled = false;
    this.opened();
  }

  // Whether any setting depends on the user's time zone.
  timed() {
    return this.quiet.checked || this.volume() === "digest" || digests(this.stands) || Number(this.hour.value) !== this.stands.digest_hour;
  }

  volume() {
    return this.body.querySelector("[name=volume]:checked")?.value ?? this.stands.volume;
  }

  opened() {
    this.hours.hidden = !this.quiet.checked;
    this.place.hidden = !this.timed();
    for (const field of [this.from, this.to]) field.disabled = !this.quiet.checked;
  }

  // Only changed settings are sent, so that changes by other devices are kept. Alerts are also sent if the box is checked
  // by default: saving it asks for alerts.
  changes() {
    const { stands } = this;
    const hours = this.quiet.checked ? { from: this.from.value, to: this.to.value } : null;
    const time_zone = this.timed() ? this.zone.value : stands.time_zone;
    const said = { volume: this.volume(), push: this.push.checked, quiet_hours: hours, time_zone, digest_hour: Number(this.hour.value), mentions: this.mentions.value };
    const changed = Object.entries(said).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(stands[name]));
    return { ...(said.push && !stands.asked && { push: true }), ...Object.fromEntries(changed) };
  }

  async send(event) {
    event.preventDefault();
    const { words, inbox: { api, deeds, ended } } = this;
    const [change, dialog] = [this.changes(), this.dialog];
    if (this.quiet.checked && this.from.value === this.to.value) return this.complain(words.quietSame);
    if (!Object.keys(change).length) return this.close();
    this.save.disabled = true;
    try {
      await api.arrange(change);
    } catch {
      if (!ended.signal.aborted && this.dialog === dialog) this.complain(words.unsure);
      return;
    }
    if (ended.signal.aborted) return;
    if (this.dialog === dialog) this.close();
    deeds.say(words.saved);
    this.inbox.load();
  }

  complain(text) {
    this.wrong.textContent = text;
    this.save.disabled = false;
  }
}

// Without a stored time zone, the browser's applies.
function zoneOf(stands) {
  const { time_zone, quiet_hours } = stands;
  return time_zone === "UTC" && !quiet_hours && !digests(stands) ? here() : time_zone;
}

// For all notifications, or for one account.
function digests({ volume, preferences = [] }) {
  return [volume, ...preferences.map((one) => one.volume)].includes("digest");
}

function hoursOf(lang, chosen) {
  const clock = new Intl.DateTimeFormat(lang, { hour: "numeric", minute: "2-digit", timeZone: "UTC" });
  return Array.from({ length: 24 }, (_, hour) => el("option", { value: hour, selected: hour === chosen }, clock.format(Date.UTC(2000, 0, 1, hour))));
}

function zones(stands) {
  return [...new Set(["UTC", here(), stands.time_zone, ...Intl.supportedValuesOf("timeZone")])].sort();
}

function here() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";
}

function box(checked, onchange = () => {}) {
  return el("input", { type: "checkbox", checked, onchange });
}

function choice(type, text, attributes) {
  return choiceOf(el("input", { type, ...attributes }), text);
}

function choiceOf(input, text) {
  return el("label", { class: "choice" }, input, el("span", {}, text));
}

function named(text, input) {
  return el("label", { class: "named" }, el("span", {}, text), input);
}
