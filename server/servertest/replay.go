package servertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// replyTimeout is how long a server may take for a message of a transcript.
const replyTimeout = 10 * time.Second

// CheckTranscript sends the client's messages of a transcript to a server and compares each message
// of the server with the transcript. It fails the test at the first difference. Volatile members
// need not be equal; see [Options].Volatile. Each message may take 10 seconds. opts may be nil; its
// Principal and Scopes apply. The server is shut down when the test ends.
func CheckTranscript(tb testing.TB, server transport.Server, path string, opts *Options) {
	tb.Helper()
	lines := readTranscript(tb, path)
	c := newConnection(tb, server, opts)
	tb.Cleanup(c.close)

	near, far := transport.NewPipe()
	conn := c.bind(far)
	frames := make(chan []byte)
	stopped := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { _ = conn.Run(c.watch(context.Background())) }) // ends when the stream is closed
	running.Go(func() {
		defer close(frames)
		for {
			frame, err := near.Read()
			if err != nil {
				return
			}
			select {
			case frames <- frame:
			case <-stopped:
				return
			}
		}
	})
	defer func() {
		close(stopped)
		_ = errors.Join(near.Close(), conn.Close())
		running.Wait()
	}()

	p := &player{newMasks(volatileOf(lines)), newMasks(volatileOf(lines)), near, frames}
	for i, l := range lines {
		if err := p.play(tb.Context(), l); err != nil {
			tb.Fatalf("servertest: %s: line %d: %v", path, i+1, err)
		}
	}
}

// A player plays a transcript to a server.
type player struct {
	recorded, current *masks // of the transcript and of this session
	stream            jsonrpc.Stream
	frames            <-chan []byte // what the server sends
}

// play sends a message of the client, or compares one of the server.
func (p *player) play(ctx context.Context, l line) error {
	if l.Client != nil {
		message, err := p.current.translate(p.recorded, l.Client)
		if err != nil {
			return err
		}
		return p.stream.Write(ctx, message)
	}
	if l.Server == nil {
		return nil
	}
	var frame []byte
	select {
	case frame = <-p.frames:
	case <-time.After(replyTimeout):
		return fmt.Errorf("the server sent nothing for %v, want\n%s", replyTimeout, l.Server)
	}
	if frame == nil {
		return io.ErrUnexpectedEOF
	}
	got, err := p.current.mask(frame)
	if err != nil {
		return err
	}
	want, err := p.recorded.mask(l.Server)
	if err != nil {
		return err
	}
	if d := diff(indented(want), indented(got)); d != "" {
		return fmt.Errorf("the server sent another message (-file +server)\n%s", d)
	}
	return nil
}

// indented returns a message that is valid JSON with a member on each line.
func indented(message json.RawMessage) string {
	var text bytes.Buffer
	if err := json.Indent(&text, message, "", "  "); err != nil {
		return string(message)
	}
	return text.String()
}

// ReplayServer returns a server that answers as the server of a transcript did. It is for tests of
// clients, which connect with transport.Pipe:
//
//	session, err := client.Connect(ctx, transport.Pipe(servertest.ReplayServer(t, path)), nil)
//
// A call is answered like the first recorded call with the same method and params that has not
// been replayed; if all have been, like the last. The client's name, version and capabilities,
// protocol version and _meta may differ. The notifications and questions that preceded the answer
// are sent before it. A call that was not answered does not return until it is cancelled. Methods
// without a recorded call do not exist. A call with other params than all recorded ones fails the
// test. The protocol version of a transcript decides which clients can be tested.
func ReplayServer(tb testing.TB, path string) transport.Binder {
	tb.Helper()
	r := &replay{TB: tb}
	lines := readTranscript(tb, path)
	if err := r.read(lines); err != nil {
		tb.Fatalf("servertest: %s: %v", path, err)
	}
	return r
}

// A replay is a server that answers from a transcript.
type replay struct {
	testing.TB
	mu    sync.Mutex // for recordedCall.replayed and replayHandler.current
	calls []*recordedCall
}

type recordedCall struct {
	id       jsonrpc.ID
	method   string
	params   string             // normalized
	token    json.RawMessage    // the progress token
	before   []*jsonrpc.Request // notifications and questions before the answer
	answer   *jsonrpc.Response
	replayed bool
}

// read collects the calls of a transcript. A message of the server belongs to the last call that
// has no answer yet.
func (r *replay) read(lines []line) error {
	var open []*recordedCall
	for i, l := range lines {
		raw, sent := l.Client, l.Client != nil
		if !sent {
			raw = l.Server
		}
		if raw == nil {
			continue
		}
		message, err := jsonrpc.Decode(raw)
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
		switch message := message.(type) {
		case *jsonrpc.Request:
			switch {
			case sent && !message.IsNotification():
				call := &recordedCall{id: message.ID, method: message.Method, token: message.Member("_meta", progressToken)}
				if call.params, err = normalized(message.Params); err != nil {
					return fmt.Errorf("line %d: %w", i+1, err)
				}
				r.calls, open = append(r.calls, call), append(open, call)
			case !sent && len(open) > 0:
				last := open[len(open)-1]
				last.before = append(last.before, message)
			}
		case *jsonrpc.Response:
			if at := slices.IndexFunc(open, func(call *recordedCall) bool { return call.id == message.ID }); !sent && at >= 0 {
				open[at].answer = message
				open = slices.Delete(open, at, at+1)
			}
		}
	}
	return nil
}

// ofClient are the members of params that describe a client and may differ.
var ofClient = []string{"_meta", "clientInfo", "capabilities", "protocolVersion"}

// normalized returns params in a form in which equal ones have the same text.
func normalized(params json.RawMessage) (string, error) {
	if params == nil {
		return "{}", nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(params, &members); err != nil {
		return "", err
	}
	for _, name := range ofClient {
		delete(members, name)
	}
	text, err := encode(members)
	if err != nil {
		return "", err
	}
	text, err = rewrite(text, func(string, any) (any, error) { return nil, nil }) // sorts all members
	return string(text), err
}

// Bind returns the handler of a link.
func (r *replay) Bind(transport.Link) jsonrpc.Handler {
	return &replayHandler{replay: r, current: make(map[string]json.RawMessage)}
}

// A replayHandler handles the messages of one link.
type replayHandler struct {
	*replay
	current map[string]json.RawMessage // ids and progress tokens of the client, by member and recorded value
}

// HandleNotification ignores notifications.
func (h *replayHandler) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

// Handle answers a call.
func (h *replayHandler) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	recorded, err := h.find(req)
	if err != nil {
		return err
	}
	for _, message := range recorded.before {
		params, err := h.paramsOf(message)
		if err != nil {
			return err
		}
		if message.IsNotification() {
			err = from.Notify(ctx, message.Method, params)
		} else {
			_, err = from.Call(ctx, message.Method, params)
		}
		if err != nil && ctx.Err() != nil {
			return err // the answer of the client was recorded, whatever it is now
		}
	}
	switch {
	case recorded.answer == nil:
		<-ctx.Done()
		return context.Cause(ctx)
	case recorded.answer.Error != nil:
		return recorded.answer.Error
	}
	return reply.Write(jsonrpc.Raw(recorded.answer.Result))
}

// find returns the recorded call that a call repeats.
func (h *replayHandler) find(req *jsonrpc.Request) (*recordedCall, error) {
	params, err := normalized(req.Params)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: err.Error()}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var found *recordedCall
	known := false
	for _, call := range h.calls {
		known = known || call.method == req.Method
		if call.method != req.Method || call.params != params {
			continue
		}
		found = call
		if !call.replayed {
			break
		}
	}
	if found != nil {
		found.replayed = true
		h.current[mcp.MetaSubscriptionID+" "+found.id.String()] = json.RawMessage(req.ID.String())
		if token := req.Member("_meta", progressToken); token != nil && found.token != nil {
			h.current[progressToken+" "+string(found.token)] = slices.Clone(token)
		}
		return found, nil
	}
	if !known {
		return nil, &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "the transcript has no call of this method"}
	}
	h.Errorf("servertest: the transcript has no call of %s with %s", req.Method, params)
	return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "the transcript has no call with these params"}
}

const progressToken = "progressToken"

// paramsOf returns the params of a recorded message with the ids and tokens of the client.
func (h *replayHandler) paramsOf(message *jsonrpc.Request) (jsonrpc.Raw, error) {
	if message.Params == nil {
		return nil, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	params, err := rewrite(message.Params, func(name string, value any) (any, error) {
		if name != progressToken && name != mcp.MetaSubscriptionID {
			return nil, nil
		}
		recorded, err := encode(value)
		if current, ok := h.current[name+" "+string(recorded)]; ok {
			return current, err
		}
		return nil, err
	})
	return jsonrpc.Raw(params), err
}
