// The custom element: attributes, properties and events; the behavior is in inbox.js.

import { Inbox } from "./inbox.js";
import { sheet } from "./styles.js";
import { TEXTS } from "./texts.js";
import { Times, languageOf, textLanguageOf } from "./time-format.js";

export class NotifierInbox extends HTMLElement {
  static observedAttributes = ["src", "lang", "token"];
  #token = null;
  #texts = TEXTS;
  #inbox = null;
  #upgraded = false;

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

  get texts() {
    return this.#texts;
  }

  set texts(texts) {
    this.#texts = { ...TEXTS, ...texts };
    this.#restart();
  }

  connectedCallback() {
    // A property set before this code was loaded shadows the accessor.
    for (const name of ["token", "texts"].filter((name) => Object.hasOwn(this, name))) {
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
    this.#upgraded = true;
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

  // Starts from scratch: another token may belong to another user.
  #restart() {
    if (!this.#upgraded || !this.isConnected) return;
    this.#inbox?.close();
    this.#inbox = new Inbox({
      host: this,
      base: this.getAttribute("src") ?? "",
      token: this.token,
      renew: () => this.getToken?.(),
      texts: this.#texts,
      times: new Times(languageOf(this), textLanguageOf(this)),
    });
    this.shadowRoot.replaceChildren(...this.#inbox.view.nodes);
  }
}
