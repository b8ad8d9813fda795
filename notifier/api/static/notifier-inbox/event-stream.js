// Server-sent events of the inbox: one connection, reopened with exponential, partly random backoff.

import { RequestError } from "./api.js";
import { eventParser } from "./event-stream-parser.js";
import { TIMING, jitter } from "./delays-and-limits.js";

const UNSUPPORTED = [404, 405, 406, 501]; // statuses of a server without the stream

export class Stream {
  open = false; // the server has sent something over this connection
  failures = 0; // consecutive connections that failed or ended early
  retry = TIMING.minBackoff; // backoff after the first failure in milliseconds; the server may set it
  notBefore = 0; // time before which there is no attempt: the server asked to wait, or has no stream

  // `since()` returns the id to resume from. `onOpen()`, `onEvent(event)` and `onClose(error or null)` report events.
  constructor(api, listener) {
    Object.assign(this, { api, listener });
  }

  start() {
    if (this.abort) return;
    this.abort = new AbortController();
    this.run(this.abort.signal);
  }

  stop() {
    this.abort?.abort();
    this.endSleep?.();
    this.abort = null;
    this.open = false;
  }

  // Skips the backoff, but not a wait that the server asked for. Returns whether it connects now.
  reconnect() {
    const ready = this.notBefore <= Date.now();
    if (ready) this.endSleep?.();
    this.start();
    return ready;
  }

  // Closes a connection that was silent for too long. The silence timer stops while the machine sleeps.
  closeIfSilent() {
    if (this.open && Date.now() - this.connection.lastDataAt > TIMING.silence) this.connection.abort();
  }

  async run(signal) {
    while (!signal.aborted) {
      while (this.notBefore > Date.now() && !signal.aborted) await this.sleep(this.notBefore - Date.now());
      if (signal.aborted) return;
      const error = await this.connect(signal);
      if (signal.aborted) return;
      this.open = false;
      // A connection that is shorter than the poll interval counts as a failure: if a proxy cuts each stream quickly,
      // reconnecting must not cost more than polling.
      this.failures = Date.now() - this.connection?.openedAt >= this.api.pollInterval ? 1 : this.failures + 1;
      this.notBefore = Date.now() + jitter(UNSUPPORTED.includes(error?.status) ? TIMING.noStream : (error?.retryAfter ?? 0));
      this.listener.onClose(error);
      if (!signal.aborted) await this.sleep(this.backoff());
    }
  }

  // Returns when the connection has ended, with the error if there was one.
  async connect(signal) {
    if (!self.TextDecoderStream || !("body" in Response.prototype)) return new RequestError(404);
    const connection = (this.connection = new AbortController());
    try {
      restartSilenceTimer(connection);
      const response = await this.api.stream(this.listener.since(), AbortSignal.any([signal, connection.signal]));
      if (!response.headers.get("content-type")?.startsWith("text/event-stream")) throw new RequestError(404);
      await this.read(response.body.pipeThrough(new TextDecoderStream()).getReader(), connection, signal);
      return null;
    } catch (error) {
      return error instanceof RequestError ? error : new RequestError(0);
    } finally {
      clearTimeout(connection.silenceTimer);
      connection.abort();
    }
  }

  async read(reader, connection, signal) {
    const parse = eventParser((event) => signal.aborted || this.onEvent(event));
    for (;;) {
      const { value, done } = await reader.read();
      if (done || signal.aborted) return;
      restartSilenceTimer(connection);
      if (!this.open) this.onOpen(connection);
      parse(value);
    }
  }

  onOpen(connection) {
    this.open = true;
    connection.openedAt = Date.now();
    this.listener.onOpen();
  }

  onEvent(event) {
    if (event.type === "retry") this.retry = Math.min(Math.max(event.retry, 100), TIMING.maxBackoff);
    else this.listener.onEvent(event);
  }

  // Returns the delay before the next attempt. Half of it is random, so that clients do not reconnect at the same time.
  backoff() {
    const longest = Math.min(this.retry * 2 ** Math.max(0, this.failures - 1), TIMING.maxBackoff);
    return longest * (0.5 + Math.random() / 2);
  }

  sleep(delay) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, delay);
      this.endSleep = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

// A proxy can keep a dead connection open for hours: close it when it is silent for too long.
function restartSilenceTimer(connection) {
  connection.lastDataAt = Date.now();
  clearTimeout(connection.silenceTimer);
  connection.silenceTimer = setTimeout(() => connection.abort(), TIMING.silence);
}
