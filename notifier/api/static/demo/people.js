// The user whose inbox is shown: one of four, in the same element.

import { ask } from "./service.js";
import { brief, make, PEOPLE } from "./words.js";

const phone = document.querySelector("notifier-inbox");
const $ = (id) => document.getElementById(id);
const CELEBRITIES = 2;
const AGAIN = 5_000;
const ASKED = 24; // two minutes: a demo with one celebrity never gets a second
let people = {};

async function known() {
  const found = await ask("GET", "/demo/people");
  people = Object.fromEntries(found.people.map((person) => [person.kind, person]));
  celebrities(found.stars);
}

// Celebrities that a storm may mention. The selection is kept.
function celebrities(stars) {
  for (const { user, followers } of stars) {
    const old = $("star").querySelector(`[value="${user}"]`);
    const option = old ?? $("star").appendChild(make("option", { value: user }));
    option.textContent = `@${user}, ${brief(followers)} followers`;
  }
}

// The second celebrity is loaded while the visitor watches the first one's burst.
async function allCelebrities() {
  for (let times = 0; times < ASKED && $("star").options.length < CELEBRITIES; times++) {
    await new Promise((resolve) => setTimeout(resolve, AGAIN));
    await known().catch(() => {});
  }
}

const chosen = () => document.querySelector("#people :checked").value;

function show() {
  const person = people[chosen()];
  $("about").textContent = PEOPLE[chosen()];
  if (!person) return;
  $("whose").textContent = `The inbox of ${person.user}`;
  phone.token = person.token;
}

export async function inbox() {
  $("people").addEventListener("change", show);
  phone.getToken = async () => {
    await known();
    return people[chosen()].token;
  };
  show();
  while (!people.vip) {
    await known().catch(() => new Promise((resolve) => setTimeout(resolve, 1_000)));
  }
  show();
  allCelebrities();
}
