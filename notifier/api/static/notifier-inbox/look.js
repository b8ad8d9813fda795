// Detects a look: the tab is visible and the element in view for a moment.

import { PACE } from "./pace.js";

export class Look {
  inView = false;

  constructor(element, looked) {
    Object.assign(this, { looked });
    this.observer = new IntersectionObserver((entries) => {
      this.inView = entries.at(-1).isIntersecting;
      this.again();
    }, { threshold: 0.2 });
    this.observer.observe(element);
  }

  // New rows are shown, or the tab became visible: restart the timer.
  again() {
    clearTimeout(this.timer);
    if (this.inView && document.visibilityState === "visible") this.timer = setTimeout(this.looked, PACE.looked);
  }

  stop() {
    clearTimeout(this.timer);
    this.observer.disconnect();
  }
}
