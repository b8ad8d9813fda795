// Delays and timeouts in milliseconds, and size limits.

export const TIMING = {
  seen: 1_000, // time in view after which the shown rows count as seen
  request: 30_000, // timeout of a GET request
  silence: 40_000, // the server sends a heartbeat every 15 s: after two missed ones the connection is dead
  minBackoff: 1_000, // doubles with every failure, half of it random
  maxBackoff: 60_000,
  poll: 30_000, // until the server sets another interval in X-Poll-Interval
  noStream: 600_000, // until the stream is tried again after the server did not offer it
  hiddenTab: 60_000, // a hidden tab closes its connection: browsers allow six per host
  maxDebounce: 5_000, // longest wait for further resets, and shortest time between loads of a tab that is shown repeatedly
  debounce: 1_000, // rows and their count arrive one after the other
  render: 50,
  relativeTimes: 30_000,
  toast: 8_000,
};

export const MAX_ROWS = 200; // in the document; older ones are removed and load again
export const PAGE_SIZE = 20;
export const MAX_PAGE_SIZE = 100;

// Up to a quarter longer at random, so that clients do not act at the same moment.
export const jitter = (delay) => delay * (1 + Math.random() / 4);
