// An operator logs in at a server that answers 401, with an authorization server that others wrote, and accepts the definitions of a server.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { eventually, visit } from "./browser.mjs";
import { DESK, Host } from "./console-host.mjs";

/** Starts oidc-provider, and returns its process and its issuer. */
async function authorizationServer() {
  const options = { clients: [], registration: true, format: "jwt" };
  const provider = spawn(process.execPath, [fileURLToPath(new URL("oauth-provider.mjs", import.meta.url)), JSON.stringify(options)], { stdio: ["pipe", "pipe", "inherit"] });
  const [issuer] = await once(createInterface({ input: provider.stdout }), "line");
  return [provider, issuer];
}

/** Starts dovetail serve with one server, and returns its process and the link to its console. */
async function serve(url, ...flags) {
  const home = mkdtempSync(join(process.env.work, "login-"));
  const config = join(home, "mcp.json");
  writeFileSync(config, JSON.stringify({ mcpServers: { guarded: { url } } }));
  const program = spawn(join(process.env.bin, "dovetail"), ["serve", "-http", "127.0.0.1:0", "-config", config, ...flags], {
    env: { ...process.env, HOME: home, XDG_CONFIG_HOME: home, XDG_STATE_HOME: home, XDG_DATA_HOME: home }, stdio: ["ignore", "ignore", "pipe"],
  });
  let link;
  for await (const line of createInterface(program.stderr)) {
    if ((link = /http:\S+\/console\/#token=[\w.~-]+/.exec(line)?.[0])) break;
  }
  assert.ok(link, "dovetail serve prints no link to its console");
  program.stderr.resume();
  return [program, link];
}

export async function logs_in_at_a_server({ browser }) {
  const [provider, issuer] = await authorizationServer();
  const host = await Host.start({ issuer });
  const [program, link] = await serve(host.guarded);
  try {
    const { page, troubles } = await visit(browser, link, { viewport: DESK });
    await page.getByRole("link", { name: /^Servers/ }).click();
    await page.locator(".servers a", { hasText: "guarded" }).click();
    await page.getByRole("button", { name: "Log in…" }).click();
    await page.waitForTimeout(600); // clicks are ignored before that
    await page.locator(".confirm .accept").click();
    const url = await page.locator(".say a", { hasText: `Log in at ${new URL(issuer).host}` }).getAttribute("href");
    // The operator, in a browser.
    const person = await (await browser.newContext()).newPage();
    await person.goto(url);
    await person.locator("input[name=login]").fill("ada");
    await person.locator("input[name=password]").fill("x");
    await person.locator("button[type=submit]").click();
    await person.getByRole("button", { name: "Continue" }).click();
    await person.waitForURL((at) => at.origin !== issuer);
    await person.context().close();
    await page.locator(".detail .events li", { hasText: "an operator has logged in" }).waitFor();
    await page.locator(".entry", { hasText: "echo" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Log in…" }).count(), 0);
    assert.equal(await page.locator(".say a").count(), 0, "the link has been used");
    const failures = await page.locator(".detail .events li", { hasText: "the server failed" }).count();
    assert.ok(failures <= 2, `its failures before and after the login are ${failures} lines`);
    // The token is used.
    await page.locator(".entry", { hasText: "echo" }).click();
    await page.locator(".form .accept").click();
    await page.waitForTimeout(600);
    await page.locator(".confirm .accept").click();
    await page.waitForURL(/#calls\/1$/);
    await eventually(async () => assert.match(await page.locator(".detail").textContent(), /structuredContent/));
    assert.deepEqual(troubles, []);
    await page.context().close();
  } finally {
    program.kill();
    await host.kill();
    provider.stdin.end();
  }
}

export async function accepts_new_definitions_together({ browser, host }) {
  const [program, link] = await serve(host.mcp, "-lock", join(mkdtempSync(join(process.env.work, "pins-")), "mcp.lock"));
  try {
    const { page, troubles } = await visit(browser, link, { viewport: DESK });
    await page.getByRole("link", { name: /^Servers/ }).click();
    await page.locator(".servers a", { hasText: "guarded" }).click();
    await page.locator(".entry", { hasText: "files__echo" }).click();
    await page.locator(".definition", { hasText: /sha256:[0-9a-f]{64}/ }).waitFor();
    assert.equal(await page.locator(".definition .old").count(), 0, "a new definition differs from nothing");
    await page.getByRole("button", { name: /^Accept all \d+ new…$/ }).click();
    await page.locator(".confirm .what", { hasText: "guarded__files__echo" }).waitFor();
    await page.waitForTimeout(600); // clicks are ignored before that
    await page.locator(".confirm .accept").click();
    await page.locator(".say", { hasText: "Done." }).waitFor();
    await eventually(async () => assert.equal(await page.locator(".entry .warn").count(), 0));
    await eventually(async () => assert.ok(await page.locator(".badge.held").isHidden()));
    assert.deepEqual(troubles, []);
    await page.context().close();
  } finally {
    program.kill();
  }
}
