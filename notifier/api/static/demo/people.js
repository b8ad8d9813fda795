// Whose inbox the phone shows: four people, one after another in the same element.

import { ask } from "./service.js";
import { PEOPLE } from "./words.js";

const phone = document.querySelector("notifier-inbox");
const $ = (id) => document.getElementById(id);
let people = {};

async function known() {
  const found = await ask("GET", "/demo/people");
  people = Object.fromEntries(found.people.map((person) => [person.kind, person]));
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
}
