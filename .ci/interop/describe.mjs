// Checks a bundle with the official library of bundles: its files and their modes, the command that
// an application runs, and that the server lists the tools of the manifest.
//
//   node describe.mjs FOLDER CLIENT
//
// FOLDER is an unpacked bundle, CLIENT the program bridge/cmd/dovetail.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { getMcpConfigForManifest, v0_3 } from "@anthropic-ai/mcpb";

const [folder, client] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8"));
v0_3.McpbManifestSchema.parse(manifest); // throws

const { command, args = [], env = {} } = await getMcpConfigForManifest({
  manifest,
  extensionPath: folder,
  systemDirs: {},
  userConfig: {},
  pathSeparator: "/",
});
assert.equal(command, join(folder, "server", process.platform, "calc"));
assert.equal(statSync(command).mode & 0o777, 0o755);
assert.equal(statSync(join(folder, manifest.icon)).mode & 0o777, 0o644);

// The unpacked program, started as the manifest says.
const run = (...words) =>
  execFileSync(client, [...words, "--", command, ...args], { env: { ...process.env, ...env }, encoding: "utf8", timeout: 60_000 });
const tools = JSON.parse(run("tools")).tools.map(({ name, description }) => ({ name, description }));
assert.deepEqual(tools, manifest.tools);
const { structuredContent } = JSON.parse(run("call", "add", '{"a": 2, "b": 3}'));
assert.equal(structuredContent, 5);
console.log(`${manifest.name} ${manifest.version}: ${tools.map((t) => t.name)} listed, and called`);
