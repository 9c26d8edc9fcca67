package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A walker validates one instance: it reads the instance's bytes and follows the nodes of the
// schema. Its methods return an error only if validation cannot continue.
type walker struct {
	meter
	s              jsonscan.Scanner
	path           valuePath
	decoding       bool
	needsNormalize bool // decoding needs defaults or rewritten integers
	refusedNull    bool // a violation is null
	violations     []Violation
}

// errFull ends a validation that has found maxViolations.
var errFull = errors.New("schema: too many violations")

func newWalker(instance []byte, m meter) walker {
	return walker{meter: m, s: jsonscan.New(instance), path: valuePath{instance: instance}}
}

// instance validates the complete instance.
func (w *walker) instance(n *node) error {
	err := w.value(n)
	if err == nil {
		err = w.s.End()
	}
	if err != nil && err != errFull {
		return textError(err)
	}
	if w.isEmpty() {
		return w.exceeded("") // comparisons without budget have found false violations
	}
	if len(w.violations) > 0 {
		return &ValidationError{Violations: w.violations}
	}
	return nil
}

// textError returns the error for a text that is not JSON or exceeds a limit of package jsonscan.
func textError(err error) error {
	if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
		return &ValidationError{Violations: []Violation{{Keyword: "syntax", Expected: "JSON", Got: syntax.Error()}}}
	}
	if size, ok := errors.AsType[*jsonscan.SizeError](err); ok {
		return &BudgetError{Reason: size.Error()}
	}
	return err
}

// violated records a violation of the value at w.path.
func (w *walker) violated(keyword, expected, got string) error {
	return w.record(Violation{Keyword: keyword, Expected: expected, Got: got})
}

func (w *walker) record(v Violation) error {
	v.Pointer = w.path.pointer()
	w.spend(reportCost + 2*len(v.Pointer))
	if slices.ContainsFunc(w.violations, v.same) {
		return nil // two schemas found it
	}
	w.violations = append(w.violations, v)
	if len(w.violations) == maxViolations {
		return errFull
	}
	return nil
}

// use counts work. It returns an error if the meter is empty.
func (w *walker) use(units int) error {
	if w.spend(units); w.isEmpty() {
		return w.exceeded(w.path.pointer())
	}
	return nil
}

func (w *walker) value(n *node) error {
	if err := w.use(valueCost); err != nil {
		return err
	}
	if n == nil {
		n = &anything // the value is still checked for number limits and duplicate members
	}
	if n.ref != nil {
		if n.refOnly {
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
	if n.isFalse {
		raw, err := w.peek()
		if err == nil {
			err = w.violated("false", "no value", typedText(raw))
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
		return w.literal(n, boolType)
	default:
		return w.literal(n, nullType)
	}
}

// rewind continues at an earlier position. The bytes since then are read again.
func (w *walker) rewind(start jsonscan.Scanner) error {
	read := w.s.Offset() - start.Offset()
	w.s = start
	return w.use(readCost * read)
}

// peek returns the next value without reading past it.
func (w *walker) peek() ([]byte, error) {
	ahead := w.s
	raw, err := ahead.Value()
	w.spend(readCost * (ahead.Offset() - w.s.Offset()))
	return raw, err
}

func (w *walker) literal(n *node, t typeSet) error {
	raw, err := w.s.Value()
	if err != nil {
		return err
	}
	ok, err := w.common(n, t, raw)
	w.refusedNull = w.refusedNull || t == nullType && !ok
	return err
}

// common checks the keywords for values of all types. It reports whether the value satisfies them;
// otherwise the keywords for its type are not checked.
func (w *walker) common(n *node, t typeSet, raw []byte) (ok bool, err error) {
	switch {
	case n.types != 0 && n.types&t == 0:
		return false, w.violated("type", n.types.String(), typedText(raw))
	case n.constant != nil && !n.constant.has(raw, &w.meter):
		return false, w.violated("const", alternatives(n.constant.values), literalText(raw))
	case n.enum != nil && !n.enum.has(raw, &w.meter):
		return false, w.violated("enum", alternatives(n.enum.values), literalText(raw))
	}
	return true, nil
}

func (w *walker) number(n *node) error {
	raw, err := w.s.Number()
	if err != nil {
		return err
	}
	w.spend(len(raw))
	plainInteger := isPlain(raw)
	if !(plainInteger && len(raw) <= maxNumberDigits) && !isBounded(raw) {
		return &BudgetError{
			Pointer: w.path.pointer(),
			Reason:  fmt.Sprintf("a number may have %d digits and an exponent of up to ±%d", maxNumberDigits, maxNumberExponent),
		}
	}
	t := integerType | numberType
	wantsInteger := n.types&integerType != 0 && !plainInteger
	var value number
	if wantsInteger || n.bounds != nil || n.multipleOf != nil {
		w.spendNumber(raw)
		value, _ = parseNumber(raw)
		if !value.isInteger() {
			t = numberType
		} else if wantsInteger {
			w.needsNormalize = true
		}
	}
	ok, err := w.common(n, t, raw)
	if err != nil || !ok {
		return err
	}
	for i := range n.bounds {
		b := &n.bounds[i]
		w.spendNumber(raw)
		if order := value.compare(b.limit); order == b.sign || order == 0 && b.open {
			if err := w.violated(b.keyword, b.relation+" "+b.text, literalText(raw)); err != nil {
				return err
			}
		}
	}
	if n.multipleOf == nil {
		return nil
	}
	w.spendNumber(raw)
	if value.isMultipleOf(n.multipleOf.of) {
		return nil
	}
	return w.violated("multipleOf", "a multiple of "+n.multipleOf.text, literalText(raw))
}

func (w *walker) text(n *node) error {
	raw, err := w.s.String()
	if err != nil {
		return err
	}
	ok, err := w.common(n, stringType, raw)
	if err != nil || !ok {
		return err
	}
	limited := n.minLength > 0 || n.maxLength != noLimit
	if !limited && n.pattern == nil {
		return nil
	}
	text := plain(raw)
	w.spend(len(raw))
	if limited {
		w.spend(lengthCost * len(text))
		// JSON Schema measures text in code points.
		if err := w.count("Length", "character", utf8.RuneCount(text), n.minLength, n.maxLength); err != nil {
			return err
		}
	}
	if n.pattern == nil {
		return nil
	}
	if err := w.use(matchCost(n.pattern, len(text))); err != nil {
		return err
	}
	if !n.pattern.Match(text) {
		return w.violated("pattern", "text that matches "+n.pattern.String(), literalText(raw))
	}
	return nil
}

// count checks a number of characters, items or members.
func (w *walker) count(suffix, noun string, n, minimum, maximum int) error {
	if n < minimum {
		if err := w.violated("min"+suffix, "at least "+plural(minimum, noun), plural(n, noun)); err != nil {
			return err
		}
	}
	if n > maximum {
		return w.violated("max"+suffix, "at most "+plural(maximum, noun), plural(n, noun))
	}
	return nil
}

// A valuePath leads to the value that is being validated. It is converted to a JSON Pointer only for a
// violation.
type valuePath struct {
	instance []byte
	n        int
	first    [16]step // avoids an allocation for most instances
	more     []step
}

// A step is a member or an item.
type step struct {
	key   int // the offset of the key in the instance, or noKey
	index int // of the item
}

const noKey = -1

func (p *valuePath) push(s step) {
	if p.n < len(p.first) {
		p.first[p.n] = s
	} else {
		p.more = append(p.more, s)
	}
	p.n++
}

func (p *valuePath) pop() {
	p.n--
	if p.n >= len(p.first) {
		p.more = p.more[:p.n-len(p.first)]
	}
}

// pointer returns the path as a JSON Pointer of at most about maxPath bytes.
func (p *valuePath) pointer() string {
	pointer := ""
	for _, s := range slices.Concat(p.first[:min(p.n, len(p.first))], p.more) {
		token := strconv.Itoa(s.index)
		if s.key != noKey {
			scan := jsonscan.New(p.instance[s.key:])
			raw, _ := scan.String() // is valid, since it was read before
			token = jsonscan.Unquote(raw)
		}
		if pointer = pointerOf(pointer, token); len(pointer) > maxPath {
			break
		}
	}
	return pointer
}
