package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Message is a *[Request] or a *[Response].
type Message interface{ isMessage() }

// A Request is a call, or a notification if it has no id.
//
// A request from [Decode] or [NewRequest] has an index of the members of its params, so
// [Request.Member] and [Request.Keys] need no scan.
type Request struct {
	ID     ID              // zero for a notification
	Method string          // without escapes
	Params json.RawMessage // an object or array as received; nil if absent

	members index
}

// A Response is the answer to a call: a result or an error.
type Response struct {
	ID     ID              // zero for an error that names no call
	Result json.RawMessage // any value as received; nil if there is an error
	Error  *Error          // nil if there is a result

	members   index
	malformed error // why this is not a valid response, nil if it is
}

func (*Request) isMessage()  {}
func (*Response) isMessage() {}

// NewRequest returns a request. It checks params like the params of a received request: nil, or an object or array
// without duplicate members on its first two levels. The error is an *[Error] with [InvalidParams]. params must not be
// changed afterwards.
func NewRequest(id ID, method string, params json.RawMessage) (*Request, error) {
	r := &Request{ID: id, Method: method}
	if params == nil {
		return r, nil
	}
	if uint64(len(params)) > math.MaxUint32 {
		return nil, invalidParams("params must be shorter than 4 GiB")
	}
	p := parser{data: params, scan: jsonscan.New(params), refuses: true}
	text, err := p.indexed(&r.members, partParams)
	if err == nil {
		err = p.scan.End()
	}
	if err != nil {
		return nil, invalidParams(err.Error())
	}
	if kind := jsonscan.KindOf(text); kind != jsonscan.Object && kind != jsonscan.Array {
		p.addIssue("params must be an object or an array, not %v", kind)
	}
	if p.issue != "" {
		return nil, invalidParams(p.issue)
	}
	r.Params = text
	return r, nil
}

func invalidParams(message string) error { return &Error{Code: InvalidParams, Message: message} }

// ArgumentsError returns an error if an object in the member arguments of the params has a duplicate member, a name with
// NUL or more than 65,536 members, at any depth. [Decode] accepts these, so that a receiver can say so in its own
// form. The receiver must refuse the request, because a policy and a tool may read different values.
func (r *Request) ArgumentsError() error {
	if r.members.n&ambiguousArguments == 0 || !r.members.covers(r.Params) {
		return nil
	}
	scan := jsonscan.NewUnique(r.Member("arguments"))
	if _, err := scan.Value(); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	return nil
}

// IsNotification reports whether no response is expected.
func (r *Request) IsNotification() bool { return r.ID.IsZero() }

// Member returns the raw value of a member of the params, as in Member("name"), or of a member
// of an object in the params, as in Member("_meta", "progressToken"). It returns nil if there
// is no such member, or if it is null. It does not allocate.
func (r *Request) Member(path ...string) json.RawMessage {
	return r.members.find(r.Params, path)
}

// Keys iterates over the names of the members of the params, as raw JSON strings. With a path
// of one name, it iterates over the members of the object at that name.
func (r *Request) Keys(path ...string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { r.members.keys(r.Params, path, yield) }
}

// Member is [Request.Member] for the members of the result. It returns nil for members of
// structuredContent, which may have duplicates.
func (r *Response) Member(path ...string) json.RawMessage {
	return r.members.find(r.Result, path)
}

// notifications holds notifications for reuse. Each keeps its method, because the next
// notification usually has the same method.
var notifications sync.Pool

// maxPooledMethod is the longest method of a notification that is kept for reuse, in bytes.
const maxPooledMethod = 64

// recycle makes a notification available for reuse.
func (r *Request) recycle() {
	if len(r.Method) > maxPooledMethod {
		return
	}
	r.Params, r.members.text, r.members.more = nil, nil, nil
	notifications.Put(r)
}

// maxIDLength is how many bytes the JSON text of an id may have.
const maxIDLength = 256

// An ID is the id of a request: the JSON text of a string or a number without a fraction. A
// response has the same text. IDs are comparable with == by their text: 1, 1.0 and "1" differ,
// and so do 0 and -0. The zero ID means that there is no id. JSON-RPC 2.0, section 4; MCP
// forbids null and fractions.
type ID struct{ text string }

// IntID returns the id n.
func IntID(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// ParseID returns the id that raw represents: a JSON string or an integer, of at most 256 bytes.
// An integer may be written with a fraction or an exponent, such as 2.0, if it is less than 2⁵³.
// White space around the value is ignored.
func ParseID(raw []byte) (ID, error) {
	s := jsonscan.New(raw)
	text, err := s.Value()
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return ID{}, fmt.Errorf("jsonrpc: id: %w", err)
	}
	if problem := idProblem(text); problem != "" {
		return ID{}, errors.New("jsonrpc: " + problem)
	}
	return ID{string(text)}, nil
}

// idProblem returns why a scanned value is not an id, "" if it is one.
func idProblem(text []byte) string {
	kind := jsonscan.KindOf(text)
	switch {
	case kind != jsonscan.String && kind != jsonscan.Number:
		return "id must be a string or an integer, not " + kind.String()
	case len(text) > maxIDLength:
		return fmt.Sprintf("id must have at most %d bytes, not %d", maxIDLength, len(text))
	case kind == jsonscan.Number && !isInteger(text) && !isWhole(text):
		return "id must be a string or an integer, not " + string(text)
	}
	return ""
}

// isInteger reports whether a scanned number has neither fraction nor exponent.
func isInteger(number []byte) bool {
	for _, c := range number {
		if c == '.' || c|0x20 == 'e' {
			return false
		}
	}
	return true
}

// isWhole reports whether a scanned number with a fraction or an exponent is an integer that
// a float64 holds exactly.
func isWhole(number []byte) bool {
	n, err := strconv.ParseFloat(string(number), 64)
	return err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53
}

// Matches reports whether a response with this id answers the request that was sent with the id
// sent. The texts are the same, or sent is an integer and id has its value, as a number such as
// 4.0 or as a string such as "4".
func (id ID) Matches(sent ID) bool {
	return !sent.IsZero() && (id == sent || id.canonical() == sent)
}

// canonical returns the id [IntID](n) if the value of the id is the integer n or the string of
// it. It returns the zero ID for other ids.
func (id ID) canonical() ID {
	text := []byte(id.text)
	switch jsonscan.KindOf(text) {
	case jsonscan.String:
		text = jsonscan.AppendUnquoted(nil, text)
	case jsonscan.Number:
		if !isInteger(text) {
			n, _ := strconv.ParseFloat(id.text, 64) // checked when the id was made
			return IntID(int64(n))
		}
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return ID{}
	}
	return IntID(n)
}

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.text == "" }

// String returns the JSON text of the id, with the quotes of a string. It is empty for the
// zero ID.
func (id ID) String() string { return id.text }

// AppendJSON appends the JSON text of the id, null for the zero ID.
func (id ID) AppendJSON(dst []byte) []byte {
	if id.IsZero() {
		return append(dst, "null"...)
	}
	return append(dst, id.text...)
}

// MarshalJSON returns the JSON text of the id, null for the zero ID.
func (id ID) MarshalJSON() ([]byte, error) { return id.AppendJSON(nil), nil }

// UnmarshalJSON sets the id to the result of [ParseID], or to the zero ID for null.
func (id *ID) UnmarshalJSON(raw []byte) error {
	if jsonscan.KindOf(raw) == jsonscan.Null {
		*id = ID{}
		return nil
	}
	parsed, err := ParseID(raw)
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
