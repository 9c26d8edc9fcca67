package approval

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
)

// A Request is a call that somebody is asked about. It must not be changed: one that has
// been is refused.
type Request struct {
	// ID is the request's own: 256 random bits as text. No two requests have the same.
	ID string
	// Target is what is to be called.
	Target
	// Arguments are the exact bytes that the tool will get, a JSON object; {} if the call
	// has none.
	Arguments json.RawMessage
	// Caller is the authenticated caller, "" if it is not known who calls.
	Caller string
	// Created is when it was asked, and Deadline when it is too late to answer. Both count
	// in milliseconds, and have a reading of the monotonic clock.
	Created, Deadline time.Time

	call *mcp.Call // for those who ask the caller
}

// A Target is a tool, as those know it who decide.
type Target struct {
	// Server is the alias of the server; "" for a tool of the program itself.
	Server string
	// Launch says how the server is reached, for a person to read: [mcp.Origin].Launch. ""
	// if it is not known.
	Launch string
	// Tool is the name of the tool on its server.
	Tool string
	// ToolDigest is [mcp.Definition.Digest] of the tool.
	ToolDigest string
}

func newRequest(target Target, call *mcp.Call, expiry time.Duration) *Request {
	id := make([]byte, 32)
	rand.Read(id) // never fails
	// Truncate and UTC would drop the monotonic reading, and a wall clock that is set
	// back would lengthen the time to answer.
	now := time.Now()
	now = now.Add(-time.Duration(now.Nanosecond()) % time.Millisecond)
	r := &Request{
		ID:        base64.RawURLEncoding.EncodeToString(id),
		Target:    target,
		Arguments: bytes.Clone(argumentsOf(call)),
		Created:   now,
		Deadline:  now.Add(expiry - expiry%time.Millisecond),
		call:      call,
	}
	if call.Caller != nil {
		r.Caller = call.Caller.Principal
	}
	return r
}

// argumentsOf are a call's, {} for none.
func argumentsOf(call *mcp.Call) json.RawMessage {
	if arguments := call.Member("arguments"); arguments != nil {
		return arguments
	}
	return json.RawMessage("{}")
}

// Digest covers all of the request, its id and times too: no other request has it.
func (r *Request) Digest() Digest {
	subject := r.Subject()
	return digestOf("dovetail approval 1", r.ID, string(subject[:]), instant(r.Created), instant(r.Deadline))
}

// Subject covers what is asked: target, arguments and caller. It is the same when the
// same is asked again.
func (r *Request) Subject() Digest {
	return digestOf("dovetail approval subject 1",
		r.Server, r.Launch, r.Tool, r.ToolDigest, string(r.Arguments), r.Caller)
}

// ArgumentsDigest is the SHA-256 of Arguments.
func (r *Request) ArgumentsDigest() Digest { return sha256.Sum256(r.Arguments) }

// String is the request in one line, as server.tool(k='v', n=2): arguments in the order of
// their names, nothing in it that a terminal would act on or that cannot be seen, and cut
// after [MaxText] bytes. Decide by [Request.Text], which leaves nothing out.
func (r *Request) String() string {
	return cut(nameOf(r.Server, r.Tool)+"("+keywords(r.Arguments)+")", MaxText)
}

// nameOf names a tool as server.tool, or one of the program's own as tool.
func nameOf(server, tool string) string {
	if server == "" {
		return Printable(tool)
	}
	return Printable(server) + "." + Printable(tool)
}

// Text are the arguments in full: their exact bytes, save that characters which cannot be
// seen or would change how the rest looks are written as JSON escapes. It is the same JSON
// value.
func (r *Request) Text() string { return PrintableJSON(r.Arguments) }
