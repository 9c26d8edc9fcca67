// The client of @modelcontextprotocol/sdk 1.x.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { WebSocketClientTransport } from "@modelcontextprotocol/sdk/client/websocket.js";
import * as schemas from "@modelcontextprotocol/sdk/types.js";
import { CAPABILITIES, INFO, LEGACY, NOTIFICATIONS, Peer, QUESTIONS } from "./client-peer.mjs";
import { Ear } from "./client-server.mjs";

export const name = "sdk 1.x";
export const versions = { stdio: LEGACY, http: LEGACY, sse: LEGACY, ws: LEGACY };

/** The client always offers its newest version; this class offers another one. */
const at = (version, Transport) => class extends Transport {
  send(message, options) {
    if (message.method !== "initialize") return super.send(message, options);
    return super.send({ ...message, params: { ...message.params, protocolVersion: version } }, options);
  }

  setProtocolVersion(negotiated) {
    this.negotiated = negotiated;
    super.setProtocolVersion?.(negotiated);
  }
};

function transportTo({ transport, command, url }, version, ear) {
  switch (transport) {
    case "http": return new (at(version, StreamableHTTPClientTransport))(url, { fetch: ear.fetch });
    case "sse": return new (at(version, SSEClientTransport))(url);
    case "ws": return new (at(version, WebSocketClientTransport))(url);
  }
  return new (at(version, StdioClientTransport))({ command, stderr: "ignore" });
}

export async function open(server, version, capabilities = CAPABILITIES) {
  const client = new Client(INFO, { capabilities });
  const peer = new Peer(client, version);
  for (const [capability, method] of Object.entries(QUESTIONS)) {
    if (!capabilities[capability]) continue;
    client.setRequestHandler(schemaOf(method, "Request"), (request) => peer.answer(method, request.params));
  }
  for (const method of NOTIFICATIONS) {
    client.setNotificationHandler(schemaOf(method, "Notification"), (note) => peer.tell(method, note.params));
  }
  const ear = (peer.ear = new Ear());
  const transport = transportTo(server, version, ear);
  await client.connect(transport);
  peer.negotiated = transport.negotiated;
  peer.call = (tool, args = {}, options) => client.callTool({ name: tool, arguments: args }, undefined, options);
  peer.tasks = () => new Tasks(client.experimental.tasks);
  peer.logFrom = (level) => client.setLoggingLevel(level);
  peer.watch = () => server.transport === "http" && ear.listening; // changed lists are told unasked
  return peer.tap();
}

/** The schema of a method's messages. */
function schemaOf(method, kind) {
  for (const [name, schema] of Object.entries(schemas)) {
    if (name.endsWith(`${kind}Schema`) && schema.shape?.method?.value === method) return schema;
  }
  throw new Error(`the SDK has no schema for ${method}`);
}

/** The experimental tasks of the client. */
class Tasks {
  #tasks;

  constructor(tasks) {
    this.#tasks = tasks;
  }

  async start(tool, args = {}) {
    const stream = this.#tasks.callToolStream({ name: tool, arguments: args }, undefined, { task: {} });
    const { type, task, error } = (await stream.next()).value;
    if (type === "error") throw error;
    const end = async () => {
      const states = [task.status];
      let result;
      for await (const message of stream) {
        if (message.type === "taskStatus") states.push(message.task.status);
        if (message.type === "result") ({ result } = message);
      }
      return { id: task.taskId, states, result };
    };
    return { id: task.taskId, end, leave: () => task.taskId };
  }

  async run(tool, args) {
    return (await this.start(tool, args)).end();
  }

  async resume(id) {
    return { result: await this.result(id) };
  }

  demand(tool, args) {
    return this.start(tool, args);
  }

  get(id) {
    return this.#tasks.getTask(id);
  }

  result(id) {
    return this.#tasks.getTaskResult(id, schemas.CallToolResultSchema);
  }

  cancel(id) {
    return this.#tasks.cancelTask(id);
  }

  list() {
    return this.#tasks.listTasks();
  }
}
