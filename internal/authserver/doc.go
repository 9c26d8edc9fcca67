// Package authserver is a small OAuth authorization server for tests and examples. It has
// one person, who agrees to every login immediately, so it must not be used elsewhere.
//
//	as, err := authserver.Start(nil)
//	...
//	defer as.Close()
//	... as.URL ... // the issuer
//
// It supports:
//
//   - the authorization code grant with PKCE, refresh tokens that can be used once, and
//     client credentials;
//   - dynamic registration (RFC 7591);
//   - tokens that are JWTs (RFC 9068) for the requested resource (RFC 8707), bound to a key
//     if the request has a DPoP proof (RFC 9449);
//   - introspection (RFC 7662).
package authserver
