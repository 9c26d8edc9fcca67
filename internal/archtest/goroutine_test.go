package archtest

import (
	"go/ast"
	"testing"
)

// Who starts a goroutine waits for it. The list keeps the places few enough to
// be read, and says who waits.
func TestGoroutinesHaveOwners(t *testing.T) {
	enforce(t, startsGoroutine, exceptions{
		"examples/openapi/listen.go":                  "the web servers; the program waits for them",
		"internal/webclient/drain.go":                 "ends a drain that takes too long; stopped when the drain has ended",
		"internal/sse/stream.go":                      "writes what is queued; Close of the stream waits for it",
		"jsonrpc/conn.go":                             "watches Run's context until Run returns",
		"jsonrpc/dispatcher.go":                       "what Dispatcher.Go starts; Close and Run wait for it",
		"jsonrpc/worker.go":                           "runs calls; Run and Close wait for it",
		"jsonrpc/lines.go":                            "writes what is queued; Lines.Close waits for it",
		"transport/pipe.go":                           "the two ends' Run; Close of the connection waits for both",
		"transport/stdio/command.go":                  "reads from the child; Close waits for it",
		"internal/spawn/start.go":                     "waits for a process; whoever started it waits",
		"transport/stdio/serve.go":                    "reads standard input, which nothing can interrupt; it lasts as long as the process",
		"transport/transporttest/run.go":              "closes a connection beside the test, which waits and notices when it hangs",
		"transport/transporttest/server.go":           "unasked notifications of the test server; the transport waits for them",
		"transport/transporttest/messages.go":         "callers that call at the same time; the test waits for them",
		"transport/transporttest/lifetime.go":         "calls that the test cuts off; the test waits for them",
		"transport/sse/dial.go":                       "the client's Run, and what cuts off an opening whose context ended; Close and Dial wait for them",
		"transport/sse/dial_stream.go":                "ends posts that nobody waits for; each is stopped when its post has ended",
		"transport/sse/handler.go":                    "the session's Run; the request that carries its stream waits for it",
		"transport/sse/sessions.go":                   "ends all sessions at once; Close waits for them",
		"transport/ws/dial.go":                        "the client's Run; Close of the connection waits for it",
		"transport/ws/handler.go":                     "ends a session when its endpoint closes; stopped when the session ends",
		"transport/ws/opening.go":                     "cuts off a handshake whose context ended; Dial stops it",
		"transport/ws/socket.go":                      "writes what is queued; Close of the socket waits for it",
		"transport/streamable/dial_call.go":           "tells the server of calls that were given up; Close of the connection waits",
		"transport/streamable/dial_conn.go":           "ends a connection whose session is gone; Close waits",
		"transport/streamable/dial_older.go":          "watches the HTTP+SSE connection that stands in; Close waits",
		"transport/streamable/dial_stream.go":         "reads the session's own stream and drains answered ones; Close waits",
		"transport/streamable/storetest/isolation.go": "users of a store at the same time; the test waits for them",
		"server/lifecycle.go":                         "starts what the server depends on; Start and Shutdown wait for it",
		"server/mount.go":                             "the Run of a mounted provider; Shutdown waits for it",
		"server/resources/watch.go":                   "looks at modification times until its context ends; Watch waits for it",
		"server/memory/memorytest/concurrency.go":     "users of a store at the same time; the test waits for them",
		"internal/conformance/server.go":              "reads what the server under test says; stop waits for it",
		"transport/streamable/handler.go":             "what the server starts for no session; Close waits for it",
		"transport/streamable/pulse.go":               "beats of a silent stream, one at a time; stop waits for one under way",
		"transport/streamable/serve.go":               "the web server; Serve waits for it",
		"transport/streamable/sessions.go":            "ends sessions that are idle, and all of them at the end; Close waits for both",
		"internal/era/legacy_server.go":               "tells a session of changes, the transport that made the link waits for it; ends its watches when the link does, which only takes a lock",
		"internal/era/modern_client.go":               "answers the questions of one round together; the round waits for all answers",
		"internal/era/progress.go":                    "the request of a call that hands progress to its caller; the call waits for it",
		"internal/era/eratest/host.go":                "serves connections; they end when their clients close them",
		"internal/era/eratest/peer.go":                "serves and reads a connection; the cleanup of the test waits for the reader",
		"internal/era/forward/notifications.go":       "sends a caller what the server told before the result; the run of the call waits for it",
		"internal/era/forward/inflight.go":            "a forwarded call that may outlast a run of its caller's call; Session.Close waits for it",
		"internal/era/forward/suspended.go":           "ends a call that waited too long for its caller; stopped when the call is resumed or ends",
		"examples/inspect/lines.go":                   "reads standard input, which nothing can interrupt; it lasts as long as the process",
		"examples/bridge/main.go":                     "follows the configuration; run waits for it",
		"internal/conformance/proxied/main.go":        "the web server; serve waits for it",
		"bridge/bridge.go":                            "the Run of each server, and of a bridge without a face; Run and stop wait for them",
		"bridge/proxy.go":                             "keeps the pool of sessions; Run waits for it",
		"bridge/follow.go":                            "keeps an offer what the server lists; the session's slot waits for it",
		"bridge/slot.go":                              "what lasts as long as a session; the slot waits for it",
		"internal/isolation/bury.go":                  "callers at a server that is killed; the kill waits for them",
		"internal/isolation/disturb.go":               "calls that run when a server is killed, and those at the others; each round waits for them",
		"internal/isolation/process.go":               "reads what the bridge says; ends with the process",
		"approval/quorum.go":                          "asks several approvers at once; Approve waits for them",
		"approval/terminal.go":                        "reads the terminal, which nothing can interrupt; it lasts as long as the process",
		"approval/channel/channel.go":                 "writes to one approver; the connection's handler waits for it",
		"approval/channel/client.go":                  "the client's Run; Close waits for it",
		"approval/channel/session.go":                 "sends pings and runs handlers; run waits for them",
		"bridge/relay.go":                             "ends a link's connections with the link; the transport and Close wait for it",
		"bridge/relay_link.go":                        "the life of one connection; the link's end waits for it",
		"bridge/relay_call.go":                        "ends a subscription when the client's input does; stopped when the call ends",
		"bridge/relay_outbox.go":                      "passes notifications on; the call or the link's end waits for it",
		"bridge/pool.go":                              "keeps the session of each user; run waits for it",
		"bridge/pin/provider.go":                      "judges what is offered and saves the lock; Run waits for it",
		"client/answerer.go":                          "hands changes and log messages to the program in order; Session.Close waits for it",
		"client/session.go":                           "replaces a link that ended; Session.Close waits for it",
		"client/subscribe.go":                         "listens for one subscription; Subscription.Close waits for it",
		"bridge/toolserver/launcher.go":               "keeps each launched server; Server.Close waits for it",
		"internal/deadline/deadline.go":               "ends a context; stopped by its cancel",
		"transport/oauth/flight.go":                   "work that several wait for; the last who waits waits for it",
		"transport/oauth/loopback_receiver.go":        "waits for the browser; Close waits for it",
		"transport/oauth/opener.go":                   "waits for the opener, which may become the browser and outlive the login",
		"internal/authserver/server.go":               "the web server; Close waits for it",
		"bridge/update.go":                            "waits for servers together, and stops them; the callers wait for that",
		"server/process/guard_linux.go":               "takes note of the dead; it lasts as long as the guard, which is a process",
		"server/process/jobs.go":                      "follows each job; Jobs.Close waits for it",
		"server/process/port.go":                      "looks for the port while the program runs; AwaitPort waits for it",
		"internal/pagehost/main.go":                   "the web server; run waits for it",
		"internal/pagehost/host.go":                   "requests that wait for their answers; obey waits for them",
		"examples/oauth/serve.go":                     "the web server; its stop waits for it",
		"examples/gateway/main.go":                    "the web server; run waits for it",
		"examples/sandbox/port.go":                    "the proxies of registered ports; close waits for them",
	})
}

func TestGoroutineRule(t *testing.T) {
	planted(t, "goroutine.go", "server/planted.go", startsGoroutine)
	planted(t, "clean.go", "server/planted.go", startsGoroutine)
}

// startsGoroutine finds go statements, methods named Go (of sync.WaitGroup,
// errgroup.Group, transport.Link), and the AfterFuncs of context and time, which
// run their function on a goroutine as well.
func startsGoroutine(file *source) []finding {
	if file.isTest() {
		return nil
	}
	var found []finding
	ast.Inspect(file.syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			found = append(found, file.at(node.Pos(), "a go statement"))
		case *ast.CallExpr:
			called, ok := node.Fun.(*ast.SelectorExpr)
			if ok && (called.Sel.Name == "Go" || called.Sel.Name == "AfterFunc") {
				found = append(found, file.at(node.Pos(), "%s starts a goroutine", called.Sel.Name))
			}
		}
		return true
	})
	return found
}
