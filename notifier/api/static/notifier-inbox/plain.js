// Sanitizes foreign names and texts: they can't reverse, overprint or flood the page.

const LONGEST = 400;
const LONGEST_NAME = 40;
// Control characters, and the marks that set a direction for what follows. Joiners stay: Persian and emoji need them.
const INVISIBLE = /[\p{Cc}\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const TOWER = /(\p{M}{3})\p{M}+/gu;

export function plain(text, longest = LONGEST) {
  const cut = String(text ?? "").slice(0, longest * 4);
  const clean = cut.replace(/\s+/gu, " ").replace(INVISIBLE, "").replace(TOWER, "$1").toWellFormed();
  return clean.length > longest ? `${clean.slice(0, longest - 1).toWellFormed()}…` : clean;
}

export const plainName = (name) => plain(name, LONGEST_NAME);

// Splits a sentence into {text, name}; `name` marks one of `names`, which is isolated from its neighbors.
export function pieces(sentence, names) {
  const found = [];
  let rest = String(sentence ?? "");
  for (const name of names.filter(Boolean)) {
    const place = rest.indexOf(name);
    if (place < 0) continue;
    found.push({ text: plain(rest.slice(0, place)) }, { text: plainName(name), name: true });
    rest = rest.slice(place + name.length);
  }
  return [...found, { text: plain(rest) }].filter(({ text }) => text);
}

// The first visible letter.
export function initial(name) {
  const shown = plain(name).match(/[\p{L}\p{N}]|\p{Extended_Pictographic}/u);
  return shown ? shown[0].toLocaleUpperCase() : "@";
}

// One of eight colors, always the same for a name.
export function hue(name) {
  let sum = 7;
  for (const letter of String(name).slice(0, 64)) sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
  return sum % 8;
}
