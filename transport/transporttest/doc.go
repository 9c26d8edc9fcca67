// Package transporttest is a test kit for duplex transports: what [Run] asks of
// one, the layers above take for granted.
//
// A transport that connects within a process binds the server that it is handed:
//
//	func TestTransport(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
//			return mytransport.New(server)
//		})
//	}
//
// One whose server is another process runs [Server] there, for example in its own
// test binary, started again, and returns a dialer that starts it.
//
// The kit speaks plain JSON-RPC and nothing of MCP.
package transporttest
