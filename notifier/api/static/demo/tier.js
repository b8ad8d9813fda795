// One tier of the running burst: a cell for each shard of 131,072 users, and the delay of the tier.

import { el } from "./dom.js";
import { isPause, number, seconds, SHARD_STATES, TIERS } from "./texts.js";

const MAX_HEIGHT = 150; // pixels of the map
const [MIN_PITCH, MAX_PITCH] = [5, 22]; // pixels from one cell to the next
const HISTORY = 120; // seconds
const SVG = "http://www.w3.org/2000/svg";

export class Tier {
  history = []; // delays in seconds, one per second

  constructor(name) {
    this.name = name;
    this.canvas = el("canvas", { role: "img", "aria-label": `${name}: no burst yet` });
    this.reached = el("p", { class: "reached" });
    this.delay = el("span");
    this.chart = document.createElementNS(SVG, "svg");
    this.chart.setAttribute("viewBox", `0 0 ${HISTORY} 26`);
    this.chart.setAttribute("preserveAspectRatio", "none");
    this.chart.setAttribute("aria-hidden", "true");
    this.line = this.chart.appendChild(document.createElementNS(SVG, "polyline"));
    const heading = el("h3", {}, name.toUpperCase(), el("span", {}, TIERS[name]));
    this.node = el("div", { class: "tier" }, heading, this.canvas, this.reached, el("p", { class: "delay" }, this.delay, this.chart));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  update(tier, shards, backlog, throttle) {
    Object.assign(this, { tier, shards });
    const done = tier.spans.reduce((sum, [first, last, state]) => sum + (state === "done" ? last - first + 1 : 0), 0);
    this.canvas.setAttribute("aria-label", `${this.name}: ${number(done)} of ${number(shards)} shards delivered`);
    const duration = tier.duration_seconds === null ? "so far" : `within ${seconds(tier.duration_seconds)} of the tweet`;
    this.reached.textContent = `${number(tier.people)} ${tier.people === 1 ? "user" : "users"}, ${duration}`;
    this.updateDelay(backlog, throttle);
    this.draw();
  }

  updateDelay(backlog, throttle) {
    const delay = backlog?.delay_seconds ?? null;
    this.history = [...this.history, delay ?? this.history.at(-1) ?? 0].slice(-HISTORY);
    const throttled = throttle && (throttle.state !== "active" ? "ramping up" : isPause(throttle) ? "paused" : "slowed");
    this.delay.textContent = throttled ? `${throttled}, ${number(backlog?.slices ?? 0)} slices left` : delay === null ? "delay unknown" : `${seconds(delay)} behind`;
    const longest = Math.max(1, ...this.history);
    this.line.setAttribute("points", this.history.map((value, index) => `${HISTORY - this.history.length + index},${25 - (value / longest) * 24}`).join(" "));
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (!this.tier || !width || !this.shards) return;
    const pitch = Math.min(MAX_PITCH, Math.max(MIN_PITCH, Math.floor(Math.sqrt((width * MAX_HEIGHT) / this.shards))));
    const columns = Math.max(1, Math.floor(width / pitch));
    const height = Math.ceil(this.shards / columns) * pitch;
    const ratio = devicePixelRatio;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    for (const [first, last, state] of this.tier.spans) {
      context.fillStyle = stateColor(this.canvas, state);
      for (let shard = first; shard <= last; shard++) {
        context.fillRect((shard % columns) * pitch, Math.floor(shard / columns) * pitch, pitch - 1, pitch - 1);
      }
    }
  }
}

// A custom property keeps light-dark() unresolved, so read the color from a node that uses the property.
const probe = el("i", { hidden: "" });
function stateColor(canvas, state) {
  if (!probe.isConnected) canvas.after(probe);
  probe.style.color = `var(--${state})`;
  return getComputedStyle(probe).color;
}

export const legend = () => Object.entries(SHARD_STATES).map(([state, text]) => el("span", { "data-state": state }, text));
