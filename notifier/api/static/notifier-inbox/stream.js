// The live line: the stream while there is one, polling while there is none; it comes back by itself.

import { Refused } from "./api.js";
import { FAILURES_BEFORE_POLLING, PACE } from "./pace.js";
import { reader } from "./sse.js";

export class Stream {
  failures = 0;
  retry = PACE.backoff;
  missing = 0; // until when there is no stream to be had
  over = false;

  // `since()` is the id to go on from, `hear(event)` for what the stream says, `poll()` where there is none, `lost(error)` and
  // `found()` as the line comes and goes.
  constructor(api, listener) {
    Object.assign(this, { api, listener });
    this.run();
  }

  stop() {
    this.over = true;
    this.line?.abort();
    this.wake?.();
  }

  // There is reason to believe that it works again: don't wait any longer.
  hurry() {
    this.wake?.();
  }

  async run() {
    while (!this.over) {
      const error = await this.listen();
      if (this.over) return;
      if (error?.status === 401) this.stop(); // until there is another token
      const poll = this.failures >= FAILURES_BEFORE_POLLING;
      if (error) this.listener.lost(error);
      if (this.over) return;
      if (poll) await this.listener.poll();
      // Where nobody answers at all, what comes back soon is found soon.
      const wait = poll && this.missing > Date.now() ? this.api.poll : this.backoff();
      await this.pause(Math.max(error?.retryAfter ?? 0, wait));
    }
  }

  // Returns when the line has ended, with the refusal if there was one.
  async listen() {
    if (this.missing > Date.now()) return null;
    this.line = new AbortController();
    try {
      this.listenClosely();
      const answer = await this.api.stream(this.listener.since(), this.line.signal);
      if (!answer.headers.get("content-type")?.startsWith("text/event-stream")) throw new Refused(404);
      await this.read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
      this.failures += 1;
      return null;
    } catch (error) {
      const refused = error instanceof Refused ? error : new Refused(0);
      this.failures += 1;
      if ([404, 405, 406, 501].includes(refused.status)) {
        this.failures = FAILURES_BEFORE_POLLING;
        this.missing = Date.now() + PACE.noStream;
        return null;
      }
      return refused;
    } finally {
      clearTimeout(this.watch);
    }
  }

  async read(chunks) {
    const feed = reader((event) => this.hear(event));
    for (;;) {
      const { value, done } = await chunks.read();
      if (done) return;
      this.listenClosely();
      if (this.failures) this.listener.found();
      this.failures = 0;
      feed(value);
    }
  }

  hear(event) {
    if (this.over) return;
    if (event.type === "retry") this.retry = Math.min(Math.max(event.retry, 100), PACE.slowest);
    else this.listener.hear(event);
  }

  // A proxy may keep a dead line open for hours: silence ends it.
  listenClosely() {
    clearTimeout(this.watch);
    this.watch = setTimeout(() => this.line.abort(), PACE.silence);
  }

  // Half by chance, so that a crowd that was cut off together doesn't return together.
  backoff() {
    const most = Math.min(this.retry * 2 ** Math.max(0, this.failures - 1), PACE.slowest);
    return most * (0.5 + Math.random() / 2);
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
