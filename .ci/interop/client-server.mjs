// The server of the checks, over each of its transports.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** The paths of the HTTP transports. */
const ADDRESSES = { http: ["http", "/mcp"], sse: ["http", "/sse"], ws: ["ws", "/ws"] };

/** The HTTP transports. */
export const HTTP = Object.keys(ADDRESSES);

/** Starts the server; over stdio, the client's transport will. */
export async function serve(command, transport) {
  if (transport === "stdio") return { transport, command, async stop() {} };
  const child = spawn(command, ["-http", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  const exit = once(child, "exit");
  const lines = createInterface(child.stderr);
  const [line] = await Promise.race([
    once(lines, "line"),
    exit.then(([code]) => assert.fail(`the server has ended with ${code}`)),
  ]);
  const [host] = /127\.0\.0\.1:\d+/.exec(line) ?? assert.fail(`no address: ${line}`);
  const [scheme, path] = ADDRESSES[transport];
  return { transport, url: new URL(`${scheme}://${host}${path}`), stop: () => stop(child, exit) };
}

/** Interrupts a server that may still have clients. */
async function stop(child, exit) {
  child.kill("SIGTERM");
  const late = setTimeout(() => child.kill("SIGKILL"), 10_000);
  const [code, signal] = await exit;
  clearTimeout(late);
  assert.equal(code, 0, `the server has ended with ${code ?? signal}`);
}

/** A fetch that records the headers of requests and when the client listens for notifications. */
export class Ear {
  listening = new Promise((resolve) => (this.heard = resolve));
  /** The headers of all requests, in order. */
  said = [];

  fetch = async (url, init) => {
    this.said.push(new Headers(init?.headers));
    const response = await fetch(url, init);
    if (init?.method === "GET" && response.ok) this.heard();
    return response;
  };

  /** The values of a header, of the requests that had it. */
  heads(name) {
    return this.said.map((headers) => headers.get(name)).filter((value) => value !== null);
  }
}
