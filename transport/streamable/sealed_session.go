package streamable

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// SessionStore records which sealed sessions have been ended, for all processes that share
// it. It must be safe for concurrent use.
type SessionStore interface {
	// End records that a session has been ended. The record may be deleted after until,
	// when the session's id expires. The key is short and not secret.
	End(ctx context.Context, key string, until time.Time) error
	// Ended reports whether a session has been ended.
	Ended(ctx context.Context, key string) (bool, error)
}

// A sealer makes and opens session ids that contain the session.
type sealer struct {
	keys   *token.Ring
	ended  SessionStore
	shared bool // other processes use ended too
}

// A sealedSession is the content of a session id: a handshake to repeat.
type sealedSession struct {
	Nonce     string               `json:"nonce"`
	Expires   time.Time            `json:"expires"`
	Handshake mcp.InitializeParams `json:"handshake"`
}

func newSealer(opts *Options) (*sealer, error) {
	keys, err := token.NewRing(opts.SessionKeys...)
	if err != nil {
		return nil, fmt.Errorf("SessionKeys: %w", err)
	}
	if opts.SessionStore != nil {
		return &sealer{keys: keys, ended: opts.SessionStore, shared: true}, nil
	}
	return &sealer{keys: keys, ended: endedSessions{newCache[struct{}](maxEnded)}}, nil
}

// seal returns the id of a session with this handshake.
func (s *sealer) seal(of *session, handshake *jsonrpc.Request) (id string, sealed *sealedSession, err error) {
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
	if id, err = s.keys.Seal(plain, token.Binding("session", of.principal), sealed.Expires); err != nil {
		return "", nil, err
	}
	if len(id) > maxSessionID {
		return "", nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf(
			"the client's name and capabilities are too long for a session id: it would have %d bytes, at most %d are allowed", len(id), maxSessionID)}
	}
	return id, sealed, nil
}

// open returns the content of an id, unless its session has been ended.
func (s *sealer) open(ctx context.Context, id, principal string) (*sealedSession, error) {
	plain, err := s.keys.Open(id, token.Binding("session", principal), time.Now())
	if err != nil {
		return nil, errNoSession
	}
	var sealed sealedSession
	if err := json.Unmarshal(plain, &sealed); err != nil {
		return nil, err
	}
	return &sealed, s.check(ctx, &sealed)
}

// check returns [errNoSession] if a session has been ended.
func (s *sealer) check(ctx context.Context, sealed *sealedSession) error {
	ended, err := s.ended.Ended(ctx, sealed.Nonce)
	if err == nil && ended {
		err = errNoSession
	}
	return err
}

func (s *sealer) end(ctx context.Context, sealed *sealedSession) error {
	return s.ended.End(ctx, sealed.Nonce, sealed.Expires)
}

// restore opens a session that another process has opened, or this one before a restart, by
// repeating the handshake.
func (e *Endpoint) restore(ctx context.Context, id, principal string) (*session, error) {
	sealed, err := e.sessions.sealer.open(ctx, id, principal)
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
	if err := e.sessions.quota.Acquire(principal); err != nil {
		return nil, err
	}
	s := newSession(e, principal)
	s.id, s.sealed, s.version = id, sealed, sealed.Handshake.ProtocolVersion
	err = s.handler.Handle(ctx, s.unsolicited, handshake, &jsonrpc.Reply{})
	if err != nil || !e.sessions.add(s, e.opts.Limits.SessionTTL) {
		e.sessions.quota.Release(principal)
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

// maxEnded is how many ended sessions one process records.
const maxEnded = 10_000

// endedSessions records the sessions that were ended last in this process.
type endedSessions struct{ *lru.Cache[string, struct{}] }

func (e endedSessions) End(_ context.Context, key string, _ time.Time) error {
	e.Add(key, struct{}{})
	return nil
}

func (e endedSessions) Ended(_ context.Context, key string) (bool, error) {
	return e.Contains(key), nil
}
