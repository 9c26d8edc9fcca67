package console_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/memnet"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
)

// caller returns a function that makes a call through the bridge.
func (r *rig) caller(t testing.TB) func() {
	t.Helper()
	session := r.connect(t, client.Modern)
	params := json.RawMessage(`{"name":"files__echo","arguments":{"path":"/srv/www/robots.txt","n":9007199254740993}}`)
	return func() {
		if _, err := session.Call(t.Context(), mcp.MethodToolsCall, params, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// read reads frames until the connection ends.
func read(socket *websocket.Conn) (frames int) {
	for {
		_, frame, err := socket.NextReader()
		if err != nil {
			return frames
		}
		_, _ = io.Copy(io.Discard, frame) // NextReader returns the error
		frames++
	}
}

// A recorded call allocates little more than one that is not recorded.
func TestAllocations(t *testing.T) {
	racetest.Skip(t)
	const most = 35
	plain := testing.AllocsPerRun(1000, rigWith(t, rules, client.Modern, nil).caller(t))
	recorded := testing.AllocsPerRun(1000, newRig(t, client.Modern, &console.RecorderOptions{Bodies: true}).caller(t))
	t.Logf("%v allocations, and %v with a recorder", plain, recorded)
	if recorded > plain+most {
		t.Errorf("a recorder adds %v allocations to a call, want at most %d", recorded-plain, most)
	}
}

// BenchmarkCall measures a call of a server of a bridge with a policy: alone, and with a recorder of all contents whose console is
// open in a page. With -cpu 1, the times contain what the console does in the background.
func BenchmarkCall(b *testing.B) {
	b.Run("alone", func(b *testing.B) { measure(b, rigWith(b, rules, client.Modern, nil).caller(b)) })
	b.Run("console", func(b *testing.B) {
		r := rigWith(b, rules, client.Modern, console.NewRecorder(&console.RecorderOptions{Bodies: true}))
		c, url := r.open(b)
		socket := dialPage(b, &websocket.Dialer{}, url, c.Token())
		var reading sync.WaitGroup
		reading.Go(func() { read(socket) })
		measure(b, r.caller(b))
		_ = socket.Close()
		reading.Wait()
	})
}

// measure reports the median of the times of a call, in addition to their mean.
func measure(b *testing.B, call func()) {
	b.ReportAllocs()
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		call()
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "median-ns/op")
}

// A page that reads nothing slows no call, and is disconnected; others get all rows.
func TestStalledPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, client.Modern, &console.RecorderOptions{Bodies: true})
		c := r.console(t)
		network := memnet.New()
		web := &http.Server{Handler: c}
		var serving sync.WaitGroup
		serving.Go(func() { _ = web.Serve(network) })
		dialer := &websocket.Dialer{NetDialContext: network.DialContext}
		const url = "ws://localhost/console/feed"
		stalled := dialPage(t, dialer, url, c.Token()) // without a buffer between them, the first frame blocks the console
		synctest.Wait()

		began := time.Now()
		call := r.caller(t)
		for range 3000 {
			call()
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the calls have waited %v", took)
		}
		reading := &feed{t: t, socket: dialPage(t, dialer, url, c.Token()), calls: make(map[uint64]map[string]any)}
		for len(reading.calls) < 3000 {
			reading.next()
		}
		pass(time.Minute)
		_ = stalled.SetReadDeadline(time.Now().Add(time.Second))
		if _, _, err := stalled.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseAbnormalClosure) {
			t.Errorf("the page that reads nothing is connected: %v", err)
		}
		_ = reading.socket.Close()
		_ = stalled.Close()
		_ = c.Close()
		_ = web.Close()
		serving.Wait()
	})
}

func dialPage(t testing.TB, dialer *websocket.Dialer, url, token string) *websocket.Conn {
	t.Helper()
	dialer.Subprotocols = []string{"dovetail.console.v1", "dovetail.token." + token}
	socket, response, err := dialer.Dial(url, nil)
	if err != nil {
		t.Fatal(err, response)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return socket
}
