// Adds a form below each example of /docs. It sends the call to the node that served the page.
"use strict";

function element(name, properties) {
  return Object.assign(document.createElement(name), properties);
}

async function send(method, target, body, answer) {
  answer.textContent = "waiting for the node";
  try {
    const reply = await fetch(target, { method, body: body || undefined, redirect: "manual" });
    answer.textContent = `${reply.status}\n${await reply.text()}`;
  } catch (error) {
    answer.textContent = `the call failed: ${error.message}`;
  }
}

for (const call of document.querySelectorAll("pre.call")) {
  const { method, target, body } = call.dataset;
  const form = element("details", {});
  const line = element("textarea", { rows: 1, value: target, spellcheck: false });
  const data = element("textarea", { rows: 2, value: body, spellcheck: false });
  const button = element("button", { textContent: `Send ${method}` });
  const answer = element("pre", { className: "answer" });
  button.addEventListener("click", () => send(method, line.value, data.value, answer));
  form.append(element("summary", { textContent: "Try it" }), line);
  if (method !== "GET") form.append(data);
  form.append(button, answer);
  call.after(form);
}
