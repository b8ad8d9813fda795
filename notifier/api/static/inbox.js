// The bare page: asks the user for a token and does not store it.

const form = document.querySelector("form");
const inbox = document.querySelector("notifier-inbox");

form.addEventListener("submit", (event) => {
  event.preventDefault();
  inbox.token = new FormData(form).get("token").trim();
  form.hidden = true;
  inbox.hidden = false;
});

inbox.addEventListener("badge", ({ detail: { count, more } }) => {
  document.title = count ? `(${count}${more ? "+" : ""}) Notifications` : "Notifications";
});
