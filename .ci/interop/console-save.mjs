// A call that is saved as a transcript is answered by dovetail replay with the same bytes.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { eventually, visit } from "./browser.mjs";
import { call, DESK, Host, open, outcome, rowOf } from "./console-host.mjs";

/** Sends the messages of the client in a transcript to dovetail replay, and compares the answers with those in the transcript. */
async function replay(path) {
  const lines = readFileSync(path, "utf8").trim().split("\n").slice(1);
  const messages = lines.map((line) => ({ from: JSON.parse(line).from, text: line.slice(line.indexOf('"message":') + '"message":'.length, -1) }));
  const server = spawn(join(process.env.bin, "dovetail"), ["replay", path], { stdio: ["pipe", "pipe", "inherit"] });
  try {
    const answers = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
    for (const { from, text } of messages) {
      if (from === "client") server.stdin.write(`${text}\n`);
      else assert.equal((await answers.next()).value, text);
    }
  } finally {
    const exit = once(server, "exit");
    server.stdin.end();
    await exit;
  }
  return messages;
}

export async function saves_a_call({ browser }) {
  for (const files of ["modern", "legacy"]) {
    const host = await Host.start({ files });
    try {
      const client = await host.connect(files === "modern" ? "2026-07-28" : undefined);
      const { page, troubles } = await visit(browser, host.link, { viewport: DESK });
      await call(client, "fail");
      await outcome(page, "fail", "tool error");
      await open(page, "fail");
      await page.locator(".tab", { hasText: "Messages" }).click();
      await page.getByRole("button", { name: "Record messages" }).click();
      await page.getByText("No message of this call is kept.", { exact: true }).waitFor();
      assert.equal(await page.getByRole("button", { name: "Save as a transcript" }).count(), 0);
      await call(client, "echo", "EXACT");
      await outcome(page, "echo", "ok");
      await rowOf(page, "echo").locator("a").click();
      const download = page.waitForEvent("download");
      await page.getByRole("button", { name: "Save as a transcript" }).click();
      const messages = await replay(await (await download).path());
      const begins = files === "modern" ? '"method":"server/discover"' : '"method":"initialize"';
      assert.ok(messages[0].text.includes(begins), messages[0].text);
      assert.ok(messages.at(-1).text.includes('"structuredContent":{"id":9007199254740993,"price":1.10,'), messages.at(-1).text);
      const before = await page.locator(".calls tbody tr").count();
      await call(client, "echo", { text: "x".repeat(70_000) });
      await eventually(async () => assert.equal(await page.locator(".calls tbody tr").count(), before + 1));
      await rowOf(page, "echo").locator("a").click();
      await page.getByText("This call cannot be saved as a transcript").waitFor();
      assert.equal(await page.getByRole("button", { name: "Save as a transcript" }).count(), 0);
      assert.deepEqual(troubles, []);
      await page.context().close();
      await client.close();
    } finally {
      await host.kill();
    }
  }
}
