// Package console shows people what the clients of a server do: which calls were made, why they were allowed, who waited, and
// what came back.
//
//	record := console.NewRecorder(&console.RecorderOptions{Bodies: true})
//	record.ObserveServer(&serverOptions)
//	record.ObserveUpstream(&configs[0])
//	...
//	page, err := console.New(s, b, &console.Options{Recorder: record})
//	http.Handle("/console/", page)
//
// A [Recorder] keeps recent calls in memory; nothing is written to a disk. A call has one row, in all its runs, with its
// questions, its task and the requests for the state of the task. Its time is divided: a person decides, the call waits for its
// server, the server works.
//
// A [Console] serves a page to operators and viewers, who have different tokens. Viewers get names, times, outcomes and rules.
// Operators get also what calls contain, and can make calls: as the principal console:NAME, through the guards and limits of
// the server. A call that needs an approval waits for it like any other. Servers cannot be added from the page, since that
// would let a web page start programs.
//
// # Limits
//
// 10,000 calls, and 16 MiB of their arguments, results, errors and messages, of which those of a principal with more than half
// go first; 64 KiB of the arguments, of the result and of each message of a call; 400 messages of a call, and 200 progress and
// log messages of 1 KiB; 1,000 log records, of 1 KiB each; 64 KiB of the standard error of each of 1,000 servers; 4 MiB of
// handshakes with servers; 16 pages.
package console
