package streamable_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A keeper is a client's handler that keeps what it is told.
type keeper struct {
	notebook
	mu   sync.Mutex
	kept []*jsonrpc.Request
}

func (k *keeper) Notified(_ jsonrpc.Peer, note *jsonrpc.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, note)
}

// What came in an array with other messages, and was kept, stays as it was, though the
// memory of what comes along with an answer is used again.
func TestDialKeptMessagesStay(t *testing.T) {
	note := func(n int, filler string) string {
		return `{"jsonrpc":"2.0","method":"note","params":{"n":` + strconv.Itoa(n) + `,"filler":"` + filler + `"}}`
	}
	for name, answer := range map[string]func(w http.ResponseWriter, r *asked, n int){
		"in a stream": func(w http.ResponseWriter, r *asked, n int) {
			send := r.stream(w)
			send(data("[%s]", note(n, strings.Repeat("x", 300))))
			send(data("%s", r.response(`{"filler":"`+strings.Repeat("y", 100)+`"}`)))
		},
		"in a large body": func(w http.ResponseWriter, r *asked, n int) {
			body := "[" + note(n, strings.Repeat("x", 20<<10)) + "," + r.response("{}") + "]"
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			r.json(w, http.StatusOK, body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				s := play(t, func(w http.ResponseWriter, r *asked) {
					if !r.opening(w, "1") {
						n++
						answer(w, r, n)
					}
				})
				k := new(keeper)
				conn := s.dial(k, streamable.DialOptions{})
				s.open(conn)
				for range 5 {
					resp, err := conn.Call(context.Background(), "tools/call", jsonrpc.Raw(`{}`))
					if err != nil {
						t.Fatal(err)
					}
					resp.Release()
				}
				for i, note := range k.kept {
					if got := string(note.Member("n")); got != strconv.Itoa(i+1) || note.Method != "note" {
						t.Errorf("message %d is %s by now: %.80s", i+1, got, note.Params)
					}
				}
				if len(k.kept) != 5 {
					t.Errorf("%d messages came", len(k.kept))
				}
			})
		})
	}
}
