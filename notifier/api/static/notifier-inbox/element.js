// The custom element: attributes, properties and events; the behavior is in inbox.js.

import { Inbox } from "./inbox.js";
import { sheet } from "./styles.js";
import { Times, languageOf, textsOf } from "./times.js";
import { WORDS } from "./words.js";

export class NotifierInbox extends HTMLElement {
  static observedAttributes = ["src", "lang", "token"];
  #token = null;
  #words = WORDS;
  #inbox = null;
  #ready = false;

  constructor() {
    super();
    this.attachShadow({ mode: "open" }).adoptedStyleSheets = [sheet];
  }

  get token() {
    return this.#token ?? this.getAttribute("token");
  }

  set token(token) {
    this.#token = token || null;
    this.#restart();
  }

  get words() {
    return this.#words;
  }

  set words(words) {
    this.#words = { ...WORDS, ...words };
    this.#restart();
  }

  connectedCallback() {
    // A property set before this code was loaded shadows the accessor.
    for (const name of ["token", "words"].filter((name) => Object.hasOwn(this, name))) {
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
    this.#ready = true;
    this.#restart();
  }

  disconnectedCallback() {
    this.#inbox?.close();
    this.#inbox = null;
    this.shadowRoot.replaceChildren();
  }

  attributeChangedCallback(name, before, after) {
    if (this.#inbox && before !== after) this.#restart();
  }

  // Start from scratch: another token may belong to another user.
  #restart() {
    if (!this.#ready || !this.isConnected) return;
    this.#inbox?.close();
    this.#inbox = new Inbox({
      host: this,
      base: this.getAttribute("src") ?? "",
      token: this.token,
      renew: () => this.getToken?.(),
      words: this.#words,
      times: new Times(languageOf(this), textsOf(this)),
    });
    this.shadowRoot.replaceChildren(...this.#inbox.view.nodes);
  }
}
