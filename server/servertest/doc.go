// Package servertest tests servers: it connects a client to a server in this process, over any
// transport and in any protocol version.
//
//	func TestAdd(t *testing.T) {
//		servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
//			session := servertest.Connect(t, newServer(), &servertest.Options{Mode: mode})
//			sum, err := client.CallAs[int](t.Context(), session, "add", map[string]int{"a": 1, "b": 2}, nil)
//			if err != nil || sum != 3 {
//				t.Errorf("got %d, %v", sum, err)
//			}
//		})
//	}
//
// # Concepts
//
// [Connect] opens a session and closes it with the test. [Options] scripts the client: its
// answers to questions, its principal and scopes, and faults of its connection. [Golden]
// compares what a server offers with a file. A transcript is a file with the messages of one
// session: Connect and, for other servers, [Record] write and compare it, [ReplayServer] answers a
// client from it, and [CheckTranscript] sends it to a server. [Main] reports goroutines that outlive
// the tests, and [Logger] fails a test when the server logs a warning or an error.
//
// # Files
//
// Golden files and transcripts are written instead of compared if the environment variable
// SERVERTEST_UPDATE is 1, or if the test binary has a flag -update that is true. A test that
// has failed writes nothing.
//
// # Guarantees
//
//  1. No mode uses a socket, a process or a file. All of them work in a bubble of package
//     testing/synctest, where timeouts pass without waiting.
//  2. When the test has ended, the sessions are closed, the servers are shut down, and nothing of
//     them runs.
//  3. A function of the server that opens a question and does not return its error fails the test.
//  4. Functions may be called concurrently. Connect, Golden, ReplayServer and CheckTranscript stop a
//     test with FailNow, so they must be called on its goroutine.
//
// # Related packages
//
// Package client makes the calls. Package oauthtest, below transport/oauth, is an authorization
// server for tests. Package transporttest, below transport, tests a transport.
package servertest
