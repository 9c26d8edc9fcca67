package console

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/policy"
)

// A Policy is the policy that decides about the calls of the server.
type Policy struct {
	// Compiled is the compiled policy. Required.
	Compiled *policy.Compiled
	// Text is the policy as JSON, and File the name of its file, "" if the program has no file. Since is when it came into
	// force, or zero.
	Text  []byte
	File  string
	Since time.Time
	// Refused says why a newer text of the file is not in force. It is nil if there is none.
	Refused error
}

// A shownPolicy is the policy in force in a frame, for operators.
type shownPolicy struct {
	Text    string `json:"text"`
	File    string `json:"file,omitempty"`
	Digest  string `json:"digest"`
	Since   int64  `json:"since,omitempty"`
	Refused string `json:"refused,omitempty"`
}

func (p *Policy) shown() *shownPolicy {
	s := &shownPolicy{Text: string(p.Text), File: p.File, Digest: "sha256:" + digestOf(string(p.Text)), Since: micros(p.Since)}
	if p.Refused != nil {
		s.Refused = p.Refused.Error()
	}
	return s
}

// maxExamples is how many calls are named for each change.
const maxExamples = 5

// A verdict is what another policy would have decided on the kept calls.
type verdict struct {
	Problem string `json:"problem,omitempty"` // why the text is no policy
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`

	Calls    int        `json:"calls"`
	Changed  []*changes `json:"changed"`
	Unknown  int        `json:"unknown"` // the arguments were not kept
	Warnings []string   `json:"warnings"`
}

// changes are the calls whose decision changes from one effect to another.
type changes struct {
	From     string    `json:"from"`
	To       string    `json:"to"`
	Count    int       `json:"count"`
	Examples []example `json:"examples"`
}

type example struct {
	Call    uint64 `json:"call"`
	Exposed string `json:"exposed"`
	Rule    string `json:"rule"`
}

// whatIf returns what a policy would have decided on the kept calls on which a policy decided.
func (r *Recorder) whatIf(text []byte, compile func(*policy.Policy) (*policy.Compiled, error)) *verdict {
	v := &verdict{Changed: []*changes{}, Warnings: []string{}}
	parsed, err := policy.Parse(text)
	var compiled *policy.Compiled
	if err == nil {
		compiled, err = compile(parsed)
	}
	if err != nil {
		v.Problem = err.Error()
		if at, ok := errors.AsType[*policy.ParseError](err); ok {
			v.Problem, v.Line, v.Column = at.Message, at.Line, at.Column
		}
		return v
	}
	v.Warnings = append(v.Warnings, parsed.Warnings()...)
	for _, c := range r.decidedCalls() {
		v.Calls++
		if !c.known {
			v.Unknown++
			continue
		}
		if d := compiled.Decide(&c.request); d.Effect != c.effect {
			v.add(c, d)
		}
	}
	slices.SortFunc(v.Changed, func(a, b *changes) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return v
}

func (v *verdict) add(c decidedCall, d policy.Decision) {
	from, to := c.effect.String(), d.Effect.String()
	i := slices.IndexFunc(v.Changed, func(in *changes) bool { return in.From == from && in.To == to })
	if i < 0 {
		i = len(v.Changed)
		v.Changed = append(v.Changed, &changes{From: from, To: to, Examples: []example{}})
	}
	v.Changed[i].Count++
	if len(v.Changed[i].Examples) < maxExamples {
		v.Changed[i].Examples = append(v.Changed[i].Examples, example{c.id, c.exposed, d.Rule})
	}
}

// A decidedCall is a kept call on which a policy decided.
type decidedCall struct {
	id      uint64
	exposed string
	effect  policy.Effect
	request policy.Request
	known   bool // the definition and the arguments are kept
}

// decidedCalls returns the kept calls on which a policy decided, the last one first.
func (r *Recorder) decidedCalls() []decidedCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	var calls []decidedCall
	for e := r.rows.items.Back(); e != nil; e = e.Prev() {
		w := e.Value.(*shelved).item.(*row)
		if !w.decided {
			continue
		}
		c := decidedCall{id: w.id, exposed: w.exposed, effect: w.decision.Effect}
		if w.request != nil {
			c.request = *w.request
			c.request.Arguments = w.exactArguments()
			c.known = c.request.Arguments != nil || w.bytesIn == 0
		}
		calls = append(calls, c)
	}
	return calls
}
