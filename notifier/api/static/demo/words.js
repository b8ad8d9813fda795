// How things are written: numbers, names of states, what each tier and each person is.

// The texts are English; numbers and times are as the person writes them.
const person = [...navigator.languages];
const whole = new Intl.NumberFormat(person, { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat(person, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const short = new Intl.NumberFormat(person, { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => whole.format(value);
export const brief = (value) => (value < 10_000 ? whole.format(value) : short.format(value));
export const seconds = (value) => `${(value < 100 ? tenths : whole).format(value)} s`;

export const clock = (at = new Date()) => at.toLocaleTimeString(person, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const STATES = { planned: "planned", in_flight: "in flight", done: "delivered", parked: "parked", pulled: "left to pull", dead: "dead" };
export const ACCOUNTS = { delivered: "delivered", suppressed: "suppressed", parked: "parked", pulled: "pulled", dead: "dead", in_flight: "in flight" };
export const TIERS = { p0: "VIPs", p1: "active today", p2: "active this month" };

export const PEOPLE = {
  vip: "A VIP who was here this week: P0. The row is written first, and the phone rings.",
  active: "Active today: P1. The row is there within seconds.",
  occasional: "Here this month: P2, bulk. The row may be late or parked, and the inbox shows the burst all the same.",
  away: "Away for months: no row is ever written. The inbox is computed when it is opened, and shows the same.",
};

export const RINGS = {
  vip: "Rings first, within seconds.",
  active: "Rings right behind the VIPs.",
  occasional: "Rings for one’s own mentions. A celebrity’s are bulk here, and wake no phone.",
  away: "Rings for one’s own mentions. A celebrity’s have no row here, and wake no phone.",
};
export const PLATFORMS = { apns: "APNs", fcm: "FCM", web: "Web Push" };

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
