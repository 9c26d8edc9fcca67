package console

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/bridge/internal/transcript"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/quota"
)

const (
	// maxHandshakes bounds the handshakes that are kept, in bytes. The oldest are dropped first.
	maxHandshakes = 4 << 20
	// maxHandshake is how many messages of a handshake are kept.
	maxHandshake = 8
	// handshakeSize is what a connection without a handshake counts, in bytes.
	handshakeSize = 512
)

// A handshake has the messages with which a connection to a server began, and the answers.
type handshake struct {
	conn     string
	messages []*message
	shelved  *shelved
}

// isOpen reports whether the handshake of a connection is over.
func (r *Recorder) isOpen(conn string) bool {
	_, open := r.opened.Load(conn)
	return open
}

// traceHandshake keeps a message of a connection to a server that begins. The first other message of this program ends the
// handshake. The mutex is held.
func (r *Recorder) traceHandshake(m *message, sent bool) {
	h := r.handshakes[m.conn]
	if h == nil {
		h = &handshake{conn: m.conn}
		r.handshakes[m.conn] = h
		h.shelved = r.connections.add(quota.Holder{}, h, handshakeSize)
	}
	if m.what != "" && !era.IsHandshake(m.what) {
		if sent {
			r.opened.Store(m.conn, nil)
		}
		return
	}
	h.messages = append(h.messages, m)
	if len(h.messages) == maxHandshake {
		r.opened.Store(m.conn, nil)
	}
	r.connections.grow(h.shelved, m.body.kept())
}

// forgetHandshake drops a handshake. The mutex is held.
func (r *Recorder) forgetHandshake(h *handshake) {
	delete(r.handshakes, h.conn)
	r.opened.Delete(h.conn)
}

var (
	errGoesOn      = errors.New("the call has not ended")
	errNoMessages  = errors.New("the messages between this program and a server are not kept: record messages, and call again")
	errNoHandshake = errors.New("how the connection to the server began is not kept: restart the server, and call again")
	errCut         = errors.New("a message is longer than 64 KiB, and not kept as a whole")
)

// A savedCall is a file for dovetail replay.
type savedCall struct {
	File string `json:"file"` // its name
	Text string `json:"text"`
}

// save returns a transcript of a call: the handshake of the connection to its server, and the messages of the call. They are as
// the page shows them.
func (r *Recorder) save(id uint64, reveal bool) (*savedCall, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.byID[id]
	switch {
	case w == nil:
		return nil, errNotKept
	case w.ended.IsZero():
		return nil, errGoesOn
	case w.contents[messages] == nil:
		return nil, errNoMessages
	}
	conn := ""
	for _, m := range w.contents[messages].messages {
		if m.from == toServer {
			conn = m.conn // a call that is sent again has two, with the same ids
		}
	}
	if conn == "" {
		return nil, errNoMessages
	}
	h := r.handshakes[conn]
	if h == nil || len(h.messages) == 0 {
		return nil, errNoHandshake
	}
	var saved []transcript.Message
	for _, list := range [][]*message{h.messages, w.contents[messages].messages} {
		for _, m := range list {
			switch {
			case m.conn != conn:
				continue
			case m.body.end != "":
				return nil, errCut
			}
			saved = append(saved, transcript.Message{At: m.at, FromClient: m.from == toServer, Text: json.RawMessage(m.body.shown(reveal).Text)})
		}
	}
	text, err := transcript.Encode(saved)
	return &savedCall{fmt.Sprintf("call-%d.jsonl", id), string(text)}, err
}
