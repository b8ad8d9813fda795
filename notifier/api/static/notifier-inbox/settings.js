// Dialog for account-wide preferences: loads the current ones and sends the changed ones.

import { button, el } from "./dom.js";
import { SETTINGS_TEXTS } from "./settings-texts.js";

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
.settings { inline-size: min(440px, 100vw - 32px); max-block-size: calc(100dvh - 32px); margin: auto; padding: 20px 24px; overflow: auto; border: 1px solid var(--border); border-radius: 16px;
  color: var(--text); background: var(--popup); box-shadow: var(--shadow); }
.settings::backdrop { background: rgb(0 0 0 / .4); }
.settings form, .fields { display: grid; grid-template-columns: minmax(0, 1fr); gap: 16px; }
.settings h3 { font-size: 17px; font-weight: 680; outline: none; }
.settings fieldset { display: grid; grid-template-columns: minmax(0, 1fr); gap: 2px; min-inline-size: 0; padding: 0; border: 0; }
.settings legend { padding: 0; margin-block-end: 4px; font-size: 13.5px; font-weight: 620; color: var(--muted); }
.choice { display: grid; grid-template-columns: 20px 1fr; gap: 12px; align-items: center; min-block-size: 44px; padding-block: 4px; cursor: pointer; }
.choice input { inline-size: 18px; block-size: 18px; margin: 0; accent-color: var(--accent); }
.hours { display: grid; grid-template-columns: repeat(auto-fit, minmax(136px, 1fr)); gap: 12px; padding-block: 4px; }
.field { display: grid; gap: 4px; min-inline-size: 0; font-size: 13.5px; color: var(--muted); }
.field :is(input, select) { font: inherit; font-size: 16px; inline-size: 100%; min-block-size: 44px; padding: 8px 10px; border-radius: 8px; border: 1px solid var(--muted); color: var(--text); background: var(--surface); }
.hint { color: var(--muted); }
.error { color: light-dark(#b3261e, #ffb4ab); }
.error:empty { display: none; }
.buttons { display: flex; justify-content: flex-end; align-items: center; gap: 8px; }
.buttons button { margin: 0; min-block-size: 40px; }
.primary:disabled { opacity: .5; cursor: default; }
`);

const VOLUMES = ["all", "first", "digest", "off"];
const DEFAULT_QUIET_HOURS = { from: "22:00", to: "07:00" };

export class Settings {
  constructor(inbox) {
    this.inbox = inbox;
    this.texts = { ...SETTINGS_TEXTS, ...inbox.texts };
  }

  open() {
    const { texts, inbox: { view } } = this;
    if (this.dialog || this.inbox.closed) return;
    this.body = el("div", { class: "fields" }, el("p", { class: "hint" }, texts.settingsLoading));
    this.error = el("p", { class: "error", role: "alert" });
    this.save = el("button", { type: "submit", class: "primary", disabled: true }, texts.save);
    const heading = el("h3", { id: "settings", tabindex: "-1", autofocus: true }, texts.settings);
    const buttons = el("div", { class: "buttons" }, button({ class: "older", onclick: () => this.close() }, texts.cancel), this.save);
    const form = el("form", { onsubmit: (event) => this.send(event) }, heading, this.body, this.error, buttons);
    this.dialog = el("dialog", { class: "settings", "aria-labelledby": "settings", onclose: () => this.onClose(), onkeydown: (event) => event.stopPropagation() }, form);
    const root = view.gear.getRootNode();
    if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets.push(sheet);
    view.gear.after(this.dialog);
    this.dialog.showModal();
    this.load();
  }

  close() {
    this.dialog?.close();
  }

  onClose() {
    this.dialog?.remove();
    this.dialog = null;
    this.inbox.view.gear.focus();
  }

  async load() {
    const { texts, inbox: { api } } = this;
    const dialog = this.dialog;
    try {
      const current = await api.preferences();
      if (this.dialog === dialog) this.render(current);
    } catch {
      if (this.dialog !== dialog) return;
      this.body.replaceChildren(el("p", { class: "hint" }, texts.settingsFailed));
      this.body.append(button({ class: "link", onclick: () => this.load() }, texts.retry));
    }
  }

  render(current) {
    const { texts } = this;
    this.current = current;
    const volumes = VOLUMES.map((volume) => radio(texts.volumes[volume], { name: "volume", value: volume, checked: current.volume === volume, onchange: () => this.updateFields() }));
    this.push = checkbox(current.push);
    this.quiet = checkbox(Boolean(current.quiet_hours), () => this.updateFields());
    const hours = current.quiet_hours ?? DEFAULT_QUIET_HOURS;
    this.from = el("input", { type: "time", required: true, value: hours.from });
    this.to = el("input", { type: "time", required: true, value: hours.to });
    this.zone = el("select", {}, ...timeZones(current).map((name) => el("option", { value: name, selected: name === initialTimeZone(current) }, name.replaceAll("_", " "))));
    this.quietFields = el("div", { class: "hours" }, field(texts.quietFrom, this.from), field(texts.quietTo, this.to));
    this.digestHour = el("select", { onchange: () => this.updateFields() }, ...hourOptions(this.inbox.view.times.lang, current.digest_hour));
    this.zoneField = field(texts.timeZone, this.zone);
    this.mentions = el("select", {}, ...Object.entries(texts.mentionsBy).map(([value, text]) => el("option", { value, selected: value === current.mentions }, text)));
    this.body.replaceChildren(
      el("fieldset", {}, el("legend", {}, texts.volume), ...volumes),
      el("fieldset", {}, el("legend", {}, texts.alerts), labeled(this.push, texts.push), labeled(this.quiet, texts.quietHours), this.quietFields),
      el("fieldset", {}, el("legend", {}, texts.digest), el("div", { class: "hours" }, field(texts.digestHour, this.digestHour))),
      this.zoneField,
      field(texts.mentions, this.mentions),
    );
    this.save.disabled = false;
    this.updateFields();
  }

  usesTimeZone() {
    return this.quiet.checked || this.volume() === "digest" || usesDigest(this.current) || Number(this.digestHour.value) !== this.current.digest_hour;
  }

  volume() {
    return this.body.querySelector("[name=volume]:checked")?.value ?? this.current.volume;
  }

  updateFields() {
    this.quietFields.hidden = !this.quiet.checked;
    this.zoneField.hidden = !this.usesTimeZone();
    for (const input of [this.from, this.to]) input.disabled = !this.quiet.checked;
  }

  // Returns the changed settings only, so that changes by other devices are kept. `push` is also returned if its box is
  // checked only by default: saving the form then asks for alerts explicitly.
  changes() {
    const { current } = this;
    const hours = this.quiet.checked ? { from: this.from.value, to: this.to.value } : null;
    const time_zone = this.usesTimeZone() ? this.zone.value : current.time_zone;
    const values = { volume: this.volume(), push: this.push.checked, quiet_hours: hours, time_zone, digest_hour: Number(this.digestHour.value), mentions: this.mentions.value };
    const changed = Object.entries(values).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(current[name]));
    return { ...(values.push && !current.asked && { push: true }), ...Object.fromEntries(changed) };
  }

  async send(event) {
    event.preventDefault();
    const { texts, inbox } = this;
    const [change, dialog] = [this.changes(), this.dialog];
    if (this.quiet.checked && this.from.value === this.to.value) return this.showError(texts.quietEqual);
    if (!Object.keys(change).length) return this.close();
    this.save.disabled = true;
    try {
      await inbox.api.updatePreferences(change);
    } catch {
      if (!inbox.closed && this.dialog === dialog) this.showError(texts.uncertain);
      return;
    }
    if (inbox.closed) return;
    if (this.dialog === dialog) this.close();
    inbox.actions.showToast(texts.saved);
    inbox.load();
  }

  showError(text) {
    this.error.textContent = text;
    this.save.disabled = false;
  }
}

// Suggests the time zone of the browser, as long as the stored one is UTC, the default, and no setting depends on it.
function initialTimeZone(current) {
  const { time_zone, quiet_hours } = current;
  return time_zone === "UTC" && !quiet_hours && !usesDigest(current) ? browserTimeZone() : time_zone;
}

// Whether digests are chosen for all notifications, or for one account.
function usesDigest({ volume, preferences = [] }) {
  return [volume, ...preferences.map((preference) => preference.volume)].includes("digest");
}

function hourOptions(lang, selected) {
  const format = new Intl.DateTimeFormat(lang, { hour: "numeric", minute: "2-digit", timeZone: "UTC" });
  return Array.from({ length: 24 }, (_, hour) => el("option", { value: hour, selected: hour === selected }, format.format(Date.UTC(2000, 0, 1, hour))));
}

function timeZones(current) {
  return [...new Set(["UTC", browserTimeZone(), current.time_zone, ...Intl.supportedValuesOf("timeZone")])].sort();
}

function browserTimeZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";
}

function checkbox(checked, onchange = () => {}) {
  return el("input", { type: "checkbox", checked, onchange });
}

function radio(text, attributes) {
  return labeled(el("input", { type: "radio", ...attributes }), text);
}

function labeled(input, text) {
  return el("label", { class: "choice" }, input, el("span", {}, text));
}

function field(text, input) {
  return el("label", { class: "field" }, el("span", {}, text), input);
}
