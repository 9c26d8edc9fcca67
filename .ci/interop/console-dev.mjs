// What the console shows of a program that is developed.
import assert from "node:assert/strict";
import { eventually, visit } from "./browser.mjs";
import { call, open, outcome, PHONE } from "./console-host.mjs";

export async function shows_builds({ browser, host, page }) {
  const panel = page.locator(".build");
  const line = (shown, text) => eventually(async () => assert.equal(await shown.locator("[role=status]").textContent(), text));
  assert.ok(await panel.isHidden());
  host.build({ State: "building", File: "main.go" });
  await line(panel, "main.go changed → building …");
  host.build({ State: "failed", File: "main.go", Took: 1_250_000_000, Text: "main.go:7: undefined: x\u202ey\n" });
  await line(panel, "main.go changed → failed after 1.3 s");
  // It stays, also for a page that comes later.
  const { page: phone, troubles } = await visit(browser, host.link, { viewport: PHONE });
  await line(phone.locator(".build"), "main.go changed → failed after 1.3 s");
  assert.equal(await phone.evaluate(() => document.documentElement.scrollWidth), PHONE.width);
  assert.deepEqual(troubles, []);
  await phone.context().close();
  await page.getByRole("link", { name: /^Servers/ }).click();
  assert.match(await panel.locator("pre").textContent(), /undefined: xU\+202Ey/);
  // Viewers see no source.
  const { page: other } = await visit(browser, `${host.url}#token=${host.viewer}`);
  await other.locator(".role", { hasText: "viewer" }).waitFor();
  host.build({ State: "built", File: "main.go", Took: 2_400_000_000, Added: ["copy"], Changed: ["echo", "slow"] });
  await line(panel, "main.go changed → built in 2.4 s → tools +1 copy −0 ~2 echo slow ");
  assert.equal(await panel.locator("pre").count(), 0);
  assert.ok(await other.locator(".build").isHidden());
  await other.context().close();
}

export async function records_messages({ page, modern, legacy }) {
  await call(modern, "echo", { id: 1 });
  await outcome(page, "echo", "ok");
  await open(page, "echo");
  await page.locator(".tab", { hasText: "Messages" }).click();
  await page.locator(".recording", { hasText: "No message of this call is kept." }).locator("button").click();
  await eventually(async () => assert.equal(await page.locator(".recording button").count(), 0));
  for (const [i, [client, version]] of [[modern, "2026-07-28"], [legacy, "2025-11-25"]].entries()) {
    await call(client, "echo", { id: 9007199254740991, text: "a\u200bb", password: "hunter2" });
    await eventually(async () => assert.equal(await page.locator(".calls tbody tr").count(), i + 2));
    await page.locator(".calls tbody tr a").first().click();
    const messages = page.locator(".message");
    await messages.nth(0).locator("summary", { hasText: `from the client tools/call ${version}` }).waitFor(); // not those of the call before
    assert.equal(await messages.count(), 2);
    await messages.nth(0).locator("summary").click();
    const text = await messages.nth(0).locator("pre").textContent();
    assert.match(text, /9007199254740991/);
    assert.match(text, /U\+200B/);
    assert.doesNotMatch(text, /hunter2/);
  }
}
