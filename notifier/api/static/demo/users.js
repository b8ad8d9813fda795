// Shows the inbox of one of the four demo users.

import { requestJson } from "./api.js";
import { $, el } from "./dom.js";
import { compactNumber, INBOX_TEXTS } from "./texts.js";

const inbox = document.querySelector("notifier-inbox");
const CELEBRITIES = 2;
const RETRY_DELAY = 1_000;
const POLL_INTERVAL = 5_000;
const MAX_POLLS = 24; // stop after two minutes: a demo with one celebrity never gets a second
let users = {}; // kind to user

const sleep = (delay) => new Promise((resolve) => setTimeout(resolve, delay));
const selectedKind = () => document.querySelector("#users :checked").value;

async function loadUsers() {
  const { people, stars } = await requestJson("GET", "/demo/people");
  users = Object.fromEntries(people.map((user) => [user.kind, user]));
  updateCelebrities(stars);
}

function updateCelebrities(celebrities) {
  for (const { user, followers } of celebrities) {
    const option = $("celebrity").querySelector(`[value="${user}"]`) ?? $("celebrity").appendChild(el("option", { value: user }));
    option.textContent = `@${user}, ${compactNumber(followers)} followers`;
  }
}

// The second celebrity is loaded while the visitor watches the first one's burst.
async function pollCelebrities() {
  for (let polls = 0; polls < MAX_POLLS && $("celebrity").options.length < CELEBRITIES; polls++) {
    await sleep(POLL_INTERVAL);
    await loadUsers().catch(() => {});
  }
}

function showUser() {
  const user = users[selectedKind()];
  $("user-text").textContent = INBOX_TEXTS[selectedKind()];
  if (!user) return;
  $("user-title").textContent = `The inbox of ${user.user}`;
  inbox.token = user.token;
}

export async function showInbox() {
  $("users").addEventListener("change", showUser);
  inbox.getToken = async () => {
    await loadUsers();
    return users[selectedKind()].token;
  };
  showUser();
  while (!users.vip) await loadUsers().catch(() => sleep(RETRY_DELAY));
  showUser();
  pollCelebrities();
}
