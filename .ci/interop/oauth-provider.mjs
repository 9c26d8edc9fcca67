// Runs oidc-provider at a port of this machine, prints its issuer, and ends with its input.
// The argument is JSON: clients, registration (whether clients may register), format (of
// access tokens: jwt or opaque), people, the roles of each, which are in their tokens, and host,
// the address: browsers send cookies to all ports of one.
import { createServer } from "node:http";
import { once } from "node:events";
import Provider from "oidc-provider";

const options = JSON.parse(process.argv[2]);
const server = createServer().listen(0, options.host ?? "127.0.0.1");
await once(server, "listening");
const issuer = `http://${server.address().address}:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: options.clients,
  cookies: { keys: ["a key of this test"] },
  scopes: ["openid", "offline_access", "notes"],
  pkce: { required: () => true },
  claims: { openid: ["sub", "roles"] },
  conformIdTokenClaims: false,
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, roles: options.people?.[id] }) }),
  extraTokenClaims: (ctx, token) => ({ roles: options.people?.[token.accountId] }),
  issueRefreshToken: (ctx, client) => client.grantTypeAllowed("refresh_token"),
  rotateRefreshToken: true,
  features: {
    devInteractions: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    registration: { enabled: options.registration },
    revocation: { enabled: true, allowedPolicy: (ctx, client, token) => token.clientId === client.clientId },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, resource) => ({
        scope: "notes",
        audience: resource,
        accessTokenFormat: options.format,
        accessTokenTTL: 600,
      }),
    },
  },
});
provider.on("server_error", (ctx, error) => console.error(error));
server.on("request", provider.callback());
console.log(issuer);

process.stdin.resume();
await once(process.stdin, "end");
process.exit(0);
