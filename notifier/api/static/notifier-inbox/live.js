// Follows the inbox by the stream, or by polling while it is closed. A hidden browser tab sends no requests.

import { PACE, spread } from "./pace.js";
import { Stream } from "./stream.js";

export const hidden = () => document.visibilityState === "hidden";

export class Live {
  on = false;
  polling = null; // the timer of the next poll
  asked = 0; // when the newest page was last requested

  // `since()` and `hear(event)` belong to the stream. `load()` polls. `lost(refusal)` and `found()` report the connection.
  constructor(api, listener) {
    Object.assign(this, { api, listener });
    this.stream = new Stream(api, {
      since: listener.since,
      heard: listener.hear,
      opened: () => this.opened(),
      closed: (refusal) => this.closed(refusal),
    });
  }

  start() {
    this.on = true;
    this.stream.start();
    if (hidden()) this.rest();
    else this.poll(this.api.poll);
  }

  stop() {
    this.on = false;
    this.stream.stop();
    clearTimeout(this.resting);
    this.quiet();
  }

  // The network probably works again.
  hurry() {
    this.stream.check();
    if (!this.stream.open) this.stream.hurry();
  }

  // The visibility of the browser tab changed.
  turned() {
    clearTimeout(this.resting);
    if (!this.on) return;
    this.stream.check();
    if (hidden()) {
      this.quiet();
      if (this.stream.open) this.rest();
      else this.stream.stop();
    } else if (!this.stream.open) {
      const wait = this.stream.hurry() ? PACE.settle : 0; // the stream may make the load unnecessary
      this.poll(Math.max(wait, this.asked + PACE.again - Date.now()));
    }
  }

  // A browser has six connections per host, for all tabs together.
  rest() {
    this.resting = setTimeout(() => this.stream.stop(), PACE.hidden);
  }

  opened() {
    this.quiet();
    this.listener.found();
  }

  closed(refusal) {
    if (hidden()) this.stream.stop();
    else if (!this.polling) this.poll(this.api.poll);
    if (refusal) this.listener.lost(refusal);
  }

  poll(wait) {
    this.quiet();
    this.polling = setTimeout(() => this.ask(), spread(wait));
  }

  async ask() {
    const refusal = await this.listener.load();
    if (this.polling) this.poll(Math.max(this.api.poll, refusal?.retryAfter ?? 0));
  }

  // Any load of the newest page counts as a poll.
  loads() {
    this.asked = Date.now();
    if (this.polling) this.poll(this.api.poll);
  }

  quiet() {
    clearTimeout(this.polling);
    this.polling = null;
  }
}
