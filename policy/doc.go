// Package policy decides who may call what: by lists of names, and by rules about
// servers, names, tags, annotations, roles, principals and arguments.
//
// A [Policy] is data. [Compile] makes of it what decides: [Compiled.Decide] is a pure
// function of a [Request], which anybody can make, of recorded calls too, and
// [Compiled.Explain] says of every list and rule why it matched or did not. [Guard] enforces
// a policy on a server, mount, bridge or single entry:
//
//	server.Options{Guards: []mcp.Guard{policy.Guard(compiled, nil)}}
//
// A policy that asks about calls is enforced by the guard of package approval, which has a
// person decide.
//
// # What is decided
//
// A call needs something that allows it, and nothing that denies it:
//
//   - Deny beats ask, and ask beats allow. The order of lists and rules does not matter.
//   - What the deny list matches is denied. If there is an allow list, what it does not
//     match is denied too.
//   - Allowed is what an allow list or an allow rule matches. Only a policy with neither
//     an allow list nor a rule allows what nothing matches.
//   - Where it cannot be told whether a rule matches, it does if it denies or asks, and
//     does not if it allows: where an untrusted server's word would decide, say, or an
//     argument is not of the type that the rule is about.
//   - An entry is listed if a call of it could be allowed.
//
// Patterns are those of Python's fnmatchcase, on every operating system: * is any text, ?
// any one character, [a-z] one of a set and [!a-z] one that is not; all of the name must
// match, in exact case. There is no escape character: [*] is an asterisk.
//
// Everything may be used concurrently, and nothing changes once it is compiled.
package policy
