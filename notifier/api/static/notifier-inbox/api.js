// The HTTP API as the element uses it: the token is sent in a header, never in a URL.

import { MAX_PAGE_SIZE, TIMING } from "./delays-and-limits.js";

// A failed request. `status` is 0 without a response; `retryAfter` is in milliseconds.
export class RequestError extends Error {
  constructor(status, code = "", retryAfter = 0) {
    super(code || `status ${status}`);
    Object.assign(this, { status, code, retryAfter });
  }
}

export class Api {
  etag = null; // of the newest page, while the shown rows match it
  version = 0; // counts changes that did not come with pages
  pollInterval = TIMING.poll;

  // `renew` returns a fresh token of the same user, or null.
  constructor({ base, token, renew }) {
    Object.assign(this, { base: base.replace(/\/+$/, ""), token, renew });
    this.abort = new AbortController();
  }

  close() {
    this.abort.abort();
  }

  // Returns the newest page, or null if it is unchanged.
  async newestPage(limit) {
    const version = this.version;
    const response = await this.get(`/v1/inbox?limit=${limit}`, this.etag ? { "If-None-Match": this.etag } : {});
    if (response.status === 304) return null;
    const page = await parseJson(response);
    this.etag = version === this.version && !page.partial ? response.headers.get("etag") : null;
    return page;
  }

  // Call it when the shown rows may no longer match the ETag.
  invalidate() {
    this.etag = null;
    this.version += 1;
  }

  async olderPage(cursor, limit = cursor ? MAX_PAGE_SIZE / 2 : MAX_PAGE_SIZE) {
    const query = new URLSearchParams(cursor ? { cursor, limit } : { limit });
    return parseJson(await this.get(`/v1/inbox?${query}`));
  }

  markSeen(token) {
    return this.write("PUT", "/v1/inbox/seen", { token });
  }

  mark(burst, mark) {
    return this.write("PUT", "/v1/inbox/marks", { bursts: [burst], mark });
  }

  updateSubject(subject, change) {
    return this.write("PATCH", `/v1/preferences/${encodeURIComponent(subject)}`, change);
  }

  async preferences() {
    return parseJson(await this.request("/v1/preferences"));
  }

  updatePreferences(change) {
    return this.write("PATCH", "/v1/preferences", change);
  }

  async write(method, path, value) {
    this.invalidate();
    const headers = { "Content-Type": "application/json" };
    await this.request(path, { method, keepalive: true, headers, body: JSON.stringify(value) });
  }

  get(path, headers = {}) {
    return this.request(path, { headers, signal: AbortSignal.any([this.abort.signal, AbortSignal.timeout(TIMING.request)]) });
  }

  stream(lastId, signal) {
    const headers = { Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) };
    return this.request("/v1/inbox/stream", { headers, signal: AbortSignal.any([signal, this.abort.signal]) });
  }

  // Throws RequestError. An expired token is renewed once; concurrent requests wait for the same renewal.
  async request(path, options = {}) {
    const usedToken = this.token;
    let response = await this.send(path, options);
    if (response.status === 401 && (await this.renewToken(usedToken))) response = await this.send(path, options);
    const interval = Number(response.headers.get("x-poll-interval"));
    if (interval > 0) this.pollInterval = interval * 1_000;
    if (response.ok || response.status === 304) return response;
    const problem = await response.json().catch(() => ({}));
    throw new RequestError(response.status, problem.code, milliseconds(response.headers.get("retry-after")));
  }

  async send(path, options) {
    const headers = { ...options.headers, ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}) };
    try {
      return await fetch(this.base + path, { signal: this.abort.signal, cache: "no-store", credentials: "omit", ...options, headers });
    } catch {
      throw new RequestError(0);
    }
  }

  // Returns whether there is a newer token than the used one.
  async renewToken(usedToken) {
    if (this.token !== usedToken) return true;
    this.renewal ??= Promise.resolve(this.renew())
      .catch(() => null)
      .finally(() => (this.renewal = null));
    const token = await this.renewal;
    if (token) this.token = token;
    return Boolean(token);
  }
}

export async function parseJson(response) {
  return response.json().catch(() => {
    throw new RequestError(0); // truncated, or not from this service
  });
}

// Retry-After is a number of seconds or a date.
function milliseconds(header) {
  const number = Number(header);
  const seconds = Number.isNaN(number) ? (Date.parse(header) - Date.now()) / 1_000 : number;
  return Math.max(0, seconds || 0) * 1_000;
}
