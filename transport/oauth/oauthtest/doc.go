// Package oauthtest runs a small OAuth authorization server in tests and examples. Everybody
// agrees to every login immediately, so it must not be used elsewhere.
//
//	issuer, err := oauthtest.Start(nil)
//	...
//	defer issuer.Close()
//	authorizer, err := oauth.NewClient(&oauth.ClientOptions{
//		AllowLoopback: true,
//		Flow:          &oauth.CodeFlow{Open: oauthtest.Browse}, // the person's browser
//	})
//
// [Start] serves at a port of this machine, and [Server].URL is the issuer. With [New], a test
// serves it at an address of its own.
//
// It supports:
//
//   - the authorization code grant with PKCE, refresh tokens that can be used once, and
//     client credentials;
//   - dynamic registration (RFC 7591);
//   - tokens that are JWTs (RFC 9068) for the requested resource (RFC 8707), bound to a key
//     if the request has a DPoP proof (RFC 9449);
//   - ID tokens (OpenID Connect Core, section 2), for the scope openid;
//   - introspection (RFC 7662) and revocation (RFC 7009).
//
// [Server.Rotate] replaces its key, [Server.Revoke] deletes all refresh tokens, and [Server.Sign]
// makes tokens with any claims, such as one that has expired.
//
// # Guarantees
//
//  1. Methods may be called concurrently.
//  2. [Server.Close] waits until the server of [Start] has ended.
//  3. Memory is bounded: when 10,000 clients, codes or tokens are known, the server forgets all of
//     that kind.
//
// # Related packages
//
// Package oauth has the two other parties: the client, and the server that checks tokens.
package oauthtest
