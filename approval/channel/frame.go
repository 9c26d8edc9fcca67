package channel

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// subprotocol is the WebSocket subprotocol of programs that accept notifications.
const subprotocol = "dovetail.approval.v1"

const (
	methodRegistered = "registered"
	methodApprove    = "approve"
	methodWithdrawn  = "withdrawn"
	methodRefused    = "refused"
)

// registeredFrame is the first frame for an approver with the subprotocol.
const registeredFrame = `{"jsonrpc":"2.0","method":"` + methodRegistered + `","params":{}}`

// timeFormat is the format of times in frames.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

func appendMember(dst []byte, name, value string) []byte {
	dst = append(dst, `,"`+name+`":`...)
	return jsonscan.AppendString(dst, value)
}

// requestFrame encodes a request. It contains the arguments byte for byte.
func requestFrame(r *approval.Request) ([]byte, error) {
	f := append([]byte(nil), `{"jsonrpc":"2.0","method":"approve","params":{"server_name":`...)
	// A frame has the name that the caller gave, and a member that says that the caller has launched the server.
	server, launched := strings.CutPrefix(r.Server, approval.LaunchedPrefix)
	f = jsonscan.AppendString(f, server)
	if launched {
		f = append(f, `,"launched":true`...)
	}
	f = appendMember(f, "tool_name", r.Tool)
	f = append(f, `,"tool_args":`...)
	f = append(f, r.Arguments...)
	f = appendMember(f, "call_id", r.ID)
	f = appendMember(f, "deadline", r.Deadline.UTC().Format(timeFormat))
	f = appendMember(f, "args_digest", r.ArgumentsDigest().String())
	f = appendMember(f, "launch", r.Launch)
	f = appendMember(f, "tool_digest", r.ToolDigest)
	f = appendMember(f, "caller", r.Caller)
	f = appendMember(f, "created", r.Created.UTC().Format(timeFormat))
	f = appendMember(f, "digest", r.Digest().String())
	f = appendFacts(f, r)
	f = append(f, `},"id":`...)
	f = jsonscan.AppendString(f, r.ID)
	f = append(f, '}')
	if len(f) > maxFrame {
		return nil, fmt.Errorf("the request has %d bytes; a frame may have %d", len(f), maxFrame)
	}
	return f, nil
}

// appendFacts appends facts about the tool and the request for an approver. It omits unknown facts.
func appendFacts(f []byte, r *approval.Request) []byte {
	for _, fact := range [][2]string{{"title", r.Title}, {"description", r.Description}, {"rule", r.Rule}, {"reason", r.Reason}, {"script", r.Script}} {
		if fact[1] != "" {
			f = appendMember(f, fact[0], fact[1])
		}
	}
	for _, hint := range []struct {
		name  string
		value *bool
	}{{"read_only", r.Annotations.ReadOnlyHint}, {"destructive", r.Annotations.DestructiveHint}} {
		if hint.value != nil {
			f = append(f, `,"`+hint.name+`":`+strconv.FormatBool(*hint.value)...)
		}
	}
	if r.Trusted {
		f = append(f, `,"trusted":true`...)
	}
	if seconds := int64(r.Remember / time.Second); seconds > 0 {
		f = append(f, `,"remember":`+strconv.FormatInt(seconds, 10)...)
	}
	return f
}

// readFacts decodes them.
func readFacts(params *jsonscan.Members, r *approval.Request) error {
	r.Title, r.Description, r.Rule, r.Reason = text(params, "title"), text(params, "description"), text(params, "rule"), text(params, "reason")
	r.Script = text(params, "script")
	for _, hint := range []struct {
		name string
		to   **bool
	}{{"read_only", &r.Annotations.ReadOnlyHint}, {"destructive", &r.Annotations.DestructiveHint}} {
		if value := params.Get(hint.name); jsonscan.KindOf(value) == jsonscan.Bool {
			is := string(value) == "true"
			*hint.to = &is
		}
	}
	r.Trusted = string(params.Get("trusted")) == "true"
	seconds, err := readSeconds(params, "remember")
	r.Remember = time.Duration(seconds) * time.Second
	return err
}

// maxSeconds is the maximum value of a member that is a number of seconds: about 31 years.
const maxSeconds = 1_000_000_000

// readSeconds returns a number of seconds, 0 if it is missing.
func readSeconds(object *jsonscan.Members, name string) (int64, error) {
	value := object.Get(name)
	if value == nil {
		return 0, nil
	}
	seconds, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || seconds < 0 || seconds > maxSeconds {
		return 0, fmt.Errorf("%s must be a whole number of seconds from 0 to %d", name, maxSeconds)
	}
	return seconds, nil
}

// notificationFrame encodes a notification about a request. reason may be empty, and d nil.
func notificationFrame(method, id, reason string, d *decision) []byte {
	f := append([]byte(nil), `{"jsonrpc":"2.0","method":"`+method+`","params":{"id":`...)
	f = jsonscan.AppendString(f, id)
	if reason != "" {
		f = appendMember(f, "reason", reason)
	}
	if d != nil {
		f = appendMember(f, "decision", d.outcome())
		if by := d.approverName(); by != "" {
			f = appendMember(f, "by", by)
		}
		if d.Reason != "" {
			f = appendMember(f, "decision_reason", truncate(d.Reason))
		}
		if d.Remember > 0 {
			f = append(f, `,"remember":`+strconv.FormatInt(d.Remember, 10)...)
		}
	}
	return append(f, `}}`...)
}

// answerFrame encodes the answer to the call with this id, given as JSON text.
func answerFrame(id json.RawMessage, a approval.Answer) []byte {
	f := append([]byte(nil), `{"jsonrpc":"2.0","result":`...)
	if a.Approved {
		f = append(f, "true"...)
		if seconds := int64(a.Remember / time.Second); seconds > 0 {
			f = append(f, `,"remember":`+strconv.FormatInt(seconds, 10)...)
		}
	} else {
		f = append(f, "false"...)
		if a.Reason != "" {
			f = appendMember(f, "reason", truncate(a.Reason))
		}
	}
	f = append(f, `,"id":`...)
	return append(append(f, id...), '}')
}

// errorFrame encodes an error for the call with this id.
func errorFrame(id json.RawMessage, reason string) []byte {
	f := append([]byte(nil), `{"jsonrpc":"2.0","error":{"code":-32603,"message":`...)
	f = jsonscan.AppendString(f, reason)
	f = append(f, `},"id":`...)
	return append(append(f, id...), '}')
}

// maxReason is the length of the longest reason in bytes. Package approval cuts longer ones.
const maxReason = 1 << 10

// truncate cuts a reason at a character boundary.
func truncate(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	end := maxReason
	for !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}

// A reply is the answer of an approver.
type reply struct {
	id       string
	approved bool
	reason   string
	failed   bool  // it is an error with reason as message
	remember int64 // in seconds; for an approval only
}

// A badReply is the error of a malformed answer. id is empty if it could not be read.
type badReply struct {
	id     string
	reason string
}

func (b *badReply) Error() string { return b.reason }

// readReply decodes a frame of an approver. The error is a *badReply.
func readReply(frame []byte) (reply, error) {
	object, err := readMessage(frame)
	if err != nil {
		return reply{}, &badReply{"", err.Error()}
	}
	id := object.Get("id")
	if jsonscan.KindOf(id) != jsonscan.String {
		return reply{}, &badReply{"", "expected the id of a request, a string"}
	}
	r := reply{id: jsonscan.Unquote(id)}
	bad := func(reason string) (reply, error) { return reply{}, &badReply{r.id, reason} }
	result, fault := object.Get("result"), object.Get("error")
	switch {
	case object.Get("method") != nil:
		return bad("expected an answer, found a call")
	case (result == nil) == (fault == nil):
		return bad("expected either a result or an error")
	case fault != nil:
		r.failed = true
		r.reason, err = faultMessage(fault)
		if err != nil {
			return bad(err.Error())
		}
		return r, nil
	case jsonscan.KindOf(result) != jsonscan.Bool:
		return bad("the result must be true or false, not " + jsonscan.KindOf(result).String())
	}
	if r.approved = string(result) == "true"; r.approved {
		if r.remember, err = readSeconds(&object, "remember"); err != nil {
			return bad(err.Error())
		}
	}
	if reason := object.Get("reason"); jsonscan.KindOf(reason) == jsonscan.String {
		r.reason = truncate(jsonscan.Unquote(reason))
	}
	return r, nil
}

func faultMessage(fault []byte) (string, error) {
	object, err := jsonscan.ReadObject(fault)
	if err != nil {
		return "", errors.New("the error must be an object")
	}
	if message := object.Get("message"); jsonscan.KindOf(message) == jsonscan.String {
		return truncate(jsonscan.Unquote(message)), nil
	}
	return "", nil
}

// readMessage decodes the members that every frame has. A null member counts as absent.
func readMessage(frame []byte) (jsonscan.Members, error) {
	object, err := jsonscan.ReadObject(frame)
	if err != nil {
		return object, err
	}
	version := object.Get("jsonrpc")
	if jsonscan.KindOf(version) != jsonscan.String || jsonscan.Unquote(version) != "2.0" {
		return object, errors.New(`expected a message with "jsonrpc":"2.0"`)
	}
	return object, nil
}

// A call is a frame of a server: a request or a notification.
type call struct {
	id      json.RawMessage // JSON text, nil for a notification
	method  string
	request *approval.Request // for approve
	about   string            // for a notification
	reason  string
	decided string // who decided and how, "" if the request was not decided
}

// readCall decodes a frame of a server, with or without the subprotocol.
func readCall(frame []byte) (*call, error) {
	object, err := readMessage(frame)
	if err != nil {
		return nil, err
	}
	c := &call{id: object.Get("id")}
	if method := object.Get("method"); jsonscan.KindOf(method) == jsonscan.String {
		c.method = jsonscan.Unquote(method)
	}
	params, err := jsonscan.ReadObject(object.Get("params"))
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	switch c.method {
	case methodApprove:
		if kind := jsonscan.KindOf(c.id); kind != jsonscan.String && kind != jsonscan.Number {
			return nil, errors.New("a call of approve must have an id")
		}
		c.request, err = readRequest(&params)
		if err != nil {
			return c, err
		}
		if c.request.ID == "" {
			c.request.ID = string(c.id)
			if jsonscan.KindOf(c.id) == jsonscan.String {
				c.request.ID = jsonscan.Unquote(c.id)
			}
		}
	case methodRegistered:
	case methodWithdrawn, methodRefused:
		c.about, c.reason, c.decided = text(&params, "id"), text(&params, "reason"), text(&params, "decision")
		if by := text(&params, "by"); c.decided != "" && by != "" {
			c.decided += " by " + by
		}
	default:
		return c, fmt.Errorf("there is no method %s", jsonscan.Quote(c.method))
	}
	return c, nil
}

func text(params *jsonscan.Members, name string) string {
	value := params.Get(name)
	if jsonscan.KindOf(value) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(value)
}

// readRequest decodes the params of approve and checks the digests in them.
func readRequest(params *jsonscan.Members) (*approval.Request, error) {
	for _, name := range []string{"server_name", "tool_name"} {
		if kind := jsonscan.KindOf(params.Get(name)); kind != jsonscan.String {
			return nil, fmt.Errorf("%s must be a string, not %v", name, kind)
		}
	}
	arguments := params.Get("tool_args")
	if kind := jsonscan.KindOf(arguments); kind != jsonscan.Object {
		return nil, fmt.Errorf("tool_args must be an object, not %v", kind)
	}
	r := &approval.Request{
		ID: text(params, "call_id"),
		Target: approval.Target{
			Server: text(params, "server_name"), Launch: text(params, "launch"),
			Tool: text(params, "tool_name"), ToolDigest: text(params, "tool_digest"),
		},
		Arguments: arguments,
		Caller:    text(params, "caller"),
	}
	if string(params.Get("launched")) == "true" {
		r.Server = approval.LaunchedPrefix + r.Server
	}
	for _, at := range []struct {
		name string
		time *time.Time
	}{{"created", &r.Created}, {"deadline", &r.Deadline}} {
		value := text(params, at.name)
		if value == "" {
			continue
		}
		var err error
		if *at.time, err = time.Parse(time.RFC3339, value); err != nil {
			return nil, fmt.Errorf("%s must be a time (RFC 3339)", at.name)
		}
	}
	if err := readFacts(params, r); err != nil {
		return nil, err
	}
	if sum := text(params, "args_digest"); sum != "" && sum != r.ArgumentsDigest().String() {
		return nil, errors.New("args_digest does not match tool_args")
	}
	if sum := text(params, "digest"); sum != "" && sum != r.Digest().String() {
		return nil, errors.New("digest does not match the request")
	}
	return r, nil
}
