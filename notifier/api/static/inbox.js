// The bare page: takes a token from the person and keeps it nowhere.

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
