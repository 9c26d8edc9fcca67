package approval

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

const (
	// maxArguments is the maximum size of arguments that can be approved, in bytes.
	maxArguments = 128 << 10
	// maxReason is the maximum length of the reason of an answer, in bytes. A longer one is
	// truncated.
	maxReason = 1 << 10
	// maxText is the maximum length of the result of [Request.String], in bytes.
	maxText = 500

	// maxDescription is the maximum length of a title or description, in bytes.
	maxDescription = 4 << 10
)

// A Request is a call that awaits approval. Approvers must not change it: a changed request
// is refused.
type Request struct {
	// ID identifies the request: 256 random bits as text.
	ID string
	// Target is the tool.
	Target
	// Arguments are the exact bytes that the tool gets, a JSON object; {} if the call has
	// none.
	Arguments json.RawMessage
	// Caller is the authenticated principal of the caller, "" if it is not known.
	Caller string
	// Script names the script of a model that makes the call, and which of its calls it is; see [mcp.Call.Script]. "" for a
	// direct call.
	Script string
	// Created is the time of the request, and Deadline the time after which an answer is too
	// late. Both are truncated to milliseconds, and have a reading of the monotonic clock.
	Created, Deadline time.Time

	// Title and Description are copied from the tool's definition, which the author of the server has written. Each is
	// truncated to 4 KiB.
	Title, Description string
	// Annotations are copied from the tool's definition. Without a hint, the tool may delete or overwrite data.
	Annotations mcp.ToolAnnotations
	// Trusted means that the annotations can be relied on: [mcp.Origin].Trusted, or the tool belongs to this program.
	// Otherwise nothing verifies the annotations.
	Trusted bool
	// Rule is the name of the policy's rule that asks, and Reason is the reason in that rule, "" for
	// none.
	Rule, Reason string
	// Remember is the longest time for which a yes may also be valid for equal calls:
	// [Options].Remember, in milliseconds. 0: a yes is for this call only. See [Answer].Remember.
	Remember time.Duration

	call *mcp.Call // for [Elicitation]
}

// LaunchedPrefix is the prefix of the server's name, in [Target] and in rules, if the caller has launched the server and
// chosen its name. If a caller launches a server under the name files, its tools belong to the server launched:files.
// Rules about the operator's server files do not match it.
const LaunchedPrefix = "launched:"

// A Target describes a tool to an approver.
type Target struct {
	// Server is the alias of the server, after [LaunchedPrefix] if the caller has launched it; "" for a tool of the program itself.
	Server string
	// Launch tells a person how the server is started or reached: [mcp.Origin].Launch. It is
	// "" if that is not known.
	Launch string
	// Tool is the name of the tool on its server.
	Tool string
	// ToolDigest is [mcp.Definition.Digest] of the tool.
	ToolDigest string
}

func (g *guard) newRequest(target Target, call *mcp.Call, d policy.Decision) *Request {
	id := make([]byte, 32)
	rand.Read(id) // never fails
	// Truncate and UTC would drop the monotonic reading, and setting the wall clock back
	// would then extend the deadline.
	now := time.Now()
	now = now.Add(-time.Duration(now.Nanosecond()) % time.Millisecond)
	t := call.Target()
	r := &Request{
		ID:        base64.RawURLEncoding.EncodeToString(id),
		Target:    target,
		Arguments: bytes.Clone(argumentsOf(call)),
		Created:   now,
		Deadline:  now.Add(g.opts.Expiry - g.opts.Expiry%time.Millisecond),

		Annotations: t.Definition.Annotations(),
		Trusted:     t.Origin.Trusted || t.Origin == mcp.Origin{},
		Rule:        d.Rule,
		Reason:      peertext.Cut(d.UserMessage, maxReason),
		Remember:    g.opts.Remember,
		Script:      call.Script(),
		call:        call,
	}
	if definition, err := jsonscan.ReadObject(t.Definition.JSON()); err == nil {
		r.Title = peertext.Cut(cmp.Or(stringIn(&definition, "title"), r.Annotations.Title), maxDescription)
		r.Description = peertext.Cut(stringIn(&definition, "description"), maxDescription)
	}
	if call.Caller != nil {
		r.Caller = call.Caller.Principal
	}
	return r
}

// holder returns the caller that has a share of the open requests.
func (r *Request) holder() quota.Holder {
	if r.call == nil || r.call.Caller == nil {
		return quota.Holder{}
	}
	return quota.HolderOf(r.call.Caller.Principal, r.call.Caller.Network)
}

// stringIn returns a member that is a string, "" for any other.
func stringIn(object *jsonscan.Members, name string) string {
	value := object.Get(name)
	if jsonscan.KindOf(value) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(value)
}

// effect says what the tool does to data, according to its annotations.
func (r *Request) effect() string {
	text, said := "may delete or overwrite data", false
	switch hints := &r.Annotations; {
	case hints.ReadOnlyHint != nil && *hints.ReadOnlyHint:
		text, said = "changes nothing", true
	case hints.DestructiveHint != nil:
		said = true
		if !*hints.DestructiveHint {
			text = "adds or changes data, does not delete or overwrite it"
		}
	}
	if said && !r.Trusted {
		text += " (the server says so; not verified)"
	}
	return text
}

// argumentsOf returns the arguments of a call, {} for none. It returns null as it is: a person approves what runs.
func argumentsOf(call *mcp.Call) json.RawMessage {
	arguments := call.Member("arguments")
	if arguments == nil && call.Params() != nil {
		arguments, _ = jsonscan.Find(call.Params(), "arguments") // params that are a list have none
	}
	if arguments != nil {
		return arguments
	}
	return json.RawMessage("{}")
}

// Digest returns a digest of the subject, ID, Created and Deadline. It is unique.
func (r *Request) Digest() Digest {
	subject := r.Subject()
	return digestOf("dovetail approval 1", r.ID, string(subject[:]), formatTime(r.Created), formatTime(r.Deadline))
}

// Subject returns a digest of the target, the arguments, the caller, Trusted, Rule and Reason: of
// everything that a person is shown, except ID, Created, Deadline, Script and Remember. An answer to one of two
// requests with the same subject is also right for the other one.
func (r *Request) Subject() Digest {
	return digestOf("dovetail approval subject 2", r.Server, r.Launch, r.Tool, r.ToolDigest,
		string(r.Arguments), r.Caller, strconv.FormatBool(r.Trusted), r.Rule, r.Reason)
}

// ArgumentsDigest returns the SHA-256 of Arguments.
func (r *Request) ArgumentsDigest() Digest { return sha256.Sum256(r.Arguments) }

// String returns a summary in one line, such as server.tool(k='v', n=2). Arguments are sorted
// by name, invisible characters are escaped, and the text is truncated to 500 bytes.
// For a decision use [Request.Text], which is complete.
func (r *Request) String() string {
	return peertext.Cut(nameOf(r.Server, r.Tool)+"("+keywords(r.Arguments)+")", maxText)
}

// Text returns the complete arguments as JSON. They are the exact bytes, except that invisible
// characters are written as JSON escapes; the JSON value is the same.
func (r *Request) Text() string { return PrintableJSON(r.Arguments) }

// nameOf returns server.tool, or tool if there is no server.
func nameOf(server, tool string) string {
	if server == "" {
		return Printable(tool)
	}
	return Printable(server) + "." + Printable(tool)
}

// A Digest is a SHA-256 hash. Its text form has 64 lower-case hexadecimal digits.
type Digest [sha256.Size]byte

// digestOf hashes the parts with their lengths, so that different lists have different digests.
func digestOf(parts ...string) Digest { return sha256.Sum256(token.Binding(parts...)) }

// String returns the hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether the digest is not set.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText returns the hexadecimal digits.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText accepts 64 hexadecimal digits.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("approval: expected %d hexadecimal digits, found %d bytes", hex.EncodedLen(len(d)), len(text))
	}
	if _, err := hex.Decode(d[:], text); err != nil {
		return fmt.Errorf("approval: invalid digest: %w", err)
	}
	return nil
}

// formatTime formats a time in UTC with milliseconds, as digests and the wire have it.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Printable escapes a text so that every character is visible. Control characters, characters
// that change the direction of text, combining marks, invisible characters and all spaces
// except U+0020 become \u escapes. A backslash becomes \\. The result has no line breaks.
func Printable(text string) string { return peertext.Escape(text) }

// PrintableJSON escapes a JSON text as [Printable] does. The result is one line, and has the
// same JSON value.
func PrintableJSON(text []byte) string { return peertext.EscapeJSON(text) }

// keywords formats arguments as k='v', n=2.
func keywords(arguments json.RawMessage) string {
	object, err := jsonscan.ReadObject(arguments)
	if err != nil {
		return PrintableJSON(arguments)
	}
	members := slices.SortedFunc(object.All(), func(a, b jsonscan.Member) int {
		return strings.Compare(a.Name(), b.Name())
	})
	var b strings.Builder
	for i, m := range members {
		if i > 0 {
			b.WriteString(", ")
		}
		if name := m.Name(); isWord(name) {
			b.WriteString(name)
		} else {
			b.WriteString(quoted(name))
		}
		b.WriteByte('=')
		if jsonscan.KindOf(m.Value) == jsonscan.String {
			b.WriteString(quoted(jsonscan.Unquote(m.Value)))
		} else {
			b.WriteString(PrintableJSON(m.Value))
		}
		if b.Len() > maxText {
			break // the caller truncates
		}
	}
	return b.String()
}

func quoted(text string) string {
	return "'" + strings.ReplaceAll(Printable(peertext.Cut(text, maxText)), "'", `\'`) + "'"
}

func isWord(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) < 0
}

// checkArguments refuses arguments that two JSON readers may read differently: anything but an
// object, and duplicate members at any depth.
func checkArguments(arguments json.RawMessage) error {
	if len(arguments) > maxArguments {
		return fmt.Errorf("the arguments have %d bytes; at most %d can be approved", len(arguments), maxArguments)
	}
	if kind := jsonscan.KindOf(arguments); kind != jsonscan.Object {
		return fmt.Errorf("arguments must be an object, not %v", kind)
	}
	scan := jsonscan.NewUnique(arguments)
	_, err := scan.Value()
	return err
}
