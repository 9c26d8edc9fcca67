package streamable

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/streamable/internal/wire"
)

// Notifications of several goroutines come whole, in the order of each goroutine, and before the answer.
func TestNotificationsOfCallConcurrently(t *testing.T) {
	const rounds = 200
	w := httptest.NewRecorder()
	x := &callPeer{endpoint: &Endpoint{front: &front{opts: Options{KeepAlive: 1 << 60}}}, w: w, accepts: wire.Accepts{JSON: true, Events: true}}
	notify := func(name string) func(int) {
		return func(round int) {
			if err := x.Notify(t.Context(), "note", jsonrpc.Raw(fmt.Appendf(nil, `{"%s":%d}`, name, round))); err != nil {
				t.Error(err)
			}
		}
	}
	racetest.Together(rounds, notify("a"), notify("b"))
	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	racetest.Together(1, notify("a"), notify("b"), func(int) { x.finish(200, answer) })
	notify("late")(0)
	body := w.Body.Bytes()
	for _, name := range []string{"a", "b"} {
		rest := body
		for round := range rounds {
			_, after, found := bytes.Cut(rest, fmt.Appendf(nil, `"params":{"%s":%d}}`, name, round))
			if !found {
				t.Fatalf("notification %d of %s is missing, or too early", round, name)
			}
			rest = after
		}
	}
	if !bytes.HasSuffix(bytes.TrimSpace(body), answer) {
		t.Error("something follows the answer")
	}
}
