// Package transporttests runs the tests of a package over every transport:
//
//	func TestMain(m *testing.M) { transporttests.Main(m) }
//
// A test calls [Dialer] to connect and gets the transport of the current run. Tests in
// virtual time cannot wait for sockets and use transport.Pipe.
//
// The variable DOVETAIL_TEST_TRANSPORT selects transports, and also those over TLS:
//
//	DOVETAIL_TEST_TRANSPORT=streamable-h2,ws-tls go test ./server ./client
package transporttests
