package jsonrpc

import (
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// notes are notifications that have been borrowed and given back. They keep their
// methods: most often the next one has the same.
var notes sync.Pool

// notification is the notification that has been decoded, in memory that may have
// served before.
func (d *decoder) notification() *Request {
	note, ok := notes.Get().(*Request)
	if !ok {
		note = new(Request)
	}
	if !jsonscan.KeyIs(d.method, note.Method) {
		note.Method = jsonscan.Unquote(d.method)
	}
	note.Params, note.members = d.params, d.members
	return note
}

// release puts a notification back that nobody has kept.
func (r *Request) release() {
	if len(r.Method) > maxPooledMethod {
		return
	}
	r.Params, r.members.text, r.members.more = nil, nil, nil
	notes.Put(r)
}
