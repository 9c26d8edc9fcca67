package channel

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// Approvers that connect and leave at the same time are counted exactly.
func TestApproversConnectConcurrently(t *testing.T) {
	c, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	version := c.tokenVersion
	var refused [2]string
	visit := func(i int) func(int) {
		return func(int) {
			conn := &connection{notifies: true, ready: make(chan struct{}, 1), stopShowing: func() {}}
			if refusal := c.activate(conn, version); refusal != "" {
				refused[i] = refusal
			}
			c.connectionEnded(conn)
		}
	}
	racetest.Together(100, visit(0), visit(1))
	if len(c.conns) > 0 || refused != [2]string{} {
		t.Errorf("%d approvers are left, and some were refused: %q", len(c.conns), refused)
	}
}
