// What a person does with a row: open it, mark it, hide it, take that back, hear no more of its account.

import { Menu } from "./menu.js";
import { PACE } from "./pace.js";
import { Quiet } from "./quiet.js";

export class Deeds {
  menu = new Menu();
  sent = new Map(); // by row, the last mark that the server hasn't answered
  hiding = null; // the row that can be taken back

  constructor(inbox) {
    this.inbox = inbox;
    this.quiet = new Quiet(inbox);
  }

  open(burst) {
    const item = this.inbox.store.find(burst);
    if (item && this.inbox.send("open", item) && item.unread) this.mark(item, "read");
  }

  menuOf(burst, button) {
    if (this.menu.button === button) return this.menu.close(true);
    const item = this.inbox.store.find(burst);
    const choices = [
      [item.unread ? this.inbox.words.read : this.inbox.words.markUnread, () => this.toggle(burst)],
      [this.inbox.words.hide, () => this.hide(burst)],
      ...this.quiet.choices(item),
    ];
    this.menu.open(button, choices, this.inbox.view.scroller);
  }

  toggle(burst) {
    const item = this.inbox.store.find(burst);
    this.mark(item, item.unread ? "read" : "unread");
  }

  hide(burst) {
    const item = this.inbox.store.find(burst);
    this.hiding = item;
    this.place = this.inbox.store.place(burst);
    this.before = !item.unread ? "read" : this.inbox.store.kept.has(burst) ? "unread" : "none"; // a mark of its own would outlast being seen
    this.mark(item, "hidden");
    this.inbox.view.offer(this.inbox.words.hidden, this.inbox.words.undo, () => this.undo());
    this.fade();
  }

  // Not away from under a hand that is about to use it.
  fade() {
    this.inbox.later("toast", () => (this.inbox.view.toast.matches(":hover, :focus-within") ? this.fade() : this.forget()), PACE.undo);
  }

  undo() {
    const item = this.hiding;
    if (!item) return;
    this.forget();
    this.mark(item, this.before, this.place);
    this.inbox.view.rows.get(item.burst)?.button.focus();
  }

  // A word that stays for a while, with what can be done about it.
  say(...offer) {
    this.forget();
    this.inbox.view.offer(...offer);
    this.fade();
  }

  forget() {
    this.hiding = null;
    this.inbox.view.offer(null);
  }

  // Shown at once, and taken back when the server doesn't take it. Marks of one row go one after the other: on two
  // connections the later could arrive first, and what was taken back would stay hidden.
  async mark(item, mark, place) {
    this.inbox.store.mark(item, mark, place);
    this.inbox.show();
    const send = () => this.inbox.api.mark(item.burst, mark);
    const earlier = this.sent.get(item.burst);
    const answer = earlier ? earlier.then(send, send) : send();
    this.sent.set(item.burst, answer);
    try {
      await answer;
    } catch {
      if (this.inbox.ended.signal.aborted || this.sent.get(item.burst) !== answer) return;
      this.inbox.store.restore(item);
      this.say(this.inbox.words.notDone);
      this.inbox.show();
    } finally {
      if (this.sent.get(item.burst) === answer) this.sent.delete(item.burst);
    }
  }

  // Hidden, and the server knows: a page that is asked for now and shows it says that it was taken back elsewhere.
  settled() {
    return this.inbox.store.hidden.difference(this.sent);
  }
}
