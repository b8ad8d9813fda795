// One tier of the running burst: a cell for each shard of 131,072 users, and the delay of the tier.

import { make, number, seconds, STATES, TIERS } from "./words.js";

const HIGH = 150;
const [SMALLEST, LARGEST] = [5, 22]; // pixels between cells
const KEPT = 120; // seconds of history
const SVG = "http://www.w3.org/2000/svg";

export class Tier {
  history = [];

  constructor(name) {
    this.name = name;
    this.canvas = make("canvas", { role: "img", "aria-label": `${name}: nothing yet` });
    this.reached = make("p", { class: "reached" });
    this.behind = make("span");
    this.spark = document.createElementNS(SVG, "svg");
    this.spark.setAttribute("viewBox", `0 0 ${KEPT} 26`);
    this.spark.setAttribute("preserveAspectRatio", "none");
    this.spark.setAttribute("aria-hidden", "true");
    this.line = this.spark.appendChild(document.createElementNS(SVG, "polyline"));
    const head = make("h3", {}, name.toUpperCase(), make("span", {}, TIERS[name]));
    this.node = make("div", { class: "tier" }, head, this.canvas, this.reached, make("p", { class: "behind" }, this.behind, this.spark));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  show(tier, shards, backlog, throttle) {
    Object.assign(this, { tier, shards });
    const done = tier.spans.reduce((sum, [first, last, state]) => sum + (state === "done" ? last - first + 1 : 0), 0);
    this.canvas.setAttribute("aria-label", `${this.name}: ${number(done)} of ${number(shards)} shards delivered`);
    const took = tier.duration_seconds === null ? "so far" : `within ${seconds(tier.duration_seconds)} of the tweet`;
    this.reached.textContent = `${number(tier.people)} ${tier.people === 1 ? "user" : "users"}, ${took}`;
    this.remember(backlog, throttle);
    this.draw();
  }

  remember(backlog, throttle) {
    const late = backlog?.delay_seconds ?? null;
    this.history = [...this.history, late ?? this.history.at(-1) ?? 0].slice(-KEPT);
    const held = throttle && (throttle.state === "active" ? "paused" : "ramping up");
    this.behind.textContent = held ? `${held}, ${number(backlog?.slices ?? 0)} slices left` : late === null ? "delay unknown" : `${seconds(late)} behind`;
    const most = Math.max(1, ...this.history);
    this.line.setAttribute("points", this.history.map((value, at) => `${KEPT - this.history.length + at},${25 - (value / most) * 24}`).join(" "));
  }

  draw() {
    const wide = this.canvas.clientWidth;
    if (!this.tier || !wide || !this.shards) return;
    const pitch = Math.min(LARGEST, Math.max(SMALLEST, Math.floor(Math.sqrt((wide * HIGH) / this.shards))));
    const columns = Math.max(1, Math.floor(wide / pitch));
    const high = Math.ceil(this.shards / columns) * pitch;
    const ratio = devicePixelRatio;
    if (this.canvas.width !== Math.round(wide * ratio) || this.canvas.height !== Math.round(high * ratio)) {
      this.canvas.width = Math.round(wide * ratio);
      this.canvas.height = Math.round(high * ratio);
      this.canvas.style.height = `${high}px`;
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    for (const [first, last, state] of this.tier.spans) {
      pen.fillStyle = colour(this.canvas, state);
      for (let shard = first; shard <= last; shard++) {
        pen.fillRect((shard % columns) * pitch, Math.floor(shard / columns) * pitch, pitch - 1, pitch - 1);
      }
    }
  }
}

// A custom property keeps light-dark() unresolved; a colour in use is resolved.
const probe = make("i", { hidden: "" });
function colour(canvas, state) {
  if (!probe.isConnected) canvas.after(probe);
  probe.style.color = `var(--${state})`;
  return getComputedStyle(probe).color;
}

export const legend = () => Object.entries(STATES).map(([state, words]) => make("span", { "data-of": state }, words));
