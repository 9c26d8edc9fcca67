// Checks of questions during a call.
import assert from "node:assert/strict";
import { CAPABILITIES, fails, plain } from "./client-peer.mjs";

const ELICITATION = "2025-06-18";
const ROUNDS = "test_input_required_result_";

export const checks = [
  { name: "elicit: accept, decline, cancel", from: ELICITATION, run: elicit },
  { name: "elicit: defaults", from: ELICITATION, run: defaults },
  { name: "elicit: choices", from: ELICITATION, run: choices },
  { name: "elicit: a URL", from: "2025-11-25", run: elicitURL },
  { name: "elicit: no URL where there are none", from: ELICITATION, until: "2025-11-25", run: refuseURL },
  { name: "elicit: not where it does not exist", until: ELICITATION, run: refuseElicitation },
  { name: "sample", run: sample },
  { name: "roots", run: roots },
  { name: "one question after the other", from: ELICITATION, run: twoRounds },
  { name: "three questions at once", from: ELICITATION, run: threeAtOnce },
  { name: "a prompt asks", from: ELICITATION, run: promptAsks },
  { name: "what stands before a question runs once", from: ELICITATION, run: once },
  { name: "questions need a capability", run: needCapability },
  { name: "the state of a call cannot be forged", from: "2026-07-28", run: forgedState },
];

const said = async (peer, tool, args) => plain((await peer.call(tool, args)).content)[0].text;
const accept = (content) => ({ action: "accept", content });
const onElicit = (peer, answer) => (peer.answers["elicitation/create"] = answer);

async function elicit(peer) {
  const ask = () => said(peer, "test_elicitation", { message: "Who are you?" });
  onElicit(peer, () => accept({ username: "ada", email: "ada@example.com" }));
  assert.equal(await ask(), 'User response: action=accept, content={"username":"ada","email":"ada@example.com"}');
  for (const action of ["decline", "cancel"]) {
    onElicit(peer, () => ({ action }));
    assert.equal(await ask(), `User response: action=${action}, content={}`);
  }
  assert.equal(peer.asked.length, 3);
  assert.deepEqual(plain(peer.asked[0].params), {
    ...(peer.since("2025-11-25") && { mode: "form" }),
    message: "Who are you?",
    requestedSchema: {
      type: "object",
      properties: {
        username: { type: "string", description: "User's response" },
        email: { type: "string", description: "User's email address" },
      },
      required: ["username", "email"],
    },
  });
}

async function defaults(peer) {
  onElicit(peer, () => accept({ name: "Jane Smith", age: 25, verified: false }));
  assert.equal(
    await said(peer, "test_elicitation_sep1034_defaults"),
    'Elicitation completed: action=accept, content={"name":"Jane Smith","age":25,"score":95.5,"status":"active","verified":false}',
  );
  const { properties } = peer.asked[0].params.requestedSchema;
  assert.deepEqual(plain(properties.status), {
    type: "string", description: "User status", enum: ["active", "inactive", "pending"], default: "active",
  });
  assert.deepEqual(
    ["name", "age", "score", "verified"].map((field) => [properties[field].type, properties[field].default]),
    [["string", "John Doe"], ["integer", 30], ["number", 95.5], ["boolean", true]],
  );
}

async function choices(peer) {
  onElicit(peer, () => accept({ titledSingle: "value1", untitledMulti: ["option1", "option3"] }));
  assert.equal(
    await said(peer, "test_elicitation_sep1330_enums"),
    'Elicitation completed: action=accept, content={"titledSingle":"value1","untitledMulti":["option1","option3"]}',
  );
  const { properties } = peer.asked[0].params.requestedSchema;
  assert.deepEqual(Object.keys(properties), ["untitledSingle", "titledSingle", "legacyEnum", "untitledMulti", "titledMulti"]);
  assert.deepEqual(plain(properties.titledSingle.oneOf[0]), { const: "value1", title: "First Option" });
  assert.deepEqual(plain(properties.legacyEnum.enumNames), ["Option One", "Option Two", "Option Three"]);
  assert.deepEqual(plain(properties.titledMulti.items.anyOf[2]), { const: "value3", title: "Third Choice" });
}

async function elicitURL(peer) {
  onElicit(peer, () => ({ action: "accept" }));
  assert.equal(await said(peer, "test_url_elicitation"), "The user has agreed to go there");
  const { elicitationId, ...params } = plain(peer.asked[0].params);
  assert.deepEqual(params, { mode: "url", message: "Please sign in", url: "https://example.com/sign-in" });
  assert.equal(typeof elicitationId, peer.modern ? "undefined" : "string");
}

async function refuseURL(peer) {
  await fails(peer.call("test_url_elicitation"), -32600, '{"elicitation":{"url":{}}}');
  assert.deepEqual(peer.asked, []);
}

async function refuseElicitation(peer) {
  await fails(peer.call("test_elicitation", { message: "Who are you?" }), -32600, '{"elicitation":{"form":{}}}');
  assert.deepEqual(peer.asked, []);
}

async function sample(peer) {
  assert.equal(await said(peer, "test_sampling", { prompt: "What is six by nine?" }), "LLM response: 42");
  assert.equal(peer.asked.length, 1);
  assert.deepEqual(plain(peer.asked[0].params), {
    messages: [{ role: "user", content: { type: "text", text: "What is six by nine?" } }],
    maxTokens: 100,
  });
}

async function roots(peer) {
  assert.equal(await said(peer, `${ROUNDS}list_roots`), "Found 1 root(s): file:///work");
  assert.deepEqual(peer.asked.map((question) => question.method), ["roots/list"]);
}

async function twoRounds(peer) {
  onElicit(peer, ({ message }) => accept(message.startsWith("Step 1") ? { name: "Ada" } : { color: "green" }));
  assert.equal(await said(peer, `${ROUNDS}multi_round`), "Multi-round complete for Ada who likes green");
  assert.deepEqual(peer.asked.map((question) => question.params.message), [
    "Step 1: What is your name?", "Step 2: What is your favorite color?",
  ]);
}

async function threeAtOnce(peer) {
  onElicit(peer, () => accept({ name: "Ada" }));
  assert.equal(await said(peer, `${ROUNDS}multiple_inputs`), "Ada: 42. Found 1 root(s): file:///work");
  assert.deepEqual(peer.asked.map((question) => question.method).toSorted(), [
    "elicitation/create", "roots/list", "sampling/createMessage",
  ]);
}

async function promptAsks(peer) {
  onElicit(peer, () => accept({ context: "the sea" }));
  const { messages } = await peer.client.getPrompt({ name: "test_input_required_result_prompt" });
  assert.deepEqual(plain(messages), [{ role: "user", content: { type: "text", text: "Prompt with context: the sea" } }]);
}

async function once(peer) {
  onElicit(peer, () => accept({ ok: true }));
  assert.equal(await said(peer, "test_once"), "Ticket 1 kept: true");
  assert.equal(await said(peer, "test_once"), "Ticket 2 kept: true");
  assert.deepEqual(peer.asked.map((question) => question.params.message), ["Keep ticket 1?", "Keep ticket 2?"]);
}

async function needCapability(_, server, open) {
  const { sampling, ...rest } = CAPABILITIES;
  const peer = await open(rest);
  try {
    const error = await fails(peer.call("test_missing_capability"), peer.modern ? -32021 : -32600, '{"sampling":{}}');
    assert.deepEqual(plain(error.data), { requiredCapabilities: { sampling } });
    assert.equal(await said(peer, `${ROUNDS}list_roots`), "Found 1 root(s): file:///work");
  } finally {
    await peer.client.close();
  }
}

async function forgedState(peer) {
  const name = `${ROUNDS}tampered_state`;
  const round = (more) => peer.client.request(
    { method: "tools/call", params: { name, arguments: {}, ...more } },
    { allowInputRequired: true },
  );
  const asked = await round();
  assert.equal(asked.resultType, "input_required");
  assert.deepEqual(Object.keys(asked.inputRequests), ["confirm"]);
  const inputResponses = { confirm: accept({ ok: true }) };
  await fails(round({ inputResponses, requestState: `${asked.requestState}-TAMPERED` }), -32602, "requestState");
  const done = await round({ inputResponses, requestState: asked.requestState });
  assert.equal(done.content[0].text, "integrity-ok: state verified");
}
