// Each decision reaches the server exactly once.
import assert from "node:assert/strict";
import { eventually } from "./browser.mjs";

const TALL = { viewport: { width: 900, height: 2400 } }; // all cards are in view

const cardOf = (page, number = 0) => page.locator(".pending .card").nth(number);
const waiting = async (page, count) => eventually(async () => assert.equal(await page.locator(".pending .card").count(), count));
const outcomes = (page) => page.locator(".decided .outcome").allTextContents();
const armed = (card) => eventually(async () => assert.equal(await card.locator(".accept").getAttribute("aria-disabled"), "false"));
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Opens requests and waits until all can be decided. */
async function asked(host, page, count) {
  const ids = [];
  for (let i = 0; i < count; i++) {
    ids.push(host.ask({ tool: `tool_${i}` }));
    await waiting(page, i + 1); // so that they come in this order
  }
  for (let i = 0; i < count; i++) await armed(cardOf(page, i));
  return ids;
}

export async function accepts_once(stage) {
  const host = await stage.host();
  const { page, sent } = await stage.visit(host.link, TALL);
  const id = host.ask();
  await waiting(page, 1);
  assert.match(await page.title(), /^\(1\) /);
  await cardOf(page).locator(".accept").dblclick();
  const answer = await host.answer(id);
  assert.deepEqual(answer, { id, approved: true, reason: "", error: "" });
  await waiting(page, 0);
  assert.deepEqual(sent, [`{"jsonrpc":"2.0","result":true,"id":"${id}"}`]);
  assert.deepEqual(await outcomes(page), ["Accepted"]);
  assert.doesNotMatch(await page.title(), /\(/);
  assert.ok(await page.locator(".empty").isVisible());
}

export async function rejects_with_a_reason(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, TALL);
  const id = host.ask();
  const reason = 'not "that" one \u{1f35e}';
  await cardOf(page).locator("input").fill(reason);
  await cardOf(page).locator(".reject").click();
  assert.deepEqual(await host.answer(id), { id, approved: false, reason, error: "" });
  assert.deepEqual(await outcomes(page), ["Rejected"]);
  assert.equal(await page.locator(".decided .why").textContent(), reason);
}

export async function decides_in_any_order(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, TALL);
  const [first, second, third] = await asked(host, page, 3);
  await cardOf(page, 1).locator(".accept").click();
  assert.equal((await host.answer(second)).approved, true);
  await cardOf(page, 1).locator(".reject").click();
  assert.equal((await host.answer(third)).approved, false);
  await cardOf(page, 0).locator(".accept").click();
  assert.equal((await host.answer(first)).approved, true);
}

export async function shows_that_time_is_up(stage) {
  const host = await stage.host();
  const { page, sent } = await stage.visit(host.link, TALL);
  const id = host.ask({ seconds: 2 });
  await waiting(page, 1);
  assert.ok(await cardOf(page).evaluate((card) => card.classList.contains("urgent")));
  assert.match((await host.answer(id)).error, /in time/);
  await waiting(page, 0);
  assert.deepEqual(await outcomes(page), ["Expired"]);
  assert.deepEqual(sent, []);
}

export async function keeps_the_time_of_the_server(stage) {
  const host = await stage.host();
  host.ask();
  // The browser's clock is an hour fast.
  const { page } = await stage.visit(host.link, {
    before: (page) => page.addInitScript(() => {
      const right = Date.now;
      Date.now = () => right() + 3_600_000;
    }),
  });
  await waiting(page, 1);
  assert.match(await cardOf(page).locator(".left").textContent(), /^(5:0\d|4:5\d)$/);
}

export async function removes_what_is_withdrawn(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, TALL);
  const [first] = await asked(host, page, 2);
  host.withdraw(first);
  await waiting(page, 1);
  assert.deepEqual(await outcomes(page), ["Withdrawn"]);
}

export async function says_when_an_answer_did_not_count(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, {
    // The notice comes after the answer: both are on their way at the same time.
    before: (page) => page.routeWebSocket(/approval$/, (socket) => {
      const server = socket.connectToServer();
      const held = [];
      server.onMessage((frame) => (frame.includes('"withdrawn"') ? held.push(frame) : socket.send(frame)));
      socket.onMessage((frame) => {
        server.send(frame);
        held.forEach((notice) => socket.send(notice));
      });
    }),
  });
  const [id] = await asked(host, page, 1);
  host.withdraw(id);
  await host.answer(id);
  await cardOf(page).locator(".accept").click();
  await eventually(async () => assert.deepEqual(await outcomes(page), ["Not counted"]));
  assert.match(await page.locator(".decided .why").textContent(), /is not pending/);
}

export async function is_ruled_by_keys(stage) {
  const host = await stage.host();
  const { page, sent } = await stage.visit(host.link, TALL);
  const [first, second, third, fourth] = await asked(host, page, 4);
  const keys = async (...names) => {
    for (const name of names) await page.keyboard.press(name);
  };
  await keys("a", "r", "Enter"); // nothing is selected
  assert.deepEqual(sent, []);
  await keys("j", "j", "ArrowDown", "k", "a"); // the second; only one is meant
  await keys("a");
  assert.equal((await host.answer(second)).approved, true);
  await armed(cardOf(page, 1));
  await keys("j", "r");
  await page.keyboard.type("jak?");
  await keys("Escape", "r", "Enter");
  assert.equal((await host.answer(first)).reason, "jak?");
  await armed(cardOf(page, 0));
  await keys("k", "ArrowUp", "Control+a");
  await page.evaluate(() => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "a", repeat: true, bubbles: true })));
  assert.equal(sent.length, 2, "a key that is held down, or with another, has decided");
  await keys("a");
  assert.equal((await host.answer(third)).approved, true);
  await keys("?");
  assert.ok(await page.locator(".help").isVisible());
  await armed(cardOf(page, 0));
  await keys("j", "a");
  assert.equal(sent.length, 3, "a key has decided behind the help");
  await keys("Escape", "j", "a");
  assert.equal((await host.answer(fourth)).approved, true);
}

export async function waits_before_it_takes_an_answer(stage) {
  const host = await stage.host();
  const { page, sent } = await stage.visit(host.link, TALL);
  // Clicks as soon as there is a card, in the page itself, and measures when it counts.
  await page.evaluate(() => {
    let came;
    window.arming = new Promise((resolve) => new MutationObserver(() => {
      const accept = document.querySelector(".pending .accept");
      if (!accept) return;
      came ??= performance.now();
      if (accept.ariaDisabled === "false") resolve(performance.now() - came);
      else accept.click();
    }).observe(document.querySelector(".pending"), { childList: true, subtree: true, attributes: true }));
  });
  host.ask();
  const took = await page.evaluate(() => window.arming);
  assert.ok(took >= 490, `armed after ${took} ms`);
  assert.deepEqual(sent, []);
}

export async function waits_while_out_of_view(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, { viewport: { width: 800, height: 500 } });
  for (let i = 0; i < 3; i++) {
    host.ask({ arguments: `{"text":"${"long\\n".repeat(60)}"}` });
    await waiting(page, i + 1);
  }
  const readToTheEnd = (card) => card.locator(".end").scrollIntoViewIfNeeded();
  await readToTheEnd(cardOf(page, 0));
  await armed(cardOf(page, 0));
  await pause(800);
  assert.equal(await cardOf(page, 2).locator(".accept").getAttribute("aria-disabled"), "true");
  await readToTheEnd(cardOf(page, 2));
  await armed(cardOf(page, 2));
}

export async function waits_after_cards_have_moved(stage) {
  const host = await stage.host();
  const { page, sent } = await stage.visit(host.link, TALL);
  const [first, second, third] = await asked(host, page, 3);
  const states = () => page.locator(".pending .accept").evaluateAll((list) => list.map((node) => node.ariaDisabled));
  // A new request below does not move the others.
  host.ask();
  await waiting(page, 4);
  assert.deepEqual((await states()).slice(0, 3), ["false", "false", "false"]);
  await armed(cardOf(page, 3));
  // The second click hits another request that has moved under the pointer.
  const box = await cardOf(page, 1).locator(".accept").boundingBox();
  await page.mouse.dblclick(box.x + 20, box.y + 20, { delay: 30 });
  assert.equal((await host.answer(second)).approved, true);
  assert.deepEqual(await states(), ["false", "true", "true"]);
  assert.equal(sent.length, 1);
  await armed(cardOf(page, 1));
  await page.mouse.click(box.x + 20, box.y + 20);
  assert.equal((await host.answer(third)).approved, true);
  assert.equal(await Promise.race([host.answer(first), pause(300)]), undefined);
}

export async function keeps_what_is_typed_for_one_from_others(stage) {
  const host = await stage.host();
  const { page, sent } = await stage.visit(host.link, TALL);
  const [first] = await asked(host, page, 2);
  await page.keyboard.press("j");
  await page.keyboard.press("r");
  await page.keyboard.type("ma");
  host.withdraw(first);
  await eventually(async () => assert.deepEqual(await outcomes(page), ["Withdrawn"]));
  await pause(700); // a removed card would have the next one armed by now
  await page.keyboard.type("jor a");
  await page.keyboard.press("Enter");
  assert.equal(await cardOf(page, 0).locator("input").inputValue(), "major a");
  assert.match(await cardOf(page, 0).locator(".note").textContent(), /Withdrawn/);
  await page.keyboard.press("Escape");
  await page.keyboard.press("a");
  assert.deepEqual(sent, []);
  assert.equal(await page.locator(".count").textContent(), "1");
  await page.keyboard.press("j");
  await waiting(page, 1);
  assert.equal(await cardOf(page).locator(".tool").textContent(), "tool_1");
  assert.equal(await cardOf(page).evaluate((card) => card.contains(document.activeElement)), true);
}

export async function never_moves_the_selection(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, TALL);
  await asked(host, page, 1);
  assert.equal(await page.evaluate(() => document.activeElement === document.body), true);
  await page.keyboard.press("j");
  const chosen = await page.evaluateHandle(() => document.activeElement);
  host.ask();
  await waiting(page, 2);
  await armed(cardOf(page, 1));
  assert.equal(await chosen.evaluate((node) => node === document.activeElement), true);
}

export async function takes_a_crowd(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, TALL);
  const ids = Array.from({ length: 300 }, (_, i) => host.ask({ tool: `tool_${i}` }));
  await waiting(page, 300);
  const accept = page.getByRole("article", { name: "files.tool_150", exact: true }).locator(".accept");
  await accept.scrollIntoViewIfNeeded();
  await accept.click();
  assert.equal((await host.answer(ids[150])).approved, true);
  await waiting(page, 299);
}
