package schema

import (
	"cmp"
	"fmt"
	"unicode/utf8"
)

func (w *walk) number(n *node) error {
	raw, err := w.s.Number()
	if err != nil {
		return err
	}
	w.spend(len(raw))
	value, isSmall := small(raw)
	var exact decimal
	t := integerType | numberType
	if !isSmall {
		var ok bool
		if exact, ok = parseDecimal(raw); !ok {
			return &BudgetError{
				Pointer: w.at.pointer(),
				Reason:  fmt.Sprintf("a number may have %d digits and an exponent of up to ±%d", MaxNumberDigits, MaxNumberExponent),
			}
		}
		if !exact.isInteger() {
			t = numberType
		} else if !isPlain(raw) && n.types&integerType != 0 {
			w.rewrite = true
		}
	}
	fits, err := w.scalar(n, t, raw)
	if err != nil || !fits || n.number == nil {
		return err
	}
	w.spend((len(n.number.bounds) + 1) * len(raw))
	for i := range n.number.bounds {
		b := &n.number.bounds[i]
		var order int
		if isSmall && b.isSmall {
			order = cmp.Compare(value, b.small)
		} else {
			if isSmall {
				exact, _ = parseDecimal(raw)
			}
			order = exact.compare(&b.limit)
		}
		if order*b.sign > 0 || order == 0 && b.open {
			if err := w.violated(Violation{Keyword: b.keyword, Expected: b.words + " " + b.text, Got: literalText(raw)}); err != nil {
				return err
			}
		}
	}
	return w.multiple(n.number, raw)
}

func (w *walk) multiple(rules *numberRules, raw []byte) error {
	if rules.multipleOf == nil {
		return nil
	}
	w.spend(4 * len(raw))
	exact, _ := parseDecimal(raw)
	if rules.multipleOf.divides(&exact) {
		return nil
	}
	return w.violated(Violation{Keyword: "multipleOf", Expected: "a multiple of " + rules.multiple, Got: literalText(raw)})
}

func (w *walk) text(n *node) error {
	raw, err := w.s.String()
	if err != nil {
		return err
	}
	fits, err := w.scalar(n, stringType, raw)
	if err != nil || !fits || n.text == nil {
		return err
	}
	// JSON Schema measures text in code points.
	text := plain(raw)
	w.spend(len(raw))
	if n.text.minLength != unlimited || n.text.maxLength != unlimited {
		w.spend(lengthCost * len(text))
		if err := w.count("Length", "character", utf8.RuneCount(text), n.text.minLength, n.text.maxLength); err != nil {
			return err
		}
	}
	pattern := n.text.pattern
	if pattern == nil {
		return nil
	}
	if w.spend(match(pattern, len(text))); w.isEmpty() {
		return w.exceeded(w.at.pointer())
	}
	if !pattern.Match(text) {
		return w.violated(Violation{Keyword: "pattern", Expected: "text that matches " + pattern.String(), Got: literalText(raw)})
	}
	return nil
}
