// Drives the console in a browser, while the client of TypeScript makes calls: see .ci/browser.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { eventually, launch, visit } from "./browser.mjs";
import * as access from "./console-access.mjs";
import * as approvals from "./console-approvals.mjs";
import * as dev from "./console-dev.mjs";
import * as feed from "./console-feed.mjs";
import { call, DESK, EXACT, Host, open, outcome, PHONE, rowOf } from "./console-host.mjs";
import * as login from "./console-login.mjs";
import * as reading from "./console-reading.mjs";
import * as save from "./console-save.mjs";

const PICTURE = { width: 1280, height: 760 };

let host;

/** Records tasks of the page that block it. It is called before the page has loaded. */
const watchTasks = (page) => page.addInitScript(() => {
  globalThis.longTasks = [];
  new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) longTasks.push(duration); }).observe({ entryTypes: ["longtask"] });
});

const scenarios = {
  ...access,
  ...approvals,
  ...dev,
  ...feed,
  ...login,
  ...reading,
  ...save,

  async shows_calls_as_they_are_made({ page, modern, legacy }) {
    for (const client of [modern, legacy]) {
      const slow = call(client, "slow", { n: 4000 });
      await outcome(page, "slow", "running"); // before its result
      await slow;
      await outcome(page, "slow", "ok");
      assert.match(await rowOf(page, "slow").locator(".took").textContent(), /^[45]\.\d s$/);
      await call(client, "fail");
      await outcome(page, "fail", "tool error");
      await call(client, "delete");
      await outcome(page, "delete", "denied");
    }
    await eventually(async () => assert.equal(await page.locator(".calls tbody tr").count(), 6));
  },

  async shows_who_waited({ page, legacy }) {
    const written = call(legacy, "write", { text: "a" });
    await outcome(page, "write", "waiting");
    await page.getByRole("link", { name: /waiting/ }).or(page.locator(".badge.waiting")).first().waitFor({ state: "attached" });
    await written;
    await outcome(page, "write", "ok");
    await open(page, "write");
    await page.locator(".timeline dd", { hasText: /^5\.\d s$/ }).waitFor();
    assert.match(await page.locator(".why").textContent(), /Asked by the rule changes: a person approves every change .*accepted by ada/);
    await page.locator(".tab", { hasText: "Why" }).click();
    assert.match(await page.locator(".steps .matched").first().textContent(), /changes.*ask/);
  },

  async keeps_every_byte({ page, modern }) {
    await call(modern, "echo", "EXACT");
    await outcome(page, "echo", "ok");
    await open(page, "echo");
    const shown = page.locator(".json").first();
    await shown.waitFor();
    const text = async (at) => (await page.locator(".json").nth(at).textContent()).replaceAll(/\s/g, "");
    assert.equal(await text(0), EXACT);
    assert.ok((await text(1)).includes(`"structuredContent":${EXACT}`), await text(1));
    await page.keyboard.press("t");
    await page.waitForTimeout(600); // clicks are ignored before that
    await page.locator(".confirm .accept").click();
    await page.waitForURL(/#calls\/2$/);
    await eventually(async () => assert.equal(await text(0), EXACT));
    assert.match(await page.locator(".detail .quiet").first().textContent(), /console:operator/);
  },

  async tries_a_tool_with_exact_numbers({ page }) {
    await page.getByRole("link", { name: /^Servers/ }).click();
    await page.locator(".servers a", { hasText: "files" }).click();
    await page.locator(".entry", { hasText: "echo" }).click();
    await page.locator(".form label", { hasText: "id" }).locator("input").fill("9007199254740993");
    await page.locator(".form label", { hasText: "price" }).locator("input").fill("1.10");
    await page.locator(".form .accept").click();
    await page.waitForTimeout(600);
    await page.locator(".confirm .accept").click();
    await page.waitForURL(/#calls\/1$/);
    await eventually(async () => assert.equal((await page.locator(".json").first().textContent()).replaceAll(/\s/g, ""), '{"id":9007199254740993,"price":1.10}'));
  },

  async is_not_busy({ page, modern }) {
    const flood = call(modern, "flood", { n: 2000 }, { onprogress: () => {} });
    for (let i = 0; i < 600; i++) await call(modern, "echo", { id: i });
    await flood;
    await page.locator(".search").fill("flood");
    await open(page, "flood");
    await page.locator(".json").first().waitFor();
    await page.locator(".search").fill("");
    await eventually(async () => assert.equal(await page.locator(".calls tbody tr").count(), 250));
    const long = (await page.evaluate(() => longTasks)).filter((duration) => duration > 100);
    console.log(`  tasks of more than 100 ms: ${long.length}`);
    if (process.env.ALONE) assert.deepEqual(long, []);
  },

  async filters_and_pauses({ page, modern }) {
    await call(modern, "fail");
    await call(modern, "echo", { id: 1 });
    await outcome(page, "echo", "ok");
    await page.locator(".chip", { hasText: "Failed" }).click();
    await eventually(async () => assert.equal(await page.locator(".calls tbody tr").count(), 1));
    await page.locator(".chip", { hasText: "All" }).click();
    await page.locator(".search").fill("ECHO");
    await eventually(async () => assert.equal(await page.locator(".calls tbody tr").count(), 1));
    await page.locator(".search").press("Escape");
    assert.equal(await page.locator(".search").inputValue(), "ECHO");
    await page.locator(".search").fill("");
    await page.locator(".search").blur();
    await page.keyboard.press("p");
    await call(modern, "slow", { n: 1 });
    await page.waitForTimeout(700);
    assert.equal(await page.locator(".calls tbody tr").count(), 2);
    await page.keyboard.press("p");
    await outcome(page, "slow", "ok");
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.waitForURL(/#calls\/2$/);
  },

  async tries_a_policy({ page, modern }) {
    await call(modern, "echo", { id: 1 });
    await outcome(page, "echo", "ok");
    await page.getByRole("link", { name: "Policy" }).click();
    await page.locator(".force", { hasText: /policy\.json · sha256:[0-9a-f]{64}/ }).waitFor();
    assert.match(await page.locator("textarea").inputValue(), /no-deletes/);
    await page.locator("textarea").fill('{"rules": [\n  {"match": 1}]}');
    await page.locator(".policy .accept").click();
    await page.locator(".result", { hasText: 'policy.json:2:4: unknown member "match"' }).waitFor();
    await page.locator("textarea").fill('{"rules": [{"effect": "ask",\n  "names": []}]}');
    await page.locator(".policy .accept").click();
    await page.locator(".result", { hasText: "policy.json:2:12: rules[0].names: an empty list" }).waitFor();
    await page.locator("textarea").fill('{"rules": [{"name": "all", "effect": "ask"}]}');
    await page.locator(".policy .accept").click();
    await page.locator(".changes td", { hasText: "allow → ask" }).waitFor();
    await page.locator(".changes td", { hasText: "files__echo by all" }).waitFor();
    assert.equal(await page.locator(".changes .spaces").count(), 0);
    await page.getByRole("button", { name: "Show the policy in force" }).click();
    assert.match(await page.locator("textarea").inputValue(), /no-deletes/);
  },

  async cancels_a_call({ page, modern, legacy }) {
    for (const client of [modern, legacy]) {
      const slow = call(client, "slow", { n: 60_000 }).then(() => "a result", (error) => error.message);
      await outcome(page, "slow", "running");
      await open(page, "slow");
      await page.getByRole("button", { name: "Cancel the call…" }).click();
      await page.waitForTimeout(600);
      await page.locator(".confirm .accept").click();
      await outcome(page, "slow", "canceled");
      assert.match(await slow, /an operator has canceled the call; it may have been executed/);
    }
  },

  async shows_what_happened({ page }) {
    await page.getByRole("link", { name: /^Servers/ }).click();
    await page.locator(".events li", { hasText: "files: the server is ready" }).waitFor();
    await page.locator(".servers a", { hasText: "files" }).click();
    await page.locator(".stderr", { hasText: "files: serving /srv/www" }).waitFor();
    await page.getByRole("button", { name: "Restart" }).click();
    await page.waitForTimeout(600);
    await page.locator(".confirm .accept").click();
    const events = page.locator(".detail .events li");
    await eventually(async () => assert.match(await events.first().textContent(), /the server is ready/));
    await page.locator(".detail .events li", { hasText: "the server is restarted on request" }).waitFor();
  },

  async shows_a_viewer_no_contents({ browser, legacy }) {
    await call(legacy, "echo", { text: "canary" });
    const { page, troubles } = await visit(browser, `${host.url}#token=${host.viewer}`);
    await outcome(page, "echo", "ok");
    await open(page, "echo");
    await page.getByText("This link shows names").waitFor();
    assert.ok(!(await page.content()).includes("canary"));
    assert.equal(await page.getByRole("button", { name: /Call again/ }).count(), 0);
    assert.deepEqual(troubles, []);
    await page.context().close();
  },

  async asks_for_the_token({ browser }) {
    const { page } = await visit(browser, `${host.url}#token=${"x".repeat(40)}`);
    await page.locator(".token input").fill(host.token);
    await page.locator(".token button").click();
    await page.locator(".connection[data-state=connected]").waitFor();
    assert.ok(!page.url().includes("token"));
    await page.context().close();
  },

  async fits_a_phone({ browser, modern }) {
    await call(modern, "echo", { id: 1 });
    for (const colorScheme of ["light", "dark"]) {
      const { page, troubles } = await visit(browser, host.link, { viewport: PHONE, colorScheme });
      await open(page, "echo");
      await page.locator(".json").first().waitFor();
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), PHONE.width);
      await page.locator(".back").click();
      await page.locator(".calls").waitFor();
      assert.deepEqual(troubles, []);
      await page.context().close();
    }
  },

  async looks_good({ browser, page, modern, legacy }) {
    for (let i = 0; i < 12; i++) await call(i % 3 ? modern : legacy, "echo", { id: i, text: "robots.txt" });
    await call(legacy, "fail");
    await call(modern, "delete");
    await call(modern, "slow", { n: 1200 });
    const paid = call(legacy, "pay", { id: 9007199254740, text: "rent" });
    await outcome(page, "pay", "waiting");
    const looked = new AbortController();
    call(modern, "flood", { n: 1000, pause: 300 }, { onprogress: () => {}, signal: looked.signal });
    for (const colorScheme of ["light", "dark"]) {
      const { page: shown } = await visit(browser, host.link, { viewport: PICTURE, colorScheme });
      await rowOf(shown, "flood").locator("small", { hasText: "of 1000" }).waitFor();
      await open(shown, "echo");
      await shown.locator(".json").nth(1).waitFor();
      if (process.env.CONSOLE_SCREENSHOT) writeFileSync(`${process.env.CONSOLE_SCREENSHOT}-${colorScheme}.png`, await shown.screenshot());
      await shown.context().close();
    }
    await page.getByRole("link", { name: /^Approvals/ }).click();
    await page.locator(".card .accept[aria-disabled=false]").click();
    await paid;
    looked.abort();
  },
};

const PATIENCE = 180_000; // milliseconds for a scenario

const late = () => new Promise((_, reject) => setTimeout(() => reject(new Error("it takes too long")), PATIENCE).unref());

/** Runs a scenario with a new host, a page and two clients. */
async function run(browser, scenario) {
  host = await Host.start();
  try {
    const [modern, legacy] = [await host.connect("2026-07-28"), await host.connect()];
    const stage = { browser, host, modern, legacy, expected: /^$/ }; // of troubles
    const { page, troubles, sent } = await visit(browser, host.link, { viewport: DESK, before: watchTasks });
    await page.locator(".connection[data-state=connected]").waitFor();
    await Promise.race([scenario(Object.assign(stage, { page, sent })), late()]);
    assert.deepEqual(troubles.filter((trouble) => !stage.expected.test(trouble)), []);
    await page.context().close();
    for (const client of [modern, legacy]) await client.close().catch(() => {}); // a scenario may have killed the host
  } finally {
    await host.kill();
  }
}

const wanted = process.argv.slice(2);
const chosen = Object.entries(scenarios).filter(([name]) => wanted.length === 0 || wanted.some((part) => name.includes(part)));
const browser = await launch();
try {
  for (const [name, scenario] of chosen) {
    const began = Date.now();
    await run(browser, scenario).catch((cause) => { throw new Error(`${name}: ${cause.message}`, { cause }); });
    console.log(`ok ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  }
} finally {
  await browser.close();
}
console.log(`${chosen.length} passed, 0 failed`);
