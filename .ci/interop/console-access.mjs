// The console with a keyboard only, at a zoom of 200 %, on a phone, and for programs that read it aloud.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { eventually, visit } from "./browser.mjs";
import { call, DESK, open, outcome, PHONE } from "./console-host.mjs";

const AXE = readFileSync(new URL(import.meta.resolve("axe-core/axe.min.js")), "utf8");
const ZOOMED = { width: 640, height: 450 }; // 1280 × 900 at 200 %
const LONG = "export_the_quarterly_report_of_departments_as_sheet"; // a name
const ARMED = 600; // milliseconds, after which a dialog takes an answer

/** What a person looks at: each view calls look(name) when it is complete. */
async function views({ page, modern }, look) {
  const go = (name) => page.getByRole("link", { name }).click();
  await call(modern, "echo", "EXACT");
  await call(modern, "echo", { id: 1, text: `a\u202eb ${"long ".repeat(60)}${"x".repeat(120)}`, password: "hunter2" });
  await call(modern, LONG);
  await call(modern, "fail");
  await call(modern, "delete");
  await outcome(page, "delete", "denied");
  await look("calls");
  for (const name of ["fail", "delete", LONG, "echo"]) {
    await open(page, name);
    await page.locator(".detail .tabs").waitFor();
    for (const tab of await page.locator(".tab").all()) {
      await tab.click();
      await look(`a call: ${name}, ${await tab.textContent()}`);
    }
    if (await page.locator(".back").isVisible()) await page.locator(".back").click();
  }
  await page.locator(".ask-help").click();
  await look("help");
  await page.keyboard.press("Escape");
  await go(/^Servers/);
  await look("servers");
  await page.locator(".servers a", { hasText: "files" }).click();
  await page.locator(".entry", { hasText: "echo" }).click();
  await look("a server");
  await page.locator(".form button", { hasText: "Edit as JSON" }).click();
  await look("a form as JSON");
  await page.getByRole("button", { name: "Restart…" }).click();
  await look("a question before an action");
  await page.keyboard.press("Escape");
  await go("Policy");
  await page.locator("textarea").fill('{"rules": [{"name": "all", "effect": "ask"}]}');
  await page.locator(".policy .accept").click();
  await page.locator(".changes").waitFor();
  await look("a policy");
  await page.locator("textarea").fill('{"rules": [{"match": 1}]}');
  await page.locator(".policy .accept").click();
  await page.locator(".policy .error").waitFor();
  await look("a mistake in a policy");
  await go(/^Approvals/);
  await look("no approvals");
  const paid = call(modern, "pay", { id: 7, text: "a\u200bb" });
  await page.locator(".card .accept[aria-disabled=false]").waitFor();
  await look("an approval");
  await page.locator(".card .accept").click();
  await paid;
  await page.locator(".decided summary").click();
  await look("a decided approval");
  const more = page.locator("nav a:visible:not([href='#calls'], [href='#servers'], [href='#policy'], [href='#approvals'])");
  for (const link of await more.all()) {
    await link.click();
    await look(await link.textContent());
  }
}

const ALL = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const COLORS = { type: "rule", values: ["color-contrast"] };

/** Reports what axe finds. */
async function check(page, name, runOnly = ALL) {
  const { violations } = await page.evaluate((runOnly) => axe.run({ runOnly, resultTypes: ["violations"] }), runOnly);
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 200)}\n    ${failureSummary.replaceAll("\n", "\n    ")}`).join("\n  ")}`);
  assert.deepEqual(found, [], name);
}

export async function has_nothing_that_axe_finds({ browser, host, modern }) {
  for (const [colorScheme, rules] of [["light", ALL], ["dark", COLORS]]) {
    const { page } = await visit(browser, host.link, { viewport: DESK, colorScheme, reducedMotion: "reduce" });
    await page.locator(".connection[data-state=connected]").first().waitFor();
    await page.evaluate(AXE);
    await views({ page, modern }, (name) => check(page, `${name}, ${colorScheme}`, rules));
    await page.context().close();
  }
  for (const token of [host.viewer, "x".repeat(40)]) {
    const { page } = await visit(browser, `${host.url}#token=${token}`, { viewport: DESK });
    await page.locator(".role, .token").first().waitFor({ state: token === host.viewer ? "visible" : "attached" });
    if (token === host.viewer) await open(page, "echo");
    else await page.locator(".token").waitFor();
    await page.evaluate(AXE);
    await check(page, token === host.viewer ? "a viewer" : "without a token");
    await page.context().close();
  }
}

/** Returns what is wider than the window, or whose text is cut. */
const cut = (page) => page.evaluate(() => {
  const found = [];
  if (document.documentElement.scrollWidth > innerWidth) found.push(`the page has ${document.documentElement.scrollWidth} pixels of ${innerWidth}`);
  for (const node of document.querySelectorAll("body *")) {
    if (!node.checkVisibility() || node.closest(".visually-hidden, .skip, [aria-hidden=true], .phases, .track, option")) continue;
    const { right, left, width } = node.getBoundingClientRect();
    if (width === 0) continue;
    const scrolls = (at) => at && (/auto|scroll/.test(getComputedStyle(at).overflowX) && at !== document.body && at.scrollWidth > at.clientWidth || scrolls(at.parentElement));
    if ((right > innerWidth + 1 || left < -1) && !scrolls(node.parentElement)) found.push(`out of the window: ${node.outerHTML.slice(0, 120)}`);
    if (/hidden|clip/.test(getComputedStyle(node).overflowX) && node.scrollWidth > node.clientWidth + 1) found.push(`cut: ${node.outerHTML.slice(0, 120)}`);
  }
  return found;
});

export async function cuts_nothing_in_a_narrow_window({ browser, host, modern }) {
  for (const options of [{ viewport: ZOOMED, deviceScaleFactor: 2 }, { viewport: PHONE, hasTouch: true, isMobile: true }]) {
    const { page, troubles } = await visit(browser, host.link, options);
    await page.locator(".connection[data-state=connected]").first().waitFor();
    await views({ page, modern }, async (name) => assert.deepEqual(await cut(page), [], `${name}, ${options.viewport.width} pixels wide`));
    assert.deepEqual(troubles, []);
    await page.context().close();
  }
}

/** Presses Tab until a control with a name has the focus, and returns how often. Each focus on the way must be visible. */
async function tabTo(page, name) {
  for (let pressed = 1; pressed < 120; pressed++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const node = document.activeElement;
      const visible = (of) => of && (getComputedStyle(of).outlineStyle !== "none" && parseFloat(getComputedStyle(of).outlineWidth) >= 1 || getComputedStyle(of).boxShadow !== "none");
      const { top, bottom } = node.getBoundingClientRect();
      return {
        name: (node.getAttribute("aria-label") ?? node.labels?.[0]?.textContent ?? node.textContent).trim(), html: node.outerHTML.slice(0, 100),
        visible: node === document.body || (visible(node) || visible(node.closest(".card"))) && bottom > 0 && top < innerHeight,
      };
    });
    assert.ok(at.visible, `the focus is not visible: ${at.html}`);
    if (name instanceof RegExp ? name.test(at.name) : at.name === name) return pressed;
  }
  throw new assert.AssertionError({ message: `no Tab leads to ${name}` });
}

export async function needs_no_mouse({ page, modern }) {
  const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
  const focused = (selector) => eventually(async () => assert.ok(await page.evaluate((selector) => document.activeElement.matches(selector), selector), `${selector} has no focus`));
  const confirm = async () => {
    await focused(".confirm button[value=no]"); // Enter alone does nothing
    await page.waitForTimeout(ARMED);
    await press("Tab", "Enter");
  };
  await call(modern, "echo", { id: 1 });
  await outcome(page, "echo", "ok");
  await press("Tab");
  await focused(".skip");
  await press("Enter");
  // A call: its row, its parts, the same call again, and back to the list.
  await tabTo(page, "files.echo");
  await press("Enter");
  await focused(".detail");
  await tabTo(page, "Why");
  await press("Enter");
  await page.locator(".steps").waitFor();
  await focused(".tab[aria-pressed=true]");
  await press("Escape");
  await focused(".calls a");
  await press("Enter");
  await tabTo(page, /^Call again/);
  await press("Enter");
  await confirm();
  await page.waitForURL(/#calls\/2$/);
  await focused(".detail");
  // A server: a tool with the form, and a restart.
  await page.reload();
  await page.locator(".connection[data-state=connected]").first().waitFor();
  await tabTo(page, /^Servers/);
  await press("Enter");
  await tabTo(page, "files");
  await press("Enter");
  await focused(".detail");
  await tabTo(page, /^echo/);
  await press("Enter");
  await focused(".entry[aria-expanded=true]");
  await tabTo(page, /^id/);
  await page.keyboard.type("9007199254740993");
  await tabTo(page, "Call…");
  await press("Enter");
  await confirm();
  await page.waitForURL(/#calls\/3$/);
  await page.locator(".json .number", { hasText: "9007199254740993" }).first().waitFor();
  await page.goBack();
  await page.locator(".entry").first().waitFor();
  await tabTo(page, /^Restart/);
  await press("Enter");
  await confirm();
  await eventually(async () => assert.equal(await page.locator(".detail > .say").textContent(), "Done."));
  // A policy.
  await tabTo(page, "Policy");
  await press("Enter");
  await tabTo(page, "A policy");
  await press("Control+a");
  await page.keyboard.insertText('{"rules": [{"name": "all", "effect": "ask"}]}');
  await tabTo(page, /^Try/);
  await press("Enter");
  await page.locator(".changes").waitFor();
  // Approvals: with Tab, and with the keys.
  for (const answer of ["tab", "key"]) {
    const paid = call(modern, "pay", { id: 7 });
    await page.getByRole("link", { name: /1 waiting/ }).waitFor();
    if (answer === "tab") {
      await tabTo(page, /^Approvals/);
      await press("Enter");
      await page.locator(".card .accept[aria-disabled=false]").waitFor();
      await tabTo(page, /^Accept/);
      await press("Enter");
    } else {
      await page.locator(".card .accept[aria-disabled=false]").waitFor();
      await press("j", "a");
    }
    assert.equal((await paid).isError ?? false, false);
  }
  await press("?");
  await page.locator(".help").waitFor();
  await press("Escape");
}
