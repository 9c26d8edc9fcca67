package forward

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Concurrent calls that ask over a transport that does not say which call a question belongs to are all asked at once.
func TestQuestionsOfConcurrentCalls(t *testing.T) {
	for name, asked := range map[string]func(c *forwardedCall){
		"the runs have not ended yet": func(*forwardedCall) {},
		"the runs have ended":         func(c *forwardedCall) { c.call = nil },
	} {
		t.Run(name, func(t *testing.T) {
			f, calls := newInFlight(5)
			for range calls {
				c, _, _ := f.asking(nil, rootsQuestion, new([]*forwardedCall))
				asked(c)
			}
			for i, c := range calls {
				if c.open != 1 {
					t.Errorf("call %d has %d questions", i, c.open)
				}
			}
			if c, _, _ := f.asking(nil, rootsQuestion, new([]*forwardedCall)); c != calls[0] {
				t.Error("one more question belongs to a call that is not the oldest")
			}
			f.answered(calls[3])
			if c, _, _ := f.asking(nil, rootsQuestion, new([]*forwardedCall)); c != calls[3] {
				t.Error("the next question belongs to a call with a question")
			}
			f.answered(calls[0]) // of two
			f.answered(calls[1])
			if c, _, _ := f.asking(nil, rootsQuestion, new([]*forwardedCall)); c != calls[1] {
				t.Error("the next question belongs to a call with another question")
			}
		})
	}
}

// Messages belong to a call with a run, if there is one.
func TestMessagesOfCallsWithoutRuns(t *testing.T) {
	f, calls := newInFlight(3)
	calls[0].call, calls[1].call = nil, nil
	for range 2 {
		if c := f.callOf(nil); c != calls[2] {
			t.Error("a notification belongs to a call without a run")
		}
		if c, _, _ := f.asking(nil, rootsQuestion, new([]*forwardedCall)); c != calls[2] {
			t.Error("a question belongs to a call without a run")
		}
	}
}

// A question of a call that ends before its caller was asked belongs to another call.
func TestQuestionOfEndedCall(t *testing.T) {
	f, calls := newInFlight(2)
	answered := make(chan error, 1)
	go func() {
		_, err := f.Ask(t.Context(), nil, rootsQuestion)
		answered <- err
	}()
	waittest.Until(t, "the question belongs to the first call", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return calls[0].open == 1
	})
	f.remove(calls[0])
	close(calls[0].ended)
	q := waittest.Receive(t, "the question of the second call", calls[1].asks)
	q.answer = []byte(`{"roots":[]}`)
	close(q.answered)
	if err := waittest.Receive(t, "the answer", answered); err != nil {
		t.Error(err)
	}
}

var rootsQuestion = mcp.InputRequest{Method: mcp.MethodRootsList}

// newInFlight returns n calls with runs of a client that has roots.
func newInFlight(n int) (f *inFlight, calls []*forwardedCall) {
	f = new(inFlight)
	client := &Client{suspended: NewSuspendedCalls(), limits: questionLimits{rounds: 10}}
	caller := &mcp.Caller{Capabilities: mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}}
	call := mcp.NewCall(&jsonrpc.Request{Method: mcp.MethodToolsCall}, caller, nil)
	for range n {
		f.add(&forwardedCall{
			client: client, caller: caller, params: params{call: &call},
			asks: make(chan *question), ended: make(chan struct{}), notifications: notifications{call: &call},
		})
	}
	return f, slices.Clone(f.calls)
}

// A question of a task counts once, whoever asks for the state of the task at the same time.
func TestSeenQuestionsConcurrently(t *testing.T) {
	const n = 300
	var seen seenQuestions
	var counted [2]int
	see := func(i int) func(int) {
		return func(round int) {
			if seen.isNew(taskQuestion{task: fmt.Sprint(round)}) {
				counted[i]++
			}
		}
	}
	racetest.Together(n, see(0), see(1))
	if all := counted[0] + counted[1]; all != n || len(seen.last) != n {
		t.Errorf("%d questions were counted and %d remembered, want %d", all, len(seen.last), n)
	}
}

// A question is counted exactly while others of its call are answered.
func TestQuestionsAreCountedConcurrently(t *testing.T) {
	const n = 300
	f, calls := newInFlight(1)
	for range n {
		f.asking(nil, rootsQuestion, new([]*forwardedCall))
	}
	ask := func(int) { f.asking(nil, rootsQuestion, new([]*forwardedCall)) }
	answer := func(int) { f.answered(calls[0]) }
	racetest.Together(n, ask, answer)
	if calls[0].open != n {
		t.Errorf("the call has %d open questions, want %d", calls[0].open, n)
	}
}
