// What a person reads stays as it is while other things change.
import assert from "node:assert/strict";
import { eventually } from "./browser.mjs";
import { call, open, outcome } from "./console-host.mjs";

/** Marks a node, so that its replacement is noticed. */
const mark = (locator) => locator.evaluate((node) => { node.marked = true; });
const isMarked = (locator) => locator.evaluate((node) => node.marked === true);
const isFocused = (locator) => locator.evaluate((node) => node === document.activeElement);

export async function keeps_what_is_read_while_a_call_goes_on({ page, modern }) {
  const report = call(modern, "flood", { n: 60, text: "long\n".repeat(400), pause: 50 }, { onprogress: () => {} });
  await outcome(page, "flood", "running");
  await open(page, "flood");
  const text = page.locator(".json").first();
  await text.waitFor();
  await mark(text);
  await text.evaluate((node) => { node.scrollTop = 100; });
  await page.locator(".detail").evaluate((node) => { node.scrollTop = 30; });
  const tab = page.locator(".tab", { hasText: "Summary" });
  await tab.focus();
  const row = page.locator(".calls a", { hasText: "flood" });
  await mark(row);
  await page.locator(".calls small", { hasText: "40 of 60" }).or(page.locator("[data-outcome=ok] .outcome")).first().waitFor(); // it goes on, or has ended on a busy machine
  assert.ok(await isFocused(tab), "the focus is lost");
  await report;
  await outcome(page, "flood", "ok");
  await page.locator(".json").nth(1).waitFor(); // the result
  assert.ok(await isMarked(text), "the arguments were made again");
  assert.equal(await text.evaluate((node) => node.scrollTop), 100);
  assert.equal(await page.locator(".detail").evaluate((node) => node.scrollTop), 30);
  assert.ok(await isFocused(tab), "the focus is lost at the end");
}

export async function shows_the_times_of_a_call_that_goes_on({ page, modern }) {
  call(modern, "slow", { n: 60_000 });
  await outcome(page, "slow", "running");
  await open(page, "slow");
  const served = page.locator(".timeline i.served");
  await served.waitFor();
  const now = () => served.getAttribute("data-us").then(Number);
  const before = await now();
  await eventually(async () => assert.ok(await now() > before + 1_500_000));
  assert.equal(await page.locator(".timeline i.rest").count(), 1);
  assert.ok(Number(await page.locator(".timeline i.rest").getAttribute("data-us")) < 1_000_000, "the time is counted for this program");
}

export async function leads_from_a_call_to_its_approval_and_its_server({ page, legacy }) {
  call(legacy, "pay", { id: 1 });
  await outcome(page, "pay", "waiting");
  await open(page, "pay");
  await page.getByRole("link", { name: "Answer it under Approvals" }).click();
  await page.locator(".card", { hasText: "pay" }).waitFor();
  await page.goBack();
  await page.locator(".detail h2 a", { hasText: "files" }).click();
  await page.waitForURL(/#servers\/files$/);
  await page.locator(".detail .launch").waitFor();
}

export async function keeps_a_form_while_its_server_works({ page, modern }) {
  await page.getByRole("link", { name: /^Servers/ }).click();
  await page.locator(".servers a", { hasText: "files" }).click();
  await page.locator(".entry", { hasText: "echo" }).click();
  const field = page.locator(".form input").first();
  await field.fill("90071992");
  const table = page.locator(".servers");
  await mark(table);
  for (let i = 0; i < 3; i++) await call(modern, "echo", { id: i });
  await page.locator(".servers td:nth-child(3)", { hasText: "3" }).waitFor();
  await page.keyboard.type("54740993"); // in the field, which has the focus
  assert.equal(await field.inputValue(), "9007199254740993");
  assert.ok(await isMarked(table), "the table was made again");
  const link = page.locator(".servers a", { hasText: "files" });
  await link.focus();
  await call(modern, "fail");
  await page.locator(".servers td:nth-child(4)", { hasText: "1" }).waitFor();
  assert.ok(await isFocused(link), "the focus is lost");
}
