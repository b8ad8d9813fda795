// Formats times in the user's language, and lists of names in the language of the texts.

// Unit, its seconds, and the age in seconds from which it is used.
const UNITS = [
  ["minute", 60, 45],
  ["hour", 3_600, 3_600],
  ["day", 86_400, 86_400],
];
const MAX_DAYS = 7; // for older times, a date is clearer than "23 days ago"

export class Times {
  constructor(lang, textLang) {
    this.relativeFormat = new Intl.RelativeTimeFormat(lang, { numeric: "auto", style: "short" });
    this.dateFormat = new Intl.DateTimeFormat(lang, { day: "numeric", month: "short" });
    this.listFormat = new Intl.ListFormat(textLang, { type: "unit" }); // "ada, bob, eve": more names may follow
    this.lang = lang;
    this.fullFormat = new Intl.DateTimeFormat(lang, { dateStyle: "full", timeStyle: "short" });
  }

  relative(iso, now = Date.now()) {
    const time = Date.parse(iso);
    if (Number.isNaN(time)) return "";
    const age = Math.max(0, (now - time) / 1_000); // clocks differ: never show a future time
    if (age > MAX_DAYS * 86_400) return this.dateFormat.format(time);
    const unit = UNITS.findLast(([, , from]) => age >= from);
    return unit ? this.relativeFormat.format(-Math.max(1, Math.floor(age / unit[1])), unit[0]) : this.relativeFormat.format(0, "second");
  }

  full(iso) {
    const time = Date.parse(iso);
    return Number.isNaN(time) ? "" : this.fullFormat.format(time);
  }
}

// Language of times: that of the element if set, else the user's, else that of the page.
export const languageOf = (element) => firstSupported([element.lang, ...navigator.languages, inherited(element)]);

// Language in which names are joined: that of the surrounding text.
export const textLanguageOf = (element) => firstSupported([inherited(element), "en"]);

const inherited = (element) => element.closest("[lang]")?.lang;

const firstSupported = (languages) =>
  languages.filter(Boolean).find((lang) => {
    try {
      return Intl.DateTimeFormat.supportedLocalesOf(lang).length > 0;
    } catch {
      return false; // not a language tag
    }
  });
