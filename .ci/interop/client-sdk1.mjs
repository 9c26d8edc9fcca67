// The client of @modelcontextprotocol/sdk 1.x.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import * as schemas from "@modelcontextprotocol/sdk/types.js";
import { CAPABILITIES, INFO, LEGACY, NOTIFICATIONS, Peer, QUESTIONS } from "./client-peer.mjs";

export const name = "sdk 1.x";
export const versions = LEGACY;

/** The client always offers its newest version: this offers another. */
class StdioAt extends StdioClientTransport {
  constructor(command, version) {
    super({ command, stderr: "ignore" });
    this.version = version;
  }

  send(message) {
    if (message.method !== "initialize") return super.send(message);
    return super.send({ ...message, params: { ...message.params, protocolVersion: this.version } });
  }

  setProtocolVersion(negotiated) {
    this.negotiated = negotiated;
  }
}

export async function open(command, version, capabilities = CAPABILITIES) {
  const client = new Client(INFO, { capabilities });
  const peer = new Peer(client, version);
  for (const [capability, method] of Object.entries(QUESTIONS)) {
    if (!capabilities[capability]) continue;
    client.setRequestHandler(schemaOf(method, "Request"), (request) => peer.answer(method, request.params));
  }
  for (const method of NOTIFICATIONS) {
    client.setNotificationHandler(schemaOf(method, "Notification"), (note) => peer.tell(method, note.params));
  }
  const transport = new StdioAt(command, version);
  await client.connect(transport);
  peer.negotiated = transport.negotiated;
  peer.call = (tool, args = {}, options) => client.callTool({ name: tool, arguments: args }, undefined, options);
  peer.logFrom = (level) => client.setLoggingLevel(level);
  peer.watch = () => {}; // changed lists are told unasked
  return peer.tap();
}

/** The schema of a method's messages. */
function schemaOf(method, kind) {
  for (const [name, schema] of Object.entries(schemas)) {
    if (name.endsWith(`${kind}Schema`) && schema.shape?.method?.value === method) return schema;
  }
  throw new Error(`the SDK has no schema for ${method}`);
}
