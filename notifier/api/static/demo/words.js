// Formats and texts: numbers, states, tiers and users.

// The texts are English; numbers and times use the visitor's locale.
const person = [...navigator.languages];
const whole = new Intl.NumberFormat(person, { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat(person, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const short = new Intl.NumberFormat(person, { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => whole.format(value);
export const brief = (value) => (value < 10_000 ? whole.format(value) : short.format(value));
export const seconds = (value) => `${(value < 100 ? tenths : whole).format(value)} s`;

export const clock = (at = new Date()) => at.toLocaleTimeString(person, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const STATES = { planned: "planned", in_flight: "in flight", done: "delivered", parked: "parked", pulled: "left to the pull path", dead: "dead" };
export const ACCOUNTS = { delivered: "delivered", suppressed: "suppressed", parked: "parked", pulled: "pulled", dead: "dead", in_flight: "in flight" };
export const TIERS = { p0: "VIPs", p1: "active today", p2: "active this month" };

export const PEOPLE = {
  vip: "A VIP who was active this week: P0. The row is written first, and the phone rings.",
  active: "Active today: P1. The row is written within seconds.",
  occasional: "Active this month: P2, bulk. The row may be late or parked, but the inbox shows the burst anyway.",
  away: "Away for months: no row is written. The inbox is computed on open, and shows the same.",
};

export const RINGS = {
  vip: "Rings first, within seconds.",
  active: "Rings right after the VIPs.",
  occasional: "Rings for mentions of the user. Mentions of celebrities are bulk here, and cause no alert.",
  away: "Rings for mentions of the user. Mentions of celebrities have no row here, and cause no alert.",
};
export const PLATFORMS = { apns: "APNs", fcm: "FCM", web: "Web Push" };

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
