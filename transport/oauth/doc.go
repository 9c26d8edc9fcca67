// Package oauth implements the OAuth authorization of MCP over HTTP: a [Client] that obtains
// tokens, and the middleware [Protect] that requires them. Use it when a server needs to
// know its callers, also by API keys; for an existing login, your own HTTP middleware and
// [transport.WithPrincipal] are enough.
//
// # Client
//
// A [Client] is the authorizer of a connection:
//
//	client, err := oauth.NewClient(&oauth.ClientOptions{Name: "My application"})
//	dialer := streamable.Dial("https://example.com/mcp", &streamable.DialOptions{Authorizer: client})
//
// The first request has no token. The server refuses it with a challenge that names the
// metadata of the resource (RFC 9728). That names the authorization server, whose metadata
// (RFC 8414 or OpenID Connect Discovery) names its endpoints. Then a person logs in with a
// browser: the authorization code flow of OAuth 2.1, with PKCE (RFC 7636), resource
// indicators (RFC 8707) and the issuer in the response (RFC 9207). The client sends the
// request again with the token. Programs without a person use another [Flow]: [SavedTokens],
// [ClientCredentials], [JWTBearer], [TokenExchange] or [EnterpriseManaged].
//
// Metadata are searched at every place that the specifications name. A place without a usable
// document, whatever its answer, does not end the search. The file testdata/logins.md lists unusual
// servers, and which of them are refused and why.
//
// A [TokenStore] keeps tokens and registrations. Programs may share one. [Client.Logout]
// deletes a token and revokes it (RFC 7009).
//
// # Server
//
// [Protect] admits only requests with a valid token:
//
//	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: "https://login.example.com"})
//	handler, err := oauth.Protect(streamable.Handler(server, nil), &oauth.ProtectOptions{
//		Resource:             "https://example.com/mcp",
//		AuthorizationServers: []string{"https://login.example.com"},
//		Verifier:             verifier,
//		Scopes:               []string{"mcp"},
//		CallScopes:           server.Scopes,
//	})
//
// A [Verifier] verifies each token: by its signature ([JWTVerifier]), by a query to the
// issuer ([NewIntrospection]), as an API key ([NewAPIKeyVerifier]), or with your own code. [Issuers]
// combines the verifiers of several issuers. Its result is a [Grant]. Sessions, the state of
// calls and policies are bound to [Grant.Principal]. Calls can need more scopes than other
// requests: the challenge names them, and the client obtains them.
//
// Package [github.com/dovetail-go/dovetail/transport/oauth/proxy] is an authorization server in front
// of an identity provider without dynamic registration. Package oauthtest has an authorization server
// for tests.
//
// # Guarantees
//
//  1. A token is sent only to the origin of the server for which it was issued, and a
//     refresh token or registration only to its authorization server.
//  2. A token is refreshed before it expires. Processes that share a [NewFileStore] refresh it
//     once: one sends the refresh token, and the others use its result.
//  3. When a server demands more scopes, they are requested together with the earlier ones,
//     at most twice for the same challenge.
//  4. With [ClientOptions].DPoP, or when a server demands it, tokens are bound to a key of
//     the client (RFC 9449). [Protect] requires a proof with each bound token, and refuses a
//     proof that was used before, with [ProtectOptions].Store at any process.
//  5. Peers name the URLs that are fetched. These must be https at public addresses, except
//     this machine with AllowLoopback, and the networks and plain-http hosts that options
//     name. Redirects, sizes and times are bounded. Proxy
//     settings of the environment are ignored.
//  6. A browser is opened only for https URLs (with AllowLoopback also http of this
//     machine), and without a shell.
//  7. Tokens, passwords and assertions are a [Secret], which prints as "[secret]". No error
//     of this package contains one.
//  8. All types are safe for concurrent use, unless their documentation says otherwise.
//
// # Specification
//
// https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization, for servers
// of every version, with the defaults of 2025-03-26 for a resource without metadata.
package oauth
