// Adds a form below each example of /docs. It sends the call to the node that served the page.
"use strict";

// The examples name the session `me`. Each page has a session of its own, and a new one after the session has ended.
let session = "me";

function element(name, properties) {
  return Object.assign(document.createElement(name), properties);
}

function renewSession() {
  const next = `me-${Math.random().toString(36).slice(2, 10)}`;
  for (const field of document.querySelectorAll("textarea")) {
    field.value = field.value
      .replaceAll(`session=${session}`, `session=${next}`)
      .replaceAll(`/v1/sessions/${session}`, `/v1/sessions/${next}`)
      .replaceAll(`"${session}"`, `"${next}"`);
  }
  session = next;
}

// JSON with one field a line; any other answer as it is.
function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function send(method, target, body, answer) {
  answer.textContent = "waiting for the node";
  try {
    // Relative to this page, which may be below the path of a proxy.
    const reply = await fetch(`.${target}`, { method, body: body || undefined, redirect: "manual" });
    answer.textContent = `${reply.status}\n${readable(await reply.text())}`;
    if (reply.status === 410) {
      renewSession();
      answer.textContent += `\nThe forms of this page now use the new session ${session}.`;
    }
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
renewSession();
