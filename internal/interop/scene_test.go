package interop

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// patience bounds what one check may take.
const patience = 20 * time.Second

// pause is how long a guest that is sent away shall stay away.
const pause = 100 * time.Millisecond

// A pair is a guest and a host, and how they talk.
type pair struct {
	guest, host string
	// transport is streamable, sse, or fallback: then the guest believes in the
	// first, and the host has only the second.
	transport string
	version   string
}

func (p pair) String() string {
	return fmt.Sprintf("%s at %s/%s/%s", p.guest, p.host, p.transport, p.version)
}

var guests = map[string]func(context.Context, *testing.T, *stay) (guest, error){
	"dovetail": visitDovetail, "go-sdk": visitGoSDK, "mcp-go": visitMCPGo,
}

var hosts = map[string]func(*testing.T, *stay) *host{
	"dovetail": openDovetail,
	"go-sdk":   openGoSDK, "go-sdk json": openGoSDKWithoutStreams, "go-sdk stateless": openGoSDKWithoutSessions,
	"mcp-go": openMCPGo, "mcp-go of old": openMCPGoOfOld,
}

// A scene is a guest that has arrived at a host.
type scene struct {
	pair
	stay    *stay
	guest   guest
	host    *host
	journal *journal
	door    *door
	heard   int // how many changes the test knows that the guest has been told of
}

// open brings a pair together. What is particular about the stay, prepare sets.
func open(ctx context.Context, t *testing.T, p pair, prepare func(*stay)) *scene {
	t.Helper()
	s := &stay{transport: p.transport, version: p.version, journal: newJournal()}
	s.person = func(string) (string, map[string]any) { return "decline", nil }
	if prepare != nil {
		prepare(s)
	}
	h := hosts[p.host](t, s)
	sc := &scene{pair: p, stay: s, host: h, journal: s.journal, door: newDoor(h.handler)}
	web := httptest.NewServer(sc.door)
	// mcp-go gives up the request that carries its answer to a question when the call that
	// asked is over, and net/http may then close a connection that another request has got.
	carrier := &http.Transport{DisableKeepAlives: p.guest == "mcp-go"}
	s.url, s.http = web.URL, &http.Client{Transport: carrier}
	t.Cleanup(func() {
		sc.host.leave()
		web.Close()
		carrier.CloseIdleConnections()
	})
	g, err := guests[p.guest](ctx, t, s)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		if err := g.close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	sc.guest = g
	return sc
}

// restart lets the guest find another host of the same kind where its own was.
func (s *scene) restart(t *testing.T) {
	t.Helper()
	old := s.host
	s.host = hosts[s.pair.host](t, s.stay)
	s.door.lead(s.host.handler)
	old.leave()
}

// said calls a tool that gives one text.
func (s *scene) said(ctx context.Context, t *testing.T, tool string, arguments map[string]any) string {
	t.Helper()
	answer, err := s.guest.call(ctx, tool, arguments)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if len(answer.content) != 1 {
		t.Fatalf("%s: content %q, want one text", tool, answer.content)
	}
	return answer.content[0]
}
