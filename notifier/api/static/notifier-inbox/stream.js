// Server-sent events of the inbox: one connection, reopened with exponential, partly random backoff.

import { Refused } from "./api.js";
import { PACE, spread } from "./pace.js";
import { reader } from "./sse.js";

const NO_STREAM = [404, 405, 406, 501];

export class Stream {
  open = false; // the server has sent something over this connection
  failures = 0;
  retry = PACE.backoff;
  notBefore = 0; // the server asked to wait until then, or has no stream

  // `since()` returns the id to resume from. `opened()`, `heard(event)` and `closed(refusal or null)` report events.
  constructor(api, listener) {
    Object.assign(this, { api, listener });
  }

  start() {
    if (this.run) return;
    this.run = new AbortController();
    this.follow(this.run.signal);
  }

  stop() {
    this.run?.abort();
    this.wake?.();
    this.run = null;
    this.open = false;
  }

  // Skips the backoff, but not a wait that the server asked for. Returns whether it connects now.
  hurry() {
    const ready = this.notBefore <= Date.now();
    if (ready) this.wake?.();
    this.start();
    return ready;
  }

  // Timers may have stopped while the machine slept.
  check() {
    if (this.open && Date.now() - this.line.heardAt > PACE.silence) this.line.abort();
  }

  async follow(stopped) {
    while (!stopped.aborted) {
      while (this.notBefore > Date.now() && !stopped.aborted) await this.pause(this.notBefore - Date.now());
      if (stopped.aborted) return;
      const refusal = await this.connect(stopped);
      if (stopped.aborted) return;
      this.open = false;
      // If a proxy cuts each stream quickly, reconnecting must not cost more than polling.
      this.failures = Date.now() - this.line?.openedAt >= this.api.poll ? 1 : this.failures + 1;
      this.notBefore = Date.now() + spread(NO_STREAM.includes(refusal?.status) ? PACE.noStream : (refusal?.retryAfter ?? 0));
      this.listener.closed(refusal);
      if (!stopped.aborted) await this.pause(this.backoff());
    }
  }

  // Returns when the connection has ended, with the error if there was one.
  async connect(stopped) {
    if (!self.TextDecoderStream || !("body" in Response.prototype)) return new Refused(404);
    const line = (this.line = new AbortController());
    try {
      watch(line);
      const answer = await this.api.stream(this.listener.since(), AbortSignal.any([stopped, line.signal]));
      if (!answer.headers.get("content-type")?.startsWith("text/event-stream")) throw new Refused(404);
      await this.read(answer.body.pipeThrough(new TextDecoderStream()).getReader(), line, stopped);
      return null;
    } catch (error) {
      return error instanceof Refused ? error : new Refused(0);
    } finally {
      clearTimeout(line.silence);
      line.abort();
    }
  }

  async read(chunks, line, stopped) {
    const feed = reader((event) => stopped.aborted || this.hear(event));
    for (;;) {
      const { value, done } = await chunks.read();
      if (done || stopped.aborted) return;
      watch(line);
      if (!this.open) this.begin(line);
      feed(value);
    }
  }

  begin(line) {
    this.open = true;
    line.openedAt = Date.now();
    this.listener.opened();
  }

  hear(event) {
    if (event.type === "retry") this.retry = Math.min(Math.max(event.retry, 100), PACE.slowest);
    else this.listener.heard(event);
  }

  // Half of it random, so that clients do not reconnect at the same moment.
  backoff() {
    const longest = Math.min(this.retry * 2 ** Math.max(0, this.failures - 1), PACE.slowest);
    return longest * (0.5 + Math.random() / 2);
  }

  pause(wait) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, wait);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

// A proxy can keep a dead connection open for hours: close it after a silence.
function watch(line) {
  line.heardAt = Date.now();
  clearTimeout(line.silence);
  line.silence = setTimeout(() => line.abort(), PACE.silence);
}
