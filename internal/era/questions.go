package era

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A QuestionLimit limits how often a server may ask. The zero value is ready for use. Its methods
// may be called concurrently.
type QuestionLimit struct {
	mu   sync.Mutex
	used float64 // questions, less the number that time has permitted since
	last time.Time

	perMinute int // of the last Take
}

// Take counts questions that come at the same time. It returns a *mcp.LimitError, and counts none,
// if they exceed the burst or, together with the earlier ones, the rate. A rate of 0 means no
// limit.
func (l *QuestionLimit) Take(questions, perMinute, burst int) error {
	if perMinute == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.perMinute = perMinute
	l.pass(perMinute)
	if l.used+float64(questions) <= float64(burst) {
		l.used += float64(questions)
		return nil
	}
	if questions > burst {
		return &mcp.LimitError{Limit: "QuestionBurst", Max: burst, Reason: fmt.Sprintf("the server asks more than %d questions at the same time", burst)}
	}
	return &mcp.LimitError{Limit: "QuestionsPerMinute", Max: perMinute, Reason: fmt.Sprintf("the server asks more than %d questions in a minute", perMinute)}
}

// IsIdle reports whether no earlier question counts any more.
func (l *QuestionLimit) IsIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass(l.perMinute)
	return l.used == 0
}

// pass subtracts the questions that the time since the last call permits.
func (l *QuestionLimit) pass(perMinute int) {
	now := time.Now()
	l.used = max(0, l.used-now.Sub(l.last).Minutes()*float64(perMinute))
	l.last = now
}

// RoundsError is the error of a call that asks too often.
func RoundsError(most int) error {
	return &mcp.LimitError{Limit: "Rounds", Max: most, Reason: fmt.Sprintf("the server asked more than %d times in one call", most)}
}

// QuestionSizeError is the error of a question that is too large.
func QuestionSizeError(most int) error {
	return &mcp.LimitError{Limit: "QuestionBytes", Max: most, Reason: fmt.Sprintf("a question of the server has more than %d bytes", most)}
}

// questionError returns the error that a server gets for a question: [jsonrpc.Busy] if the server asks
// too often, so that it may ask again later.
func questionError(err error) error {
	if limit, ok := errors.AsType[*mcp.LimitError](err); ok {
		if limit.Limit == "QuestionBytes" {
			return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: limit.Reason, Data: json.RawMessage(`{"type":"QUESTION_TOO_LARGE"}`)}
		}
		return &jsonrpc.Error{Code: jsonrpc.Busy, Message: limit.Reason, Data: json.RawMessage(`{"type":"TOO_MANY_QUESTIONS"}`)}
	}
	return err
}

// A taskQuestions chooses the questions of one task that must be answered. A server repeats a question
// until it has processed the answer (SEP-2663), which may be after the request with the answer.
type taskQuestions struct {
	taken  map[string]bool
	rounds int
}

// skip makes take leave out the questions with the given keys.
func (q *taskQuestions) skip(keys []string) {
	q.taken = make(map[string]bool, len(keys))
	for _, key := range keys {
		q.taken[key] = true
	}
}

// take returns the questions that it has not returned before. ok is false if the task asks more than
// maxRounds times.
func (q *taskQuestions) take(questions map[string]mcp.InputRequest, maxRounds int) (open map[string]mcp.InputRequest, ok bool) {
	open = maps.Clone(questions)
	maps.DeleteFunc(open, func(key string, _ mcp.InputRequest) bool { return q.taken[key] })
	if len(open) == 0 {
		return nil, true
	}
	for key := range open {
		q.taken[key] = true
	}
	q.rounds++
	return open, q.rounds <= maxRounds
}
