// How long the element waits for what, in milliseconds, and how much it keeps.

export const PACE = {
  looked: 1_000, // so long a page must be in view before it counts as seen
  answer: 30_000, // a page that takes longer is given up
  silence: 40_000, // the server sends a heartbeat every 15 s: after two missed ones the line is dead
  backoff: 1_000, // doubles with every failure, half of it by chance
  slowest: 60_000,
  poll: 30_000, // until the server says otherwise in X-Poll-Interval
  noStream: 600_000, // until the stream is tried again where there was none
  hidden: 60_000, // a tab in the background gives its connection back: browsers have six of them for one host
  again: 5_000, // resets are waited for no longer, and a tab that comes to the front again and again asks no more often
  settle: 1_000, // rows and the count that belongs to them come one after the other
  draw: 50,
  times: 30_000,
  undo: 8_000,
};

export const MOST_ROWS = 200; // in the document; older ones drop off and load again
export const PAGE = 20;
export const LARGEST_PAGE = 100;

// Up to a quarter longer at random: clients that were told the same must not act at the same moment.
export const spread = (wait) => wait * (1 + Math.random() / 4);
