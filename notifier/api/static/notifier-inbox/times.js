// Times as people say them in their own language, and lists of names in that of the texts.

const STEPS = [
  ["minute", 60, 45],
  ["hour", 3_600, 3_600],
  ["day", 86_400, 86_400],
];
const DAYS = 7; // later a date says more than "23 days ago"

export class Times {
  constructor(lang, texts) {
    this.relative = new Intl.RelativeTimeFormat(lang, { numeric: "auto", style: "short" });
    this.date = new Intl.DateTimeFormat(lang, { day: "numeric", month: "short" });
    this.list = new Intl.ListFormat(texts, { type: "unit" }); // "ada, bob, eve": there may be more
    this.lang = lang;
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

// The element's own if it was given one, else the person's: a page's language is that of its texts, and its reader may
// write times in another.
export const languageOf = (element) => first([element.lang, ...navigator.languages, around(element)]);

// Names are joined in the language of the texts that they stand among.
export const textsOf = (element) => first([around(element), "en"]);

const around = (element) => element.closest("[lang]")?.lang;

// Whichever Intl knows.
const first = (asked) =>
  asked.filter(Boolean).find((lang) => {
    try {
      return Intl.DateTimeFormat.supportedLocalesOf(lang).length > 0;
    } catch {
      return false; // not a language tag at all
    }
  });
