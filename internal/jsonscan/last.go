package jsonscan

import (
	"maps"
	"slices"
)

// LastMembers returns a value in which no object, at any depth, has two members with the same name: the last
// one stays, as encoding/json reads it. It returns value itself if there are no duplicates. The error is a
// *[SyntaxError].
func LastMembers(value []byte) ([]byte, error) {
	l := lastMembers{s: New(value), dropped: map[int]int{}}
	if err := l.value(); err != nil {
		return nil, err
	}
	if err := l.s.End(); err != nil {
		return nil, err
	}
	if len(l.dropped) == 0 {
		return value, nil
	}
	last, copied := make([]byte, 0, len(value)), 0
	for _, start := range slices.Sorted(maps.Keys(l.dropped)) {
		if start >= copied { // otherwise it is in a value that was dropped
			last = append(last, value[copied:start]...)
			copied = l.dropped[start]
		}
	}
	return append(last, value[copied:]...), nil
}

// lastMembers finds the members that are followed by another one of the same name.
type lastMembers struct {
	s       Scanner
	dropped map[int]int // from the start of each to its end, after the comma and the white space that follow
}

func (l *lastMembers) value() error {
	switch l.s.Kind() {
	case Object:
		return l.object()
	case Array:
		if err := l.s.EnterArray(); err != nil {
			return err
		}
		for first := true; ; first = false {
			if more, err := l.s.Element(first); err != nil || !more {
				return err
			}
			if err := l.value(); err != nil {
				return err
			}
		}
	}
	_, err := l.s.Value()
	return err
}

func (l *lastMembers) object() error {
	if err := l.s.EnterObject(); err != nil {
		return err
	}
	last := make(map[string]int) // the index of the last member with a name
	var starts, repeated []int
	for {
		key, ok, err := l.s.Member(len(starts) == 0)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		name := Unquote(key)
		if earlier, ok := last[name]; ok {
			repeated = append(repeated, earlier)
		}
		last[name] = len(starts)
		starts = append(starts, l.s.KeyOffset())
		if err := l.value(); err != nil {
			return err
		}
	}
	for _, i := range repeated {
		l.dropped[starts[i]] = starts[i+1]
	}
	return nil
}
