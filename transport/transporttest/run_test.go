package transporttest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

func TestRunPasses(t *testing.T) {
	transporttest.Run(t, func(_ *testing.T, server transport.Binder) transport.Dialer { return transport.Pipe(server) })
}

// faults lists defects and the property that detects each.
var faults = map[string]struct {
	breaks   func(c transport.Conn) transport.Conn
	property string
}{
	"loses every 100th notification": {func(c transport.Conn) transport.Conn { return &forgetful{Conn: c} }, "NotificationsToServer"},
	"rewrites numbers":               {func(c transport.Conn) transport.Conn { return rewriting{c} }, "Calls"},
	"cuts big messages":              {func(c transport.Conn) transport.Conn { return cutting{c} }, "BigMessages"},
	"ignores a context that ended":   {func(c transport.Conn) transport.Conn { return eager{c} }, "ContextEndedBefore"},
	"masks why a call failed":        {func(c transport.Conn) transport.Conn { return masking{c} }, "Cancellation"},
	"stays open after Close":         {func(c transport.Conn) transport.Conn { return &lingering{Conn: c} }, "DialAgain"},
}

const faultVariable = "TRANSPORTTEST_FAULT"

// Run detects each defect. Each runs in a process of its own, since a failed subtest fails
// its parents.
func TestRunFindsFaults(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaulty$/^"+fault.property+"$")
			cmd.Env = append(os.Environ(), faultVariable+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestFaulty/"+fault.property) {
				t.Errorf("the kit has not noticed (%v):\n%s", err, out)
			}
		})
	}
}

func TestFaulty(t *testing.T) {
	fault, ok := faults[os.Getenv(faultVariable)]
	if !ok {
		t.Skip("runs in a process that TestRunFindsFaults starts")
	}
	transporttest.Run(t, func(_ *testing.T, server transport.Binder) transport.Dialer {
		return faulty{transport.Pipe(server), fault.breaks}
	})
}

type faulty struct {
	transport.Dialer
	breaks func(transport.Conn) transport.Conn
}

func (d faulty) Dial(ctx context.Context, h jsonrpc.Handler) (transport.Conn, error) {
	conn, err := d.Dialer.Dial(ctx, h)
	if err != nil {
		return nil, err
	}
	return d.breaks(conn), nil
}

type forgetful struct {
	transport.Conn
	count atomic.Int64
}

func (c *forgetful) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if c.count.Add(1)%100 == 0 {
		return nil
	}
	return c.Conn.Notify(ctx, method, params)
}

type rewriting struct{ transport.Conn }

func (c rewriting) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	resp, err := c.Conn.Call(ctx, method, params)
	if err == nil {
		resp.Result = []byte(strings.Replace(string(resp.Result), "9007199254740993", "9007199254740992", 1))
	}
	return resp, err
}

type cutting struct{ transport.Conn }

func (c cutting) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	if raw, ok := params.(jsonrpc.Raw); ok && len(raw) > 1<<16 {
		params = raw[:1<<16]
	}
	ctx, cancel := context.WithCancel(ctx) // calls that it cut have no answer
	defer cancel()
	if raw, ok := params.(jsonrpc.Raw); ok && len(raw) == 1<<16 {
		cancel()
	}
	return c.Conn.Call(ctx, method, params)
}

type eager struct{ transport.Conn }

func (c eager) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	return c.Conn.Call(context.WithoutCancel(ctx), method, params)
}

type masking struct{ transport.Conn }

func (c masking) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	resp, err := c.Conn.Call(ctx, method, params)
	if err != nil {
		err = fmt.Errorf("call failed")
	}
	return resp, err
}

type lingering struct{ transport.Conn }

func (c *lingering) Close() error {
	go c.Conn.Close()
	return errors.New("not now")
}

func TestMain(m *testing.M) { leaktest.Main(m) }
