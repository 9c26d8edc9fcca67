package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type sure struct {
	Sure bool `json:"sure"`
}

// virtualEras is eachEra with virtual time.
func virtualEras(t *testing.T, test func(t *testing.T, era client.Era)) {
	t.Helper()
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) { test(t, era) })
	})
}

// TestTimeout: the function's context ends, and it answers when it returns.
func TestTimeout(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "obedient", Timeout: time.Second}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		server.AddTool(s, server.Tool{Name: "stubborn", Timeout: time.Second}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-time.After(3 * time.Second)
			return "done all the same", nil
		})
		server.AddTool(s, server.Tool{Name: "quick", Timeout: time.Second}, func(context.Context, *server.Request, struct{}) (string, error) {
			return "", errors.New("broken")
		})
		session := connectInMemory(t, s, &client.Options{Era: era})
		for _, test := range []struct {
			tool, says string
			isError    bool
			takes      time.Duration
		}{
			{"obedient", `tool "obedient" took longer than 1s`, true, time.Second},
			{"stubborn", "done all the same", false, 3 * time.Second},
			{"quick", "broken", true, 0},
		} {
			start := time.Now()
			result := call(t, session, test.tool, `{}`)
			if texts(result) != test.says || result.IsError != test.isError || time.Since(start) != test.takes {
				t.Errorf("%s says %q, error %t, after %v", test.tool, texts(result), result.IsError, time.Since(start))
			}
		}
	})
}

// TestTimeoutWithoutPerson: a person may take longer than the function.
func TestTimeoutWithoutPerson(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "ask", Timeout: time.Second}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			<-time.After(600 * time.Millisecond) // of each run
			in, err := server.Elicit[sure](r, "sure", "Sure?")
			if err != nil {
				return "", err
			}
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return map[bool]string{true: "sure"}[in.Sure], nil
		})
		session := connectInMemory(t, s, &client.Options{Era: era, Elicit: func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			<-time.After(9 * time.Minute)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"sure":true}`)}, nil
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		result, err := session.CallTool(ctx, "ask", nil, nil)
		if err != nil || texts(result) != "sure" {
			t.Errorf("the tool gives %+v, %v", result, err)
		}
	})
}

// TestTimeoutIsTold even when the error says something else of it.
func TestTimeoutIsTold(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "slow", Timeout: 30 * time.Second}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", errors.New("reading: i/o timeout")
		})
		if got := texts(call(t, connectInMemory(t, s, &client.Options{Era: era}), "slow", `{}`)); !strings.Contains(got, "took longer than 30s") {
			t.Errorf("the caller is told %q", got)
		}
	})
}
