package streamable

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/seal"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A SessionStore remembers sealed sessions that have been ended, for all processes
// that share it. It must be safe for concurrent use.
type SessionStore interface {
	// End remembers a session until its id expires. The key is short and not
	// secret.
	End(ctx context.Context, key string, until time.Time) error
	// Ended says whether a session has been ended.
	Ended(ctx context.Context, key string) (bool, error)
}

// seals make session ids that tell what the session is.
type seals struct {
	keys   *seal.Ring
	ended  SessionStore
	shared bool // with other processes
}

// sealedSession is what stands in an id: a handshake to make again.
type sealedSession struct {
	Nonce     string               `json:"nonce"`
	Expires   time.Time            `json:"expires"`
	Handshake mcp.InitializeParams `json:"handshake"`
}

func newSeals(opts *Options) (*seals, error) {
	keys, err := seal.NewRing(opts.SessionKeys...)
	if err != nil {
		return nil, fmt.Errorf("SessionKeys: %w", err)
	}
	if opts.SessionStore != nil {
		return &seals{keys: keys, ended: opts.SessionStore, shared: true}, nil
	}
	return &seals{keys: keys, ended: &endedSessions{}}, nil
}

// seal makes the id of a session from its handshake.
func (s *seals) seal(of *session, handshake *jsonrpc.Request) (id string, sealed *sealedSession, err error) {
	var params mcp.InitializeParams
	if err := params.UnmarshalJSON(handshake.Params); err != nil {
		return "", nil, err
	}
	sealed = &sealedSession{
		Nonce: rand.Text(), Expires: time.Now().Add(SealedSessionLifetime),
		Handshake: mcp.InitializeParams{
			ProtocolVersion: of.version, Capabilities: params.Capabilities,
			ClientInfo: mcp.Implementation{Name: params.ClientInfo.Name},
		},
	}
	plain, err := json.Marshal(sealed)
	if err != nil {
		return "", nil, err
	}
	if id, err = s.keys.Seal(plain, seal.Binding("session", of.principal), sealed.Expires); err != nil {
		return "", nil, err
	}
	if len(id) > maxSessionID {
		return "", nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf(
			"the client's name and capabilities are too long for a session id: it would have %d bytes, at most %d are allowed", len(id), maxSessionID)}
	}
	return id, sealed, nil
}

// open reads an id, unless its session is over.
func (s *seals) open(ctx context.Context, id, principal string) (*sealedSession, error) {
	plain, err := s.keys.Open(id, seal.Binding("session", principal), time.Now())
	if err != nil {
		return nil, errNoSession
	}
	var sealed sealedSession
	if err := json.Unmarshal(plain, &sealed); err != nil {
		return nil, err
	}
	return &sealed, s.check(ctx, &sealed)
}

// check says whether a session has been ended.
func (s *seals) check(ctx context.Context, sealed *sealedSession) error {
	ended, err := s.ended.Ended(ctx, sealed.Nonce)
	if err == nil && ended {
		err = errNoSession
	}
	return err
}

func (s *seals) end(ctx context.Context, sealed *sealedSession) error {
	return s.ended.End(ctx, sealed.Nonce, sealed.Expires)
}

// restore opens a session that another process, or this one in former times, has
// shaken hands for, by making the handshake again.
func (e *Endpoint) restore(ctx context.Context, id, principal string) (*session, error) {
	sealed, err := e.sessions.seals.open(ctx, id, principal)
	if err != nil {
		return nil, err
	}
	params, err := sealed.Handshake.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	handshake, err := jsonrpc.NewRequest(jsonrpc.IntID(0), mcp.MethodInitialize, params)
	if err != nil {
		return nil, err
	}
	if err := e.sessions.seats.Take(principal); err != nil {
		return nil, err
	}
	s := newSession(e, principal)
	s.id, s.sealed, s.version = id, sealed, sealed.Handshake.ProtocolVersion
	err = s.handler.Handle(ctx, s.own, handshake, &jsonrpc.Reply{})
	if err != nil || !e.sessions.add(s, e.opts.SessionTTL) {
		e.sessions.seats.Leave(principal)
		s.close()
	}
	if err != nil {
		return nil, err
	}
	if s = e.sessions.find(id, principal); s == nil { // s, or what another request has restored
		return nil, errNoSession
	}
	return s, nil
}

// maxEnded is how many ended sessions one process remembers.
const maxEnded = 10_000

// endedSessions remember the latest that were ended in this process.
type endedSessions struct {
	mu   sync.Mutex
	keys map[string]struct{}
	ring []string // oldest at next, once it is full
	next int
}

func (m *endedSessions) End(_ context.Context, key string, _ time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		m.keys = make(map[string]struct{})
	}
	if _, known := m.keys[key]; known {
		return nil
	}
	m.keys[key] = struct{}{}
	if len(m.ring) < maxEnded {
		m.ring = append(m.ring, key)
		return nil
	}
	delete(m.keys, m.ring[m.next])
	m.ring[m.next] = key
	m.next = (m.next + 1) % maxEnded
	return nil
}

func (m *endedSessions) Ended(_ context.Context, key string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ended := m.keys[key]
	return ended, nil
}
