package mcp

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

const (
	// sharedBlock is how many bytes of memory the small values of a list share.
	sharedBlock = 8 << 10
	// maxShared is the longest value that is small.
	maxShared = sharedBlock / 4
)

// copies are what the entries of a list keep of its text. There are thousands, and most
// are small: these stand in blocks, and who keeps one of them keeps its block, but not
// the whole text.
type copies struct {
	text strings.Builder // the block of strings
	raw  []byte          // the block of JSON
	left int             // how much of the list is still to come, in bytes
}

// unquote returns the string that a raw string stands for.
func (c *copies) unquote(raw []byte) string {
	text := raw[1 : len(raw)-1]
	if len(text) > maxShared || bytes.IndexByte(text, '\\') >= 0 {
		return jsonscan.Unquote(raw)
	}
	if c.text.Cap()-c.text.Len() < len(text) {
		c.text.Reset()
		c.text.Grow(c.block(len(text)))
	}
	start := c.text.Len()
	c.text.Write(text)
	return c.text.String()[start:]
}

// clone returns a copy of a JSON text.
func (c *copies) clone(value []byte) json.RawMessage {
	if len(value) > maxShared {
		return bytes.Clone(value)
	}
	if cap(c.raw)-len(c.raw) < len(value) {
		c.raw = make([]byte, 0, c.block(len(value)))
	}
	start := len(c.raw)
	c.raw = append(c.raw, value...)
	return c.raw[start:len(c.raw):len(c.raw)]
}

// block is the size of a block that begins with so many bytes.
func (c *copies) block(size int) int { return size + min(c.left, sharedBlock-size) }
