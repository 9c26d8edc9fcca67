package search

import (
	"bytes"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/server"
)

// An offer is one catalogue of the source, as it is offered.
type offer struct {
	from      *server.Catalogue
	catalogue server.Catalogue
	index     func() *index   // made when it is needed first
	scopes    func() []string // of all its tools, likewise
	listed    atomic.Pointer[listing]
}

func newOffer(from *server.Catalogue, tools []server.Listed) *offer {
	o := &offer{from: from, catalogue: *from}
	o.catalogue.Tools = tools
	o.index = sync.OnceValue(func() *index { return newIndex(from.Tools) })
	return o
}

// A listing is what one answer to tools/list shows of the index: the entries of its
// tools, nil for what the caller may not see.
type listing struct {
	answer  []byte
	entries []json.RawMessage
}

// show reads an answer to tools/list. As long as nothing is hidden, and nothing changes,
// it is always the same.
func (o *offer) show(answer []byte) ([]json.RawMessage, error) {
	if l := o.listed.Load(); l != nil && bytes.Equal(l.answer, answer) {
		return l.entries, nil
	}
	index := o.index()
	entries := make([]json.RawMessage, len(index.names))
	err := readTools(answer, func(name, entry json.RawMessage) {
		if tool, ok := index.find(name); ok {
			entries[tool] = entry
		}
	})
	if err != nil {
		return nil, err
	}
	o.listed.Store(&listing{answer, entries})
	return entries, nil
}

// readTools reads the entries of a list of tools.
func readTools(list []byte, each func(name, entry json.RawMessage)) error {
	members, err := jsonscan.ReadObject(list)
	if err != nil {
		return err
	}
	s := jsonscan.New(members.Get("tools"))
	if err := s.EnterArray(); err != nil {
		return err
	}
	for first := true; ; first = false {
		if more, err := s.Element(first); err != nil || !more {
			return err
		}
		entry, err := s.Value()
		if err != nil {
			return err
		}
		tool, err := jsonscan.ReadObject(entry)
		if err != nil {
			return err
		}
		each(tool.Get("name"), entry)
	}
}
