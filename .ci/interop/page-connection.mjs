// Connections that break, servers that start again, tokens, and other approvers.
import assert from "node:assert/strict";
import { eventually } from "./browser.mjs";

const LOST = /WebSocket|Failed to load resource|ERR_CONNECTION/; // what a browser says about it on its console

const cardOf = (page, number = 0) => page.locator(".pending .card").nth(number);
const waiting = async (page, count) => eventually(async () => assert.equal(await page.locator(".pending .card").count(), count));
const outcomes = (page) => page.locator(".decided .outcome").allTextContents();
const state = (page, wanted) => eventually(async () =>
  assert.equal(await page.locator(".connection").getAttribute("data-state"), wanted));

export async function connects_again(stage) {
  stage.expected = LOST;
  const host = await stage.host();
  const { page } = await stage.visit(host.link);
  const id = host.ask();
  await waiting(page, 1);
  const card = await cardOf(page).elementHandle();
  await cardOf(page).locator(".accept:not([aria-disabled=true])").waitFor();
  // It connects again soon: what is between is watched from within.
  await page.evaluate(() => {
    const card = document.querySelector(".pending .card");
    window.adrift = new Promise((resolve) => new MutationObserver(() => {
      if (card.classList.contains("adrift")) resolve([card.querySelector(".accept").ariaDisabled, card.querySelector(".note").textContent]);
    }).observe(card, { attributes: true }));
  });
  host.cut();
  assert.deepEqual(await page.evaluate(() => window.adrift), ["true", "Not connected: it cannot be answered now."]);
  await state(page, "connected");
  await cardOf(page).locator(".accept:not([aria-disabled=true])").waitFor();
  assert.equal(await card.evaluate((node) => node === document.querySelector(".pending .card")), true, "it is another card");
  assert.equal(await cardOf(page).locator(".note").textContent(), "");
  await cardOf(page).locator(".accept").click();
  assert.equal((await host.answer(id)).approved, true);
}

export async function survives_a_server(stage) {
  stage.expected = LOST;
  const host = await stage.host();
  const { page } = await stage.visit(host.link);
  host.ask({ tool: "before" });
  await waiting(page, 1);
  await host.kill();
  await state(page, "lost");
  assert.ok(await page.locator(".retry").isVisible());
  const next = await stage.host({ addr: host.addr, token: host.token });
  await state(page, "connected");
  const id = next.ask({ tool: "after" });
  await waiting(page, 2);
  // The new server does not know the old request.
  await eventually(async () => assert.deepEqual(await outcomes(page), ["Lost"]));
  assert.equal(await cardOf(page).locator(".tool").textContent(), "after");
  await cardOf(page).locator(".accept").click();
  assert.equal((await next.answer(id)).approved, true);
}

export async function knows_without_a_server_that_time_is_up(stage) {
  stage.expected = LOST;
  const host = await stage.host();
  const { page } = await stage.visit(host.link);
  host.ask({ seconds: 4 });
  await waiting(page, 1);
  await host.kill();
  await eventually(async () => assert.deepEqual(await outcomes(page), ["Expired"]));
}

export async function asks_again_when_an_answer_was_lost(stage) {
  stage.expected = LOST;
  const host = await stage.host();
  let lose = true;
  const { page } = await stage.visit(host.link, {
    before: (page) => page.routeWebSocket(/approval$/, (socket) => {
      const server = socket.connectToServer();
      socket.onMessage((frame) => {
        if (!lose) return server.send(frame);
        lose = false;
        server.close();
        socket.close({ code: 1011 });
      });
    }),
  });
  const id = host.ask();
  await cardOf(page).locator(".accept").click();
  await eventually(async () => assert.match(await cardOf(page).locator(".note").textContent(), /did not arrive/));
  assert.deepEqual(await outcomes(page), ["Lost"]);
  await cardOf(page).locator(".reject").click();
  assert.equal((await host.answer(id)).approved, false);
  assert.deepEqual(await outcomes(page), ["Rejected"]);
}

export async function asks_for_the_token(stage) {
  stage.expected = LOST;
  const host = await stage.host();
  const { page } = await stage.visit(`${host.url}#token=not-the-token-of-this-server`);
  await state(page, "refused");
  assert.match(await page.locator(".connection").textContent(), /does not accept this page’s token/);
  await page.locator(".token input").fill("no token (at all)");
  await page.locator(".token button").click();
  await eventually(async () => assert.match(await page.locator(".connection").textContent(), /cannot be a token/));
  await page.locator(".token input").fill(host.token);
  await page.locator(".token button").click();
  await state(page, "connected");
  assert.equal(await page.locator(".token").isVisible(), false);
}

export async function asks_for_the_new_token(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link);
  await state(page, "connected");
  host.change("the-token-that-counts-from-now-on");
  await state(page, "refused");
  assert.match(await page.locator(".connection").textContent(), /token has changed/);
  await page.locator(".token input").fill(host.token);
  await page.keyboard.press("Enter");
  await state(page, "connected");
}

export async function keeps_the_token_to_itself(stage) {
  const host = await stage.host();
  const { page, urls } = await stage.visit(`${host.url.slice(0, -1)}#token=${host.token}`); // without the slash
  await state(page, "connected");
  assert.equal(page.url(), host.url);
  await page.reload();
  await state(page, "connected");
  host.ask();
  await waiting(page, 1);
  const kept = await page.evaluate(async () => [
    document.documentElement.outerHTML, document.cookie, JSON.stringify(localStorage), location.href, JSON.stringify(history.state),
    JSON.stringify(await indexedDB.databases()), JSON.stringify(await caches.keys()),
  ].join("\n"));
  assert.doesNotMatch(kept, new RegExp(host.token));
  assert.ok(urls.length > 10 && host.requests.length > 10);
  for (const url of urls) assert.ok(!url.split("#")[0].includes(host.token), url);
  for (const { request, referer = "" } of host.requests) {
    assert.ok(!request.includes("?") && !request.includes(host.token), request);
    assert.equal(referer, "");
  }
  // Another tab of the same browser does not have it.
  const other = await page.context().newPage();
  await other.goto(host.url);
  await state(other, "refused");
}

export async function takes_a_new_link_in_the_same_tab(stage) {
  stage.expected = LOST;
  const host = await stage.host();
  const { page } = await stage.visit(host.url);
  await state(page, "refused");
  await page.goto(host.link);
  await state(page, "connected");
  assert.equal(page.url(), host.url);
}

export async function waits_for_a_full_server(stage) {
  stage.expected = LOST; // a busy browser has not opened the connection yet when it is closed
  const host = await stage.host();
  let full = true;
  const { page } = await stage.visit(host.link, {
    before: (page) => page.routeWebSocket(/approval$/, (socket) => {
      if (full) setTimeout(() => socket.close({ code: 1008, reason: "too many approvers are connected" }), 50); // once it is open
      else socket.connectToServer();
    }),
  });
  await state(page, "occupied");
  assert.match(await page.locator(".connection").textContent(), /does not accept another approver now/);
  full = false;
  await page.locator(".retry").click();
  host.ask();
  await waiting(page, 1);
  await state(page, "connected");
}

/** Visits of the persons with these names. */
async function persons(stage, host, ...names) {
  const visits = [];
  for (const name of names) visits.push(await stage.visit(host.link, { userAgent: name, viewport: { width: 900, height: 1600 } }));
  for (const { page } of visits) await state(page, "connected");
  return visits;
}

export async function shows_all_who_decided(stage) {
  const host = await stage.host({ identify: true });
  const [ada, bob, eve] = await persons(stage, host, "ada", "bob", "eve");
  const first = host.ask({ tool: "first", remember: 600 });
  for (const { page } of [ada, bob, eve]) await waiting(page, 1);
  await cardOf(ada.page).locator("select").selectOption({ label: "this call, and equal calls for 5 minutes" });
  await cardOf(ada.page).locator(".accept:not([aria-disabled=true])").click();
  assert.equal((await host.answer(first)).approved, true);
  for (const { page, sent } of [bob, eve]) {
    await waiting(page, 0);
    assert.deepEqual(await outcomes(page), ["Accepted"]);
    assert.equal(await page.locator(".decided .why").textContent(), "ada accepted, also equal calls for 5 minutes.");
    assert.deepEqual(sent, []);
  }
  const second = host.ask({ tool: "second" });
  for (const { page } of [ada, bob, eve]) await waiting(page, 1);
  await eve.page.keyboard.press("j"); // eve has selected it
  await cardOf(bob.page).locator("input").fill("not on Fridays");
  await cardOf(bob.page).locator(".reject:not([aria-disabled=true])").click();
  assert.equal((await host.answer(second)).approved, false);
  await waiting(ada.page, 0);
  assert.deepEqual(await outcomes(ada.page), ["Rejected", "Accepted"]);
  assert.equal(await ada.page.locator(".decided .why").first().textContent(), "bob rejected: not on Fridays");
  // The card that is selected stays, and takes no answer.
  await eventually(async () => assert.match(await cardOf(eve.page).locator(".note").textContent(), /Rejected\. bob rejected: not on Fridays/));
  await eve.page.keyboard.press("a");
  assert.deepEqual(eve.sent, []);
}

export async function does_not_know_who_decided_without_names(stage) {
  const host = await stage.host();
  const [one, two] = await persons(stage, host, "one", "two");
  host.ask();
  await waiting(two.page, 1);
  await cardOf(one.page).locator(".accept:not([aria-disabled=true])").click();
  await waiting(two.page, 0);
  assert.equal(await two.page.locator(".decided .why").textContent(), "Another approver accepted.");
}

export async function one_of_two_answers_counts(stage) {
  const host = await stage.host({ identify: true });
  let hold = true; // what the server tells eve
  const ada = (await persons(stage, host, "ada"))[0];
  const eve = await stage.visit(host.link, {
    userAgent: "eve",
    before: (page) => page.routeWebSocket(/approval$/, (socket) => {
      const server = socket.connectToServer();
      const held = [];
      server.onMessage((frame) => (hold && frame.includes('"withdrawn"') ? held.push(frame) : socket.send(frame)));
      socket.onMessage((frame) => {
        hold = false;
        held.forEach((late) => socket.send(late));
        server.send(frame);
      });
    }),
  });
  const id = host.ask();
  await waiting(eve.page, 1);
  await cardOf(eve.page).locator(".accept:not([aria-disabled=true])").waitFor();
  await cardOf(ada.page).locator(".reject:not([aria-disabled=true])").click();
  assert.equal((await host.answer(id)).approved, false);
  await cardOf(eve.page).locator(".accept").click(); // she does not see it yet
  await eventually(async () => assert.deepEqual(await outcomes(eve.page), ["Not counted"]));
  assert.equal(await eve.page.locator(".decided .why").textContent(), "ada rejected.");
  await new Promise((resolve) => setTimeout(resolve, 300)); // the refusal of her answer comes after that
  assert.equal(await eve.page.locator(".decided .why").textContent(), "ada rejected.");
  assert.deepEqual(await outcomes(ada.page), ["Rejected"]);
}
