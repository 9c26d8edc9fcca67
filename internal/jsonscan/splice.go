package jsonscan

import (
	"bytes"
	"fmt"
)

// An Edit says what a member becomes. A nil Value removes it; any other
// replaces it, or adds it at the end when the object has none of that name.
type Edit struct {
	Name  string
	Value []byte // one JSON value, copied as it is
}

// Splice appends object to dst with its members edited. All that is not edited
// stays as it was, byte by byte and in its order; a member that goes takes one
// comma with it. The names of the edits must differ, and there may be at most
// [MaxEdits]. The error is that of [ReadObject]; dst then comes back as it was.
// dst and object must not overlap.
func Splice(dst, object []byte, edits ...Edit) ([]byte, error) {
	if len(edits) > MaxEdits {
		return dst, fmt.Errorf("jsonscan: at most %d edits at once, not %d", MaxEdits, len(edits))
	}
	p := splicer{dst: dst, object: object, scan: New(object)}
	if err := p.run(edits); err != nil {
		return dst, err
	}
	return p.dst, nil
}

// A splicer is one run of [Splice].
type splicer struct {
	dst    []byte
	object []byte
	done   uint64 // the edits whose member has come, a bit each
	scan   Scanner
	keys   Keys
	copied int  // up to where object has been dealt with
	some   bool // a member has been written
}

func (p *splicer) run(edits []Edit) error {
	if err := p.scan.EnterObject(); err != nil {
		return err
	}
	p.copyTo(p.scan.Offset())
	for first := true; ; first = false {
		key, ok, err := p.scan.Member(first)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := p.member(key, edits); err != nil {
			return err
		}
	}
	p.addMissing(edits)
	p.copyTo(len(p.object))
	return p.scan.End()
}

// member writes one member as its edit, if it has one, wants it.
func (p *splicer) member(key []byte, edits []Edit) error {
	start := p.scan.KeyOffset()
	value, err := p.scan.Value()
	if err != nil {
		return err
	}
	end := p.scan.Offset()
	if err := p.keys.Add(key, start); err != nil {
		return err
	}
	i := editOf(edits, key)
	if i >= 0 {
		p.done |= 1 << i
	}
	if i >= 0 && edits[i].Value == nil {
		p.copied = end // with the comma before it, if there was one
		return nil
	}
	if !p.some {
		// The members before this one are gone, and so must their comma be.
		if comma := bytes.IndexByte(p.object[p.copied:start], ','); comma >= 0 {
			p.copied += comma + 1
		}
	}
	p.some = true
	if i >= 0 {
		p.copyTo(end - len(value))
		p.dst = append(p.dst, edits[i].Value...)
		p.copied = end
	} else {
		p.copyTo(end)
	}
	return nil
}

// editOf returns the index of the edit of a member, -1 when it has none.
func editOf(edits []Edit, key []byte) int {
	for i := range edits {
		if KeyIs(key, edits[i].Name) {
			return i
		}
	}
	return -1
}

func (p *splicer) addMissing(edits []Edit) {
	for i, edit := range edits {
		if p.done>>i&1 != 0 || edit.Value == nil {
			continue
		}
		if p.some {
			p.dst = append(p.dst, ',')
		}
		p.dst = append(AppendString(p.dst, edit.Name), ':')
		p.dst = append(p.dst, edit.Value...)
		p.some = true
	}
}

func (p *splicer) copyTo(end int) {
	p.dst = append(p.dst, p.object[p.copied:end]...)
	p.copied = end
}
