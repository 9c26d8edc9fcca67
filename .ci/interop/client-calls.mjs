// Checks of tools: their results, failures, progress, log messages, cancellation.
import assert from "node:assert/strict";
import { ChildProcess } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";
import { fails, plain } from "./client-peer.mjs";
import { HTTP } from "./client-server.mjs";

export const checks = [
  { name: "call: text", run: text },
  { name: "call: image", run: image },
  { name: "call: audio", run: audio },
  { name: "call: resources", run: resources },
  { name: "call: mixed content", run: mixed },
  { name: "call: structured content", run: structured },
  { name: "call: arguments that do not fit", run: misfit },
  { name: "call: an argument that stands in a header too", run: routed },
  { name: "call: a tool's failures", run: toolFailures },
  { name: "call: the protocol's failures", run: protocolFailures },
  { name: "call: many at once", run: manyAtOnce },
  { name: "progress", run: progress },
  { name: "log messages", run: logMessages },
  { name: "log messages from a level on", run: logLevels },
  { name: "log messages only when asked for", from: "2026-07-28", run: logUnasked },
  { name: "cancellation", run: cancellation },
  { name: "a call outlives its stream", over: ["http"], from: "2025-11-25", until: "2026-07-28", run: reconnect },
  { name: "ping", until: "2026-07-28", run: ping },
  { name: "the server ends with its input", over: ["stdio"], run: end },
  { name: "the server ends when it is told to", over: HTTP, run: stop },
];

const content = async (peer, tool, args) => plain((await peer.call(tool, args)).content);

async function text(peer) {
  assert.deepEqual(await content(peer, "test_simple_text"), [
    { type: "text", text: "This is a simple text response for testing." },
  ]);
}

async function image(peer) {
  const [{ data, ...rest }] = await content(peer, "test_image_content");
  assert.deepEqual(rest, { type: "image", mimeType: "image/png" });
  assert.equal(Buffer.from(data, "base64").subarray(0, 4).toString("latin1"), "\x89PNG");
}

async function audio(peer) {
  const [{ data, ...rest }] = await content(peer, "test_audio_content");
  if (!peer.since("2025-03-26")) {
    assert.deepEqual(rest, { type: "text", text: "[audio of type audio/wav]" }); // the version has no audio
    return;
  }
  assert.deepEqual(rest, { type: "audio", mimeType: "audio/wav" });
  assert.equal(Buffer.from(data, "base64").subarray(0, 4).toString("latin1"), "RIFF");
}

async function resources(peer) {
  assert.deepEqual(await content(peer, "test_embedded_resource"), [
    { type: "resource", resource: { uri: "test://embedded-resource", mimeType: "text/plain", text: "This is an embedded resource content." } },
  ]);
  const link = peer.since("2025-06-18")
    ? { type: "resource_link", uri: "test://static-text", name: "static-text", mimeType: "text/plain" }
    : { type: "text", text: "[resource static-text: test://static-text]" }; // the version has no links
  assert.deepEqual(await content(peer, "test_resource_link"), [link]);
}

async function mixed(peer) {
  const blocks = await content(peer, "test_multiple_content_types");
  assert.deepEqual(blocks.map((block) => block.type), ["text", "image", "resource"]);
  assert.equal(blocks[0].text, "Multiple content types test:");
  assert.deepEqual(JSON.parse(blocks[2].resource.text), { test: "data", value: 123 });
}

async function structured(peer) {
  await peer.client.listTools(); // so that the client checks the result against its schema
  const want = { city: "Bern", unit: "fahrenheit", temperatures: [20.5, 21.5] };
  const result = await peer.call("test_structured_content", { city: "Bern", unit: "fahrenheit", days: 2 });
  assert.deepEqual(JSON.parse(result.content[0].text), want);
  assert.deepEqual(plain(result.structuredContent), peer.since("2025-06-18") ? want : undefined);
  const byDefault = await peer.call("test_structured_content", { city: "Bern" });
  assert.deepEqual(JSON.parse(byDefault.content[0].text), { city: "Bern", unit: "celsius", temperatures: [20.5] });
}

async function misfit(peer) {
  const result = await peer.call("test_structured_content", { city: "", days: 8, month: 5 });
  assert.equal(result.isError, true);
  for (const part of ["/city", "/days", "/month"]) {
    assert.ok(result.content[0].text.includes(part), `${part} is not in ${result.content[0].text}`);
  }
  const deep = await peer.call("json_schema_2020_12_tool", { contactMethod: "phone", email: "a@example.com" });
  assert.equal(deep.isError, true);
  assert.match(deep.content[0].text, /phone/);
}

async function routed(peer, { transport }) {
  await peer.client.listTools(); // so that the client knows which
  const [{ text }] = await content(peer, "test_header_parameter", { region: "Zürich, 世界" });
  assert.equal(text, "Answered from Zürich, 世界");
  if (transport !== "http") return;
  assert.deepEqual(peer.ear.heads("mcp-param-region"), peer.modern ? ["=?base64?WsO8cmljaCwg5LiW55WM?="] : []);
}

async function toolFailures(peer) {
  const failed = plain(await peer.call("test_error_handling"));
  assert.equal(failed.isError, true);
  assert.deepEqual(failed.content, [{ type: "text", text: "This tool intentionally returns an error for testing" }]);
  const late = plain(await peer.call("test_timeout"));
  assert.equal(late.isError, true);
  assert.deepEqual(late.content, [{ type: "text", text: 'tool "test_timeout" took longer than 50ms' }]);
}

async function protocolFailures(peer) {
  await fails(peer.call("nothing"), -32602, 'unknown tool: "nothing"');
  const error = await fails(peer.call("test_protocol_error"), -32602, "not like this");
  assert.deepEqual(plain(error.data), { hint: "never" });
  const masked = await fails(peer.call("test_panic"), -32603, "internal error, reference ");
  assert.ok(!masked.message.includes("secret"), masked.message);
  await text(peer); // the server lives
}

async function manyAtOnce(peer) {
  const cities = Array.from({ length: 200 }, (_, i) => `city ${i}`);
  const results = await Promise.all(cities.map((city) => peer.call("test_structured_content", { city })));
  assert.deepEqual(results.map((result) => JSON.parse(result.content[0].text).city), cities);
}

async function progress(peer) {
  const seen = [];
  const result = await peer.call("test_tool_with_progress", {}, { onprogress: (step) => seen.push(plain(step)) });
  assert.equal(result.content[0].text, "Tool with progress executed successfully");

  const message = (done) => (peer.since("2025-03-26") ? { message: `Completed step ${done} of 100` } : {});
  const steps = [0, 50, 100].map((done) => ({ progress: done, total: 100, ...message(done) }));
  const told = peer.wire.filter((note) => note.method === "notifications/progress").map((note) => plain(note.params));
  const [{ progressToken }] = told;
  assert.deepEqual(told, steps.map((step) => ({ progressToken, ...step })));
  assert.ok("result" in peer.wire.at(-1), "something came after the result");
  // The clients drop progress notifications that arrive in the same chunk as the result: the last one, or more on a
  // busy machine.
  assert.deepEqual(seen, steps.slice(0, seen.length));
  assert.ok(seen.length >= 1, "no steps");
}

async function logMessages(peer) {
  await peer.logFrom("debug");
  const result = await peer.call("test_tool_with_logging");
  assert.equal(result.content[0].text, "Tool with logging executed successfully");
  assert.deepEqual(logged(peer), [
    { level: "info", data: { message: "Tool execution started" } },
    { level: "info", data: { message: "Tool processing data" } },
    { level: "info", data: { message: "Tool execution completed" } },
  ]);
}

async function logLevels(peer) {
  const line = (level, slogLevel) => ({ level, logger: "levels", data: { message: "message", level: slogLevel } });
  await peer.logFrom("warning");
  await peer.call("test_log_levels");
  assert.deepEqual(logged(peer), [line("warning", "WARN"), line("error", "ERROR")]);
  peer.told.length = 0;
  await peer.logFrom("debug");
  await peer.call("test_log_levels");
  assert.deepEqual(logged(peer), [line("debug", "DEBUG"), line("info", "INFO"), line("warning", "WARN"), line("error", "ERROR")]);
}

async function logUnasked(peer) {
  await peer.call("test_log_levels");
  await peer.call("test_logging_tool");
  assert.deepEqual(logged(peer), []);
}

/** The log messages that have come, without _meta. */
function logged(peer) {
  return peer.told.filter((note) => note.method === "notifications/message").map((note) => plain(note.params));
}

async function cancellation(peer) {
  const given = new AbortController();
  const steps = [];
  const onprogress = (step) => {
    steps.push(step.progress);
    given.abort("enough");
  };
  await assert.rejects(peer.call("test_wait", {}, { signal: given.signal, onprogress }), /enough/);
  assert.deepEqual(steps, [1]);
  let waits;
  for (let i = 0; i < 100 && waits !== '{"waiting":0,"cancelled":1}'; i++) {
    await pause(i); // the client does not hear when the server has stopped
    ({ text: waits } = (await peer.client.readResource({ uri: "test://waits" }, { cacheMode: "bypass" })).contents[0]);
  }
  assert.equal(waits, '{"waiting":0,"cancelled":1}');
}

async function reconnect(peer) {
  const [{ text }] = await content(peer, "test_reconnection");
  assert.equal(text, "Reconnection test completed successfully.");
  assert.equal(peer.ear.heads("last-event-id").length, 1); // the server hung up, and the client came back
}

async function ping(peer) {
  assert.deepEqual(plain(await peer.client.ping()), {});
}

async function end(peer) {
  await peer.watch({ toolsListChanged: true });
  const { transport } = peer.client;
  const { pid } = transport;
  assert.equal(typeof pid, "number");
  const { kill } = ChildProcess.prototype;
  ChildProcess.prototype.kill = function (...args) {
    return this.pid === pid || kill.apply(this, args); // only the end of its input may end the server
  };
  try {
    await transport.close();
    while (runs(pid)) await pause(20);
  } finally {
    ChildProcess.prototype.kill = kill;
  }
}

function runs(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function stop(peer, server) {
  await peer.watch({ toolsListChanged: true });
  await server.stop(); // it fails if the server has to be killed
}
