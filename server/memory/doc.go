// Package memory is an MCP server that remembers conversations and facts about users.
//
//	s := memory.New(memory.InMemory(nil), nil)
//	if err := stdio.Run(s, nil); err != nil {
//		log.Fatal(err)
//	}
//
// # Tools and resources
//
//	save_conversation    saves or replaces a snapshot under an id
//	get_conversation     returns it
//	list_conversations   lists the ids
//	delete_conversation  deletes one
//	save_user_fact       saves or replaces a value under a user and a key
//	get_user_facts       returns all facts about a user
//	delete_user_fact     deletes one
//
//	memory://conversations/{id}   a snapshot as JSON, which supports subscriptions
//
// A conversation whose id cannot be a path segment ("a/b", "..") is available to the tools
// only.
//
// # Stores
//
// A [Store] keeps the records. [InMemory] returns one that lasts as long as the process, and
// the module server/memory/sqlite one in a SQLite file. For any other database implement four
// methods and test them with package memorytest. [Limits] bound what a store keeps.
//
// # Owners
//
//  1. Each authenticated caller has a separate memory. Its owner is mcp.Caller.Principal,
//     which authenticating middleware sets with transport.WithPrincipal.
//  2. Callers that are not authenticated share one memory. This includes all callers over
//     stdio. With [Options].Shared all callers share it.
//  3. A user_id is a name within the memory of its owner. It is not an authentication.
//  4. Only subscribers with the same owner are notified of changes to a conversation, or all
//     subscribers if the owner is not authenticated.
//
// Everything in this package is safe for concurrent use.
package memory
