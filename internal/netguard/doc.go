// Package netguard fetches what a peer or a configuration names by URL, without being
// led into the network that this program runs in (server-side request forgery).
//
//	guard := netguard.New(nil)
//	body, header, err := guard.Get(ctx, "https://example.com/jwks.json", 0)
//
// A [Guard] looks at three things, each time:
//
//   - at the URL, before anything is sent: https only, no user information, and no
//     address in a spelling that some resolvers read and others do not;
//   - at the address that is about to be connected to, after the name has been
//     resolved, so that a name that answers differently the second time gains nothing;
//   - at every redirect, by the same rules, and at most three times in a row.
//
// Addresses must be public. Those that are not are the ones that the IANA registries of
// special-purpose addresses do not mark as globally reachable (RFC 6890), and those that
// carry another address inside them (6to4, Teredo, NAT64), which a relay would unpack.
// Prefixes that a network has chosen for its own NAT64 (RFC 6052, section 2.2) cannot
// be known here.
//
// # Concurrency
//
// A Guard is immutable and safe for concurrent use. It keeps no connection open, so
// there is nothing to close, and every fetch is resolved and checked anew.
package netguard
