//go:build soak

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// TestMemoryOfManyCallers: a gateway to which 1,000 people have connected, who each made a call and then left their session open, takes
// at most 200 MB. It also prints the median of the time that a call takes longer than without the gateway.
func TestMemoryOfManyCallers(t *testing.T) {
	const people, calls, limit = 1000, 2000, 200_000 // kB
	login := newIssuer(t)
	p, _ := launched(t, "-issuer", login.URL, "-audience", "shop")
	look := json.RawMessage(encoded(t, line{p.path("file"), "x"}))
	call := func(session *client.Session, tool string) time.Duration {
		t.Helper()
		began := time.Now()
		if _, err := session.CallTool(t.Context(), tool, look, nil); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	var last *client.Session
	for i := range people {
		p.token = login.token(t, map[string]any{"sub": fmt.Sprintf("person %d", i)})
		last = p.connect(t, &client.Options{Version: []mcp.Version{mcp.Version20251125, mcp.Version20260728}[i%2]})
		call(last, "shelf__look")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("the status of the process has no VmRSS: %s", status)
	}
	if resident, err := strconv.Atoi(string(found[1])); err != nil || resident > limit {
		t.Errorf("the program takes %d kB, want at most %d: %v", resident, limit, err)
	} else {
		t.Logf("%d people: %d MB", people, resident/1000)
	}

	direct, err := client.Connect(t.Context(), stdio.Command(os.Args[0], nil, &stdio.CommandOptions{Env: []string{asServer + "=" + shelf}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { direct.Close() })
	median := func(session *client.Session, tool string) time.Duration {
		var took []time.Duration
		for range calls {
			took = append(took, call(session, tool))
		}
		slices.Sort(took)
		return took[calls/2]
	}
	alone, through := median(direct, "look"), median(last, "shelf__look")
	t.Logf("a call takes %v, and %v through the gateway", alone, through)
}
