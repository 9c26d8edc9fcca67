package jsonscan

import "iter"

// A Member is a member of an object, as it stands in the text.
type Member struct {
	Key   []byte // raw, with quotes
	Value []byte // raw
}

// Name returns the member's name without quotes and escapes.
func (m Member) Name() string { return Unquote(m.Key) }

// Members are the members of one object in their order. Looking up is linear.
// The slices belong to the text that was read.
type Members struct {
	n    int
	few  [16]Member
	more []Member
}

// ReadObject reads a text that is one object and nothing else. The error is a
// *[SyntaxError], a *[DuplicateError] or a *[SizeError]; objects below are
// checked for their syntax only.
func ReadObject(data []byte) (Members, error) {
	var m Members
	err := m.Read(data)
	return m, err
}

// Read is [ReadObject] into m, whose former members it forgets. After an error
// m is empty.
func (m *Members) Read(data []byte) error {
	m.clear()
	if err := m.read(data); err != nil {
		m.clear()
		return err
	}
	return nil
}

func (m *Members) clear() { m.n, m.more = 0, m.more[:0] }

func (m *Members) read(data []byte) error {
	s := New(data)
	if err := s.EnterObject(); err != nil {
		return err
	}
	var keys Keys
	for first := true; ; first = false {
		key, ok, err := s.Member(first)
		if err != nil {
			return err
		}
		if !ok {
			return s.End()
		}
		if err := keys.Add(key, s.KeyOffset()); err != nil {
			return err
		}
		value, err := s.Value()
		if err != nil {
			return err
		}
		m.add(Member{Key: key, Value: value})
	}
}

func (m *Members) add(member Member) {
	if m.n < len(m.few) {
		m.few[m.n] = member
	} else {
		m.more = append(m.more, member)
	}
	m.n++
}

// Get returns the raw value of the member with that name, nil when there is
// none.
func (m *Members) Get(name string) []byte {
	for member := range m.All() {
		if KeyIs(member.Key, name) {
			return member.Value
		}
	}
	return nil
}

// Len is the number of members.
func (m *Members) Len() int { return m.n }

// All ranges over the members in their order.
func (m *Members) All() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for _, member := range m.few[:min(m.n, len(m.few))] {
			if !yield(member) {
				return
			}
		}
		for _, member := range m.more {
			if !yield(member) {
				return
			}
		}
	}
}
