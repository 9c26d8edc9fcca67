// What a person can set: notifications and keyboard shortcuts.
import assert from "node:assert/strict";
import { eventually } from "./browser.mjs";

const cardOf = (page, number = 0) => page.locator(".pending .card").nth(number);
const waiting = async (page, count) => eventually(async () => assert.equal(await page.locator(".pending .card").count(), count));
const SECRET = "hunter2";

/** Replaces the notifications of a browser, which has no desktop here. The answer of the person is given. */
const recordNotifications = (answer) => async (page) => page.addInitScript((answer) => {
  window.notifications = [];
  window.asked = 0;
  let permission = "default";
  window.Notification = class {
    static get permission() {
      return permission;
    }

    static async requestPermission() {
      window.asked++;
      if (!navigator.userActivation.isActive) throw new Error("no gesture of the person");
      return (permission = answer);
    }

    constructor(title, options) {
      Object.assign(this, { title, options, open: true });
      window.notifications.push(this);
    }

    close() {
      this.open = false;
    }
  };
  let hidden = false;
  Object.defineProperty(document, "hidden", { get: () => hidden });
  window.hide = (value) => {
    hidden = value;
    document.dispatchEvent(new Event("visibilitychange"));
  };
}, answer);

const notified = (page) => page.evaluate(() => window.notifications.map(({ title, options, open }) => ({ title, ...options, open })));

export async function notifies_while_hidden(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, { before: recordNotifications("granted") });
  const secret = { title: "Write a\u202e file", server: "files", arguments: `{"password":"${SECRET}"}`, description: SECRET, reason: SECRET, caller: SECRET, launch: SECRET };
  const hide = (hidden) => page.evaluate((hidden) => window.hide(hidden), hidden);
  // Off by default: no question and no notification.
  await hide(true);
  host.ask(secret);
  await waiting(page, 1);
  assert.deepEqual(await notified(page), []);
  assert.equal(await page.evaluate(() => window.asked), 0);
  await hide(false);
  const button = page.locator(".notify");
  assert.equal(await button.textContent(), "Notify: off");
  await button.click();
  await eventually(async () => assert.equal(await button.textContent(), "Notify: on"));
  assert.equal(await button.getAttribute("aria-pressed"), "true");
  // Not while the page is visible.
  host.ask(secret);
  await waiting(page, 2);
  assert.deepEqual(await notified(page), []);
  await hide(true);
  const id = host.ask(secret);
  await waiting(page, 3);
  host.ask({ ...secret, title: "", tool: "x".repeat(500), server: "" });
  await waiting(page, 4);
  const all = await notified(page);
  assert.deepEqual(all.map(({ title, body }) => [title, body]), [
    ["Approval needed (3 waiting)", "Write aU+202E file on files"], ["Approval needed (4 waiting)", `${"x".repeat(79)}…`],
  ]);
  assert.equal(new Set(all.map(({ tag }) => tag)).size, 1, "a notification does not replace the one before");
  assert.doesNotMatch(JSON.stringify(all), new RegExp(SECRET));
  // It disappears when the person comes back, and leads to the page.
  await hide(false);
  assert.equal((await notified(page)).at(-1).open, false);
  await hide(true);
  host.withdraw(id);
  await waiting(page, 3);
  assert.equal((await notified(page)).length, 2, "the end of a request is announced");
  // The choice stays.
  await page.reload();
  await eventually(async () => assert.equal(await page.evaluate(() => localStorage.getItem("dovetail.setting.notifications")), "on"));
  await button.click(); // the browser asks again here, since the permission is that of the test
  await eventually(async () => assert.equal(await button.textContent(), "Notify: on"));
  await button.click();
  await eventually(async () => assert.equal(await button.textContent(), "Notify: off"));
  await hide(true);
  host.ask(secret);
  await waiting(page, 4);
  assert.deepEqual(await notified(page), []);
}

export async function says_that_notifications_are_blocked(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, { before: recordNotifications("denied") });
  await page.locator(".notify").click();
  await eventually(async () => assert.equal(await page.locator(".notify").textContent(), "Notify: blocked by the browser"));
  assert.equal(await page.locator(".notify").getAttribute("aria-pressed"), "false");
  await page.evaluate(() => window.hide(true));
  host.ask();
  await waiting(page, 1);
  assert.deepEqual(await notified(page), []);
}

export async function has_no_notifications_without_support(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, { before: (page) => page.addInitScript(() => delete window.Notification) });
  host.ask();
  await waiting(page, 1);
  assert.equal(await page.locator(".notify").isVisible(), false);
}

export async function has_shortcuts_that_can_be_switched_off(stage) {
  const host = await stage.host();
  const { page, sent } = await stage.visit(host.link, { viewport: { width: 900, height: 1600 } });
  host.ask();
  await waiting(page, 1);
  await cardOf(page).locator(".accept:not([aria-disabled=true])").waitFor();
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  const box = page.getByLabel("Use keyboard shortcuts in this browser");
  await press("?");
  assert.equal(await box.isChecked(), true);
  await box.uncheck();
  await press("Escape");
  assert.equal(await cardOf(page).locator("kbd").first().isVisible(), false);
  await press("j", "ArrowDown", "k");
  assert.equal(await cardOf(page).evaluate((card) => card.contains(document.activeElement)), false, "a key selects");
  await cardOf(page).focus();
  await press("a", "r", "x", "?");
  assert.equal(await page.locator(".help").isVisible(), false);
  assert.equal(await cardOf(page).locator("input").inputValue(), "", "a key moves to the reason");
  assert.deepEqual(sent, []);
  // The setting stays, also in other tabs, and the mouse still works.
  await page.reload();
  await waiting(page, 1);
  await page.locator(".ask-help").click();
  assert.equal(await box.isChecked(), false);
  const other = await page.context().newPage();
  await other.goto(host.link);
  await other.locator(".ask-help").click();
  await other.getByLabel("Use keyboard shortcuts in this browser").check();
  await eventually(async () => assert.equal(await box.isChecked(), true));
  await other.close();
  await press("Escape", "j");
  assert.equal(await cardOf(page).evaluate((card) => card.contains(document.activeElement)), true);
}

export async function has_no_shortcuts_in_fields(stage) {
  const host = await stage.host();
  const { page, sent } = await stage.visit(host.link, { viewport: { width: 900, height: 1600 } });
  host.ask({ remember: 600 });
  await waiting(page, 1);
  await cardOf(page).locator(".accept:not([aria-disabled=true])").waitFor();
  const keys = ["a", "r", "j", "k", "?"];
  for (const field of ["input", "select"]) {
    await cardOf(page).locator(field).focus();
    for (const key of keys) await page.keyboard.press(key);
    assert.equal(await cardOf(page).locator(field).evaluate((node) => node === document.activeElement), true, `a key leaves the ${field}`);
  }
  assert.equal(await cardOf(page).locator("input").inputValue(), keys.join(""));
  for (const tag of ["textarea", "div"]) {
    await cardOf(page).evaluate((card, tag) => {
      const field = document.createElement(tag);
      field.className = "field";
      if (tag === "div") field.contentEditable = "true";
      card.append(field);
      field.focus();
    }, tag);
    for (const key of keys) await page.keyboard.press(key);
    assert.equal(await cardOf(page).locator(".field").evaluate((node) => node.value ?? node.textContent), keys.join(""), tag);
    await cardOf(page).locator(".field").evaluate((node) => node.remove());
  }
  assert.equal(await page.locator(".help").isVisible(), false);
  assert.deepEqual(sent, []);
  // Escape leads back to the card, where they act.
  await cardOf(page).locator("select").focus();
  await page.keyboard.press("Escape");
  await page.keyboard.press("a");
  await eventually(async () => assert.equal(sent.length, 1));
}
