package duplex

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// Each message is taken once, in the order of its sender. A queue that is closed gets no more.
func TestQueueConcurrently(t *testing.T) {
	const n = 300
	q := NewQueue(nil)
	put := func(name string) func(int) {
		return func(round int) {
			if err := q.Put(t.Context(), fmt.Appendf(nil, "%s:%d", name, round)); err != nil {
				t.Error(err)
			}
		}
	}
	next := map[string]int{}
	take := func(int) {
		for message := range q.Take().Messages() {
			name := string(message[:1])
			if want := fmt.Sprintf("%s:%d", name, next[name]); string(message) != want {
				t.Errorf("%s is taken before %s, or twice", message, want)
			}
			next[name]++
		}
	}
	racetest.Together(n, put("a"), put("b"), take)
	take(0)
	if next["a"] != n || next["b"] != n {
		t.Errorf("%d and %d messages were taken, want %d of both", next["a"], next["b"], n)
	}
	first, second := errors.New("the first reason"), errors.New("another reason")
	var refusals []error
	racetest.Together(n,
		func(int) { q.Close(first) },
		func(int) { q.Close(second) },
		func(int) {
			if err := q.Put(t.Context(), []byte("c")); err != nil {
				refusals = append(refusals, err)
			}
		},
	)
	reason := q.Put(t.Context(), nil)
	if reason != first && reason != second {
		t.Errorf("a closed queue refuses a message with %v", reason)
	}
	for _, err := range refusals {
		if err != reason {
			t.Errorf("the reason is %v, and then %v", err, reason)
		}
	}
}
