package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/mcp"
)

// An Answer is a decision about a request.
type Answer struct {
	// Approved is true for yes. The zero value is no.
	Approved bool
	// Reason explains a no. The caller sees it.
	Reason string
	// By names the person who decided, for the journal.
	By string
	// Remember is how long a yes is also valid for calls that are equal to this one, so that
	// the approver is not asked about them. It is at most [Request].Remember; a longer time is
	// shortened. Default 0: the yes is for this call only.
	Remember time.Duration
	// Given is set in an answer for [Options].OnAsk that was remembered: when the person gave it. What an approver sets is ignored.
	Given time.Time
}

// An Approver decides about requests.
type Approver interface {
	// Approve returns the answer to a request. It blocks until there is one, and returns
	// soon after ctx ends, which happens at the request's deadline or when the call ends. An
	// error refuses the call; a [Code] in it is the code of the [Error]. Approve is called
	// concurrently. An approver that asks the caller of the call may return
	// *mcp.InputRequired; it is called again for the same request when the answer arrives.
	Approve(ctx context.Context, r *Request) (Answer, error)
}

// ApproverFunc is a function that implements [Approver].
type ApproverFunc func(ctx context.Context, r *Request) (Answer, error)

// Approve calls the function.
func (f ApproverFunc) Approve(ctx context.Context, r *Request) (Answer, error) { return f(ctx, r) }

// approve calls an approver. A panic becomes an error.
func approve(ctx context.Context, approver Approver, r *Request) (a Answer, err error) {
	err = safely("an approver", func() (err error) {
		a, err = approver.Approve(ctx, r)
		return err
	})
	return a, err
}

// answerer returns an approver with the remembered answer, if there is one, and else with that of the approver. It calls
// Options.OnAsk.
func (g *guard) answerer(remembered *rememberedApproval) Approver {
	return ApproverFunc(func(ctx context.Context, r *Request) (a Answer, err error) {
		if g.opts.OnAsk != nil {
			if answered := g.opts.OnAsk(ctx, r); answered != nil {
				defer func() { answered(a, err) }()
			}
		}
		if remembered != nil {
			return Answer{Approved: true, By: remembered.By, Given: atMilli(time.Now(), remembered.Given)}, nil
		}
		a, err = g.approver.Approve(ctx, r)
		a.Given = time.Time{}
		return a, err
	})
}

// Errors of [Prompt.Decide].
var (
	// ErrDecided reports that the prompt has been answered before.
	ErrDecided = errors.New("approval: the prompt has been answered")
	// ErrWithdrawn reports that the answer is too late.
	ErrWithdrawn = errors.New("approval: the request has been withdrawn")
)

// A Prompt is a [Request] that is shown to a person. It is answered once, from any goroutine.
// Its methods may be called concurrently.
type Prompt struct {
	*Request

	send    func(ctx context.Context, a Answer) error
	decided chan struct{}

	mu        sync.Mutex
	answer    Answer
	answered  bool
	withdrawn error
}

// A Handler shows a prompt. It may return before the prompt is answered. ctx ends when the
// prompt can no longer be answered: at its deadline, or when its call or connection ends.
type Handler func(ctx context.Context, p *Prompt)

// NewPrompt returns an unanswered prompt, for implementations of [Approver]. send, unless it
// is nil, is called once with the answer.
func NewPrompt(r *Request, send func(ctx context.Context, a Answer) error) *Prompt {
	return &Prompt{Request: r, send: send, decided: make(chan struct{})}
}

// Accept answers yes. See [Prompt.Decide].
func (p *Prompt) Accept(ctx context.Context) error { return p.Decide(ctx, Answer{Approved: true}) }

// Reject answers no. The caller sees the reason, which may be "". See [Prompt.Decide].
func (p *Prompt) Reject(ctx context.Context, reason string) error {
	return p.Decide(ctx, Answer{Reason: reason})
}

// Decide answers the prompt. Only the first answer counts: for any other the error is
// [ErrDecided], or [ErrWithdrawn] if the answer is too late. Any other error means that
// sending the answer failed; it may not have arrived.
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

// Decided returns a channel that is closed when the prompt is answered, before the answer is
// sent.
func (p *Prompt) Decided() <-chan struct{} { return p.decided }

// Answer returns the answer. ok is false if there is none yet.
func (p *Prompt) Answer() (a Answer, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answer, p.answered
}

// Withdraw makes later answers fail with [ErrWithdrawn], which wraps cause if it is not nil.
// If the prompt was answered before, Withdraw returns the answer.
func (p *Prompt) Withdraw(cause error) (a Answer, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.answered && p.withdrawn == nil {
		p.withdrawn = ErrWithdrawn
		if cause != nil {
			p.withdrawn = fmt.Errorf("%w: %w", ErrWithdrawn, cause)
		}
	}
	return p.answer, p.answered
}

// Callback returns an approver that calls a function of this program, on the goroutine of the
// call. The function may keep the prompt and return; another goroutine may answer it later.
func Callback(show Handler) Approver {
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

// Elicitation returns an approver that asks the user of the calling client by elicitation
// (MCP 2025-11-25, client/elicitation). The question says what the tool is and why it is asked, and
// contains [Request.Text]. Its form has one
// required choice, decision, which is "reject" or "approve" and has no default. Only an
// accepted form with "approve" is a yes, so a client that accepts forms without showing them
// approves nothing unless it fills in that value. The server cannot verify that the client
// asked its user, so use Elicitation only if the client is trusted. If the client cannot be
// asked, and in guards on a client's side, the error is [NoApprover]. For a form that is
// accepted without a decision it is [Failed].
func Elicitation() Approver { return elicitation{} }

type elicitation struct{}

// elicitationKey is the prefix of the question's key. The rest is the request's random id, so
// that no client can answer before it is asked.
const elicitationKey = "io.dovetail/approval/"

// decisionForm is the schema of the question. "reject" comes first, for clients that fill in the
// first option. There are no titles, since versions of the protocol encode them differently.
const decisionForm = `{"type":"object","properties":{"decision":{"type":"string","title":"Decision",` +
	`"description":"approve runs the call once","enum":["reject","approve"]}},"required":["decision"]}`

// Approve sends the question, or reads the answer.
func (elicitation) Approve(_ context.Context, r *Request) (Answer, error) {
	if r.call == nil {
		return Answer{}, Errorf(NoApprover, "the caller cannot be asked")
	}
	message := "Allow this call of " + Printable(r.Tool)
	if r.Server != "" {
		message += " on " + Printable(r.Server)
	}
	params, err := (&mcp.ElicitParams{
		Mode:            mcp.ElicitForm,
		Message:         message + "?\n" + elicitationFacts(r) + r.Text(),
		RequestedSchema: json.RawMessage(decisionForm),
	}).AppendJSON(nil)
	if err != nil {
		return Answer{}, err
	}
	raw, err := r.call.Input(elicitationKey+r.ID, mcp.InputRequest{Method: mcp.MethodElicit, Params: params})
	if _, asks := mcp.AsInputRequired(err); asks {
		return Answer{}, err
	}
	if err != nil {
		return Answer{}, Errorf(NoApprover, "the caller cannot be asked: %v", err)
	}
	var result mcp.ElicitResult
	if err := result.UnmarshalJSON(raw); err != nil {
		return Answer{}, Errorf(Failed, "the answer to the approval: %v", err)
	}
	a := Answer{By: "the caller"}
	switch result.Action {
	case mcp.ElicitAccept:
		if a.Approved, err = readDecision(result.Content); err != nil {
			return Answer{}, err
		}
	case mcp.ElicitDecline:
	case mcp.ElicitCancel:
		a.Reason = "the question was dismissed"
	default:
		return Answer{}, Errorf(Failed, "the answer to the approval: action must be accept, decline or cancel")
	}
	return a, nil
}

// maxFact is the maximum length of a title, description or reason in a question of [Elicitation] or
// [Terminal], in bytes.
const maxFact = 600

// paragraph returns a text for people as one line of at most maxFact bytes before it is escaped.
func paragraph(text string) string {
	return Printable(peertext.Cut(strings.Join(strings.Fields(text), " "), maxFact))
}

// elicitationFacts returns what the user should know about the tool, one fact a line.
func elicitationFacts(r *Request) string {
	var b strings.Builder
	if r.Launch != "" { // complete, since it decides what runs
		b.WriteString("Launch: " + Printable(r.Launch) + "\n")
	}
	for _, fact := range [][2]string{{"Title", r.Title}, {"Description", r.Description}, {"Effect", r.effect()}, {"Script", r.Script}, {"Reason", r.Reason}} {
		if fact[1] != "" {
			b.WriteString(fact[0] + ": " + paragraph(fact[1]) + "\n")
		}
	}
	return b.String()
}

// readDecision returns the decision of an accepted form.
func readDecision(content json.RawMessage) (approved bool, err error) {
	if answer, err := jsonscan.ReadObject(content); err == nil {
		if decision := answer.Get("decision"); jsonscan.KindOf(decision) == jsonscan.String {
			switch jsonscan.Unquote(decision) {
			case "approve":
				return true, nil
			case "reject":
				return false, nil
			}
		}
	}
	return false, Errorf(Failed, `the form was accepted without a decision: decision must be "approve" or "reject"`)
}

// Quorum returns an approver that approves if count of the given approvers do. It calls [Elicitation] approvers first,
// one after another, and then all others concurrently. A yes is remembered for the shortest time of all answers. The
// first no, and the last yes that is needed, decide; Quorum then cancels the remaining approvers and waits until they
// return. An approver that fails does not count. If too few remain, Quorum returns the error of the first approver that
// failed. Quorum panics if count is less than 1 or greater than the number of approvers.
func Quorum(count int, approvers ...Approver) Approver {
	if count < 1 || count > len(approvers) {
		panic(fmt.Sprintf("approval.Quorum: count is %d, expected 1 to %d", count, len(approvers)))
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
	callers, others []Approver // callers may return *mcp.InputRequired
}

func asksCaller(a Approver) bool {
	switch a := a.(type) {
	case elicitation:
		return true
	case *quorum:
		return len(a.callers) > 0
	}
	return false
}

// waits reports whether an approver may wait for a person who is not the caller.
func waits(a Approver) bool {
	switch a := a.(type) {
	case nil, elicitation:
		return false
	case *quorum:
		return slices.ContainsFunc(slices.Concat(a.callers, a.others), waits)
	}
	return true
}

// A vote is the result of one approver.
type vote struct {
	answer Answer
	err    error
}

// A tally counts votes.
type tally struct {
	needed, open int
	by           []string
	remember     time.Duration // the shortest of the yeses
	err          error         // of the first approver that failed
}

// count adds a vote. If it decides, count returns the result.
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
		t.remember = min(t.remember, v.answer.Remember)
		if v.answer.By != "" {
			t.by = append(t.by, v.answer.By)
		}
	}
	switch {
	case t.needed == 0:
		return Answer{Approved: true, By: strings.Join(t.by, ", "), Remember: t.remember}, true, nil
	case t.open < t.needed:
		return Answer{}, true, t.err
	}
	return Answer{}, false, nil
}

// Approve asks the approvers.
func (q *quorum) Approve(ctx context.Context, r *Request) (Answer, error) {
	t := &tally{needed: q.count, open: len(q.callers) + len(q.others), remember: math.MaxInt64}
	for _, caller := range q.callers {
		answer, err := approve(ctx, caller, r)
		if _, asks := mcp.AsInputRequired(err); asks {
			return Answer{}, err
		}
		if a, decided, err := t.count(vote{answer, err}); decided {
			return a, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	votes := make(chan vote, len(q.others))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, approver := range q.others {
		running.Go(func() {
			a, err := approve(ctx, approver, r)
			votes <- vote{a, err}
		})
	}
	for {
		if a, decided, err := t.count(<-votes); decided {
			return a, err
		}
	}
}
