// Keeps the inbox current by the stream, or by polling while the stream is closed.

import { Stream } from "./event-stream.js";
import { TIMING, jitter } from "./delays-and-limits.js";

export const isHidden = () => document.visibilityState === "hidden";

export class LiveUpdates {
  active = false;
  pollTimer = null;
  requestedAt = 0; // when the newest page was last requested

  // The stream uses `since()` and `onEvent(event)`. `load()` polls. `onDisconnect(error)` and `onConnect()` report the
  // connection.
  constructor(api, listener) {
    Object.assign(this, { api, listener });
    this.stream = new Stream(api, {
      since: listener.since,
      onEvent: listener.onEvent,
      onOpen: () => this.onOpen(),
      onClose: (error) => this.onClose(error),
    });
  }

  start() {
    this.active = true;
    this.stream.start();
    if (isHidden()) this.scheduleClose();
    else this.schedulePoll(this.api.pollInterval);
  }

  stop() {
    this.active = false;
    this.stream.stop();
    clearTimeout(this.closeTimer);
    this.stopPolling();
  }

  // Call it when the network probably works again.
  reconnect() {
    this.stream.closeIfSilent();
    if (!this.stream.open) this.stream.reconnect();
  }

  onVisibilityChange() {
    clearTimeout(this.closeTimer);
    if (!this.active) return;
    this.stream.closeIfSilent();
    if (isHidden()) {
      this.stopPolling();
      if (this.stream.open) this.scheduleClose();
      else this.stream.stop();
    } else if (!this.stream.open) {
      const delay = this.stream.reconnect() ? TIMING.debounce : 0; // the stream may make the load unnecessary
      this.schedulePoll(Math.max(delay, this.requestedAt + TIMING.maxDebounce - Date.now()));
    }
  }

  // Closes the stream of a hidden tab later. A browser allows six connections per host, for all tabs together.
  scheduleClose() {
    this.closeTimer = setTimeout(() => this.stream.stop(), TIMING.hiddenTab);
  }

  onOpen() {
    this.stopPolling();
    this.listener.onConnect();
  }

  onClose(error) {
    if (isHidden()) this.stream.stop();
    else if (!this.pollTimer) this.schedulePoll(this.api.pollInterval);
    if (error) this.listener.onDisconnect(error);
  }

  schedulePoll(delay) {
    this.stopPolling();
    this.pollTimer = setTimeout(() => this.poll(), jitter(delay));
  }

  async poll() {
    const error = await this.listener.load();
    if (this.pollTimer) this.schedulePoll(Math.max(this.api.pollInterval, error?.retryAfter ?? 0));
  }

  // Delays the next poll, because any load of the newest page counts as one.
  onPageRequest() {
    this.requestedAt = Date.now();
    if (this.pollTimer) this.schedulePoll(this.api.pollInterval);
  }

  stopPolling() {
    clearTimeout(this.pollTimer);
    this.pollTimer = null;
  }
}
