// What the console shows of a program that is developed.
import assert from "node:assert/strict";
import { eventually, visit } from "./browser.mjs";
import { PHONE } from "./console-host.mjs";

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
