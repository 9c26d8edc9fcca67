package forward

import (
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

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
