// Timeouts in milliseconds, and limits.

export const PACE = {
  looked: 1_000, // time in view after which a page counts as seen
  answer: 30_000, // timeout of a page
  silence: 40_000, // the server sends a heartbeat every 15 s: after two missed ones the connection is dead
  backoff: 1_000, // doubles with every failure, half of it random
  slowest: 60_000,
  poll: 30_000, // until the server says otherwise in X-Poll-Interval
  noStream: 600_000, // until the stream is tried again after it was missing
  hidden: 60_000, // a hidden tab closes its connection: browsers have six per host
  again: 5_000, // longest wait for further resets, and shortest time between loads of a tab that is shown repeatedly
  settle: 1_000, // rows and their count arrive one after the other
  draw: 50,
  times: 30_000,
  undo: 8_000,
};

export const MOST_ROWS = 200; // in the document; older ones drop off and load again
export const PAGE = 20;
export const LARGEST_PAGE = 100;

// Up to a quarter longer at random, so that clients do not act at the same moment.
export const spread = (wait) => wait * (1 + Math.random() / 4);
