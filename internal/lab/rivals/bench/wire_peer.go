package main

import (
	"context"
	"fmt"
	"net/http"
)

// wire is no library: bare transports carry the bytes that dovetail would, and nothing
// looks at them but to compare them with what is expected. It is the limit.
type wire struct{}

func (wire) Name() string { return "wire" }

func (wire) Open(ctx context.Context, w Work) (Rig, error) {
	switch {
	case w.Way != Direct, w.Transport == SSE && w.Era == Modern,
		w.Transport == Bytes && w.Kind != Call, w.Transport != Streamable && w.Kind == Session:
		return nil, errAbsent
	}
	s, err := newScript(ctx, w)
	if err != nil {
		return nil, err
	}
	switch w.Transport {
	case Bytes:
		return wireBytes(s), nil
	case Pipe:
		return wirePipe(s), nil
	case Stdio:
		return wireStdio(ctx, s, w)
	case Streamable:
		return wireStreamable(s, w)
	case SSE:
		return wireSSE(ctx, s)
	case WebSocket:
		return wireWebSocket(ctx, s)
	}
	return nil, fmt.Errorf("transport %q: %w", w.Transport, errAbsent)
}

// Handler is an event stream that is silent. There are no sessions.
func (wire) Handler(w Work) (http.Handler, func() error, error) {
	if w.Transport != Streamable || !w.Streams {
		return nil, nil, errAbsent
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Header.Get("Mcp-Method") != listen {
			return
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		rw.WriteHeader(http.StatusOK)
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	}), func() error { return nil }, nil
}

// wireBytes gives the answer to whoever asks. It is copied, as it would be to a
// connection.
func wireBytes(s *script) Rig {
	buf := make([]byte, 0, len(s.whole))
	return newRig(func(context.Context) error {
		return same(append(buf[:0], s.whole...), s.whole)
	})
}
