// Package oauth is the authorization of MCP over HTTP, at both ends.
//
// # Client
//
// A [Client] gets requests admitted that servers refuse:
//
//	client, err := oauth.NewClient(&oauth.ClientOptions{Name: "My application"})
//	dialer := streamable.Dial("https://example.com/mcp", &streamable.DialOptions{Authorizer: client})
//
// The first request goes out without a token. Its refusal leads to the metadata of the
// resource (RFC 9728), that to an authorization server and its metadata (RFC 8414 or
// OpenID Connect Discovery), and that to a token, for which a person logs in with a
// browser: the authorization code flow of OAuth 2.1, with PKCE (RFC 7636), resource
// indicators (RFC 8707) and the issuer in the answer (RFC 9207). The request is then
// sent once more. Programs without a person have other flows: [ClientCredentials],
// [JWTBearer] and [EnterpriseManaged].
//
// Later requests take the token along, and only to the origin of the server that it is
// for. It is refreshed when it ends; when the server demands more scopes, they are asked
// for together with those that were asked for before, and only so often. Tokens and
// registrations are kept in a [TokenStore], each with the issuer it is from, and never
// go to another one. Programs may share a store: before one refreshes a token, it looks
// whether another one has.
//
// With [ClientOptions].DPoP, or when the server demands it, tokens are bound to a key
// that only this client has (RFC 9449).
//
// What is fetched is named by strangers. It must be https at a public address, unless
// [ClientOptions].AllowLoopback admits this machine; redirects, sizes and times are
// bounded; no proxy of the environment is asked. A browser is sent to https URLs only,
// and never by way of a shell.
//
// # Server
//
// [Protect] is middleware that admits requests with a valid token only:
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
// It serves the metadata of the resource, and refuses with challenges that clients can
// follow. Tokens are verified for each request, in sessions and without, by their
// signature ([JWTVerifier]), by asking who issued them ([Introspection]) or by a [Verifier]
// of your own, and must be for this resource. Those that are bound to a key need a proof
// (RFC 9449). Who calls is known as [Grant.Principal], to which sessions, the state of
// calls and policies are bound. Calls can need scopes of their own, as tools declare with
// the tag scopes: the client is then told which, and comes back with more.
//
// # Secrets
//
// Tokens, passwords and assertions are a [Secret], which prints as "[secret]". No error
// of this package repeats one.
//
// # Specifications
//
// https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization, which is
// followed for servers of every version, with the fallbacks of 2025-03-26 where a
// resource has no metadata.
package oauth
