// Package pin holds the tools of a server to the definitions that somebody has accepted.
// A server that shows a harmless tool until it is trusted, and another under the same name
// afterwards, has that tool hidden and its calls refused until the new definition is
// accepted.
//
//	lock, err := pin.Load("mcp.lock")
//	if errors.Is(err, fs.ErrNotExist) {
//		lock, err = pin.NewLock("mcp.lock"), nil
//	}
//	...
//	err = s.Mount(pin.Guarded(servers, "all", lock, nil), nil)
//
// Here servers may be a proxy, a bridge, or any other [server.Provider]. Nothing is offered
// until somebody has looked at what [Lock.Pending] returns, and has called [Lock.Accept];
// [Options.TrustNew] accepts what is seen first. Where bridge/search is used too, it goes
// around: search.New(pin.Guarded(…), nil), so that only accepted tools are found.
//
// # Vocabulary
//
// The [Digest] of a tool is that of all that a model or a person sees of it. To pin a tool
// is to write its digest into the [Lock], under the alias by which the server is known
// here: two servers may have a tool of one name. A tool is new when the lock has no digest
// for it, changed when it has another, and invalid when it has no digest that could be
// compared. Such a tool is quarantined, which is to say neither listed nor called, and is
// [Pending] until somebody accepts it.
//
// # What is guaranteed
//
//   - One decision, made on one catalogue, says what is listed and what may be called. A
//     call is judged by the catalogue that holds when it is made, not by the one that the
//     caller has seen.
//   - What cannot be judged is refused: a tool that is not listed, one that is listed
//     twice with two definitions, one whose definition readers may understand differently.
//   - A lock that is damaged or cut short is an error, never a lock with fewer pins.
//   - Accepting a tool accepts the definition that was pending, or the digest that was
//     named; one that has come meanwhile is quarantined still.
//
// Prompts, resources and templates pass through: they are asked for by people and
// programs, and not pinned.
//
// # Concurrency
//
// [Lock] and [Provider] are safe for concurrent use. A call of a tool that is as accepted
// costs a look-up and no allocation. One lock serves all servers of a process; processes
// that use one file notice each other's changes but do not merge them, see [Lock.Save].
package pin
