package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A journal keeps what a client was told and asked, a line for each, in the order
// it came.
type journal struct {
	mu    sync.Mutex
	lines []string
	grown chan struct{} // closed when a line is added, and made anew
}

func newJournal() *journal { return &journal{grown: make(chan struct{})} }

func (j *journal) write(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
	close(j.grown)
	j.grown = make(chan struct{})
}

// with returns the lines that begin with a word, without it.
func (j *journal) with(word string) []string {
	lines, _ := j.look(word)
	return lines
}

func (j *journal) look(word string) (lines []string, grown <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			lines = append(lines, rest)
		}
	}
	return lines, j.grown
}

// await waits until there are n lines that begin with a word.
func (j *journal) await(ctx context.Context, t *testing.T, n int, word string) []string {
	t.Helper()
	for {
		lines, grown := j.look(word)
		if len(lines) >= n {
			return lines
		}
		select {
		case <-grown:
		case <-ctx.Done():
			t.Fatalf("%d lines of %q came, want %d: %q", len(lines), word, n, j.all())
		}
	}
}

// all returns every line.
func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}
