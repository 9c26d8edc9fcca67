// Verifies the skills of the server with the command line of @modelcontextprotocol/inspector, over each
// transport, and through a proxy that changes one file.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { serve } from "./client-server.mjs";

const INSPECTOR = join(import.meta.dirname, "node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js");
const CHANGED = 7; // the exit code of a skill that does not fit its digests
const [command, folder] = process.argv.slice(2);

const SKILLS = {
  "skill://acme/refunds/SKILL.md": ["SKILL.md", "examples/email.md", "examples/regional/de.md"],
  "skill://pdf-processing/SKILL.md": ["SKILL.md", "references/forms.md", "scripts/extract.py"],
};

/** Verifies all skills of a server; returns the exit code and a report for each skill. */
async function verify(...target) {
  const args = [INSPECTOR, "--protocol-era", "modern", "--method", "skills/list", "--verify", "--format", "json"];
  const child = spawn(process.execPath, [...args, ...target], {
    env: { ...process.env, HOME: folder }, stdio: ["ignore", "pipe", "pipe"], timeout: 30_000,
  });
  const [out, said, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  try {
    return { code, skills: out.trim().split("\n").map((line) => JSON.parse(line)) };
  } catch {
    return assert.fail(`the inspector has ended with ${code}: ${out}${said}`);
  }
}

async function verified(...target) {
  const { code, skills } = await verify(...target);
  assert.equal(code, 0, JSON.stringify(skills));
  const files = skills.map(({ uri, files }) => [uri, files.map((file) => file.uri.slice(uri.length - "SKILL.md".length))]);
  assert.deepEqual(Object.fromEntries(files), SKILLS);
  for (const { outcome, files } of skills) {
    assert.equal(outcome, "verified");
    for (const { uri, status } of files) assert.equal(status, "verified", uri);
  }
}

const streams = (answer) => answer.headers.get("content-type")?.startsWith("text/event-stream");

/** Serves what another server serves, with a word in its responses of one message replaced. */
async function proxy(target, word, other) {
  const server = createServer(async (request, response) => {
    const { host, connection, "content-length": length, ...headers } = request.headers;
    const body = request.method === "POST" ? await text(request) : undefined;
    const answer = await fetch(target, { method: request.method, headers, body });
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "text/plain" });
    response.flushHeaders(); // a subscription has no first message
    if (!streams(answer)) return response.end((await answer.text()).replaceAll(word, other));
    await pipeline(Readable.fromWeb(answer.body), response).catch(() => {}); // it ends with the client
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { url: `http://127.0.0.1:${server.address().port}${target.pathname}`, server };
}

await verified(command);
console.log("ok inspector stdio: verify skills");

const http = await serve(command, "http");
const { url, server } = await proxy(http.url, "Dear customer", "Dear Customer");
try {
  await verified(http.url.href, "--transport", "http");
  console.log("ok inspector http: verify skills");

  const { code, skills } = await verify(url, "--transport", "http");
  assert.equal(code, CHANGED, JSON.stringify(skills));
  const wrong = skills.flatMap(({ files }) => files).filter(({ status }) => status !== "verified");
  assert.deepEqual(wrong.map(({ uri }) => uri), ["skill://acme/refunds/examples/email.md"], JSON.stringify(skills));
  console.log("ok inspector http: a file that was changed on its way");
} finally {
  server.close();
  server.closeAllConnections();
  await http.stop();
}
