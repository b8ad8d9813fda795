// The accounting of a burst as a bar: each expected user is in exactly one part of it.

import { ACCOUNTS, make, number } from "./words.js";

export class Books {
  constructor(bar, accounts, sum) {
    Object.assign(this, { bar, sum, parts: {}, numbers: {} });
    for (const [name, words] of Object.entries(ACCOUNTS)) {
      this.parts[name] = bar.appendChild(make("i", { "data-of": name }));
      this.numbers[name] = make("dd", {}, "–");
      accounts.append(make("div", {}, make("dt", { "data-of": name }, words), this.numbers[name]));
    }
  }

  // Until all shards have an audience snapshot, the numbers are extrapolated from the shards that have one.
  show(books, shards) {
    const whole = books.counted_shards >= shards;
    const known = { ...books };
    let expected = books.expected;
    if (!whole && books.counted_shards) {
      const grow = shards / books.counted_shards;
      expected = Math.round(books.expected * grow);
      known.suppressed = Math.round(books.suppressed * grow);
      const left = Math.max(0, expected - known.suppressed - books.delivered - books.pulled - books.dead);
      known.parked = books.parked ? Math.min(left, Math.round(books.parked * grow)) : 0;
      known.in_flight = left - known.parked;
    }
    for (const name of Object.keys(ACCOUNTS)) {
      this.parts[name].style.flexGrow = known[name];
      this.numbers[name].textContent = (whole || !["suppressed", "parked", "in_flight"].includes(name) ? "" : "≈ ") + number(known[name]);
    }
    const words = Object.entries(ACCOUNTS).map(([name, word]) => `${number(known[name])} ${word}`);
    this.bar.setAttribute("aria-label", `Of ${number(expected)} expected users: ${words.join(", ")}`);
    const check = books.balanced ? "the accounting balances" : "the accounting does not balance";
    this.sum.textContent = whole ? `= ${number(expected)} expected by the audience snapshots: ${check}.` : `≈ ${number(expected)} expected: ${number(books.counted_shards)} of ${number(shards)} audience snapshots counted.`;
  }
}
