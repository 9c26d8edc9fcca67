package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// CheckOptions configure a check.
type CheckOptions struct {
	// Ignore are paths in results that are not compared, such as structuredContent.time or
	// tools[2].description. * matches one member or index. _meta, ttlMs and requestState are
	// never compared.
	Ignore []string
	// Timeout bounds each request. Default: one minute.
	Timeout time.Duration
}

// A Difference is a part of an answer that differs from the recorded answer.
type Difference struct {
	// Request is the number of the request in the transcript, counted from 1, with its method.
	Request string
	// Path is the place in the result, "" for all of it. Recorded and Actual are the values.
	Path, Recorded, Actual string
}

func (d Difference) String() string {
	path := d.Path
	if path == "" {
		path = "the answer"
	}
	return fmt.Sprintf("%s: %s: recorded %s, now %s", d.Request, path, d.Recorded, d.Actual)
}

// Check sends the recorded requests to a server and compares its answers with the recorded answers. It answers the
// server's questions as the recorded client did. It returns the number of compared answers and the differences. The
// error says that the connection could not be opened or was lost.
func (t *Transcript) Check(ctx context.Context, dialer transport.Dialer, opts *CheckOptions) (int, []Difference, error) {
	o := CheckOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	ctx, cancel := context.WithCancel(ctx)
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel()
	answers := &answerer{answers: maps.Clone(t.answers)}
	conn, err := dialer.Dial(ctx, answers)
	if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	var found []Difference
	states := make(map[string]json.RawMessage) // request states of this run, by the request states of the transcript
	compared := 0
	for i, s := range t.steps {
		params := jsonrpc.Raw(withState(s.Params, states))
		if params == nil {
			params = jsonrpc.Raw("{}")
		}
		switch {
		case s.ID == nil:
			if s.Method == "notifications/cancelled" {
				continue // it names a recorded id
			}
			if err := conn.Notify(ctx, s.Method, params); err != nil {
				return compared, found, err
			}
		case s.response == nil: // a subscription, or a call that was cancelled
			open.Go(func() { _, _ = conn.Call(ctx, s.Method, params) })
		default:
			name := fmt.Sprintf("request %d (%s)", i+1, s.title())
			actual, err := call(ctx, conn, s.Method, params, o.Timeout)
			if err != nil {
				return compared, found, fmt.Errorf("%s: %w", name, err)
			}
			compared++
			c := &comparison{request: name, ignore: o.Ignore}
			c.answers(s.response, actual)
			found = append(found, c.found...)
			if state := stateOf(s.response.Result); state != nil {
				states[string(state)] = stateOf(actual.Result)
			}
		}
	}
	return compared, found, nil
}

// title returns the method and the name in the params.
func (s *step) title() string {
	var p struct{ Name, URI string }
	_ = json.Unmarshal(s.Params, &p) // it has no name then
	return strings.TrimSpace(s.Method + " " + p.Name + p.URI)
}

func call(ctx context.Context, conn transport.Conn, method string, params jsonrpc.Raw, timeout time.Duration) (*message, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := conn.Call(ctx, method, params)
	if refusal, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &message{Error: &rpcError{int(refusal.Code), refusal.Message, refusal.Data}}, nil
	}
	if err != nil {
		return nil, err
	}
	return &message{Result: response.Result}, nil
}

func stateOf(result json.RawMessage) json.RawMessage {
	var r struct {
		State json.RawMessage `json:"requestState"`
	}
	_ = json.Unmarshal(result, &r) // it has no state then
	return r.State
}

// withState returns params with the request state of this run in place of the recorded state.
func withState(params json.RawMessage, states map[string]json.RawMessage) json.RawMessage {
	state, ok := states[string(stateOf(params))]
	if !ok || state == nil {
		return params
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(params, &object) != nil {
		return params
	}
	object["requestState"] = state
	text, err := json.Marshal(object)
	if err != nil {
		return params
	}
	return text
}

// An answerer answers questions of the server as the recorded client did.
type answerer struct {
	mu      sync.Mutex
	answers map[string][]*message
}

func (a *answerer) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

func (a *answerer) Handle(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.answers[req.Method]
	if len(list) == 0 {
		if req.Method == "ping" {
			reply.Buf = append(reply.Buf, "{}"...)
			return nil
		}
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "the transcript has no such question"}
	}
	if len(list) > 1 {
		a.answers[req.Method] = list[1:]
	}
	if e := list[0].Error; e != nil {
		return &jsonrpc.Error{Code: jsonrpc.Code(e.Code), Message: e.Message, Data: e.Data}
	}
	reply.Buf = append(reply.Buf, list[0].Result...)
	return nil
}

// maxDifferences is the number of differences of one answer.
const maxDifferences = 20

// A comparison compares two answers.
type comparison struct {
	request string
	ignore  []string
	found   []Difference
}

func (c *comparison) answers(recorded, actual *message) {
	switch {
	case recorded.Error != nil && actual.Error != nil:
		if recorded.Error.Code != actual.Error.Code {
			c.add("error.code", recorded.Error.Code, actual.Error.Code)
		}
		if recorded.Error.Message != actual.Error.Message && !c.ignored("error.message") {
			c.add("error.message", recorded.Error.Message, actual.Error.Message)
		}
	case recorded.Error != nil:
		c.add("", recorded.Error, actual.Result)
	case actual.Error != nil:
		c.add("", recorded.Result, actual.Error)
	default:
		c.values("", decode(recorded.Result), decode(actual.Result))
	}
}

func decode(text json.RawMessage) any {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var value any
	_ = decoder.Decode(&value) // nil for invalid text
	return value
}

func (c *comparison) add(path string, recorded, actual any) {
	if len(c.found) < maxDifferences && !c.ignored(path) {
		c.found = append(c.found, Difference{c.request, cut(path), shown(recorded), shown(actual)})
	}
}

// maxShown is how much of a value or its path is shown, in bytes.
const maxShown = 200

func shown(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "?"
	}
	if value == nil {
		return "nothing"
	}
	return cut(string(text))
}

func cut(text string) string {
	if len(text) > maxShown {
		return strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}

func (c *comparison) ignored(path string) bool {
	for _, pattern := range c.ignore {
		if matches(pattern, path) {
			return true
		}
	}
	return false
}

// matches reports whether a path matches a pattern or is below a path that does.
func matches(pattern, path string) bool {
	split := func(text string) []string {
		return strings.FieldsFunc(strings.ReplaceAll(text, "[", "."), func(r rune) bool { return r == '.' || r == ']' })
	}
	want, got := split(pattern), split(path)
	if len(got) < len(want) {
		return false
	}
	for i, part := range want {
		if part != "*" && part != got[i] {
			return false
		}
	}
	return true
}

func (c *comparison) values(path string, recorded, actual any) {
	if c.ignored(path) && path != "" {
		return
	}
	switch old := recorded.(type) {
	case map[string]any:
		if now, ok := actual.(map[string]any); ok {
			for _, name := range slices.Sorted(maps.Keys(union(old, now))) {
				if name == "_meta" || name == "ttlMs" || name == "requestState" {
					continue
				}
				c.values(strings.TrimPrefix(path+"."+name, "."), old[name], now[name])
			}
			return
		}
	case []any:
		if now, ok := actual.([]any); ok {
			for i := range max(len(old), len(now)) {
				c.values(fmt.Sprintf("%s[%d]", path, i), element(old, i), element(now, i))
			}
			return
		}
	default:
		switch actual.(type) { // those cannot be compared with ==
		case map[string]any, []any:
		default:
			if recorded == actual {
				return
			}
		}
	}
	c.add(path, recorded, actual)
}

func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

func union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
