// The page says what the tool is, why the person is asked, and where the tool comes from; and a yes can be
// remembered where the operator allows it.
import assert from "node:assert/strict";
import { eventually } from "./browser.mjs";

const TALL = { viewport: { width: 900, height: 1600 } };

const cardOf = (page, number = 0) => page.locator(".pending .card").nth(number);
const waiting = async (page, count) => eventually(async () => assert.equal(await page.locator(".pending .card").count(), count));

export async function says_what_and_why(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, TALL);
  host.ask({
    title: "Write a file \u202etxt", description: "Writes.\n\n<img src=x onerror=alert(1)>\u200b", readOnly: false, destructive: true,
    rule: "writes", reason: "changes need a person", launch: `npx files sha256:${"c".repeat(64)}`, toolDigest: "b".repeat(64),
  });
  await waiting(page, 1);
  const card = cardOf(page);
  assert.equal(await card.locator(".title").textContent(), "Write a file U+202Etxt");
  assert.deepEqual(await card.locator(".about .row").allTextContents(), ["Writes.", "", "<img src=x onerror=alert(1)>U+200B"]);
  assert.equal(await card.locator(".why-asked").textContent(), "Asked because of the rule writes: changes need a person");
  assert.equal(await card.locator("[data-of=source]").textContent(), "files");
  assert.equal(await card.locator("dd[data-of=tool]").textContent(), "write_file");
  assert.equal(await card.locator("[data-of=launch]").textContent(), "npx files");
  assert.equal(await page.locator("img").count(), 0);
  // Digests are collapsed.
  assert.equal(await card.locator(".digest").isVisible(), false);
  await card.locator(".digests summary").click();
  assert.equal(await card.locator(".digest").isVisible(), true);
  assert.match(await card.locator(".digest").textContent(), /^[0-9a-f]{64}$/);
  assert.equal(await card.locator("[data-of=toolDigest]").textContent(), "b".repeat(64));
  assert.equal(await card.locator("[data-of=launchDigest]").textContent(), `sha256:${"c".repeat(64)}`);
}

export async function says_what_a_tool_may_do(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, TALL);
  const cases = [
    [{}, "destructive", "May delete or overwrite data no information from the server"],
    [{ trusted: true }, "destructive", "May delete or overwrite data no information from the server"],
    [{ destructive: true }, "destructive", "May delete or overwrite data the server says so; not verified"],
    [{ destructive: false }, "change", "Adds or changes data, does not delete or overwrite it the server says so; not verified"],
    [{ destructive: false, trusted: true }, "change", "Adds or changes data, does not delete or overwrite it according to a trusted server"],
    [{ readOnly: true }, "none", "Changes nothing the server says so; not verified"],
    [{ readOnly: true, destructive: true, trusted: true }, "none", "Changes nothing according to a trusted server"],
    [{ readOnly: false }, "destructive", "May delete or overwrite data no information from the server"],
  ];
  for (const [i, [request]] of cases.entries()) {
    host.ask(request);
    await waiting(page, i + 1);
  }
  for (const [i, [, effect, text]] of cases.entries()) {
    const shown = cardOf(page, i).locator(".effect");
    assert.equal(await shown.getAttribute("data-effect"), effect, `case ${i}`);
    assert.equal(await shown.textContent(), text, `case ${i}`);
  }
}

export async function shows_a_tool_of_the_program(stage) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, TALL);
  host.ask({ server: "", launch: "", trusted: true });
  const card = page.getByRole("article", { name: "write_file", exact: true });
  await card.waitFor();
  assert.equal(await card.locator("h3").innerText(), "write_file");
  assert.equal(await card.locator("[data-of=source]").textContent(), "this program itself");
  assert.equal(await card.locator("[data-of=launch]").textContent(), "part of this program");
  for (const part of [".title", ".about", ".why-asked", ".remember"]) assert.equal(await card.locator(part).isVisible(), false, part);
}

export async function remembers_where_the_operator_allows(stage) {
  const host = await stage.host();
  const { page, sent } = await stage.visit(host.link, TALL);
  // Without permission there is no choice.
  let id = host.ask();
  await waiting(page, 1);
  assert.equal(await cardOf(page).locator(".remember").isVisible(), false);
  await cardOf(page).locator(".accept").click();
  assert.equal((await host.answer(id)).remember, undefined);
  // The choice ends at the operator's limit, and begins with a plain yes.
  id = host.ask({ remember: 600 });
  await waiting(page, 1);
  const select = cardOf(page).locator("select");
  assert.deepEqual(await select.locator("option").allTextContents(), [
    "this call only", "this call, and equal calls for 1 minute", "this call, and equal calls for 5 minutes", "this call, and equal calls for 10 minutes",
  ]);
  assert.equal(await select.inputValue(), "0");
  await cardOf(page).locator(".accept").click();
  assert.equal((await host.answer(id)).remember, undefined);
  id = host.ask({ remember: 90 });
  await waiting(page, 1);
  assert.equal(await cardOf(page).locator("select").inputValue(), "0", "the choice is that of another request");
  await cardOf(page).locator("select").selectOption({ label: "this call, and equal calls for 1 minute 30 seconds" });
  assert.match(await cardOf(page).locator(".accept").textContent(), /^Accept for 1 minute 30 seconds/);
  await cardOf(page).locator(".accept").click();
  assert.equal((await host.answer(id)).remember, 90);
  assert.equal(await page.locator(".decided .why").first().textContent(), "Also equal calls for 1 minute 30 seconds.");
  // A rejection remembers nothing.
  id = host.ask({ remember: 90 });
  await waiting(page, 1);
  await cardOf(page).locator("select").selectOption("60");
  await cardOf(page).locator(".reject").click();
  assert.deepEqual(await host.answer(id), { id, approved: false, reason: "", error: "" });
  assert.deepEqual(sent.map((frame) => /"remember":\d+/.exec(frame)?.[0]), [undefined, undefined, '"remember":90', undefined]);
}
