package sse_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	events "github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/sse"
)

// Messages are events named so or not at all; their data may have lines.
func TestEvents(t *testing.T) {
	s := newScript(t)
	notes := make(noted, 10)
	malformed := make(chan error, 10)
	dial(t, sse.Dial(s.URL, &sse.DialOptions{Conn: jsonrpc.Options{Malformed: func(err error) { malformed <- err }}}), notes)
	for _, text := range []string{
		": comment\n\n",
		"event: ping\ndata: {}\n\n",
		"event: message\ndata:\n\n",
		"id: 1\n\n",
		"retry: 10\n\n",
		"event: Message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"wrong\"}\n\n",
		"data: {\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\n",
		"event: message\r\ndata: {\r\ndata:  \"jsonrpc\":\"2.0\",\r\ndata: \"method\":\"two\"}\r\n\r\n",
		"event:message\rdata:{\"jsonrpc\":\"2.0\",\rdata:\"method\":\"three\"}\r\r",
		"data: this is no message\n\n",
		"id: 9\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"four\"}\n\n",
	} {
		s.say <- text
	}
	for _, want := range []string{"one", "two", "three", "four"} {
		if got := await(t, notes, want); got != want {
			t.Errorf("notified of %q, want %q", got, want)
		}
	}
	if len(malformed) != 1 {
		t.Errorf("%d events were no messages, want one", len(malformed))
	}
}

// A message beyond the limit ends the connection, and calls say why.
func TestMessageTooLong(t *testing.T) {
	s := newScript(t)
	conn := dial(t, sse.Dial(s.URL, &sse.DialOptions{MaxMessage: 1000}), silent{})
	text := strings.Repeat("x", 1000-len(`{"jsonrpc":"2.0","id":1,"result":[""]}`))
	if _, err := conn.Call(t.Context(), "echo", jsonrpc.Raw(`["`+text+`"]`)); err != nil {
		t.Errorf("a message of 1000 bytes: %v", err)
	}
	_, err := conn.Call(t.Context(), "echo", jsonrpc.Raw(`["`+text+`x"]`))
	failed(t, err, maybeExecuted, errClosed)
	if _, ok := errors.AsType[*events.TooLongError](err); !ok {
		t.Errorf("a message too long: %v", err)
	}
	await(t, conn.Done(), "the end of the connection")
	_, err = conn.Call(t.Context(), "echo", raw1)
	failed(t, err, notSent, errClosed)
}

// The end of the stream is the end of the session, and calls say so at once.
func TestStreamEnds(t *testing.T) {
	s := newScript(t)
	s.post = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		close(s.say)
	}
	conn := dial(t, sse.Dial(s.URL, nil), silent{})
	_, err := conn.Call(t.Context(), "any", nil)
	failed(t, err, maybeExecuted, errClosed)
	if !strings.Contains(err.Error(), "the server has ended the stream") {
		t.Errorf("the error is %v", err)
	}
	await(t, conn.Done(), "the end of the connection")
}

// Wherever an exchange is cut, a call has its answer or an error that says that it
// may have been executed, and never a wrong answer.
func TestStreamCutAtEveryByte(t *testing.T) {
	const opening = "event: endpoint\ndata: /messages\n\n"
	exchange := ": hello\n\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":1,\"result\":\"zwölf\"}\r\n\r\n"
	complete := len(exchange) - len("\n") // CR ends the line that ends the event
	for cut := range len(exchange) + 1 {
		posted := make(chan struct{})
		server := roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost {
				close(posted)
				return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody, Request: r}, nil
			}
			return streamOf(r, io.MultiReader(strings.NewReader(opening), waiting(posted), strings.NewReader(exchange[:cut]))), nil
		})
		conn := dial(t, sse.Dial("http://localhost", &sse.DialOptions{HTTPClient: &http.Client{Transport: server}}), silent{})
		resp, err := conn.Call(t.Context(), "any", nil)
		switch {
		case cut >= complete && (err != nil || string(resp.Result) != `"zwölf"`):
			t.Errorf("cut after %d bytes, when it is complete: %v", cut, err)
		case cut < complete:
			failed(t, err, maybeExecuted, errClosed)
		}
		closed(t, conn)
	}
}
