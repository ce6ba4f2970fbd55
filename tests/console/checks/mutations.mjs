// Mutations of the console: each changes the pages on their way to the browser, and a check must fail.
import assert from "node:assert/strict";
import { checks as pages } from "./pages.mjs";
import { checks as figures } from "./figures.mjs";
import { checks as names } from "./names.mjs";

const all = { ...pages, ...figures, ...names };

/** A change of the HTML, the check that must see it, and the text of its failure. */
const MUTATIONS = [
  ["a name is not escaped", "names and labels full of markup are shown as text", /the list|the page of|dialog|ERR_|status 404/,
    (html) => html.replaceAll("&lt;img", "<img").replaceAll("&lt;script", "<script")],
  ["data is not escaped", "data of the tree is shown as text, and marks of direction are visible", /textarea|script|0/,
    (html) => html.replaceAll("&lt;", "<").replaceAll("&gt;", ">")],
  ["an element has a style", "no page has a script or a style in it, and the policy forbids both", /style="color:red"/,
    (html) => html.replace("<main", '<main style="color:red"')],
  ["a page has a script", "no page has a script or a style in it, and the policy forbids both", /<script>/,
    (html) => html.replace("</main>", "<script>1</script></main>")],
  ["a page has a picture of another host", "every page renders without an error and asks only its own node", /other\.example|img-src/,
    (html) => html.replace("</main>", '<img alt="" src="https://other.example/x.png"></main>')],
  ["a figure is one too large", "the figures of a page equal the API's", /shop/,
    (html) => html.replaceAll(/(data-field="waiters"[^>]*>)(\d+)/g, (_, tag, n) => `${tag}${Number(n) + 1}`)],
  ["the queue is in another order", "the queue of a lock is in the order of its grants", /web-4/,
    (html) => html.replace('data-waiter="web-2"', 'data-waiter="?"').replace('data-waiter="web-4"', 'data-waiter="web-2"')],
  ["a field has no label", "axe finds no violation on any page in either theme", /label: <input/,
    (html) => html.replace("</main>", '<input type="text"></main>')],
  ["a block is too wide", "no page of a phone or at 200 % zoom scrolls sideways", /wider than 320/,
    (html) => html.replace("</main>", '<svg width="900" height="9" role="presentation"></svg></main>')],
];

export const checks = Object.fromEntries(MUTATIONS.filter(([, of]) => of in all).map(([what, of, failure, change]) => [`a check fails if ${what}`, async (stage) => {
  let changed = false;
  stage.change = (html) => {
    const after = change(html);
    changed ||= after !== html;
    return after;
  };
  try {
    await assert.rejects(all[of](stage), (error) => failure.test(`${error.message} ${error.actual}`));
  } finally {
    stage.change = undefined;
  }
  assert.ok(changed, "the mutation changed no page");
}]));
