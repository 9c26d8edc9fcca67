package approval

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
)

// Quorum approves what so many of several approvers approve. They are asked at the same
// time; those that ask the caller first, one after another. Whoever says no ends it, and so
// does the last yes that was needed: the others are not waited for longer than they take to
// return. One who fails counts as nobody; if too few are left, the error is the first of
// theirs. A count below 1 or above the number of approvers panics.
func Quorum(count int, approvers ...Approver) Approver {
	if count < 1 || count > len(approvers) {
		panic(fmt.Sprintf("approval.Quorum: %d of %d approvers; expected from 1 to all", count, len(approvers)))
	}
	q := &quorum{count: count}
	for _, a := range approvers {
		if asksCaller(a) {
			q.callers = append(q.callers, a)
		} else {
			q.others = append(q.others, a)
		}
	}
	return q
}

type quorum struct {
	count           int
	callers, others []Approver
}

// asksCaller tells of approvers that have a call run again.
func asksCaller(a Approver) bool {
	switch a := a.(type) {
	case byCaller:
		return true
	case *quorum:
		return len(a.callers) > 0
	}
	return false
}

// A vote is one approver's.
type vote struct {
	answer Answer
	err    error
}

// A tally counts votes.
type tally struct {
	needed, open int
	by           []string
	err          error // the first
}

// count says whether it is decided, and how.
func (t *tally) count(v vote) (a Answer, decided bool, err error) {
	t.open--
	switch {
	case v.err != nil:
		if t.err == nil {
			t.err = v.err
		}
	case !v.answer.Approved:
		return v.answer, true, nil
	default:
		t.needed--
		if v.answer.By != "" {
			t.by = append(t.by, v.answer.By)
		}
	}
	switch {
	case t.needed == 0:
		return Answer{Approved: true, By: strings.Join(t.by, ", ")}, true, nil
	case t.open < t.needed:
		return Answer{}, true, t.err
	}
	return Answer{}, false, nil
}

// Approve asks them.
func (q *quorum) Approve(ctx context.Context, r *Request) (Answer, error) {
	t := &tally{needed: q.count, open: len(q.callers) + len(q.others)}
	for _, caller := range q.callers {
		var v vote
		v.answer, v.err = ask(ctx, caller, r)
		if _, asks := mcp.AsInputRequired(v.err); asks {
			return Answer{}, v.err
		}
		if a, decided, err := t.count(v); decided {
			return a, err
		}
	}
	return q.poll(ctx, r, t)
}

// poll asks those who do not ask the caller, and waits for them.
func (q *quorum) poll(ctx context.Context, r *Request, t *tally) (Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	votes := make(chan vote, len(q.others))
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	for _, approver := range q.others {
		asked.Go(func() {
			a, err := ask(ctx, approver, r)
			votes <- vote{a, err}
		})
	}
	for {
		if a, decided, err := t.count(<-votes); decided {
			return a, err
		}
	}
}

// ask returns the answer of an approver. A panic is an error.
func ask(ctx context.Context, approver Approver, r *Request) (a Answer, err error) {
	err = safely("an approver", func() (err error) {
		a, err = approver.Approve(ctx, r)
		return err
	})
	return a, err
}
