package schema

import (
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A trail leads to the value that is being walked. It is kept in numbers, and
// becomes text only when something is wrong there.
type trail struct {
	instance []byte
	n        int
	few      [16]step // the first, so that most instances need no memory
	more     []step
}

// A step is a member or an item.
type step struct {
	key   int // where the key begins in the instance, or notKey
	index int // of the item
}

const notKey = -1

func (t *trail) push(s step) {
	if t.n < len(t.few) {
		t.few[t.n] = s
	} else {
		t.more = append(t.more, s)
	}
	t.n++
}

func (t *trail) pop() {
	t.n--
	if t.n >= len(t.few) {
		t.more = t.more[:t.n-len(t.few)]
	}
}

// pointer writes the trail as a JSON Pointer (RFC 6901).
func (t *trail) pointer() string {
	var text strings.Builder
	for _, s := range t.few[:min(t.n, len(t.few))] {
		t.write(&text, s)
	}
	for _, s := range t.more {
		t.write(&text, s)
	}
	return text.String()
}

func (t *trail) write(text *strings.Builder, s step) {
	text.WriteByte('/')
	if s.key == notKey {
		text.WriteString(strconv.Itoa(s.index))
		return
	}
	key := jsonscan.New(t.instance[s.key:])
	raw, _ := key.String() // scanned before
	text.WriteString(escapeStep(jsonscan.Unquote(raw)))
}

// escapeStep writes a name as a step of a JSON Pointer.
func escapeStep(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
