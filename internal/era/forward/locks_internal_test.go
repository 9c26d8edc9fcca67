package forward

import (
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
)

// Concurrent calls that ask over a transport that does not say which call a question belongs to are all asked at once.
func TestQuestionsOfConcurrentCalls(t *testing.T) {
	const n = 5
	var f inFlight
	for range n {
		f.add(&forwardedCall{asks: make(chan *question), notifications: notifications{call: new(mcp.Call)}})
	}
	oldest, asked := f.calls[0], map[*forwardedCall]bool{}
	for range n {
		c, _ := f.find(nil, true)
		asked[c] = true
		c.call = nil // its caller has the question, so that no run is attached
	}
	if len(asked) != n {
		t.Errorf("%d of %d calls are asked", len(asked), n)
	}
	if c, _ := f.find(nil, true); c != oldest {
		t.Error("one more question belongs to a call that is not the oldest")
	}
	f.answered(f.calls[3])
	if c, _ := f.find(nil, true); c != f.calls[3] {
		t.Error("the next question belongs to a call with a question")
	}

	attached := f.calls[4]
	attached.call = new(mcp.Call)
	if c, _ := f.find(nil, false); c != attached {
		t.Error("a log message belongs to a call without a run")
	}
}

// Questions of concurrent calls whose runs are all attached belong to different calls.
func TestQuestionsAtTheSameMoment(t *testing.T) {
	const n = 5
	var f inFlight
	for range n {
		f.add(&forwardedCall{asks: make(chan *question), notifications: notifications{call: new(mcp.Call)}})
	}
	asked := map[*forwardedCall]bool{}
	for range n {
		c, _ := f.find(nil, true)
		asked[c] = true
	}
	if len(asked) != n {
		t.Errorf("%d of %d calls are asked", len(asked), n)
	}
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
