package era

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A passage is a call that is being forwarded: what the server tells meanwhile
// belongs to it.
type passage struct {
	deadline.Activity                 // the call's timeout counts from the last progress
	token             json.RawMessage // that the server reports progress by
	principal         string
	asker             string

	mu      sync.Mutex
	ctx     context.Context // of the run of the call that waits here
	call    *mcp.Call       // nil between two runs
	notes   []*jsonrpc.Request
	size    int           // bytes of the notes
	telling chan struct{} // closed when who tells the notes has ended; nil when nobody does

	asked chan *question // where the server asks by requests, nil elsewhere
	ended chan struct{}  // closed when nobody listens there any more
}

// A note that tells of progress or is a log line is kept while the caller is slow, up to
// these bounds; then the oldest goes, since the newest says more.
const (
	maxNotes     = 1024
	maxNotesSize = 1 << 20
)

// attach begins a run of the call: what is told goes there.
func (p *passage) attach(ctx context.Context, call *mcp.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.call = ctx, call
	p.tell()
}

// detach ends a run, when all that came before has been told. What comes later is left
// for the next run.
func (p *passage) detach() {
	p.mu.Lock()
	ctx, call, telling, notes := p.ctx, p.call, p.telling, p.notes
	p.ctx, p.call, p.notes, p.size = nil, nil, nil, 0
	p.mu.Unlock()
	if telling != nil {
		<-telling
	}
	tellAll(ctx, call, notes)
}

// add takes a note. It does not block.
func (p *passage) add(note *jsonrpc.Request) {
	if note.Method == mcp.NotificationProgress {
		p.Renew()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, note)
	p.size += len(note.Params)
	for len(p.notes) > 1 && (len(p.notes) > maxNotes || p.size > maxNotesSize) {
		p.size -= len(p.notes[0].Params)
		p.notes = p.notes[1:]
	}
	p.tell()
}

// tell has somebody tell the notes, if there are any and a run to tell them to. It is
// called with the lock held; detach waits for who tells.
func (p *passage) tell() {
	if p.call == nil || p.telling != nil || len(p.notes) == 0 {
		return
	}
	telling := make(chan struct{})
	p.telling = telling
	go func() {
		defer close(telling)
		for {
			ctx, call, notes := p.take()
			if len(notes) == 0 {
				return
			}
			tellAll(ctx, call, notes)
		}
	}()
}

// take returns what is to be told now. When there is nothing, who tells ends.
func (p *passage) take() (context.Context, *mcp.Call, []*jsonrpc.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.call == nil || len(p.notes) == 0 {
		p.telling = nil
		return nil, nil, nil
	}
	notes := p.notes
	p.notes, p.size = nil, 0
	return p.ctx, p.call, notes
}

func tellAll(ctx context.Context, call *mcp.Call, notes []*jsonrpc.Request) {
	for _, note := range notes {
		// A caller that cannot be told will not get the result either.
		_ = relay(ctx, call, note)
	}
}

// relay tells a caller what the server told, in its own terms.
func relay(ctx context.Context, call *mcp.Call, note *jsonrpc.Request) error {
	if note.Method == mcp.NotificationProgress {
		token := call.Member(memberMeta, mcp.MetaProgressToken)
		progress, err := strconv.ParseFloat(string(note.Member("progress")), 64)
		if token == nil || err != nil {
			return nil
		}
		edits := []jsonscan.Edit{{Name: mcp.MetaProgressToken, Value: token}}
		if call.Caller.Version < mcp.Version20250326 {
			edits = append(edits, jsonscan.Edit{Name: "message"})
		}
		params, err := jsonscan.Splice(nil, note.Params, edits...)
		if err != nil {
			return err
		}
		return call.Notify(ctx, note.Method, &relayedProgress{params, progress})
	}
	level := note.Member("level")
	if jsonscan.KindOf(level) != jsonscan.String || call.Caller.LogLevel == "" {
		return nil
	}
	if mcp.LoggingLevel(jsonscan.Unquote(level)).Severity() < call.Caller.LogLevel.Severity() {
		return nil
	}
	return call.Notify(ctx, note.Method, relayedLog(note.Params))
}

// relayedProgress is progress of a server further on.
type relayedProgress struct {
	raw      json.RawMessage
	progress float64
}

// AppendJSON appends what the server said.
func (p *relayedProgress) AppendJSON(dst []byte) ([]byte, error) { return append(dst, p.raw...), nil }

// relayedLog is a log line of a server further on.
type relayedLog json.RawMessage

// AppendJSON appends what the server said.
func (l relayedLog) AppendJSON(dst []byte) ([]byte, error) { return append(dst, l...), nil }
