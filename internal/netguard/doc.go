// Package netguard fetches URLs that a peer or a configuration names, without giving the
// peer access to the network of this program (server-side request forgery).
//
//	guard := netguard.New(nil)
//	body, header, err := guard.Get(ctx, "https://example.com/jwks.json", 0)
//
// A [Guard] checks each fetch:
//
//  1. The URL, before anything is sent: https only, no user information, and no address in
//     a spelling that only some resolvers accept.
//  2. The address, after the name was resolved and before the connection starts. DNS
//     rebinding has no effect.
//  3. Each redirect, by the same rules. At most three redirects are followed.
//
// Addresses must be public. Not public are the addresses that the IANA registries of special-purpose addresses do not
// mark as globally reachable (RFC 6890), and addresses that contain another address (6to4, Teredo, NAT64), which a
// relay would unpack. A NAT64 prefix that a network has chosen for itself (RFC 6052, section 2.2) is not recognized.
//
// A Guard is immutable and safe for concurrent use. Unless Options.KeepAlive is set, it keeps no connection open. A
// Guard therefore needs no Close, and every fetch is resolved and checked again.
package netguard
