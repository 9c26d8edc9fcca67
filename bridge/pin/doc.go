// Package pin offers the tools of a server only with the definitions that a person has
// accepted. A server that offers a harmless tool until it is trusted, and another one under the
// same name afterwards, loses that tool until the new definition is accepted.
//
//	lock, err := pin.Load("mcp.lock")
//	if errors.Is(err, fs.ErrNotExist) {
//		lock, err = pin.NewLock("mcp.lock"), nil
//	}
//	...
//	err = s.Mount(pin.Wrap(servers, "all", lock, nil), nil)
//
// servers is a proxy, a bridge or any other [server.Provider]. Show [Lock.Pending] to a person
// and call [Lock.Accept] for the tools to offer. [Options.TrustNew] accepts tools that are seen
// for the first time. With bridge/search, write search.New(pin.Wrap(…), nil), so that only
// accepted tools are found.
//
// # Concepts
//
// The [Digest] of a tool covers everything that a model or a person sees of it. A [Lock] stores
// digests by server alias and tool name. A tool is
//
//   - new, if the lock has no digest for it,
//   - changed, if its digest is another one,
//   - invalid, if it has no digest: readers may understand its definition differently.
//
// These tools are quarantined: neither listed nor callable. They are [Pending] until they are accepted. Prompts,
// resources and templates pass unchanged, since people and programs choose them, not a model.
//
// # Guarantees
//
//  1. One evaluation of a catalog decides what is listed and what may be called. A call is
//     checked against the current catalog, not against the one that the client has seen.
//  2. A damaged or incomplete lock is an error. It never has fewer pins than were written.
//  3. [Lock.Accept] accepts the pending definition, and [Lock.Pin] the given digest. A
//     definition that has changed in between stays quarantined.
//  4. A definition has at most 1 MiB, and a name 256 bytes. A lock has at most 16,384 tools of all servers together,
//     and its file 64 MiB. [Options.TrustNew] pins at most 4,096 tools of one server.
//  5. [Lock] and [Provider] may be used concurrently. A call of an accepted tool costs one
//     look-up and no allocation.
//  6. One lock serves all servers of a process. Processes that share a file detect each other's
//     changes and do not merge them; see [Lock.Save].
package pin
