// Package uritemplate matches URIs against URI templates (RFC 6570).
//
// [Parse] reads a template, and [Template.Matcher] compiles it. The package has its own matching, because
// github.com/yosida95/uritemplate wants the parameters of a query in the order of the template and accepts templates
// that have several inverses.
//
// # Matching
//
// RFC 6570 defines expansion only, and many templates have no single inverse. A template can be
// matched if it consists of literal text and these expressions:
//
//	{x}  {x,y}  {.x}  {/x,y}   each variable is one or more characters of one path segment
//	{+x}                       one or more characters, may cross "/"; once in a path
//	{x*}  {/x*}                likewise, at the end of the path
//	{?a,b*}  {&c}  ?k=v&x={x}  the query, by name and in any order
//	{#x}                       the whole fragment, at the end
//
// Two variables of a path need text between them. Where several splits are possible, the variables before the variable
// that may cross "/" (or before the last variable) are as short as possible, and so are the variables after it:
// "{name}.{ext}" splits "a.b.c" into a and b.c, "{+name}.{ext}" into a.b and c.
//
// Variables of the path are required and never empty. Variables of the query and the fragment
// may be missing or empty. Parameters and a fragment that the template does not name are
// ignored. "+" in a query is a plus sign: RFC 6570 writes a space as %20.
//
// URIs are compared as RFC 3986, section 6.2.2 defines: percent-encoding that is not needed makes
// no difference, nor does the case of hexadecimal digits, or of a literal scheme and host.
// Non-ASCII characters equal their percent-encoded UTF-8 (RFC 3987, section 3.1). Dot segments
// are not removed: a value may be ".." or hold a decoded "/". [Matcher.MatchContained] rejects
// such values.
//
// # Guarantees
//
//  1. Matching takes time and memory linear in the length of the URI, for every template.
//  2. Templates and matchers are immutable and safe for concurrent use.
package uritemplate
