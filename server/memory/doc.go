// Package memory is a deployable MCP server that remembers: conversations, by their
// ids, and facts about users, by their keys.
//
//	s := memory.New(memory.InMemory(nil), nil)
//	log.Fatal(stdio.Serve(ctx, s, nil))
//
// What it offers:
//
//	save_conversation    keeps a snapshot under an id, in place of an earlier one
//	get_conversation     gives it back
//	list_conversations   gives the ids
//	delete_conversation  drops one
//	save_user_fact       keeps a value under a user and a key, in place of an earlier one
//	get_user_facts       gives all facts about a user
//	delete_user_fact     drops one
//
//	memory://conversations/{id}   a snapshot as JSON text, which can be subscribed to
//
// A conversation whose id is not a path segment ("a/b", "..") has no such resource; the
// tools have it.
//
// # Stores
//
// A [Store] keeps the records. [InMemory] is one that lasts as long as the process.
// The module server/memory/sqlite has one that is a SQLite file; any other database
// takes four methods, and the kit in memorytest says whether they are right. How much
// a store keeps is bounded by [Limits].
//
// # Whose memory
//
// Each authenticated caller has a memory of its own: the owner of a record is
// mcp.Caller.Principal, which what authenticates requests sets with
// transport.WithPrincipal. Callers that are not authenticated, and so all of a server
// over stdio, share one. [Options].Shared gives all callers the same.
//
// A user_id is a name within the owner's memory; nobody is authenticated by it.
//
// Subscribers of a conversation are told when its owner saves or drops it, and of no
// other's of that id. What callers that are not authenticated save, all are told of.
//
// # Concurrency
//
// Everything in this package may be used from any goroutine.
package memory
