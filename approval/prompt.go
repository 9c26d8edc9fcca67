package approval

import (
	"context"
	"errors"
	"sync"
)

// Errors of [Prompt.Decide].
var (
	// ErrDecided tells that the prompt has been answered before.
	ErrDecided = errors.New("approval: it has been decided already")
	// ErrWithdrawn tells that nobody waits for the answer any more.
	ErrWithdrawn = errors.New("approval: the request has been withdrawn")
)

// A Prompt is a [Request] put before somebody, who answers it once: now or later, from
// whatever goroutine.
type Prompt struct {
	*Request

	send    func(ctx context.Context, a Answer) error
	decided chan struct{}

	mu        sync.Mutex
	answer    Answer
	answered  bool
	withdrawn error
}

// A Handler is shown prompts. It may return without an answer, and give it later. ctx ends
// when the prompt is answered no more: with its deadline, its call or its connection.
type Handler func(ctx context.Context, p *Prompt)

// NewPrompt returns an open prompt, for approvers. send, unless nil, is given the answer,
// once.
func NewPrompt(r *Request, send func(ctx context.Context, a Answer) error) *Prompt {
	return &Prompt{Request: r, send: send, decided: make(chan struct{})}
}

// Accept answers yes. See [Prompt.Decide].
func (p *Prompt) Accept(ctx context.Context) error { return p.Decide(ctx, Answer{Approved: true}) }

// Reject answers no. The caller is told the reason, unless it is "". See [Prompt.Decide].
func (p *Prompt) Reject(ctx context.Context, reason string) error {
	return p.Decide(ctx, Answer{Reason: reason})
}

// Decide answers the prompt. Only the first answer counts: the error of any other is
// [ErrDecided], or [ErrWithdrawn] if it comes too late. Any other error says that the
// answer was given and may not have arrived; whoever asked goes on as without it.
func (p *Prompt) Decide(ctx context.Context, a Answer) error {
	p.mu.Lock()
	switch {
	case p.answered:
		p.mu.Unlock()
		return ErrDecided
	case p.withdrawn != nil:
		p.mu.Unlock()
		return p.withdrawn
	}
	p.answer, p.answered = a, true
	close(p.decided)
	p.mu.Unlock()
	if p.send == nil {
		return nil
	}
	return p.send(ctx, a)
}

// Decided is closed when the prompt has been answered, before the answer is sent.
func (p *Prompt) Decided() <-chan struct{} { return p.decided }

// Answer returns the answer, if there is one yet.
func (p *Prompt) Answer() (a Answer, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answer, p.answered
}

// Withdraw has later answers fail with [ErrWithdrawn], wrapped around the cause if there
// is one. It returns the answer, if that has come first.
func (p *Prompt) Withdraw(cause error) (a Answer, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.answered && p.withdrawn == nil {
		p.withdrawn = ErrWithdrawn
		if cause != nil {
			p.withdrawn = &withdrawal{cause}
		}
	}
	return p.answer, p.answered
}

type withdrawal struct{ cause error }

func (w *withdrawal) Error() string   { return ErrWithdrawn.Error() + ": " + w.cause.Error() }
func (w *withdrawal) Unwrap() []error { return []error{ErrWithdrawn, w.cause} }

// Deferred asks a function of this program. It is called on the goroutine of the call, and
// may keep the prompt and return: the answer may come later, from another.
func Deferred(show Handler) Approver {
	return ApproverFunc(func(ctx context.Context, r *Request) (Answer, error) {
		p := NewPrompt(r, nil)
		defer p.Withdraw(nil) // if show panics
		show(ctx, p)
		select {
		case <-p.decided:
		case <-ctx.Done():
		}
		a, ok := p.Withdraw(context.Cause(ctx))
		if !ok {
			return Answer{}, context.Cause(ctx)
		}
		return a, nil
	})
}
