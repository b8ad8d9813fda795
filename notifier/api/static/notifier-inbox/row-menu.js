// The menu of a row.

import { Menu } from "./menu.js";
import { ROW_MENU_TEXTS } from "./row-menu-texts.js";
import { sanitizeName } from "./sanitize.js";

const DAY = 86_400_000;

export class RowMenu {
  menu = new Menu();

  constructor(inbox) {
    this.inbox = inbox;
    this.texts = { ...ROW_MENU_TEXTS, ...inbox.texts };
  }

  toggle(burst, button) {
    const { actions, store, view } = this.inbox;
    if (this.menu.opener === button) return this.menu.close(true);
    const item = store.find(burst);
    if (!item || this.inbox.closed) return;
    const choices = [
      [item.unread ? this.texts.markRead : this.texts.markUnread, () => actions.toggleRead(burst)],
      [this.texts.hide, () => actions.hide(burst)],
      ...this.accountChoices(item),
    ];
    this.menu.open(button, choices, view.scroller);
  }

  close() {
    this.menu.close();
  }

  // Returns the choices that concern the row's account. Mentions of the user and digests have none.
  accountChoices({ subject }) {
    const [, name] = /^mention:(.+)$/s.exec(subject) ?? [];
    if (!name) return [];
    const { texts } = this;
    const account = sanitizeName(name);
    const tomorrow = () => new Date(Date.now() + DAY).toISOString();
    return [
      [texts.muteDay(account), () => this.mute("mute", subject, account, tomorrow())],
      [texts.mute(account), () => this.mute("mute", subject, account, "forever")],
      [texts.toDigest(account), () => this.mute("moveToDigest", subject, account)],
    ];
  }

  async mute(method, ...parameters) {
    try {
      const { Muting } = await import("./muting.js");
      this.muting ??= new Muting(this.inbox, this.texts);
    } catch {
      return this.inbox.actions.showToast(this.texts.actionFailed);
    }
    this.muting[method](...parameters);
  }
}
