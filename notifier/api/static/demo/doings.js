// The visitor's actions, and their log with commands that do the same without this page.

import { ask } from "./service.js";
import { clock, make } from "./words.js";

const KEPT = 20; // limits the size of a page that stays open for a day
const $ = (id) => document.getElementById(id);

export function controls() {
  const dialog = $("pausing");
  $("storm").addEventListener("click", () => act($("storm"), "POST", `/demo/storm?of=${$("star").value}`));
  $("kill").addEventListener("click", () => act($("kill"), "POST", "/demo/kill", { role: $("role").value }));
  $("empty").addEventListener("click", () => act($("empty"), "POST", "/demo/empty"));
  $("pause").addEventListener("click", () => ($("pause").dataset.held ? act($("pause"), "DELETE", "/demo/pause") : dialog.showModal()));
  $("never").addEventListener("click", () => dialog.close());
  dialog.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const { reason, seconds } = Object.fromEntries(new FormData(event.target));
    dialog.close();
    act($("pause"), "POST", "/demo/pause", { reason, seconds: Number(seconds) });
  });
}

// The button's label is its current action.
export function held(throttle) {
  const words = throttle?.state === "active" ? "Lift the pause" : "Pause P2…";
  if ($("pause").textContent !== words) $("pause").textContent = words;
  if (throttle?.state === "active") $("pause").dataset.held = "yes";
  else delete $("pause").dataset.held;
}

async function act(button, method, path, body) {
  button.disabled = true;
  button.dataset.busy = "yes";
  try {
    const done = await ask(method, path, body);
    say(done.message);
    note(done.message, { CLI: done.cli, curl: done.curl });
  } catch (error) {
    say(error.message);
    note(error.message);
  }
  button.disabled = false;
  delete button.dataset.busy;
  button.focus({ preventScroll: true });
}

export function say(words) {
  $("says").textContent = words;
}

export function note(words, lines = {}) {
  const log = $("log");
  log.querySelector(".none")?.remove();
  const time = make("time", {}, clock());
  const codes = Object.entries(lines).map(([name, line]) => code(name, line));
  log.prepend(make("li", {}, make("p", {}, time, make("span", {}, words)), ...codes));
  while (log.children.length > KEPT) log.lastChild.remove();
}

function code(name, line) {
  const copy = make("button", { type: "button", "aria-label": `Copy the ${name} line` }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(line).then(() => (copy.textContent = "Copied"), () => (copy.textContent = "Select it"));
    setTimeout(() => (copy.textContent = "Copy"), 1_500);
  });
  return make("div", { class: "code" }, make("span", {}, name), make("code", { tabindex: "0" }, line), copy);
}
