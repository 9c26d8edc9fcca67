package archtest

import (
	"go/ast"
	"slices"
	"testing"
)

// A file may start goroutines only if it is in this list, which says who waits for them.
func TestGoroutinesHaveOwners(t *testing.T) {
	enforce(t, startsGoroutine, exceptions{
		"internal/httpclient/response.go":          "ends a drain that takes too long; stopped when the drain has ended",
		"internal/sse/stream.go":                   "writes what is queued; Close of the stream waits for it",
		"jsonrpc/conn.go":                          "what Conn.Go starts, and the watch of Run's context; Close and Run wait for it",
		"jsonrpc/incoming.go":                      "runs calls; Run and Close wait for it",
		"jsonrpc/lines.go":                         "writes what is queued; Lines.Close waits for it",
		"transport/pipe.go":                        "the two ends' Run; Close of the connection waits for both",
		"transport/stdio/command.go":               "reads from the child; Close waits for it",
		"internal/test/runtests/runner.go":         "lanes of packages, and load for repeated tests; the functions that start them wait for them",
		"internal/test/racetest/together.go":       "the functions of a stress test; Together waits for them",
		"internal/test/faults/injector.go":         "the two directions of a connection; Forward waits for both",
		"internal/test/faults/proxy.go":            "accepts and forwards connections; Close of the proxy waits for them",
		"internal/procgroup/procgroup.go":          "waits for a process; the caller of Launch waits for its end",
		"transport/stdio/serve.go":                 "reads standard input, which nothing can interrupt; it lasts as long as the process",
		"internal/test/approvaltests/answer.go":    "calls that run at the same time; the test waits for them",
		"internal/test/approvaltests/races.go":     "calls that run at the same time; the test waits for them",
		"internal/test/approvaltests/remember.go":  "calls that run at the same time; the test waits for them",
		"internal/test/approvaltests/replicas.go":  "calls that run at the same time; the test waits for them",
		"internal/test/waittest/waittest.go":       "calls a function; the test waits for it with a timeout",
		"transport/transporttest/run.go":           "closes a connection; the test waits for it with a timeout",
		"transport/transporttest/server.go":        "unsolicited notifications of the test server; the transport waits for them",
		"transport/transporttest/semantics.go":     "concurrent callers; the test waits for them",
		"transport/sse/dial.go":                    "interrupts an opening whose context ends; Dial stops it",
		"transport/internal/duplex/conn.go":        "the client's Run; Close of the connection waits for it",
		"transport/sse/dial_stream.go":             "ends posts without a caller; each is stopped when its post has ended",
		"transport/sse/handler.go":                 "the session's Run; the request that carries its stream waits for it",
		"transport/sse/session.go":                 "closes all sessions concurrently; Close waits for them",
		"transport/ws/dial.go":                     "interrupts a handshake when its context ends; Dial stops it",
		"transport/ws/handler.go":                  "ends a session when its endpoint closes; stopped when the session ends",
		"transport/ws/socket.go":                   "writes what is queued; Close of the socket waits for it",
		"transport/streamable/dial.go":             "sends cancellations, and watches an HTTP+SSE connection; Close waits for them",
		"transport/streamable/dial_loss.go":        "finds out whether a session is lost, and ends a connection after that; Close waits for it",
		"transport/streamable/select.go":           "opens and closes servers; Close waits for that, and stops the check for idle ones",
		"internal/test/sessiontest/sessiontest.go": "runs the web server; the end of the test waits for it",
		"transport/streamable/dial_stream.go":      "reads the stream of unsolicited messages, and drains streams; Close waits for it",
		"transport/store/memory_bus.go":            "calls a subscriber; stop and Close wait for it",
		"transport/store/storetest/run.go":         "concurrent users of a store; the test waits for them",
		"bridge/console/actions.go":                "calls that a person makes; Close of the console waits for them",
		"internal/test/consolefixture/main.go":     "serves HTTP; the program waits for it at its end",
		"docs/start/both/main.go":                  "serves HTTP; serveBoth waits for it",
		"bridge/internal/transcript/check.go":      "sends the recorded requests; Check waits for them",
		"bridge/console/page.go":                   "answers the requests of a page; the request that carries the page waits for it",
		"server/shell/sessions.go":                 "stops sessions concurrently; close waits for it",
		"server/webhook/deliverer.go":              "workers, the watch and the sweep, and calls of the store; Run and Wake wait for them",
		"client/events.go":                         "the request of a stream; the sequence waits for it",
		"client/webhook/subscribe.go":              "refreshes a subscription; Close waits for it",
		"internal/era/legacy_client.go":            "unsubscribes; Close of the session waits for it",
		"internal/era/events.go":                   "ends a stream with the client's input; stopped when the call ends",
		"internal/era/forward/forward.go":          "the request of a stream; the call waits for it",
		"server/entry_task.go":                     "asks an entry for the state of a task; the end of the subscription waits for it",
		"server/blocking.go":                       "watches the task of a function; the function waits for it",
		"server/internal/blocking/calls.go":        "runs functions and forgets outcomes; Stop waits for the functions and stops the rest",
		"server/internal/blocking/function.go":     "ends a function that waits too long; stopped when it is continued or ends",
		"server/internal/blocking/replicas.go":     "subscribes to messages of other replicas and answers them; Stop waits for both",
		"server/internal/blocking/remote.go":       "waits for the outcome of a visit, Stop waits for it; ends visits without requests",
		"server/event_log.go":                      "follows the log for a stream; the call waits for it",
		"server/event.go":                          "watches the access of a stream; the call waits for it",
		"server/event_webhook.go":                  "runs the deliverer and notifies it, and waits for both; Shutdown waits for them",
		"server/exchange.go":                       "publishes changes, and subscribes to the changes of other replicas; Shutdown waits for both",
		"server/lifecycle.go":                      "starts what the server depends on; Start and Shutdown wait for it",
		"server/servertest/dial.go":                "the web server, and both ends of a connection; the end of the test and Close wait for them",
		"server/servertest/fault_http.go":          "the second request of a duplicate; the end of the test waits for it",
		"server/servertest/replay.go":              "the server, and the reader of its messages; CheckTranscript waits for both",
		"server/mount.go":                          "the Run of a mounted provider; Shutdown waits for it",
		"server/roots.go":                          "passes changed roots to the providers; RootsChanged waits for them",
		"server/task.go":                           "reads the catalog after a change of the tools, until one has tasks; Shutdown waits for it",
		"server/task_run.go":                       "ends the run of a function whose time is over; stopped when the function has returned",
		"server/timeout.go":                        "runs a function with a timeout, and waits for a late one; the call or Shutdown waits for it",
		"server/resources/watch.go":                "polls modification times until its context ends; Watch waits for it",
		"server/memory/memorytest/records.go":      "concurrent users of a store; the test waits for them",
		"internal/lab/conformance/suite.go":        "reads the output of the tested server; stop waits for it",

		"internal/lab/conformance/features/replicas.go": "the replicas and their balancer; ServeReplicas waits for both",

		"bridge/gateway/pulse.go":                  "keeps a response from being idle; the request stops it",
		"transport/streamable/handler.go":          "goroutines of the server without a session; Close waits for them",
		"transport/streamable/serve.go":            "the web server; Serve waits for it",
		"internal/era/client.go":                   "the two requests that may open a session; Open waits for them",
		"internal/era/legacy_task.go":              "ends a wait for a task when the server shuts down; the wait waits for it",
		"internal/era/legacy_server.go":            "notifies a session of changes, the transport that made the link waits for it; ends its watches with the link, which only takes a lock; withdraws questions, the call that asks waits for it",
		"internal/era/modern_client.go":            "answers the questions of one round together; the round waits for all answers",
		"internal/era/session_record.go":           "repeats subscriptions; Resubscribe waits for all of them",
		"internal/era/wait.go":                     "a subscription to a task; the wait for the task waits for it",
		"client/task.go":                           "ends a wait for a task with its session; stopped when the wait ends",
		"internal/era/progress.go":                 "the request of a call with progress; the call waits for it",
		"internal/era/eratest/eratest.go":          "serves and reads connections; the clients and the cleanup of the test end them",
		"internal/task/engine.go":                  "receives messages and takes jobs, Stop waits for both; the wait itself, which ends with the runs",
		"internal/state/worker.go":                 "does jobs; Work waits for them",
		"internal/task/tasktest/ledger.go":         "runs the failures at the same time; Run waits for them",
		"internal/task/worker.go":                  "runs a task, Engine.Stop waits for it; keeps its lease, the run waits for that",
		"internal/era/forward/inflight.go":         "sends notifications to a caller, the run of the call waits for it; a call that may outlast a run, Session.Close waits for it",
		"internal/era/forward/rounds.go":           "ends a call that waited too long for its caller; stopped when the call is resumed or ends",
		"examples/longjob/main.go":                 "the web server; run waits for it",
		"internal/lab/conformance/proxied/main.go": "the web server; serve waits for it",
		"internal/lab/killbench/kill.go":           "calls at a server that is killed, and at the others; each kill and each round waits for them",
		"internal/lab/killbench/bridge.go":         "reads the output of the bridge; ends with the process",
		"approval/approver.go":                     "asks several approvers concurrently; Approve waits for them",
		"approval/terminal.go":                     "reads the terminal, which nothing can interrupt; it lasts as long as the process",
		"approval/channel/channel.go":              "writes to one approver, and follows the requests of other replicas; the connection's handler waits for both",
		"approval/channel/client.go":               "the client's Run, pings and handlers; Close waits for them",
		"approval/channel/record.go":               "yields the changes of a record; Approve waits for it",
		"bridge/bridge.go":                         "runs each server, and a bridge that is not mounted; starts and stops servers together; Run, stop and Update wait for them",
		"bridge/upstream.go":                       "runs the sessions of a proxy; Run waits for them",
		"bridge/lists.go":                          "refreshes the lists while a session is open; the session waits for it",
		"bridge/session.go":                        "monitors a session while it is open; the session waits for it",
		"bridge/relay.go":                          "ends a link's connections with the link, runs each connection, sends notifications; the transport, Close, the call or the end of the link wait for them",
		"bridge/relay_server.go":                   "cancels a subscription when the client's input ends; stopped when the call ends",
		"bridge/pool.go":                           "keeps the session of each user; run waits for it",
		"bridge/pin/provider.go":                   "evaluates the server's entries and saves the lock; Run waits for it",
		"client/handlers.go":                       "passes changes and log messages to callbacks in order; Session.Close waits for it",
		"client/session.go":                        "replaces a link that ended; Session.Close waits for it",
		"client/subscribe.go":                      "listens for one subscription; Subscription.Close waits for it",
		"bridge/toolserver/server.go":              "accepts connections; Close waits for it",
		"bridge/toolserver/launcher.go":            "keeps each launched server; Server.Close waits for it",
		"internal/deadline/deadline.go":            "ends a context; stopped by its cancel",
		"transport/oauth/sync.go":                  "a call that several callers share; the last waiter waits for it",
		"transport/oauth/browser.go":               "the callback server, for which Close waits; and the opener, which may become the browser and outlive the login",
		"transport/oauth/oauthtest/server.go":      "the web server; Close waits for it",
		"internal/procgroup/supervise_linux.go":    "waits for children until the guard process ends",
		"server/shell/ports.go":                    "the proxies of registered ports; Shell.Close waits for them",
		"server/shell/shell.go":                    "ends a command when the shell closes; stopped when the command has ended",
		"server/process/jobs.go":                   "follows each job; Jobs.Close waits for it",
		"internal/test/httpfixture/main.go":        "the web server, for which run waits; and approval requests, for which execute waits",
		"examples/oauth/main.go":                   "the web server; its stop waits for it",

		"transport/streamable/internal/session/replicas.go": "handles messages of other replicas; Close waits for it",
		"transport/streamable/internal/session/resume.go":   "asks whether another replica still has a stream; the request waits for it",
		"transport/streamable/internal/wire/wire.go":        "keep-alive comments, one at a time; stop waits for one in progress",
		"transport/streamable/internal/session/sessions.go": "ends idle sessions, and all sessions on Close; Close waits for both",
	})
}

func TestGoroutineRule(t *testing.T) {
	planted(t, "goroutine.go", "server/planted.go", startsGoroutine)
	planted(t, "clean.go", "server/planted.go", startsGoroutine)
}

// startsGoroutine finds go statements, methods named Go (of sync.WaitGroup, errgroup.Group and
// transport.Link), and the functions named AfterFunc of context and time.
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

// Every package with tests checks for leaked goroutines.
func TestTestsCheckForLeaks(t *testing.T) {
	checked := map[string]bool{}
	for _, file := range moduleSources(t) {
		if file.isTest() {
			checked[file.folder()] = checked[file.folder()] || callsLeakMain(file)
		}
	}
	delete(checked, "internal/test/leaktest") // it tests the check itself
	for folder, ok := range checked {
		if !ok {
			t.Errorf("package %s has tests, but no TestMain that calls leaktest.Main or servertest.Main", folder)
		}
	}
}

func TestLeakRule(t *testing.T) {
	notice := func(file *source) []finding {
		if callsLeakMain(file) {
			return []finding{{file.path, 1, "calls leaktest.Main"}}
		}
		return nil
	}
	planted(t, "leak_main.go", "server/main_test.go", notice)
	planted(t, "leak_other.go", "server/main_test.go", notice)
}

func callsLeakMain(file *source) bool {
	calls := false
	for _, decl := range file.syntax.Decls {
		main, ok := decl.(*ast.FuncDecl)
		if !ok || main.Name.Name != "TestMain" {
			continue
		}
		ast.Inspect(main, func(node ast.Node) bool {
			if call, ok := node.(*ast.SelectorExpr); ok && (call.Sel.Name == "Main" || call.Sel.Name == "MainOf") {
				x, ok := call.X.(*ast.Ident)
				calls = calls || ok && slices.Contains([]string{"leaktest", "transporttests", "servertest"}, x.Name) // the others call leaktest.Main
			}
			return true
		})
	}
	return calls
}
