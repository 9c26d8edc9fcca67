// A killed program has executed an accepted call or has not, and never twice. The journal
// has the possible outcomes, and the next start continues from it.
import assert from "node:assert/strict";
import { eventually } from "./browser.mjs";
import { cardOf, isWaiting } from "./gateway-page.mjs";
import { WAYS, write } from "./gateway-program.mjs";

/** Kills the program as soon as an entry is in its journal; the next one takes a second. */
async function killAt(program, event) {
  while (!program.events().includes(event)) await new Promise((resolve) => setTimeout(resolve, 5));
  await program.kill();
}

/** Starts the program again, and checks that nothing happens by itself. */
async function resume(stage, killed, events) {
  const program = await stage.program({}, killed.folder);
  assert.deepEqual(await program.verified(), events);
  const { page } = await stage.visit(program.link);
  await eventually(async () => assert.equal(await page.locator(".connection").getAttribute("data-state"), "connected"));
  assert.equal(await page.locator(".card").count(), 0, "somebody is asked again");
  assert.deepEqual(program.calls("write_file"), []);
  stage.expected = /WebSocket|ERR_CONNECTION/; // of the page that was open before
}

/** Calls a tool that writes a file; the caller gets no answer when the program is killed. */
function ask(program) {
  const answered = WAYS.rest(program, "files", "write_file", write(program, "bread"));
  return assert.rejects(answered, { message: "fetch failed" });
}

export async function killed_before_it_is_shown(stage) {
  const program = await stage.program();
  const gone = ask(program);
  await killAt(program, "asked");
  await gone;
  assert.deepEqual(program.events(), ["asked"]);
  assert.deepEqual(program.calls("write_file"), []);
  await resume(stage, program, ["asked", "withdrawn"]);
  assert.equal(program.file("bread"), undefined);
}

export async function killed_while_it_is_shown(stage) {
  const program = await stage.program();
  const { page } = await stage.visit(program.link);
  const gone = ask(program);
  await isWaiting(page, 1);
  await program.kill();
  await gone;
  // An answer now has no effect.
  await eventually(async () => assert.notEqual(await page.locator(".connection").getAttribute("data-state"), "connected"));
  await cardOf(page).locator(".accept").click({ force: true, timeout: 1000 }).catch(() => {});
  assert.deepEqual(program.events(), ["asked"]);
  await resume(stage, program, ["asked", "withdrawn"]);
  assert.equal(program.file("bread"), undefined);
}

/** Kills the program, which has been slowed down, when an entry has come after the click. */
async function killedAfterTheClick(stage, event) {
  const program = await stage.program();
  const { page } = await stage.visit(program.link);
  const gone = ask(program);
  await isWaiting(page, 1);
  await program.slowDown();
  await cardOf(page).locator(".accept").click();
  await killAt(program, event);
  await gone;
  assert.equal(program.events().at(-1), event, "it was killed too late");
  return program;
}

export async function killed_when_it_is_approved(stage) {
  const program = await killedAfterTheClick(stage, "approved");
  assert.deepEqual(program.calls("write_file"), []);
  await resume(stage, program, ["asked", "approved", "withdrawn"]);
  assert.equal(program.file("bread"), undefined);
}

export async function killed_before_it_is_executed(stage) {
  const program = await killedAfterTheClick(stage, "executing");
  assert.deepEqual(program.calls("write_file"), []);
  await resume(stage, program, ["asked", "approved", "executing", "failed"]);
  assert.equal(program.file("bread"), undefined);
}

export async function killed_while_it_is_executed(stage) {
  const program = await stage.program();
  const { page } = await stage.visit(program.link);
  const gone = assert.rejects(WAYS.rest(program, "everything", "trigger-long-running-operation", '{"duration":30,"steps":3}'));
  await isWaiting(page, 1);
  await cardOf(page).locator(".accept").click();
  await eventually(async () => assert.equal(program.calls("trigger-long-running-operation").length, 1));
  await program.kill();
  await gone;
  await resume(stage, program, ["asked", "approved", "executing", "failed"]);
}

export async function killed_when_it_has_been_executed(stage) {
  const program = await killedAfterTheClick(stage, "executed");
  assert.equal(program.calls("write_file").length, 1);
  const content = program.file("bread");
  assert.ok(content);
  await resume(stage, program, ["asked", "approved", "executing", "executed"]);
  assert.equal(program.file("bread"), content);
}
