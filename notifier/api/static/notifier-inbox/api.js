// The HTTP API as the element uses it: the token goes into a header and never into an address.

import { LARGEST_PAGE, PACE } from "./pace.js";

// A refusal. `status` 0 means that nobody answered.
export class Refused extends Error {
  constructor(status, code = "", retryAfter = 0) {
    super(code || `status ${status}`);
    Object.assign(this, { status, code, retryAfter });
  }
}

export class Api {
  tag = null;
  version = 0; // counts what has happened beside pages
  poll = PACE.poll;

  // `renew` gives a fresh token of the same person, or null.
  constructor({ base, token, renew }) {
    Object.assign(this, { base: base.replace(/\/+$/, ""), token, renew });
    this.gone = new AbortController();
  }

  close() {
    this.gone.abort();
  }

  // The newest page; null when it is the one that we have.
  async newest(limit) {
    const version = this.version;
    const answer = await this.read(`/v1/inbox?limit=${limit}`, this.tag ? { "If-None-Match": this.tag } : {});
    if (answer.status === 304) return null;
    const page = await body(answer);
    this.tag = version === this.version && !page.partial ? answer.headers.get("etag") : null;
    return page;
  }

  // What is shown may no longer be what the tag stands for.
  touched() {
    this.tag = null;
    this.version += 1;
  }

  async older(cursor, limit = cursor ? LARGEST_PAGE / 2 : LARGEST_PAGE) {
    const query = new URLSearchParams(cursor ? { cursor, limit } : { limit });
    return body(await this.read(`/v1/inbox?${query}`));
  }

  seen(token) {
    return this.write("PUT", "/v1/inbox/seen", { token });
  }

  mark(burst, mark) {
    return this.write("PUT", "/v1/inbox/marks", { bursts: [burst], mark });
  }

  prefer(subject, change) {
    return this.write("PATCH", `/v1/preferences/${encodeURIComponent(subject)}`, change);
  }

  async preferences() {
    return body(await this.ask("/v1/preferences"));
  }

  arrange(change) {
    return this.write("PATCH", "/v1/preferences", change);
  }

  async write(method, path, value) {
    this.touched();
    const headers = { "Content-Type": "application/json" };
    await this.ask(path, { method, keepalive: true, headers, body: JSON.stringify(value) });
  }

  read(path, headers = {}) {
    return this.ask(path, { headers, signal: AbortSignal.any([this.gone.signal, AbortSignal.timeout(PACE.answer)]) });
  }

  stream(last, signal) {
    const headers = { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) };
    return this.ask("/v1/inbox/stream", { headers, signal: AbortSignal.any([signal, this.gone.signal]) });
  }

  // Raises Refused. A token that has run out is renewed once; whoever asks meanwhile waits for the same one.
  async ask(path, options = {}) {
    const used = this.token;
    let answer = await this.send(path, options);
    if (answer.status === 401 && (await this.renewed(used))) answer = await this.send(path, options);
    const interval = Number(answer.headers.get("x-poll-interval"));
    if (interval > 0) this.poll = interval * 1_000;
    if (answer.ok || answer.status === 304) return answer;
    const problem = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, problem.code, seconds(answer.headers.get("retry-after")));
  }

  async send(path, options) {
    const headers = { ...options.headers, ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}) };
    try {
      return await fetch(this.base + path, { signal: this.gone.signal, cache: "no-store", credentials: "omit", ...options, headers });
    } catch {
      throw new Refused(0);
    }
  }

  async renewed(used) {
    if (this.token !== used) return true;
    this.renewing ??= Promise.resolve(this.renew())
      .catch(() => null)
      .finally(() => (this.renewing = null));
    const fresh = await this.renewing;
    if (fresh) this.token = fresh;
    return Boolean(fresh);
  }
}

export async function body(answer) {
  return answer.json().catch(() => {
    throw new Refused(0); // cut off on the way, or not our server
  });
}

function seconds(header) {
  const wait = Number(header);
  const until = Number.isNaN(wait) ? (Date.parse(header) - Date.now()) / 1_000 : wait;
  return Math.max(0, until || 0) * 1_000;
}
