// Times and lists of names as people say them, in their own language.

const STEPS = [
  ["minute", 60, 45],
  ["hour", 3_600, 3_600],
  ["day", 86_400, 86_400],
];
const DAYS = 7; // later a date says more than "23 days ago"

export class Times {
  constructor(lang) {
    this.relative = new Intl.RelativeTimeFormat(lang, { numeric: "auto", style: "short" });
    this.date = new Intl.DateTimeFormat(lang, { day: "numeric", month: "short" });
    this.list = new Intl.ListFormat(lang, { type: "unit" }); // "ada, bob, eve": there may be more
    this.full = new Intl.DateTimeFormat(lang, { dateStyle: "full", timeStyle: "short" });
  }

  ago(iso, now = Date.now()) {
    const at = Date.parse(iso);
    if (Number.isNaN(at)) return "";
    const seconds = Math.max(0, (now - at) / 1_000); // two clocks never agree: nothing comes from the future
    if (seconds > DAYS * 86_400) return this.date.format(at);
    const step = STEPS.findLast(([, , from]) => seconds >= from);
    return step ? this.relative.format(-Math.max(1, Math.floor(seconds / step[1])), step[0]) : this.relative.format(0, "second");
  }

  whole(iso) {
    const at = Date.parse(iso);
    return Number.isNaN(at) ? "" : this.full.format(at);
  }
}

// The language of the element, of what it stands in, or of the person's browser, whichever Intl knows.
export function languageOf(element) {
  const asked = [element.closest("[lang]")?.lang, ...navigator.languages].filter(Boolean);
  return asked.find((lang) => {
    try {
      return Intl.DateTimeFormat.supportedLocalesOf(lang).length > 0;
    } catch {
      return false; // not a language tag at all
    }
  });
}
