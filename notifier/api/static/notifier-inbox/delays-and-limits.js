// Delays and timeouts in milliseconds, and size limits.

export const TIMING = {
  seen: 1_000, // time in view after which the shown rows count as seen
  request: 30_000, // timeout of a request for rows
  silence: 40_000, // the server sends a heartbeat every 15 s: after two missed ones the connection is dead
  minBackoff: 1_000, // delay before reconnecting; doubles with every failure
  maxBackoff: 60_000,
  poll: 30_000, // poll interval, until the server sets another one in X-Poll-Interval
  noStream: 600_000, // time until the stream is tried again if the server has none
  hiddenTab: 60_000, // time until a hidden tab closes its stream: browsers allow six connections per host
  maxDebounce: 5_000, // longest wait for further resets, and shortest time between loads of a tab that is shown repeatedly
  debounce: 1_000, // wait for related events: a row and its count arrive one after the other
  render: 50, // least time between two renderings
  relativeTimes: 30_000, // interval at which "5 min. ago" is updated
  toast: 8_000, // time for which a toast is shown
};

export const MAX_ROWS = 200; // in the document; further ones are removed, and load again on scrolling
export const PAGE_SIZE = 20;
export const MAX_PAGE_SIZE = 100;

// Makes a delay up to a quarter longer at random, so that clients do not act at the same time.
export const jitter = (delay) => delay * (1 + Math.random() / 4);
