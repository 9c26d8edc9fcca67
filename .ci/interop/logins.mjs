// node logins.mjs sdk1|sdk2: logs in at each URL that standard input has, one per line, with a client of the TypeScript
// SDK, and sends a request with the token. The servers know whether that has succeeded.
import { createInterface } from "node:readline";

const packages = {
  sdk1: ["@modelcontextprotocol/sdk/client/index.js", "@modelcontextprotocol/sdk/client/streamableHttp.js"],
  sdk2: ["@modelcontextprotocol/client", "@modelcontextprotocol/client"],
};
const [{ Client }, { StreamableHTTPClientTransport }] = await Promise.all(packages[process.argv[2]].map(name => import(name)));

const redirect = "http://127.0.0.1:9/callback"; // nothing listens there: the response is read from the redirect

/** A provider in memory, whose person agrees immediately. */
class Provider {
  redirectUrl = redirect;
  clientMetadata = {
    client_name: "logins", redirect_uris: [redirect], grant_types: ["authorization_code", "refresh_token"], response_types: ["code"], token_endpoint_auth_method: "none",
  };
  state() { return this.sent = crypto.randomUUID(); }
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.saved; }
  saveTokens(tokens) { this.saved = tokens; }
  codeVerifier() { return this.verifier; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  saveDiscoveryState(state) { this.discovered = state; }
  discoveryState() { return this.discovered; }
  async redirectToAuthorization(url) {
    const response = await fetch(url, { redirect: "manual" });
    await response.body?.cancel();
    this.response = new URL(response.headers.get("location")).searchParams;
  }
}

async function login(url) {
  const provider = new Provider();
  for (let round = 0; round < 3; round++) {
    const client = new Client({ name: "logins", version: "1" });
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
    provider.response = undefined;
    try {
      return await client.connect(transport);
    } catch (error) {
      if (!provider.response || provider.response.get("state") !== provider.sent) throw error;
      if (process.argv[2] === "sdk2") await transport.finishAuth(provider.response);
      else await transport.finishAuth(provider.response.get("code"));
    } finally {
      await client.close().catch(() => {});
    }
  }
}

const urls = [];
for await (const line of createInterface({ input: process.stdin })) urls.push(line);
const worker = async () => {
  for (let url; (url = urls.shift());) {
    await Promise.race([
      login(url).catch(error => { if (process.env.VERBOSE) console.error(url, String(error)); }),
      new Promise(done => setTimeout(done, 20_000).unref()),
    ]);
  }
};
await Promise.all(Array.from({ length: 8 }, worker));
process.exit(0); // without waiting for connections
