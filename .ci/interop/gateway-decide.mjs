// A decision has the same effect for calls at every endpoint.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { eventually } from "./browser.mjs";
import { cardOf, isWaiting, outcomes } from "./gateway-page.mjs";
import { CONTENT, WAYS, write } from "./gateway-program.mjs";

const digest = (text) => createHash("sha256").update(text).digest("hex");

/** Checks the content of the card. */
async function saysAll(card, program) {
  const fact = (name) => card.locator(`[data-of="${name}"]`).first().textContent();
  assert.equal(await fact("server"), "files");
  assert.equal(await fact("tool"), "write_file");
  assert.equal(await fact("caller"), "client");
  assert.match(await fact("launch"), /^npx -y @modelcontextprotocol\/server-filesystem@[\d.]+ \$\{GATEWAY_FILES\S*\}$/);
  assert.match(await fact("launchDigest"), /^sha256:[0-9a-f]{64}$/);
  assert.match(await fact("toolDigest"), /^[0-9a-f]{64}$/);
  const shown = await card.locator(".arguments").textContent();
  assert.ok(shown.includes(program.folder) && shown.includes("9007199254740993") && !shown.includes("\u202e"), shown);
  assert.match(shown, /202e/i, "a character that cannot be seen is not shown");
  await eventually(async () => assert.equal(await card.locator(".proof").getAttribute("data-state"), "exact"));
}

export async function does_what_is_accepted_once(stage) {
  const program = await stage.program();
  const { page, sent } = await stage.visit(program.link);
  for (const [name, way] of Object.entries(WAYS)) {
    const before = program.calls("write_file").length;
    const answered = way(program, "files", "write_file", write(program, name));
    await isWaiting(page, 1);
    await saysAll(cardOf(page), program);
    const shown = await cardOf(page).locator(".digest").textContent();
    assert.equal(program.file(name), undefined, `${name}: it has not waited`);
    assert.equal(program.calls("write_file").length, before);

    await cardOf(page).locator(".accept").dblclick();
    const { ok, text } = await answered;
    assert.ok(ok, `${name}: ${text}`);
    assert.match(text, /Successfully wrote/);
    assert.equal(program.file(name), CONTENT, name);
    const calls = program.calls("write_file").slice(before);
    assert.equal(calls.length, 1, `${name}: it was done ${calls.length} times`);
    assert.equal(digest(calls[0]), shown, `${name}: what was done is not what was shown`);
    await isWaiting(page, 0);
  }
  const count = Object.keys(WAYS).length;
  assert.deepEqual(await outcomes(page), Array(count).fill("Accepted"));
  assert.equal(sent.length, count);
  await program.stop();
  stage.expected = /WebSocket|ERR_CONNECTION_REFUSED/;
  assert.deepEqual(await program.verified(), Array(count).fill(["asked", "approved", "executing", "executed"]).flat());
}

export async function does_nothing_that_is_rejected(stage) {
  const program = await stage.program();
  const { page } = await stage.visit(program.link);
  for (const [name, way] of Object.entries(WAYS)) {
    const answered = way(program, "files", "write_file", write(program, name));
    await isWaiting(page, 1);
    await cardOf(page).locator("input").fill("not \u{1f35e}");
    await cardOf(page).locator(".reject").click();
    const { ok, text } = await answered;
    assert.ok(!ok && /rejected/.test(text) && text.includes("not \u{1f35e}"), `${name}: ${text}`);
    assert.equal(program.file(name), undefined);
    await isWaiting(page, 0);
  }
  assert.deepEqual(program.calls("write_file"), []);
  assert.deepEqual(program.events(), Object.keys(WAYS).flatMap(() => ["asked", "rejected"]));
}

export async function asks_nobody_where_the_policy_is_clear(stage) {
  const program = await stage.program();
  const { page } = await stage.visit(program.link);
  for (const [name, way] of Object.entries(WAYS)) {
    const read = await way(program, "files", "list_directory", `{"path":${JSON.stringify(program.folder)}}`);
    assert.ok(read.ok && /journal/.test(read.text), `${name}: ${read.text}`);
    const deletion = await way(program, "memory", "delete_entities", `{"entityNames":[]}`);
    assert.ok(!deletion.ok && /nothing is deleted from here/.test(deletion.text), `${name}: ${deletion.text}`);
    const secret = await way(program, "files", "read_text_file", `{"path":${JSON.stringify(program.path("x.env"))}}`);
    assert.ok(!secret.ok && /nobody's business/.test(secret.text), `${name}: ${secret.text}`);
  }
  assert.deepEqual(program.calls("delete_entities"), []);
  assert.deepEqual(program.calls("read_text_file"), []);
  assert.deepEqual(program.events(), []);
  assert.equal(await page.locator(".card").count(), 0);
}

export async function does_nothing_that_nobody_decides_in_time(stage) {
  const program = await stage.program({ expiry: "2s" });
  const { page } = await stage.visit(program.link);
  const answers = Object.entries(WAYS).map(([name, way]) => way(program, "files", "write_file", write(program, name)));
  await isWaiting(page, answers.length);
  for (const { ok, text } of await Promise.all(answers)) assert.ok(!ok && /expired/.test(text), text);
  await isWaiting(page, 0);
  assert.deepEqual(await outcomes(page), answers.map(() => "Expired"));
  assert.deepEqual(program.calls("write_file"), []);
  assert.deepEqual(program.events().toSorted(), [...answers.map(() => "asked"), ...answers.map(() => "expired")]);
}

export async function does_nothing_when_the_page_is_closed(stage) {
  const program = await stage.program({ expiry: "4s" });
  const { page } = await stage.visit(program.link);
  const answered = WAYS.rest(program, "files", "write_file", write(program, "closed"));
  await isWaiting(page, 1);
  await page.close();
  const { ok, text } = await answered;
  assert.ok(!ok && /disconnected|expired/.test(text), text);
  assert.equal(program.file("closed"), undefined);
  assert.deepEqual(program.calls("write_file"), []);
  assert.match(program.events().join(), /^asked,(expired|withdrawn)$/);
}

export async function asks_again_when_the_page_is_opened_again(stage) {
  const program = await stage.program();
  const answered = WAYS.rest(program, "files", "write_file", write(program, "again"));
  const first = await stage.visit(program.link); // and the request has come before
  await isWaiting(first.page, 1);
  await first.page.close();
  const { page } = await stage.visit(program.link);
  await isWaiting(page, 1);
  await cardOf(page).locator(".accept").click();
  assert.ok((await answered).ok);
  assert.equal(program.calls("write_file").length, 1);
}

export async function takes_back_what_nobody_waits_for(stage) {
  const program = await stage.program();
  const { page } = await stage.visit(program.link);
  for (const [i, [name, way]] of Object.entries(WAYS).entries()) {
    const caller = new AbortController();
    const answered = way(program, "files", "write_file", write(program, name), caller.signal);
    await isWaiting(page, 1);
    caller.abort();
    await assert.rejects(answered, { name: "AbortError" });
    await isWaiting(page, 0);
    assert.deepEqual(await outcomes(page), Array(i + 1).fill("Withdrawn"));
  }
  assert.deepEqual(program.calls("write_file"), []);
  assert.deepEqual(program.events(), Object.keys(WAYS).flatMap(() => ["asked", "withdrawn"]));
}
