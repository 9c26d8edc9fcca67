package forward

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A round is the state that the next run of a call needs. It is stored with the call.
type round struct {
	// State is the state of a modern server.
	State string `json:"state,omitempty"`
	// Asked maps the keys of the questions to the caller to the keys of the server.
	Asked map[string]string `json:"asked,omitempty"`
	// Count is how many rounds the server has asked.
	Count int `json:"count,omitempty"`
	// Replica names the [SuspendedCalls] that holds the call to a legacy server.
	Replica string `json:"replica,omitempty"`
}

func storedAs(opts *Options) string { return "forwarded " + opts.ServerLabel }

// loadRound returns the stored round, nil in the first run of a call.
func loadRound(call *mcp.Call, opts *Options) (*round, error) {
	stored, ok := call.Load(storedAs(opts))
	if !ok {
		return nil, nil
	}
	r := new(round)
	return r, json.Unmarshal(stored, r)
}

// store stores the round and returns the question.
func (r *round) store(call *mcp.Call, opts *Options, question error) error {
	stored, err := json.Marshal(r)
	if err != nil {
		return err
	}
	call.Store(storedAs(opts), stored)
	return question
}

// responses returns the caller's answers under the keys of the server.
func (r *round) responses(call *mcp.Call) (json.RawMessage, error) {
	out := []byte{'{'}
	for _, key := range slices.Sorted(maps.Keys(r.Asked)) {
		answer, err := call.Input(key, mcp.InputRequest{})
		if _, open := mcp.AsInputRequired(err); open {
			continue // the server will ask again
		}
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonscan.AppendString(out, r.Asked[key]), ':'), answer...)
	}
	return append(out, '}'), nil
}

// ask returns the error that asks the caller the questions of a modern server. last is nil in the
// first round. The error is a *mcp.LimitError if the server asks too often.
func (c *Client) ask(call *mcp.Call, opts *Options, last *round, result *mcp.InputRequiredResult) error {
	r := &round{State: result.RequestState, Asked: make(map[string]string, len(result.InputRequests)), Count: 1}
	if last != nil {
		r.Count += last.Count
	}
	if r.Count > c.limits.rounds {
		return era.RoundsError(c.limits.rounds)
	}
	if err := c.suspended.countQuestions(opts.ServerLabel, call.Caller.Principal, len(result.InputRequests), c.limits); err != nil {
		return err
	}
	questions := &mcp.InputRequired{Requests: make(map[string]mcp.InputRequest, len(result.InputRequests))}
	for _, serverKey := range slices.Sorted(maps.Keys(result.InputRequests)) {
		if err := c.limits.checkSize(result.InputRequests[serverKey]); err != nil {
			return err
		}
		question, err := withServerName(result.InputRequests[serverKey], opts.ServerLabel)
		if err != nil {
			return fmt.Errorf("the server's question %s: %w", jsonscan.Quote(serverKey), err)
		}
		key, err := unansweredKey(call, questionKey(opts.ServerLabel, serverKey), question)
		if _, open := mcp.AsInputRequired(err); !open {
			return fmt.Errorf("the server asks %s: %w", jsonscan.Quote(serverKey), err)
		}
		r.Asked[key] = serverKey
		questions.Requests[key] = question
	}
	return r.store(call, opts, questions)
}

// unansweredKey returns a key without an answer in this call, so that the answer to another
// question is not used for this one. The error is the error of [mcp.Call.Input] for that key.
func unansweredKey(call *mcp.Call, wanted string, question mcp.InputRequest) (string, error) {
	key := wanted
	for n := 2; ; n++ {
		if _, err := call.Input(key, question); err != nil {
			return key, err
		}
		key = fmt.Sprintf("%s (%d)", wanted, n)
	}
}

// questionKey returns the key for the caller. The label makes it different from the keys of
// other servers in the same call.
func questionKey(label, serverKey string) string {
	if label == "" {
		return serverKey
	}
	return label + "#" + serverKey
}

// withServerName returns the question with the server's label before its message, so that the
// person knows which server asks.
func withServerName(question mcp.InputRequest, label string) (mcp.InputRequest, error) {
	if label == "" || question.Method != mcp.MethodElicit {
		return question, nil
	}
	params, err := jsonscan.ReadObject(question.Params)
	if err != nil {
		return question, err
	}
	message := params.Get("message")
	if jsonscan.KindOf(message) != jsonscan.String {
		return question, nil
	}
	labelled := jsonscan.AppendString(nil, label+": "+jsonscan.Unquote(message))
	question.Params, err = jsonscan.Splice(nil, question.Params, jsonscan.Edit{Name: "message", Value: labelled})
	return question, err
}

// Limits of [SuspendedCalls].
const (
	// MaxSuspended is the maximum number of suspended calls.
	MaxSuspended = 1024
	// MaxSuspendedPerPrincipal is the maximum number of suspended calls of one principal.
	MaxSuspendedPerPrincipal = 64
	// SuspendedLifetime is how long a call of a modern caller stays suspended.
	SuspendedLifetime = 5 * time.Minute
)

// SuspendedCalls holds calls to legacy servers that stay open while their callers are asked. A
// legacy server has executed a part of the call when it asks, so the call cannot be sent again.
// Sessions may share one SuspendedCalls. Its methods may be called concurrently.
type SuspendedCalls struct {
	replica string // random name that identifies this value among all replicas
	seen    seenQuestions

	mu        sync.Mutex
	calls     map[key]*forwardedCall
	questions map[asker]*era.QuestionLimit
}

// An asker is a server and the principal whom it asks.
type asker struct{ label, principal string }

// maxAskers bounds the limits that are kept. Those without recent questions are dropped first.
const maxAskers = 4096

// countQuestions returns a *mcp.LimitError if a server asks a principal too often. The limit
// outlasts sessions, so that a server does not reset it by ending its connection.
func (s *SuspendedCalls) countQuestions(label, principal string, questions int, limits questionLimits) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.questions[asker{label, principal}]
	if known == nil {
		maps.DeleteFunc(s.questions, func(_ asker, l *era.QuestionLimit) bool { return l.IsIdle() })
		if len(s.questions) >= maxAskers {
			return suspendError(jsonrpc.Busy, "TOO_MANY_QUESTIONS", "too many users are asked at the moment")
		}
		known = new(era.QuestionLimit)
		s.questions[asker{label, principal}] = known
	}
	return known.Take(questions, limits.perMinute, limits.burst)
}

// A key identifies the part of a call that one server handles.
type key struct{ call, label string }

// NewSuspendedCalls returns an empty SuspendedCalls.
func NewSuspendedCalls() *SuspendedCalls {
	return &SuspendedCalls{replica: rand.Text(), calls: make(map[key]*forwardedCall), questions: make(map[asker]*era.QuestionLimit)}
}

var (
	errAbandoned = errors.New("the caller no longer waits for the result")
	errTooMany   = fmt.Errorf("too many calls wait for answers: at most %d of one user and %d in all", MaxSuspendedPerPrincipal, MaxSuspended)
	errTwice     = errors.New("two calls to the same server wait for answers within one call")
	errTooLate   = fmt.Errorf("the question was not answered within %v", SuspendedLifetime)
)

// put suspends a call until the question is answered, and returns the question. If the call
// cannot be suspended, put cancels it and returns the reason.
func (s *SuspendedCalls) put(c *forwardedCall, call *mcp.Call, opts *Options, question error) error {
	k := key{call.ID(), opts.ServerLabel}
	lifetime := SuspendedLifetime
	if !call.Caller.Version.Modern() {
		lifetime = era.InputTimeout + time.Minute // the end of the caller's call ends this call earlier
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for _, other := range s.calls {
		if other.caller.Principal == c.caller.Principal {
			own++
		}
	}
	switch {
	case s.calls[k] != nil:
		c.cancel(errTwice)
		return errTwice
	case len(s.calls) >= MaxSuspended || own >= MaxSuspendedPerPrincipal:
		c.cancel(errTooMany)
		return suspendError(jsonrpc.InternalError, "TOO_MANY_QUESTIONS", errTooMany.Error())
	}
	s.calls[k] = c
	c.resume = deadline.PauseWork(c.ctx) // the run does not wait: it ends, and asks
	c.expiry = time.AfterFunc(lifetime, func() {
		if s.remove(k, c) != nil {
			c.cancel(errTooLate)
		}
	})
	call.OnDone(func() {
		s.remove(k, c)
		c.cancel(errAbandoned)
	})
	return (&round{Replica: s.replica}).store(call, opts, question)
}

// take removes and returns the suspended call that this run continues. It returns nil if the
// run continues no suspended call.
func (s *SuspendedCalls) take(call *mcp.Call, opts *Options, round *round) (*forwardedCall, error) {
	if round == nil || round.Replica == "" {
		return nil, nil
	}
	k := key{call.ID(), opts.ServerLabel}
	if c := s.remove(k, nil); c != nil {
		return c, nil
	}
	if round.Replica != s.replica {
		return nil, suspendError(jsonrpc.InvalidParams, "CALL_ELSEWHERE",
			"the call waits for its answers at another replica, and cannot continue here: send the answers there, or make the call again from its beginning")
	}
	return nil, suspendError(jsonrpc.InvalidParams, "CALL_NOT_WAITING",
		"the call no longer waits for these answers: they came too late, or twice")
}

// remove removes and returns the call with a key. It returns nil if there is none, or if it is
// not the call only; a nil only matches any call.
func (s *SuspendedCalls) remove(k key, only *forwardedCall) *forwardedCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[k]
	if c == nil || only != nil && c != only {
		return nil
	}
	delete(s.calls, k)
	c.expiry.Stop()
	c.resume()
	return c
}

func suspendError(code jsonrpc.Code, kind, message string) error {
	return &jsonrpc.Error{Code: code, Message: message, Data: json.RawMessage(`{"type":"` + kind + `"}`)}
}
