// The HTTP API as the element uses it: the token is sent in a header, never in a URL.

import { LARGEST_PAGE, PACE } from "./pace.js";

// A failed request. `status` 0 means no response.
export class Refused extends Error {
  constructor(status, code = "", retryAfter = 0) {
    super(code || `status ${status}`);
    Object.assign(this, { status, code, retryAfter });
  }
}

export class Api {
  tag = null;
  version = 0; // counts changes that did not come with pages
  poll = PACE.poll;

  // `renew` returns a fresh token of the same user, or null.
  constructor({ base, token, renew }) {
    Object.assign(this, { base: base.replace(/\/+$/, ""), token, renew });
    this.gone = new AbortController();
  }

  close() {
    this.gone.abort();
  }

  // The newest page; null if it is unchanged.
  async newest(limit) {
    const version = this.version;
    const answer = await this.read(`/v1/inbox?limit=${limit}`, this.tag ? { "If-None-Match": this.tag } : {});
    if (answer.status === 304) return null;
    const page = await body(answer);
    this.tag = version === this.version && !page.partial ? answer.headers.get("etag") : null;
    return page;
  }

  // The shown items may no longer match the tag.
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

  // Throws Refused. An expired token is renewed once; concurrent requests wait for the same renewal.
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
    throw new Refused(0); // truncated, or not from this service
  });
}

function seconds(header) {
  const wait = Number(header);
  const until = Number.isNaN(wait) ? (Date.parse(header) - Date.now()) / 1_000 : wait;
  return Math.max(0, until || 0) * 1_000;
}
