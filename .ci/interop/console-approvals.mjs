// The screen Approvals of the console keeps the rules of the approval page.
import assert from "node:assert/strict";
import { eventually, visit } from "./browser.mjs";
import { call, EXACT, outcome, rowOf } from "./console-host.mjs";

const cards = (page) => page.locator(".pending .card");
const accept = (page) => cards(page).first().locator(".accept");
const waiting = (page, count) => eventually(async () => assert.equal(await cards(page).count(), count));
const armed = (page) => eventually(async () => assert.equal(await accept(page).getAttribute("aria-disabled"), "false"));
const toApprovals = (page) => page.getByRole("link", { name: /^Approvals/ }).click();

export async function approves_on_its_own_screen({ page, modern, legacy }) {
  const paid = call(modern, "pay", "EXACT");
  await outcome(page, "pay", "waiting");
  const link = page.getByRole("link", { name: "Approvals 1 waiting" });
  await link.waitFor();
  assert.equal(await page.title(), "(1) Dovetail");
  await link.click();
  await waiting(page, 1);
  // As on the approval page: exact bytes, invisible characters as their numbers, and the reason of the policy.
  assert.equal((await cards(page).locator(".arguments").textContent()).replaceAll(/\s/g, ""), EXACT);
  await page.locator(".proof[data-state=exact]").waitFor();
  assert.match(await page.locator(".why-asked").textContent(), /rule money: money leaves the account/);
  // A second request leaves the first where it is, and both are counted.
  const other = call(legacy, "pay", { text: "a\u200bb" });
  await page.getByRole("link", { name: "Approvals 2 waiting" }).waitFor();
  assert.equal(await page.locator(".arguments .hidden", { hasText: "U+200B" }).count(), 1);
  await armed(page);
  await accept(page).click();
  assert.equal((await paid).content[0].text, "done");
  await waiting(page, 1);
  await cards(page).locator("input").fill("not today");
  await page.locator(".reject:not([aria-disabled=true])").click();
  await assert.doesNotReject(other.then(({ isError }) => assert.ok(isError), () => {})); // a result or an error, by the version
  assert.equal(await page.title(), "Dovetail");
  assert.deepEqual(await page.locator(".decided .outcome").allTextContents(), ["Rejected", "Accepted"]);
  await page.getByRole("link", { name: "Calls", exact: true }).click();
  await outcome(page, "pay", "rejected");
  assert.equal(await page.locator(".calls tbody tr").count(), 2);
}

export async function takes_no_answer_that_was_meant_for_another_screen({ page, modern, sent }) {
  const decisions = () => sent.filter((frame) => frame.includes('"result"'));
  const paid = call(modern, "pay", { n: 1 });
  await page.getByRole("link", { name: /1 waiting/ }).waitFor();
  await page.locator("body").press("a"); // on the screen Calls it means nothing
  await toApprovals(page);
  await armed(page);
  await page.keyboard.press("a"); // nothing is selected
  // The card takes no answer for half a second after it has come back, or after something above it has changed its size.
  for (const move of ["another screen", "a larger bar"]) {
    await armed(page);
    const took = await page.evaluate((move) => new Promise((resolve) => {
      let moved;
      if (move === "a larger bar") document.querySelector(".bar").style.minHeight = "80px";
      else {
        location.hash = "#calls";
        setTimeout(() => { location.hash = "#approvals"; }, 100);
      }
      (function look() {
        const button = document.querySelector(".pending .accept");
        if (button?.ariaDisabled === "true") moved ??= performance.now();
        if (moved && button?.ariaDisabled === "false") resolve(performance.now() - moved);
        else {
          if (moved) button?.click();
          requestAnimationFrame(look);
        }
      })();
    }), move);
    assert.ok(took >= 450, `${move}: it takes an answer after ${took} ms`); // a frame may be late
  }
  assert.deepEqual(decisions(), []);
  await page.keyboard.press("j");
  await page.keyboard.press("a");
  await paid;
  assert.equal(decisions().length, 1);
}

export async function shows_a_viewer_no_approvals({ browser, host, page, modern }) {
  const paid = call(modern, "pay", { text: "canary" });
  const { page: viewer, troubles, sent, urls } = await visit(browser, `${host.url}#token=${host.viewer}`);
  await outcome(viewer, "pay", "waiting");
  assert.equal(await viewer.getByRole("link", { name: /^Approvals/ }).count(), 0);
  await viewer.goto(`${host.url}#approvals`);
  await viewer.locator(".connection[data-state=connected]").first().waitFor();
  assert.equal(await viewer.locator(".card").count(), 0);
  assert.deepEqual([troubles, sent, urls.filter((url) => url.endsWith("/approval"))], [[], [], []]);
  await viewer.context().close();
  // The link of a viewer in the tab of an operator: what only operators see is forgotten.
  await toApprovals(page);
  await waiting(page, 1);
  await page.goto(`${host.url}#token=${host.viewer}`);
  await eventually(async () => assert.equal(await page.locator(".role").textContent(), "viewer"));
  await rowOf(page, "pay").waitFor();
  assert.ok(!(await page.content()).includes("canary"));
  await page.goto(host.link);
  await toApprovals(page);
  await armed(page);
  await accept(page).click();
  await paid;
}
