// Uses servers from npm through dovetail serve: with the commands of dovetail over stdio and HTTP,
// with the bridge that dovetail starts itself, in both eras, and with the client of
// @modelcontextprotocol/client 2.x.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text as all } from "node:stream/consumers";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const config = process.argv[2];
const dovetail = join(process.env.bin, "dovetail");
const bridge = [dovetail, "serve", "-config", config];
const VERSIONS = { modern: "2026-07-28", legacy: "2025-11-25" };
const SERVERS = ["everything", "files", "memory", "thinking", "remote"];
const file = join(process.env.BRIDGE_FILES, "bread.txt");
const ada = { name: "Ada", entityType: "person", observations: ["baker"] };
const form = { name: "Ada", check: "true" }; // the rest of the form is left empty
const FIELDS = 14;

let passed = 0;

/** Types lines into a session of dovetail; returns the printed documents and standard error. */
async function converse(args, lines) {
  const child = spawn(dovetail, args, { stdio: "pipe" });
  const exit = once(child, "exit");
  child.stdin.end(lines.join("\n") + "\n");
  const [out, said] = await Promise.all([all(child.stdout), all(child.stderr)]);
  const [status] = await exit;
  assert.equal(status, 0, said);
  return { documents: out.split(/(?<=^\}\n)/m).map((document) => JSON.parse(document)), said };
}

const line = (verb, name, args) => `${verb} ${name}${args ? ` ${JSON.stringify(args)}` : ""}`;
const call = (tool, args) => line("call", tool, args);
const text = (result) => result.content[0].text;
const names = (list) => list.map((entry) => entry.name);

/** The typed line, the name of the check, and the check of the printed document. */
const checks = (era) => [
  ["info", "info", (info) => {
    assert.equal(info.protocolVersion, VERSIONS[era]);
    for (const server of info.servers ?? []) assert.equal(server.status, "ready", server.alias);
  }],
  ["tools", "tools", ({ tools }) => {
    assert.deepEqual([...new Set(names(tools).map((name) => name.split("__")[0]))], SERVERS);
    const sum = tools.find((tool) => tool.name === "everything__get-sum");
    assert.equal(sum.title, "Get Sum Tool");
    assert.equal(sum.inputSchema.$schema, "http://json-schema.org/draft-07/schema#");
  }],
  [call("everything__get-sum", { a: 2, b: 3 }), "call", (result) => assert.equal(text(result), "The sum of 2 and 3 is 5.")],
  [call("everything__get-structured-content", { location: "New York" }), "structured content", ({ structuredContent }) =>
    assert.equal(typeof structuredContent.temperature, "number")],
  [call("everything__trigger-long-running-operation", { duration: 1, steps: 2 }), "progress", (result, said) => {
    assert.match(text(result), /completed/);
    assert.match(said, /^progress 1 of 2\nprogress 2 of 2$/m);
  }],
  [[call("everything__trigger-elicitation-request"), ...Object.values(form), ...Array(FIELDS - 2 - 1).fill(""), "y"], "a question", (result, said) => {
    assert.match(said, /The server asks: everything: Please provide inputs/);
    assert.match(JSON.stringify(result.content), /- Name: Ada/);
  }],
  [call("everything__get-sum", { a: "two", b: 3 }), "a tool's error", (result) => assert.equal(result.isError, true)],
  [call("files__write_file", { path: file, content: `bread, ${era}\n` }), "write a file", (result) => assert.match(text(result), /Successfully wrote/)],
  [call("files__read_text_file", { path: file }), "read a file", (result) => assert.equal(text(result), `bread, ${era}\n`)],
  [call("files__read_text_file", { path: "/etc/passwd" }), "a file that is none of its business", (result) => {
    assert.equal(result.isError, true);
    assert.match(text(result), /denied/);
  }],
  [call("memory__create_entities", { entities: [ada] }), "write to the graph", (result) =>
    assert.deepEqual(result.structuredContent, { entities: [ada] })],
  [call("memory__read_graph"), "read the graph", (result) =>
    assert.deepEqual(result.structuredContent, { entities: [ada], relations: [] })],
  [call("thinking__sequentialthinking", { thought: "Bread.", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }), "think", (result) =>
    assert.equal(result.structuredContent.thoughtNumber, 1)],
  [call("remote__test_structured_content", { city: "Bern" }), "call at a URL", ({ structuredContent }) =>
    assert.deepEqual(structuredContent, { city: "Bern", unit: "celsius", temperatures: [20.5] })],
  [[call("remote__test_elicitation", { message: "Who are you?" }), "ada", "ada@example.com", "y"], "a question from a URL", (result, said) => {
    assert.match(said, /The server asks: remote: Who are you\?/);
    assert.equal(text(result), 'User response: action=accept, content={"username":"ada","email":"ada@example.com"}');
  }],
  ["resources", "resources", ({ resources }) => {
    const uris = resources.map((resource) => resource.uri);
    assert.ok(uris.some((uri) => uri.startsWith("demo://resource/static/")) && uris.includes("test://static-text"), String(uris));
  }],
  ["templates", "templates", ({ resourceTemplates }) =>
    assert.ok(resourceTemplates.some((t) => t.uriTemplate === "demo://resource/dynamic/text/{resourceId}"))],
  ["prompts", "prompts", ({ prompts }) =>
    assert.ok(names(prompts).includes("everything__args-prompt") && names(prompts).includes("remote__test_simple_prompt"), String(names(prompts)))],
  ["read demo://resource/dynamic/text/1", "read", ({ contents }) => assert.match(contents[0].text, /^Resource 1:/)],
  [line("prompt", "everything__args-prompt", { city: "Rome" }), "get a prompt", ({ messages }) =>
    assert.equal(messages[0].content.text, "What's weather in Rome?")],
  ["complete prompt everything__completable-prompt department E", "complete a prompt's argument", ({ completion }) =>
    assert.deepEqual(completion.values, ["Engineering"])],
  ["complete resource demo://resource/dynamic/text/{resourceId} resourceId 1", "complete a template's variable", ({ completion }) =>
    assert.deepEqual(completion.values, ["1"])],
];

/** Holds a session in one era, with all checks. */
async function look(where, era, args) {
  const list = checks(era);
  const { documents, said } = await converse(["-era", era, "-timeout", "120s", ...args], list.flatMap(([typed]) => typed));
  for (const [i, [, name, body]] of list.entries()) {
    const label = `${where}, ${era}: ${name}`;
    assert.ok(documents[i], `${label}: nothing is shown, but ${said}`);
    try {
      body(documents[i], said);
    } catch (error) {
      throw new Error(`${label}: ${error.message}\n${JSON.stringify(documents[i])}\n${said}`, { cause: error });
    }
    console.log(`ok ${label}`);
    passed++;
  }
  rmSync(process.env.BRIDGE_MEMORY);
}

/** Starts the bridge over HTTP; returns its address and a function that stops it. */
async function serve() {
  const child = spawn(bridge[0], [...bridge.slice(1), "-http", "127.0.0.1:0", "-open"], { stdio: ["ignore", "inherit", "pipe"] });
  const exit = once(child, "exit");
  let url, said = "";
  for await (const line of createInterface(child.stderr)) {
    said += `${line}\n`;
    if ((url = /^serving +(http:\S+\/mcp)/.exec(line)?.[1])) break;
  }
  assert.ok(url, `the bridge has ended: ${said}`);
  child.stderr.resume();
  const end = async () => {
    child.kill("SIGTERM");
    const [code, signal] = await exit;
    assert.equal(code, 0, `the bridge has ended with ${code ?? signal}`);
  };
  return { url, end };
}

/** Questions to a client and its answers. */
const ANSWERS = {
  "elicitation/create": () => ({ action: "accept", content: { name: "Ada", check: true } }),
  "sampling/createMessage": () => ({ role: "assistant", content: { type: "text", text: "42" }, model: "test" }),
  "roots/list": () => ({ roots: [{ uri: "file:///work", name: "work" }] }),
};

/** Checks questions through the bridge to a client of the other SDK. */
async function foreign(where, era, transport) {
  const negotiation = era === "modern" ? { mode: { pin: VERSIONS.modern } } : { mode: "legacy" };
  const client = new Client({ name: "interop", version: "1.0.0" }, {
    capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} }, versionNegotiation: negotiation,
  });
  const asked = [];
  for (const [method, answer] of Object.entries(ANSWERS)) {
    client.setRequestHandler(method, () => (asked.push(method), answer()));
  }
  await client.connect(transport, { timeout: 120_000 });
  try {
    assert.equal(client.getNegotiatedProtocolVersion(), VERSIONS[era]);
    const { tools } = await client.listTools();
    const present = new Set(names(tools).map((name) => name.split("__")[0]));
    assert.deepEqual([...present], SERVERS);
    for (const [tool, args, want, method] of [
      ["everything__trigger-sampling-request", { prompt: "six by nine?", maxTokens: 10 }, /42/, "sampling/createMessage"],
      ["everything__trigger-elicitation-request", {}, /Name: Ada/, "elicitation/create"],
      ["everything__get-sum", { a: 2, b: 3 }, /is 5/],
      ["files__list_allowed_directories", {}, /Allowed directories/], // the client's roots, once it has said which,
      ["memory__read_graph", {}, /entities/],
      ["thinking__sequentialthinking", { thought: "Bread.", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }, /thoughtHistoryLength/],
      ["remote__test_input_required_result_list_roots", {}, /file:\/\/\/work/, "roots/list"],
      ["remote__test_sampling", { prompt: "why?" }, /42/, "sampling/createMessage"],
    ]) {
      asked.length = 0;
      const result = await client.callTool({ name: tool, arguments: args });
      assert.match(JSON.stringify(result.content), want);
      assert.ok(!method || asked.includes(method), `${tool} does not ask ${method}`);
      console.log(`ok ${where}, ${era}, client 2.x: ${tool}`);
      passed++;
    }
  } finally {
    await client.close();
  }
}

for (const era of Object.keys(VERSIONS)) {
  await look("stdio", era, ["session", "--", ...bridge]);
  await look("dovetail -config", era, ["-config", config, "session"]);
  await foreign("stdio", era, new StdioClientTransport({ command: bridge[0], args: bridge.slice(1), env: process.env, stderr: "ignore" }));
}
const { url, end } = await serve();
try {
  for (const era of Object.keys(VERSIONS)) {
    await look("http", era, ["session", url]);
    await foreign("http", era, new StreamableHTTPClientTransport(new URL(url)));
  }
} finally {
  await end();
}
console.log(`${passed} passed, 0 failed`);
