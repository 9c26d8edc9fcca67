package main

import (
	"bytes"
	"context"
	"fmt"
	"github.com/dovetail-go/dovetail/server"
)

// A script is one request and what is answered, always.
type script struct {
	request []byte
	answer  [][]byte // notifications and the response
	lines   [][]byte // of answer
	events  [][]byte // of answer
	whole   []byte   // all the lines
}

// newScript has dovetail give the answer once.
func newScript(ctx context.Context, w Work) (*script, error) {
	s := &script{}
	meta := `"_meta":{}`
	if w.Era == Modern {
		meta = modernMeta
	}
	switch w.Kind {
	case Call, Session:
		s.request = newEcho(w).request(w.Era)
	case List:
		s.request = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{%s}}`, meta)
	case Progress:
		s.request = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,%s}}`, countTool, meta)
		for i := range w.Units {
			s.answer = append(s.answer, fmt.Appendf(nil,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":%d,"total":%d}}`, i+1, w.Units))
		}
	default:
		return nil, errAbsent
	}
	host, err := dovetailServer(w, new(server.Options))
	if err != nil {
		return nil, err
	}
	dispatch, err := newDispatcher(ctx, host, w.Era)
	if err != nil {
		return nil, err
	}
	response, err := dispatch(ctx, s.request)
	if err != nil {
		return nil, err
	}
	s.answer = append(s.answer, response)
	for _, message := range s.answer {
		s.lines = append(s.lines, fmt.Appendf(nil, "%s\n", message))
		s.events = append(s.events, fmt.Appendf(nil, "event: message\ndata: %s\n\n", message))
	}
	s.whole = bytes.Join(s.lines, nil)
	return s, nil
}

// same compares bytes with those that are expected.
func same(got, want []byte) error {
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes are %.200q, want %d: %.200q", len(got), got, len(want), want)
	}
	return nil
}
