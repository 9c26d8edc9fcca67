package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A brokenDialer cannot connect.
type brokenDialer struct{}

func (brokenDialer) Dial(context.Context, jsonrpc.Handler) (transport.Conn, error) {
	return nil, errors.New("no such program")
}

// The log has the start and the end of each server, and the reason of each failure.
func TestServersAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b, err := bridge.New(&bridge.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			bridge.Config{Alias: "shop", Dialer: transport.Pipe(newShop())},
			bridge.Config{Alias: "broken", Dialer: brokenDialer{}},
		)
		if err != nil {
			t.Fatal(err)
		}
		stop, err := b.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stop()
		for _, want := range []string{
			`level=INFO msg="the server is ready" server=shop`,
			`level=WARN msg="the server failed" server=broken error="client: connecting: no such program"`,
			`level=INFO msg="the server was stopped" server=shop`,
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log has no record %s:\n%s", want, log.String())
			}
		}
	})
}

// The log and the state of a server whose process ends say how, with the end of its standard error.
func TestTheEndOfAProcessIsLogged(t *testing.T) {
	log := &recordChannel{wrote: make(chan string, 100)}
	b, err := bridge.New(&bridge.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}, bridge.Config{Alias: "disk", Dialer: child("crash", "")})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := b.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := b.CallTool(t.Context(), "disk__crash", nil); !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("the error of the call is %v", err)
	}
	for record := range log.wrote {
		if !strings.Contains(record, "level=WARN") {
			continue
		}
		for _, want := range []string{`msg="the server failed" server=disk`, "exit status 3", "the disk is full"} {
			if !strings.Contains(record, want) {
				t.Errorf("the record has no %q: %s", want, record)
			}
		}
		break
	}
}

// A recordChannel receives the records of a log.
type recordChannel struct{ wrote chan string }

func (b *recordChannel) Write(p []byte) (int, error) {
	b.wrote <- string(p)
	return len(p), nil
}

// Start of a bridge whose context has ended returns an error.
func TestStartWithEndedContext(t *testing.T) {
	b, err := bridge.New(&bridge.Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if stop, err := b.Start(ctx); stop != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Start returned a stop function: %t, and the error %v", stop != nil, err)
	}
}
