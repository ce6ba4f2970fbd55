import { setTimeout as delay } from "node:timers/promises";
import express from "express";
import { Client } from "holdfast";
import { locked } from "./middleware.mjs";

const hf = new Client({ ttl: "4s", sessionPrefix: "shop" });
const app = express();

const checkOut = locked(hf, (request) => `carts/${request.params.cart}`, async (request, response, { guard, signal }) => {
  await delay(Number(request.query.ms ?? 0), undefined, { signal }); // the work: fetch and pg take the signal, too
  guard.ensure();
  response.json({ token: guard.token });
});
app.post("/carts/:cart", checkOut);

const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
