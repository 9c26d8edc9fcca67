// Package policy decides which caller may call which tool, prompt or resource. A policy has
// lists of name patterns, and rules about servers, names, tags, annotations, roles,
// principals and arguments.
//
// [Parse] reads a [Policy] from JSON, [Compile] compiles it, and [Guard] enforces it on a
// server, mount, bridge or single entry:
//
//	p, err := policy.Parse([]byte(`{"deny":["*delete*"]}`))
//	compiled, err := policy.Compile(p)
//	server.Options{Guards: []mcp.Guard{policy.Guard(compiled, nil)}}
//
// [Compiled.Decide] is a pure function of a [Request], so a program can also run it on
// recorded calls. [Compiled.Explain] reports for every list and rule why it matched or did
// not. [Policy.Warnings] reports probable mistakes.
//
// # Guarantees
//
//  1. A call is allowed only if something allows it and nothing denies it. Deny takes
//     precedence over ask, and ask over allow. The order of lists and rules does not matter.
//  2. A name that the deny list matches is denied. If there is an allow list, a name that
//     it does not match is denied.
//  3. A call is allowed by an allow list or by an allow rule. A policy without an allow list
//     and without rules allows everything that it does not deny.
//  4. If it is unknown whether a rule matches, a rule that denies or asks applies, and a rule
//     that allows does not. This happens when the answer depends on the annotations of an
//     untrusted server, when an argument does not have the type that the rule expects, or when a pattern matches only
//     the spelling of a URI that the caller uses.
//  5. An entry is listed if some call of it could be allowed.
//  6. Guards deny a call if a callback fails or panics.
//  7. All functions and methods may be called concurrently. A [Compiled] does not change.
//
// # Patterns
//
// Patterns match like Python's fnmatchcase on every operating system: * matches any text, ? matches one character,
// [a-z] matches a character of the set and [!a-z] one outside it. A pattern must match the whole name, in exact case.
// There is no escape character: [*] matches an asterisk.
//
// A caller can spell one URI in several ways: scheme and host in another case, and percent-encoding where none is
// needed (RFC 3986, section 6.2.2). The canonical spelling has the scheme and the host in lower case, hexadecimal digits
// in upper case, and no percent-encoding of unreserved characters and of characters beyond ASCII. A pattern of a deny
// list, and a rule that denies or asks, applies if it matches the canonical spelling or the one that the caller uses.
// An allow list, a rule that allows, and an exception of a rule that denies or asks must match the canonical spelling.
// A resource template may ignore the query and the fragment of a URI. For URIs that a template matches, a pattern that
// denies or asks applies also if it matches the URI without the fragment, or without both. A pattern with a query does not
// protect such URIs, because the caller may give the parameters in another order, or add some: deny the URI without a query.
// Patterns of URIs may be written in any spelling, but text after a wildcard in the host in lower case.
//
// The guard of package approval enforces a policy and has a person decide about the calls for
// which the policy says ask.
package policy
