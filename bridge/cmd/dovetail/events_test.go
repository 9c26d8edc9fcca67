package main

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// events lists the events of a server, and prints those with a name until it is interrupted.
func TestEvents(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1"}, nil)
	baked := server.AddEvent(s, server.Event{Name: "baked"}, func(_ *mcp.Caller, in greeting, out greeting) (greeting, bool) {
		return out, out.Name == in.Name
	})
	endpoint := streamable.Handler(s, nil)
	web := httptest.NewServer(endpoint)
	defer web.Close()
	defer endpoint.Close()
	if out, err := inspectAt(t, "events", web.URL); err != nil || !strings.Contains(out, `"name": "baked"`) {
		t.Errorf("error %v:\n%s", err, out)
	}

	ctx, cancel := context.WithCancel(t.Context())
	out, ended := &output{}, make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"events", web.URL, "baked", `{"name":"rye"}`}, strings.NewReader(""), out, io.Discard)
	}()
	published := make(chan struct{})
	go func() { // until it is seen, because the subscription begins at an unknown time
		defer close(published)
		for ctx.Err() == nil {
			for _, name := range []string{"spelt", "rye"} {
				if err := baked.Publish(ctx, greeting{name}, nil); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	out.await(t, `"data":\{"name":"rye"\}`)
	cancel()
	<-published
	if err := <-ended; err != nil || strings.Contains(out.String(), "spelt") {
		t.Errorf("error %v:\n%s", err, out)
	}
}
