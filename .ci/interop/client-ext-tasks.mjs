// Tasks of the client 2.x, with the package @modelcontextprotocol/ext-tasks.
import assert from "node:assert/strict";
import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";
import { INFO, QUESTIONS } from "./client-peer.mjs";

/** A schema of any result. */
const ANY = { "~standard": { version: 1, vendor: "interop", validate: (value) => ({ value }) } };

export class Tasks {
  #peer;
  #session;
  #framing;
  #pending = new Map();
  #heard = new Map();

  constructor(peer, capabilities) {
    this.#peer = peer;
    const { client } = peer;
    for (const method of Object.values(QUESTIONS)) client.removeRequestHandler(method); // the session answers
    if (peer.modern) this.#intercept(client.transport);
    this.#framing = { protocolVersion: peer.version, clientInfo: INFO, clientCapabilities: capabilities };
    this.#session = createTaskSessionFromClient(client, {
      endpointId: "everything",
      ...(peer.modern && {
        rawDispatch: (request) => this.#dispatch(request),
        v2RequestFraming: this.#framing,
      }),
      onInputRequest: ({ kind, params }, { taskId }) => peer.answer(QUESTIONS[kind], params, taskId),
      onError: (error) => { throw error; },
    });
  }

  async start(tool, args = {}) {
    const execution = await this.#session.callTool(tool, args, { task: { preference: "require" } });
    assert.equal(execution.kind, "task");
    const { taskId } = execution.handle;
    return {
      id: taskId,
      end: () => this.#end(execution),
      async leave() {
        let kept;
        await execution.handoff((reference) => void (kept = reference));
        return kept;
      },
    };
  }

  async run(tool, args) {
    return (await this.start(tool, args)).end();
  }

  async immediate(tool, args) {
    const execution = await this.#session.callTool(tool, args);
    assert.equal(execution.kind, "immediate");
    return resultFromTaskOutcome(await execution.result());
  }

  async resume(reference) {
    return this.#end(await this.#session.resumeTask(reference));
  }

  get(id) {
    return this.#session.task(id).snapshot();
  }

  async result(id) {
    if (!this.#peer.modern) return this.#request("tasks/result", { taskId: id });
    return resultFromTaskOutcome(await this.#session.task(id).result());
  }

  cancel(id) {
    return this.#session.task(id).cancel();
  }

  list() {
    return this.#request("tasks/list", {});
  }

  /** Calls a tool as a task that does not offer it, which the session does not. */
  demand(name, args = {}) {
    return this.#request("tools/call", { name, arguments: args, task: {} });
  }

  /** Subscribes to a task and waits for the notification of a status. */
  async hear(id, status) {
    const heard = new Promise((resolve) => this.#heard.set(id, (task) => task.status === status && resolve(task)));
    this.#request("subscriptions/listen", { notifications: { taskIds: [id] } }).catch(() => {}); // its stream ends with the client
    return heard;
  }

  async #end(execution) {
    const { taskId } = execution.handle;
    const states = [];
    let asked;
    const { outcome } = await execution.settle({
      onEvent: ({ type, task }) => {
        if (type !== "task") return;
        states.push(task.status);
        // In 2025-11-25 the session leaves it to its user to wait with tasks/result, during which questions come.
        if (!this.#peer.modern && task.status === "input_required") asked ??= this.#request("tasks/result", { taskId });
      },
    });
    await asked;
    states.push(outcome.status);
    return { id: taskId, states, result: outcome.result };
  }

  async #request(method, params) {
    if (!this.#peer.modern) return this.#peer.client.request({ method, params }, ANY);
    const clientCapabilities = { ...this.#framing.clientCapabilities, extensions: { "io.modelcontextprotocol/tasks": {} } };
    const framing = Object.entries({ ...this.#framing, clientCapabilities }).map(([key, value]) => [`io.modelcontextprotocol/${key}`, value]);
    const { kind, result, error } = await this.#dispatch({ method, params: { ...params, _meta: Object.fromEntries(framing) } });
    if (kind === "error") throw Object.assign(new Error(error.message), error);
    return result;
  }

  /** Sends a request that the client has no types for; returns the response. */
  async #dispatch(request) {
    const id = `raw-${this.#pending.size}`;
    const answered = new Promise((resolve) => this.#pending.set(id, resolve));
    await this.#peer.client.transport.send({ jsonrpc: "2.0", id, ...request });
    return answered;
  }

  #intercept(transport) {
    const receive = transport.onmessage;
    transport.onmessage = (message, extra) => {
      if (message.method === "notifications/tasks") this.#heard.get(message.params.taskId)?.(message.params);
      const resolve = message.method === undefined && this.#pending.get(message.id);
      if (!resolve) return receive(message, extra);
      const { result, error } = message;
      resolve(error === undefined ? { kind: "result", result } : { kind: "error", error });
    };
  }
}
