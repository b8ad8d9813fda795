// Sanitizes names and texts of other users: they can't reverse, overprint or flood the page.

const MAX_TEXT = 400; // characters
const MAX_NAME = 40;
// Control characters, and the marks that set a direction for what follows. Joiners stay: Persian and emoji need them.
const INVISIBLE = /[\p{Cc}\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const STACKED_MARKS = /(\p{M}{3})\p{M}+/gu;

export function sanitize(text, max = MAX_TEXT) {
  const start = String(text ?? "").slice(0, max * 4);
  const clean = start.replace(/\s+/gu, " ").replace(INVISIBLE, "").replace(STACKED_MARKS, "$1").toWellFormed();
  return clean.length > max ? `${clean.slice(0, max - 1).toWellFormed()}…` : clean;
}

export const sanitizeName = (name) => sanitize(name, MAX_NAME);

// Splits a sentence into parts {text, name}; `name` is true for one of the `names`, which is isolated from its
// neighbors.
export function splitNames(sentence, names) {
  const parts = [];
  let rest = String(sentence ?? "");
  for (const name of names.filter(Boolean)) {
    const index = rest.indexOf(name);
    if (index < 0) continue;
    parts.push({ text: sanitize(rest.slice(0, index)) }, { text: sanitizeName(name), name: true });
    rest = rest.slice(index + name.length);
  }
  return [...parts, { text: sanitize(rest) }].filter(({ text }) => text);
}

// Returns the first letter, digit or emoji, or @ if there is none.
export function initial(name) {
  const letter = sanitize(name).match(/[\p{L}\p{N}]|\p{Extended_Pictographic}/u);
  return letter ? letter[0].toLocaleUpperCase() : "@";
}

// Returns the number of one of eight colors, always the same for a name.
export function colorOf(name) {
  let hash = 7;
  for (const letter of String(name).slice(0, 64)) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
  return hash % 8;
}
