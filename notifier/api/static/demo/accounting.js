// The accounting of a burst as a bar: each expected user is in exactly one part.

import { el } from "./dom.js";
import { number, USER_STATES } from "./texts.js";

const ESTIMATED = ["suppressed", "parked", "in_flight"]; // extrapolated until all audience snapshots are counted

export class Accounting {
  constructor(bar, list, total) {
    Object.assign(this, { bar, total, parts: {}, numbers: {} });
    for (const [state, text] of Object.entries(USER_STATES)) {
      this.parts[state] = bar.appendChild(el("i", { "data-state": state }));
      this.numbers[state] = el("dd", {}, "–");
      list.append(el("div", {}, el("dt", { "data-state": state }, text), this.numbers[state]));
    }
  }

  update(recipients, shards) {
    const complete = recipients.counted_shards >= shards;
    const counts = { ...recipients };
    let expected = recipients.expected;
    if (!complete && recipients.counted_shards) {
      const factor = shards / recipients.counted_shards;
      expected = Math.round(recipients.expected * factor);
      counts.suppressed = Math.round(recipients.suppressed * factor);
      const left = Math.max(0, expected - counts.suppressed - recipients.delivered - recipients.pulled - recipients.dead);
      counts.parked = recipients.parked ? Math.min(left, Math.round(recipients.parked * factor)) : 0;
      counts.in_flight = left - counts.parked;
    }
    for (const state of Object.keys(USER_STATES)) {
      this.parts[state].style.flexGrow = counts[state];
      this.numbers[state].textContent = (complete || !ESTIMATED.includes(state) ? "" : "≈ ") + number(counts[state]);
    }
    const texts = Object.entries(USER_STATES).map(([state, text]) => `${number(counts[state])} ${text}`);
    this.bar.setAttribute("aria-label", `Of ${number(expected)} expected users: ${texts.join(", ")}`);
    const result = recipients.balanced ? "the accounting balances" : "the accounting does not balance";
    this.total.textContent = complete
      ? `= ${number(expected)} expected by the audience snapshots: ${result}.`
      : `≈ ${number(expected)} expected: ${number(recipients.counted_shards)} of ${number(shards)} audience snapshots counted.`;
  }
}
