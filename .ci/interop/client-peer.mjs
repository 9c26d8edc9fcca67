// A connected client of either SDK.
import assert from "node:assert/strict";

export const INFO = { name: "interop", version: "1.0.0" };

export const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } };

/** The versions with a handshake, which both clients speak. */
export const LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/** The questions for each capability. */
export const QUESTIONS = { elicitation: "elicitation/create", sampling: "sampling/createMessage", roots: "roots/list" };

export const NOTIFICATIONS = [
  "notifications/message",
  "notifications/resources/updated",
  "notifications/tools/list_changed",
  "notifications/prompts/list_changed",
  "notifications/resources/list_changed",
];

export class Peer {
  /** The requests of the server, in order: {method, params, taskId}. */
  asked = [];
  /** The notifications of the server, in order: {method, params}. */
  told = [];
  /** The received messages since the client connected. */
  wire = [];
  /** The answers of user, model and host, by method. */
  answers = {
    "elicitation/create": () => ({ action: "decline" }),
    "sampling/createMessage": () => ({ role: "assistant", content: { type: "text", text: "42" }, model: "test" }),
    "roots/list": () => ({ roots: [{ uri: "file:///work", name: "work" }] }),
  };
  #waiting = [];

  constructor(client, version) {
    this.client = client;
    this.version = version;
    this.modern = version >= "2026-07-28";
  }

  /** Records the messages of the transport from now on. */
  tap() {
    const { transport } = this.client;
    const receive = transport.onmessage;
    transport.onmessage = (message, extra) => {
      this.wire.push(message);
      receive(message, extra);
    };
    return this;
  }

  /** Whether the version has what came with another. */
  since(version) {
    return this.version >= version;
  }

  /** Answers a question of the server, or of a task. */
  answer(method, params, taskId = params?._meta?.["io.modelcontextprotocol/related-task"]?.taskId) {
    this.asked.push({ method, params, taskId });
    return this.answers[method](params);
  }

  /** Takes a notification. */
  tell(method, params) {
    this.told.push({ method, params });
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** Waits for a notification; returns the params. */
  async hears(method) {
    for (;;) {
      const found = this.told.find((note) => note.method === method);
      if (found) return found.params;
      await new Promise((wake) => this.#waiting.push(wake));
    }
  }
}

/** A value as JSON has it, without _meta on its top. */
export function plain(value) {
  if (value === undefined) return undefined;
  const copy = JSON.parse(JSON.stringify(value));
  if (!Array.isArray(copy)) delete copy._meta;
  return copy;
}

/** Waits for a failure with a code of JSON-RPC and a text in its message. */
export async function fails(call, code, text) {
  const error = await call.then(
    (result) => assert.fail(`no error but ${JSON.stringify(result)}`),
    (reason) => reason,
  );
  assert.equal(error.code, code, error.message);
  assert.ok(error.message.includes(text), `${text} is not in: ${error.message}`);
  return error;
}
