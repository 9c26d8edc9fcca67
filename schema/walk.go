package schema

import (
	"errors"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A walk is one validation: nodes and the instance's bytes, side by side. Its
// methods return an error only for what ends the walk.
type walk struct {
	meter
	s          jsonscan.Scanner
	at         trail
	deepest    int // how deep objects and arrays were nested
	decoding   bool
	rewrite    bool // decoding needs defaults filled in or integers rewritten
	violations []Violation
}

// errFull ends a walk that has found enough.
var errFull = errors.New("schema: too many violations")

func newWalk(instance []byte, m meter) walk {
	return walk{meter: m, s: jsonscan.New(instance), at: trail{instance: instance}}
}

// instance validates the whole instance.
func (w *walk) instance(n *node) error {
	err := w.value(n)
	if err == nil {
		err = w.s.End()
	}
	if err != nil && err != errFull {
		return failure(err)
	}
	if w.isEmpty() {
		return w.exceeded("") // what was found last is not certain
	}
	if len(w.violations) > 0 {
		return &ValidationError{Violations: w.violations}
	}
	return nil
}

// failure is the error of a text that is not JSON or too large.
func failure(err error) error {
	if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
		return &ValidationError{Violations: []Violation{{Keyword: "syntax", Expected: "JSON", Got: syntax.Error()}}}
	}
	if size, ok := errors.AsType[*jsonscan.SizeError](err); ok {
		return &BudgetError{Reason: size.Error()}
	}
	return err
}

// violated notes a violation at the value that is being walked.
func (w *walk) violated(v Violation) error {
	v.Pointer = w.at.pointer()
	w.spend(reportCost + 2*len(v.Pointer))
	if slices.ContainsFunc(w.violations, v.same) {
		return nil // found by two schemas
	}
	w.violations = append(w.violations, v)
	if len(w.violations) == MaxViolations {
		return errFull
	}
	return nil
}

func (w *walk) value(n *node) error {
	if w.spend(valueCost); w.isEmpty() {
		return w.exceeded(w.at.pointer())
	}
	if n == nil {
		n = &anything // still read, for its numbers and for members given twice
	}
	if n.ref != nil {
		if n.alone {
			return w.value(n.ref)
		}
		start := w.s
		if err := w.value(n.ref); err != nil {
			return err
		}
		if err := w.rewind(start); err != nil {
			return err
		}
	}
	if n.never {
		raw, err := w.peek()
		if err == nil {
			err = w.violated(Violation{Keyword: "false", Expected: "no value", Got: typedText(raw)})
		}
		if err != nil {
			return err
		}
		n = &anything
	}
	switch w.s.Kind() {
	case jsonscan.Object:
		return w.container(n, objectType)
	case jsonscan.Array:
		return w.container(n, arrayType)
	case jsonscan.Number:
		return w.number(n)
	case jsonscan.String:
		return w.text(n)
	case jsonscan.Bool:
		return w.word(n, boolType)
	default:
		return w.word(n, nullType)
	}
}

// rewind returns to an earlier place. The bytes since then will be read again.
func (w *walk) rewind(start jsonscan.Scanner) error {
	w.spend(readCost * (w.s.Offset() - start.Offset()))
	w.s = start
	if w.isEmpty() {
		return w.exceeded(w.at.pointer())
	}
	return nil
}

// peek returns the value that comes next without moving on.
func (w *walk) peek() ([]byte, error) {
	ahead := w.s
	raw, err := ahead.Value()
	w.spend(readCost * (ahead.Offset() - w.s.Offset()))
	return raw, err
}

func (w *walk) word(n *node, t typeSet) error {
	raw, err := w.s.Value()
	if err != nil {
		return err
	}
	_, err = w.scalar(n, t, raw)
	return err
}

// scalar checks the rules that hold for every type, and says whether those of
// the value's own type are still to be checked.
func (w *walk) scalar(n *node, t typeSet, raw []byte) (fits bool, err error) {
	if n.types != 0 && n.types&t == 0 {
		return false, w.violated(Violation{Keyword: "type", Expected: n.types.String(), Got: typedText(raw)})
	}
	if n.constant != nil && !n.constant.has(raw, &w.meter) {
		return false, w.violated(Violation{Keyword: "const", Expected: alternatives(n.constant.values), Got: literalText(raw)})
	}
	if n.enum != nil && !n.enum.has(raw, &w.meter) {
		return false, w.violated(Violation{Keyword: "enum", Expected: alternatives(n.enum.values), Got: literalText(raw)})
	}
	return true, nil
}

// container checks an object or an array. Its parts are walked even when it is
// not what the schema wants.
func (w *walk) container(n *node, t typeSet) error {
	w.deepest = max(w.deepest, w.at.n+1)
	if n.types != 0 && n.types&t == 0 || n.constant != nil || n.enum != nil {
		raw, err := w.peek()
		if err != nil {
			return err
		}
		fits, err := w.scalar(n, t, raw)
		if err != nil {
			return err
		}
		if !fits {
			n = &anything
		}
	}
	if t == arrayType {
		return w.array(n.list)
	}
	return w.object(n.object)
}
