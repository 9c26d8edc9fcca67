// Package authserver is a small authorization server for tests and examples. It knows one
// person, who agrees to everything at once, so it is good for this machine and nothing
// else.
//
//	as, err := authserver.Start(nil)
//	...
//	defer as.Close()
//	... as.URL ... // the issuer
//
// It has the authorization code grant with PKCE, refresh tokens that are used once, and
// client credentials; dynamic registration; tokens that are JWTs (RFC 9068) for the
// resource that they were asked for (RFC 8707), bound to a key where a proof comes along
// (RFC 9449); introspection (RFC 7662).
package authserver
