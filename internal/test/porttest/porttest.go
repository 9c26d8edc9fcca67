package porttest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Free returns a port of 127.0.0.1 at which no process listens. The port is below those that the system gives to
// connections and to other servers, which could take it before the caller does.
func Free(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 10_000 + rand.IntN(20_000) //nolint:gosec // it need not be a secret
		if listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatal("no free port was found")
	return 0
}
