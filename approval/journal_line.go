package approval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrBroken tells of a journal whose lines are not those that were written: one has been
// changed, removed, added or moved. It stands wrapped, with the line's number.
var ErrBroken = errors.New("approval: the journal has been changed or damaged")

// A line is an entry with what links it to the line before.
type line struct {
	// Seq counts from 1.
	Seq int64 `json:"seq"`
	// Prev is the digest of the line before, without its line break; zeros for the first.
	Prev Digest `json:"prev"`
	Entry
}

// A chain is where a journal stands: what its next line is linked to.
type chain struct {
	seq  int64
	head Digest // of the last line
}

// next encodes the next line, with its line break.
func (c chain) next(e Entry) ([]byte, error) {
	text, err := json.Marshal(line{c.seq + 1, c.head, e})
	if err != nil {
		return nil, err
	}
	if len(text) >= maxLine {
		return nil, fmt.Errorf("%w: it has %d bytes; a line may have %d", errRefused, len(text), maxLine)
	}
	return append(text, '\n'), nil
}

// follow moves on to the next line, given with its line break.
func (c *chain) follow(text []byte) {
	c.seq++
	c.head = digestOf(string(text[:len(text)-1]))
}

// read returns the entry of the next line. The line must be exactly what was written.
func (c *chain) read(text []byte) (Entry, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return Entry{}, err
	}
	switch again, err := c.next(l.Entry); {
	case err != nil:
		return Entry{}, err
	case l.Seq != c.seq+1:
		return Entry{}, fmt.Errorf("it has the number %d", l.Seq)
	case l.Prev != c.head:
		return Entry{}, errors.New("it does not follow the line before")
	case !bytes.Equal(again, text):
		return Entry{}, errors.New("it was not written so")
	}
	c.follow(text)
	return l.Entry, nil
}

// A record is what a journal says as a whole.
type record struct {
	chain
	ledger ledger
	size   int64 // of the whole lines
	torn   int64 // what comes after them
}

// readRecord reads a journal up to its end, or to a last line that is not whole.
func readRecord(from io.Reader) (*record, error) {
	r := &record{ledger: ledger{}}
	lines := bufio.NewReader(from)
	var text []byte
	for {
		var err error
		text, err = readLine(lines, text[:0])
		at := r.seq + 1
		switch {
		case errors.Is(err, io.EOF):
			r.torn = int64(len(text))
			return r, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: line %d is too long", ErrBroken, at)
		case err != nil:
			return nil, err
		}
		e, err := r.read(text)
		if err == nil {
			err = r.ledger.check(&e)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrBroken, at, err)
		}
		r.ledger.take(&e)
		r.size += int64(len(text))
	}
}

// readLine appends the next line, with its line break. The error is bufio.ErrBufferFull if
// it is longer than maxLine.
func readLine(lines *bufio.Reader, dst []byte) ([]byte, error) {
	for {
		part, err := lines.ReadSlice('\n')
		dst = append(dst, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(dst) > maxLine {
			return dst, err
		}
	}
}
