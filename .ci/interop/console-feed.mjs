// Calls appear at once, with their true times; connections that break; and strangers.
import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { eventually } from "./browser.mjs";
import { call, Host, open, outcome } from "./console-host.mjs";

const LOST = /WebSocket|Failed to load resource|ERR_CONNECTION/; // what a browser says about it on its console
const LATEST = 500; // milliseconds, from the call to its row
const TRUE = 5; // milliseconds, by which a time may differ

const rows = (page) => page.locator(".calls tbody tr").evaluateAll((all) => all.map((row) => Number(row.dataset.id)).sort((a, b) => a - b));
const state = (page, wanted) => eventually(async () => assert.equal(await page.locator(".bar .connection").getAttribute("data-state"), wanted));

/** The numbers are measured on each machine, and compared only where nothing else runs. */
export async function shows_rows_at_once_with_true_times({ page, modern, legacy }) {
  for (const [i, client] of [modern, legacy].entries()) {
    await page.evaluate((count) => {
      window.shown = new Promise((resolve) => new MutationObserver((_, observer) => {
        if (document.querySelectorAll(".calls tbody tr[data-id]").length < count) return;
        observer.disconnect();
        resolve(Date.now());
      }).observe(document.querySelector(".calls"), { childList: true, subtree: true }));
    }, i + 1);
    const began = Date.now();
    const { content } = await call(client, "slow", { n: 2000 });
    const after = (await page.evaluate(() => window.shown)) - began;
    const took = Number(content[0].text) / 1000; // measured in the tool
    await outcome(page, "slow", "ok");
    await open(page, "slow");
    const served = Number(await page.locator(".timeline i.served").getAttribute("data-us")) / 1000;
    console.log(`  a row after ${after} ms; ${served.toFixed(1)} ms at the server, which took ${took.toFixed(1)} ms`);
    assert.ok(served >= took - 0.1, "less time than the server took");
    if (!process.env.ALONE) continue;
    assert.ok(after <= LATEST);
    assert.ok(served - took <= TRUE);
  }
}

export async function connects_again_without_doubles(stage) {
  const { host, page, modern } = stage;
  stage.expected = LOST;
  for (let i = 0; i < 5; i++) await call(modern, "echo", { id: i });
  await eventually(async () => assert.deepEqual(await rows(page), [1, 2, 3, 4, 5]));
  // The page says that it is not live. It connects again soon, so that is watched from within.
  await page.evaluate(() => {
    const line = document.querySelector(".bar .connection");
    window.lost = new Promise((resolve) => new MutationObserver(() => {
      if (line.dataset.state === "lost") setTimeout(() => resolve(line.textContent));
    }).observe(line, { attributes: true }));
  });
  host.cut();
  assert.match(await page.evaluate(() => window.lost), /^Not connected/);
  await call(modern, "echo", { id: 6 });
  await state(page, "connected");
  await eventually(async () => assert.deepEqual(await rows(page), [1, 2, 3, 4, 5, 6]));
  // The program is killed and started again: its calls are other ones.
  await open(page, "echo");
  await page.locator(".json").first().waitFor();
  await host.kill();
  await state(page, "lost");
  assert.equal((await rows(page)).length, 6); // what it knows can still be read
  assert.ok(await page.locator(".retry").isVisible());
  const next = await Host.start({ addr: host.addr, token: host.token });
  try {
    await state(page, "connected");
    await eventually(async () => assert.deepEqual(await rows(page), []));
    await page.locator(".detail", { hasText: "not kept" }).waitFor(); // the selected call is not one of this program
    const client = await next.connect("2026-07-28");
    await call(client, "fail");
    await eventually(async () => assert.deepEqual(await rows(page), [1]));
    await outcome(page, "fail", "tool error");
    // Approvals are connected again, too.
    const paid = call(client, "pay", { id: 1 });
    await page.getByRole("link", { name: "Approvals 1 waiting" }).click();
    await page.locator(".card .accept[aria-disabled=false]").click();
    await paid;
    await client.close();
  } finally {
    await next.kill();
  }
}

/** The list is not at its beginning again after each short interruption. */
export async function keeps_its_place(stage) {
  const { host, page, modern } = stage;
  stage.expected = LOST;
  for (let i = 0; i < 80; i++) await call(modern, "echo", { id: i });
  await eventually(async () => assert.equal((await rows(page)).length, 80));
  await page.locator(".list .scroll").evaluate((list) => { list.scrollTop = 700; });
  const place = () => page.locator(".calls tr[data-id='50']").evaluate((row) => Math.round(row.getBoundingClientRect().top));
  const before = await place();
  host.cut();
  await call(modern, "echo", { id: 80 });
  await eventually(async () => assert.equal((await rows(page)).length, 81));
  await eventually(async () => assert.ok(Math.abs((await place()) - before) <= 1, `the row was at ${before}, and is at ${await place()}`));
}

/** Requests a path with headers, and returns the status. */
async function status(host, path, headers) {
  const asked = request(new URL(path, host.url), { headers });
  asked.end();
  const [response] = await Promise.race([once(asked, "response"), once(asked, "upgrade")]);
  asked.destroy();
  return response.statusCode;
}

export async function refuses_strangers({ browser, host, page }) {
  const socket = (protocol, more) => ({ Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": protocol, ...more });
  const known = `dovetail.console.v1, dovetail.token.${host.token}`;
  for (const [what, path, headers, want] of [
    ["the page", "", {}, 200], ["the page at another host", "", { Host: "evil.example" }, 403], ["the page from another origin", "", { Origin: "https://evil.example" }, 403],
    ["the feed", "feed", socket(known), 101], ["without a token", "feed", socket("dovetail.console.v1"), 401], ["with another token", "feed", socket(`dovetail.console.v1, dovetail.token.${"x".repeat(52)}`), 401],
    ["the feed at another host", "feed", socket(known, { Host: "evil.example" }), 403], ["the feed from another origin", "feed", socket(known, { Origin: "https://evil.example" }), 403],
  ]) assert.equal(await status(host, path, headers), want, what);
  // A page of another origin in the same browser knows the token, and gets nothing.
  const context = await browser.newContext();
  try {
    const stranger = await context.newPage();
    await stranger.route("http://evil.example/", (route) => route.fulfill({ body: "<title>evil</title>", contentType: "text/html" }));
    await stranger.goto("http://evil.example/");
    const feed = `${host.url.replace("http", "ws")}feed`;
    const got = await stranger.evaluate(([feed, token]) => new Promise((resolve) => {
      const socket = new WebSocket(feed, ["dovetail.console.v1", `dovetail.token.${token}`]);
      socket.onmessage = ({ data }) => resolve(data);
      socket.onerror = () => resolve("refused");
    }), [feed, host.token]);
    assert.equal(got, "refused");
  } finally {
    await context.close();
  }
  await state(page, "connected");
}
