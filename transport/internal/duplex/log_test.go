package duplex_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/internal/duplex"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A response without a pending call is logged with the reason, and does not use up the samples of
// malformed messages.
func TestLogMalformed(t *testing.T) {
	var log strings.Builder
	report := duplex.LogMalformed(slog.New(slog.NewTextHandler(&log, nil)))
	for _, err := range []error{
		&jsonrpc.UnexpectedResponseError{ID: jsonrpc.IntID(7), Late: true},
		&jsonrpc.UnexpectedResponseError{ID: jsonrpc.IntID(8)},
		&jsonrpc.UnexpectedResponseError{Err: &jsonrpc.Error{Code: jsonrpc.ParseError, Message: "no JSON"}},
		errors.New("no message"),
	} {
		report(err)
	}
	lines := strings.Split(log.String(), "\n")
	for i, want := range []string{
		`level=INFO msg="unexpected response" error="jsonrpc: a response without a pending call, with the id 7: the call has been answered, cancelled or has timed out"`,
		`level=INFO msg="unexpected response" error="jsonrpc: a response without a pending call, with the id 8: no call had this id"`,
		`level=INFO msg="unexpected response" error="jsonrpc: a response without a pending call, with the id null: the peer could not read a message; jsonrpc: -32700 \"no JSON\""`,
		`level=WARN msg="malformed message" error="no message"`,
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %s\nwant %s", i, lines[i], want)
		}
	}
}
