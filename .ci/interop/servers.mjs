// Checks what examples/inspect prints, and how it exits, on real servers.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const work = process.argv[2];
const files = join(work, "files");
mkdirSync(files);
writeFileSync(join(files, "a.txt"), "hello\n");

const server = (name, ...args) => ["node", join(work, "node_modules/.bin", `mcp-server-${name}`), ...args];
const everything = server("everything");
const filesystem = server("filesystem", files);
const memory = server("memory");

let passed = 0;

/** Runs inspect; returns the document it printed, after checking its exit status. */
function inspect(args, target, status = 0) {
  const run = spawnSync(join(work, "inspect"), [...args, "--", ...target], {
    encoding: "utf8",
    timeout: 60_000,
    env: { ...process.env, MEMORY_FILE_PATH: join(work, "memory.json") },
  });
  assert.equal(run.status, status, `inspect ${args.join(" ")}: exit ${run.status}\n${run.stdout}${run.stderr}`);
  if (status === 1) {
    assert.equal(run.stdout, "");
    assert.notEqual(run.stderr, "");
    return run.stderr;
  }
  return JSON.parse(run.stdout);
}

function check(name, run) {
  run();
  passed++;
  console.log(`ok ${name}`);
}

const text = (result) => result.content[0].text;
const names = (list) => list.map((entry) => entry.name);

check("everything: info", () => {
  const info = inspect(["info"], everything);
  assert.equal(info.serverInfo.name, "mcp-servers/everything");
  assert.equal(info.protocolVersion, "2025-11-25");
});
for (const era of ["auto", "legacy"]) {
  check(`everything: tools, era ${era}`, () => {
    assert.ok(names(inspect(["-era", era, "tools"], everything).tools).includes("get-sum"));
  });
}
check("everything: a server without the modern era says so", () => {
  inspect(["-era", "modern", "tools"], everything, 1);
});
check("everything: call", () => {
  assert.equal(text(inspect(["call", "get-sum", '{"a":2,"b":3}'], everything)), "The sum of 2 and 3 is 5.");
});
check("everything: call with progress", () => {
  const result = inspect(["call", "trigger-long-running-operation", '{"duration":1,"steps":2}'], everything);
  assert.match(text(result), /completed/);
});
check("everything: structured content", () => {
  const result = inspect(["call", "get-structured-content", '{"location":"New York"}'], everything);
  assert.equal(typeof result.structuredContent.temperature, "number");
});
check("everything: a tool's error exits with 2", () => {
  assert.equal(inspect(["call", "get-sum", '{"a":"two","b":3}'], everything, 2).isError, true);
});
check("everything: elicitation without a terminal is declined", () => {
  assert.match(text(inspect(["call", "trigger-elicitation-request"], everything)), /declined/);
});
check("everything: resources and templates", () => {
  assert.ok(inspect(["resources"], everything).resources.length > 0);
  const { resourceTemplates } = inspect(["templates"], everything);
  assert.ok(resourceTemplates.some((t) => t.uriTemplate === "demo://resource/dynamic/text/{resourceId}"));
});
check("everything: read", () => {
  const { contents } = inspect(["read", "demo://resource/dynamic/text/1"], everything);
  assert.match(contents[0].text, /^Resource 1:/);
});
check("everything: read of what is not there exits with 1", () => {
  inspect(["read", "demo://nothing"], everything, 1);
});
check("everything: prompts", () => {
  assert.ok(names(inspect(["prompts"], everything).prompts).includes("args-prompt"));
  const { messages } = inspect(["prompt", "args-prompt", '{"city":"Rome"}'], everything);
  assert.equal(messages[0].content.text, "What's weather in Rome?");
});
check("everything: completion of a prompt's argument", () => {
  const { completion } = inspect(["complete", "prompt", "completable-prompt", "department", "E"], everything);
  assert.deepEqual(completion.values, ["Engineering"]);
});
check("everything: completion of a template's variable", () => {
  const args = ["complete", "resource", "demo://resource/dynamic/text/{resourceId}", "resourceId", "1"];
  assert.deepEqual(inspect(args, everything).completion.values, ["1"]);
});
check("everything: ping", () => assert.deepEqual(inspect(["ping"], everything), {}));

check("filesystem: tools", () => {
  assert.ok(names(inspect(["tools"], filesystem).tools).includes("read_text_file"));
});
check("filesystem: call", () => {
  const result = inspect(["call", "read_text_file", JSON.stringify({ path: join(files, "a.txt") })], filesystem);
  assert.equal(text(result), "hello\n");
});
check("filesystem: outside its directory is a tool's error", () => {
  assert.match(text(inspect(["call", "read_text_file", '{"path":"/etc/passwd"}'], filesystem, 2)), /denied/);
});

check("memory: what is written is read again", () => {
  const ada = { name: "Ada", entityType: "person", observations: ["baker"] };
  inspect(["call", "create_entities", JSON.stringify({ entities: [ada] })], memory);
  assert.deepEqual(inspect(["call", "read_graph"], memory).structuredContent, { entities: [ada], relations: [] });
});

check("a server that cannot be started exits with 1", () => {
  inspect(["tools"], [join(work, "no-such-program")], 1);
});
check("a server that ends at once exits with 1 and says how", () => {
  assert.match(inspect(["tools"], ["node", "-e", "console.error('bye'); process.exit(3)"], 1), /exit status 3.*bye/s);
});

console.log(`${passed} passed, 0 failed`);
