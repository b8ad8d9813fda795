// Detects that the user has seen the element: the tab is visible and the element in view for a moment.

import { TIMING } from "./delays-and-limits.js";

export class VisibilityTracker {
  inView = false;

  constructor(element, onSeen) {
    Object.assign(this, { onSeen });
    this.observer = new IntersectionObserver((entries) => {
      this.inView = entries.at(-1).isIntersecting;
      this.restart();
    }, { threshold: 0.2 });
    this.observer.observe(element);
  }

  // Call it when new rows are shown or the tab becomes visible.
  restart() {
    clearTimeout(this.timer);
    if (this.inView && document.visibilityState === "visible") this.timer = setTimeout(this.onSeen, TIMING.seen);
  }

  stop() {
    clearTimeout(this.timer);
    this.observer.disconnect();
  }
}
