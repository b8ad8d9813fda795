// The accounting of a burst as a bar: each expected user is in exactly one part of it.

import { el } from "./dom.js";
import { number, USER_STATES } from "./texts.js";

const ESTIMATED = ["suppressed", "parked", "in_flight"]; // until all shards have an audience snapshot

export class Accounting {
  constructor(bar, list, total) {
    Object.assign(this, { bar, total, parts: {}, numbers: {} });
    for (const [state, text] of Object.entries(USER_STATES)) {
      this.parts[state] = bar.appendChild(el("i", { "data-state": state }));
      this.numbers[state] = el("dd", {}, "–");
      list.append(el("div", {}, el("dt", { "data-state": state }, text), this.numbers[state]));
    }
  }

  // Until all shards have an audience snapshot, the numbers are extrapolated from the shards that have one.
  update(books, shards) {
    const complete = books.counted_shards >= shards;
    const counts = { ...books };
    let expected = books.expected;
    if (!complete && books.counted_shards) {
      const factor = shards / books.counted_shards;
      expected = Math.round(books.expected * factor);
      counts.suppressed = Math.round(books.suppressed * factor);
      const left = Math.max(0, expected - counts.suppressed - books.delivered - books.pulled - books.dead);
      counts.parked = books.parked ? Math.min(left, Math.round(books.parked * factor)) : 0;
      counts.in_flight = left - counts.parked;
    }
    for (const state of Object.keys(USER_STATES)) {
      this.parts[state].style.flexGrow = counts[state];
      this.numbers[state].textContent = (complete || !ESTIMATED.includes(state) ? "" : "≈ ") + number(counts[state]);
    }
    const texts = Object.entries(USER_STATES).map(([state, text]) => `${number(counts[state])} ${text}`);
    this.bar.setAttribute("aria-label", `Of ${number(expected)} expected users: ${texts.join(", ")}`);
    const result = books.balanced ? "the accounting balances" : "the accounting does not balance";
    this.total.textContent = complete
      ? `= ${number(expected)} expected by the audience snapshots: ${result}.`
      : `≈ ${number(expected)} expected: ${number(books.counted_shards)} of ${number(shards)} audience snapshots counted.`;
  }
}
