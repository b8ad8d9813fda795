// The visitor's actions, and their log with commands to copy.

import { requestJson } from "./api.js";
import { $, el } from "./dom.js";
import { isPause, timeOfDay } from "./texts.js";

const MAX_ENTRIES = 20; // limits the size of a page that stays open for a day

export function connectButtons() {
  const dialog = $("pause-dialog");
  $("storm").addEventListener("click", () => run($("storm"), "POST", `/demo/storm?of=${$("celebrity").value}`));
  $("kill").addEventListener("click", () => run($("kill"), "POST", "/demo/kill", { role: $("role").value }));
  $("empty").addEventListener("click", () => run($("empty"), "POST", "/demo/empty"));
  $("pause").addEventListener("click", () => ($("pause").dataset.active ? run($("pause"), "DELETE", "/demo/pause") : dialog.showModal()));
  $("cancel").addEventListener("click", () => dialog.close());
  dialog.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const { reason, seconds } = Object.fromEntries(new FormData(event.target));
    dialog.close();
    run($("pause"), "POST", "/demo/pause", { reason, seconds: Number(seconds) });
  });
}

export function updatePauseButton(throttle) {
  const active = throttle?.state === "active";
  const label = !active ? "Pause P2…" : isPause(throttle) ? "Lift the pause" : "Lift the throttle";
  if ($("pause").textContent !== label) $("pause").textContent = label;
  if (active) $("pause").dataset.active = "yes";
  else delete $("pause").dataset.active;
}

async function run(button, method, path, body) {
  button.disabled = true;
  button.dataset.busy = "yes";
  try {
    const { message, cli, curl } = await requestJson(method, path, body);
    setMessage(message);
    log(message, { CLI: cli, curl });
  } catch (error) {
    setMessage(error.message);
    log(error.message);
  }
  button.disabled = false;
  delete button.dataset.busy;
  button.focus({ preventScroll: true });
}

export function setMessage(text) {
  $("message").textContent = text;
}

export function log(text, commands = {}) {
  const list = $("log");
  list.querySelector(".none")?.remove();
  const lines = Object.entries(commands).map(([name, command]) => commandLine(name, command));
  list.prepend(el("li", {}, el("p", {}, el("time", {}, timeOfDay()), el("span", {}, text)), ...lines));
  while (list.children.length > MAX_ENTRIES) list.lastChild.remove();
}

function commandLine(name, command) {
  const copy = el("button", { type: "button", "aria-label": `Copy the ${name} command` }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(command).then(() => (copy.textContent = "Copied"), () => (copy.textContent = "Select it"));
    setTimeout(() => (copy.textContent = "Copy"), 1_500);
  });
  return el("div", { class: "command" }, el("span", {}, name), el("code", { tabindex: "0" }, command), copy);
}
