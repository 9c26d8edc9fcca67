// Package uritemplate expands URI templates (RFC 6570, all four levels) and
// matches URIs against them.
//
// A [Template] is parsed text. [Template.Expand] turns values into a URI;
// [Template.Matcher] compiles the way back, from a URI to values.
//
// # Matching
//
// RFC 6570 defines expansion only: many templates have no single inverse.
// A [Matcher] exists only for templates that have one, and [Template.Matcher]
// names the expression that stands in the way of any other. What it accepts:
//
//	{x}  {x,y}  {.x}  {/x,y}   each variable is one or more characters of one path segment
//	{+x}                       one or more characters, may cross "/"; once in a path
//	{x*}  {/x*}                likewise, as the last thing in the path
//	{?a,b*}  {&c}  ?k=v&x={x}  the query, by name and in any order
//	{#x}                       the whole fragment, as the last thing
//
// Two variables of a path need text between them. Where several splits are
// possible, the variables before the one that may cross "/" (or before the last
// one) take as little as they can, and so do the variables after it:
// "{name}.{ext}" splits "a.b.c" into a and b.c, "{+name}.{ext}" into a.b and c.
//
// Variables of the path must be there and are never empty. Variables of the query
// and the fragment may be missing or empty. Parameters and a fragment that
// the template does not name are ignored. "+" in a query is a plus sign: RFC 6570
// writes a space as %20.
//
// URIs are compared as RFC 3986, section 6.2.2 equates them: percent-encoding
// that was not needed makes no difference, nor does the case of hexadecimal digits,
// of the scheme and of the host where they are literal text. Non-ASCII characters equal their percent-encoded
// UTF-8 (RFC 3987, section 3.1). Dot segments are left alone: a value may be
// ".." or hold a decoded "/". [Matcher.MatchContained] refuses such values.
//
// Time and memory are linear in the length of the URI, whatever the template.
//
// # Concurrency
//
// Templates and matchers are immutable and safe for concurrent use.
package uritemplate
