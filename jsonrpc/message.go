package jsonrpc

import (
	"encoding/json"
	"iter"
	"math"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Message is a *[Request] or a *[Response].
type Message interface{ isMessage() }

// A Request is a call, or a notification when it has no id.
//
// One that comes from [Decode], [NewRequest] or [Request.Init] knows where the
// members of its params are, so that [Request.Member] need not scan them again.
type Request struct {
	ID     ID              // zero for a notification
	Method string          // without escapes
	Params json.RawMessage // an object or array as it came, nil when there is none

	members index
}

// A Response is the answer to a call: a result, or an error.
type Response struct {
	ID     ID              // zero for an error whose call could not be told
	Result json.RawMessage // any value as it came, nil when there is an error
	Error  *Error          // nil when there is a result

	members   index
	malformed error  // why this is no answer, nil if it is one
	free      func() // nil if what the response is made of is not on loan
}

func (*Request) isMessage()  {}
func (*Response) isMessage() {}

// NewRequest returns a request whose params have been checked as those of an
// incoming one are: nil, or an object or array without duplicate members on its
// first two levels. The error is an *[Error] with [InvalidParams]. params must
// not be changed afterwards.
func NewRequest(id ID, method string, params json.RawMessage) (*Request, error) {
	r := new(Request)
	if err := r.Init(id, method, params); err != nil {
		return nil, err
	}
	return r, nil
}

// Init is [NewRequest] in place, for a request that is part of something larger. It
// replaces all that r was; after an error r is no request.
func (r *Request) Init(id ID, method string, params json.RawMessage) error {
	*r = Request{ID: id, Method: method}
	if params == nil {
		return nil
	}
	if uint64(len(params)) > math.MaxUint32 {
		return invalidParams("params must be shorter than 4 GiB")
	}
	p := parser{data: params, scan: jsonscan.New(params)}
	text, err := p.indexed(&r.members, "params")
	if err == nil {
		err = p.scan.End()
	}
	if err != nil {
		return invalidParams(err.Error())
	}
	if kind := jsonscan.KindOf(text); kind != jsonscan.Object && kind != jsonscan.Array {
		p.note("params must be an object or an array, not %v", kind)
	}
	if p.issue != "" {
		return invalidParams(p.issue)
	}
	r.Params = text
	return nil
}

func invalidParams(message string) error { return &Error{Code: InvalidParams, Message: message} }

// IsNotification tells whether no answer is expected.
func (r *Request) IsNotification() bool { return r.ID.IsZero() }

// Member returns the raw value of a member of the params, or with two names of
// a member of an object in them: Member("name"), Member("_meta",
// "progressToken"). It is nil when there is none. It does not allocate.
func (r *Request) Member(path ...string) json.RawMessage {
	return r.members.find(r.Params, path)
}

// Lend has [Response.Release] call free: what the response is made of can be used again
// then.
func (r *Response) Lend(free func()) { r.free = free }

// Release says that nothing of the response is used any more, neither the result nor what
// has come from [Response.Member]. Only who has made a call may say so, once; who does
// not leaves the memory to the garbage collector.
func (r *Response) Release() {
	free := r.free
	*r = Response{}
	if free != nil {
		free()
	}
}

// Keys are the names of the members of the params, as they stand there, with quotes;
// with a name, those of the object that has it among them.
func (r *Request) Keys(path ...string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { r.members.keys(r.Params, path, yield) }
}

// Member is [Request.Member] for the members of the result.
func (r *Response) Member(path ...string) json.RawMessage {
	return r.members.find(r.Result, path)
}
