// Formats times in the user's language, and lists of names in the language of the texts.

const STEPS = [
  ["minute", 60, 45],
  ["hour", 3_600, 3_600],
  ["day", 86_400, 86_400],
];
const DAYS = 7; // after that, a date is clearer than "23 days ago"

export class Times {
  constructor(lang, texts) {
    this.relative = new Intl.RelativeTimeFormat(lang, { numeric: "auto", style: "short" });
    this.date = new Intl.DateTimeFormat(lang, { day: "numeric", month: "short" });
    this.list = new Intl.ListFormat(texts, { type: "unit" }); // "ada, bob, eve": more names may follow
    this.lang = lang;
    this.full = new Intl.DateTimeFormat(lang, { dateStyle: "full", timeStyle: "short" });
  }

  ago(iso, now = Date.now()) {
    const at = Date.parse(iso);
    if (Number.isNaN(at)) return "";
    const seconds = Math.max(0, (now - at) / 1_000); // clocks differ: never show a future time
    if (seconds > DAYS * 86_400) return this.date.format(at);
    const step = STEPS.findLast(([, , from]) => seconds >= from);
    return step ? this.relative.format(-Math.max(1, Math.floor(seconds / step[1])), step[0]) : this.relative.format(0, "second");
  }

  whole(iso) {
    const at = Date.parse(iso);
    return Number.isNaN(at) ? "" : this.full.format(at);
  }
}

// The element's language if set, else the user's: the page's language is that of its texts.
export const languageOf = (element) => first([element.lang, ...navigator.languages, around(element)]);

// Names are joined in the language of the surrounding text.
export const textsOf = (element) => first([around(element), "en"]);

const around = (element) => element.closest("[lang]")?.lang;

// The first language that Intl supports.
const first = (asked) =>
  asked.filter(Boolean).find((lang) => {
    try {
      return Intl.DateTimeFormat.supportedLocalesOf(lang).length > 0;
    } catch {
      return false; // not a language tag
    }
  });
