package jsonscan

import (
	"bytes"
	"fmt"
)

// An Edit changes one member. A nil Value removes the member. Any other value replaces it, or
// is added at the end if the object has no such member.
type Edit struct {
	Name  string
	Value []byte // one JSON value, copied as it is
}

// maxEdits is how many edits one [Splice] may make.
const maxEdits = 64

// Splice appends object to dst with its members edited. All other bytes stay as they are, in their order; a removed
// member takes one comma with it. There may be at most 64 edits, and their names must differ. Splice returns the errors
// of [ReadObject], and then dst unchanged. dst and object must not overlap.
func Splice(dst, object []byte, edits ...Edit) ([]byte, error) {
	if len(edits) > maxEdits {
		return dst, fmt.Errorf("jsonscan: at most %d edits at once, not %d", maxEdits, len(edits))
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
	done   uint64 // a bit for each edit whose member was found
	scan   Scanner
	keys   Keys
	copied int  // up to which byte object was copied or skipped
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

// member writes one member, edited if there is an edit for it.
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
		// All members before this one were removed, and the comma after them must be too.
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

// editOf returns the index of the edit of a member, -1 if it has none.
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
