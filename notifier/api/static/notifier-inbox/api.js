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
    const answer = await this.ask(`/v1/inbox?limit=${limit}`, { headers: this.tag ? { "If-None-Match": this.tag } : {} });
    const tag = answer.headers.get("etag");
    const page = answer.status === 304 ? null : await body(answer);
    this.tag = tag;
    return page;
  }

  async older(cursor) {
    const query = new URLSearchParams(cursor ? { cursor, limit: LARGEST_PAGE / 2 } : { limit: LARGEST_PAGE });
    return body(await this.ask(`/v1/inbox?${query}`));
  }

  async unread() {
    return body(await this.ask("/v1/inbox/unread"));
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

  // What we have may no longer be what the tag stands for.
  async write(method, path, value) {
    this.tag = null;
    const headers = { "Content-Type": "application/json" };
    await this.ask(path, { method, keepalive: true, headers, body: JSON.stringify(value) });
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

async function body(answer) {
  return answer.json().catch(() => {
    throw new Refused(0); // cut off on the way, or not our server
  });
}

function seconds(header) {
  const wait = Number(header);
  const until = Number.isNaN(wait) ? (Date.parse(header) - Date.now()) / 1_000 : wait;
  return Math.max(0, until || 0) * 1_000;
}
