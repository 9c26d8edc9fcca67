// Package proxy is an OAuth authorization server for MCP in front of an identity provider with
// which clients cannot register dynamically (RFC 7591). Use it if your provider knows only
// applications that were registered by hand. If clients can register with the provider, package
// [github.com/dovetail-go/dovetail/transport/oauth] is enough.
//
//	p, err := proxy.New(&proxy.Options{
//		Issuer:   "https://example.com/oauth", // the redirect URI at the provider is this and "/callback"
//		Resource: "https://example.com/mcp",
//		Provider: "https://login.example.com",
//		Client:   oauth.Registration{ClientID: "notes", Secret: secret},
//		Scopes:   []string{"notes"},
//	})
//	handler, err := oauth.Protect(endpoint, &oauth.ProtectOptions{
//		Resource:             "https://example.com/mcp",
//		AuthorizationServers: []string{"https://example.com/oauth"},
//		Verifier:             p,
//	})
//	handler = p.Wrap(handler)
//
// [Proxy.Wrap] adds the endpoints of the [Proxy] to a server. The proxy verifies its own tokens.
// [Options].Admit decides who may log in. With [Options].Store and [Options].Keys, several processes
// are one proxy.
//
// # A login
//
// The client opens the authorization endpoint of the proxy in the browser of the person. The
// proxy shows who asks for what and where the result goes, and the person agrees or not. Then the
// proxy sends the browser to the provider, where the person logs in. The provider sends the
// browser back to the proxy with a code, and the proxy sends it to the client with a code of its
// own. Both codes are bound by PKCE (RFC 7636).
//
// The tokens of a proxy are its own, for one resource. No token of the provider reaches a
// client, and no token of the provider is accepted in place of one.
//
// # Guarantees
//
//  1. Every login shows the consent page, so that a client cannot use the consent that a person
//     gave to another one (the confused deputy problem of the MCP security best practices).
//  2. Redirect URIs are compared byte for byte with the registered ones. Anyone may register one, so
//     before the person has agreed the proxy redirects nothing: each error is a page of the proxy
//     with status 400. A person who cancels gets a link to the application. After the person has
//     agreed, errors go to the redirect URI (RFC 6749, section 4.1.2.1).
//  3. The state of a login is in a cookie, which is set after the person has agreed, and only in
//     the browser of that person. It is valid for ten minutes and once.
//  4. Client IDs, codes and tokens are sealed, not stored. So anonymous registrations need no
//     memory, and processes with the same [Options].Keys serve the same clients.
//  5. A code or refresh token can be used once; a second use ends the login. Revocation
//     (RFC 7009) ends it too. Processes with the same [Options].Store know each other's uses
//     and ends of logins. Without a store, a process remembers the 100,000 logins that were used
//     last. It accepts a refresh token of any other login, used or not, unless the provider
//     refuses: after a restart, or if the login was used at another process.
//  6. With and without a store, another process accepts the access token of an ended login until it
//     expires.
//  7. A [Proxy] is safe for concurrent use.
package proxy
