// Package pin offers what a server has only as a person has accepted it. A server that offers a
// harmless tool until it is trusted, and another one under the same name afterwards, loses that
// tool until the new definition is accepted.
//
//	lock, err := pin.Load("mcp.lock")
//	if errors.Is(err, fs.ErrNotExist) {
//		lock, err = pin.NewLock("mcp.lock"), nil
//	}
//	...
//	err = s.Mount(pin.Wrap(servers, "all", lock, nil), nil)
//
// servers is a proxy, a bridge or any other [server.Provider]. Show [Lock.Pending] to a person
// and call [Lock.Accept] for the entries to offer. [Options.TrustNew] accepts entries that are seen
// for the first time. With bridge/search, write search.New(pin.Wrap(…), nil), so that only
// accepted tools are found.
//
// # Concepts
//
// The [Digest] of an entry covers everything that a model or a person sees of its definition. A [Lock] stores
// digests by server alias, kind and name. Tools, prompts, resources, resource templates, skills and events are
// pinned, and so is the content of resources whose URIs begin with ui://, which a browser runs. A content of a resource is
// pinned under the listed URI. A content of a resource template is pinned under the canonical spelling of its URI (RFC
// 3986, section 6.2.2), so that equivalent URIs have one pin. An entry is
//
//   - new, if the lock has no digest for it,
//   - changed, if its digest is another one,
//   - invalid, if it has no digest: readers may understand its definition differently, or its files are dynamic.
//
// These entries are quarantined: neither listed nor callable. They are [Pending] until they are accepted. An entry
// that is in no list is not offered.
//
// The definition of a skill has the digests of its files. A file is withheld if its content has another digest, and so
// is the answer to skills/get if it differs from the list. A resource whose URI begins with skill:// must be such a
// file. The case of a scheme does not matter. Results of tools, messages of prompts and the content of other resources are not pinned: they are data.
//
// # Guarantees
//
//  1. One evaluation of a catalog decides what is listed and what may be called. A call is
//     checked against the current catalog, not against the one that the client has seen. Contents are checked
//     when they are read.
//  2. A damaged or incomplete lock is an error. It never has fewer pins than were written.
//  3. [Lock.Accept] accepts the pending definition, and [Lock.AcceptDigest] only the one that was shown. A
//     definition that has changed in between stays quarantined.
//  4. A definition has at most 1 MiB, a content 8 MiB, and a name or URI 256 bytes. A lock has at most 16,384 pins of
//     all servers together, and its file 64 MiB. [Options.TrustNew] makes at most 4,096 pins of one server. At most
//     256 contents of a server are pending, with 32 MiB.
//  5. [Lock] and [Provider] may be used concurrently. A call of an accepted tool costs one
//     look-up and no allocation.
//  6. The accepted definitions are kept beside the lock file, at most 64 MiB, so that [Pending.Diff] shows what has changed,
//     also after a restart. One with another digest is ignored. No decision depends on them.
//  7. One lock serves all servers of a process. Processes that share a file detect each other's
//     changes and do not merge them; see [Lock.Save].
package pin
