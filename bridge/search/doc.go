// Package search offers a model two tools in place of hundreds: one finds tools, the other
// calls them. Long lists of tools cost a model context and accuracy. Below about 20 tools, a search
// costs more than it saves.
//
//	found, err := search.New(provider, &search.Options{
//		Description: "GitHub, the wiki and the ticket system.",
//		Guards:      guards,
//	})
//	...
//	err = s.Mount(found, nil)
//
// The source is a bridge or any other [server.Provider]. With bridge/pin, wrap it first, so
// that only accepted tools are found: pin.Wrap(servers, "all", lock, nil).
//
// # Tools
//
// [SearchTool] takes a query and returns the best tools, with the definitions of the source.
// [CallTool] takes the name and the arguments of a tool, and calls it. Prompts, resources,
// templates, completions and subscriptions of the source are offered unchanged.
//
// # Guards
//
// Guards and middleware for the tools of the source belong in [Options]: they see the tool that
// is called, not CallTool. A tool that a guard hides from a caller is not found, and calling it
// fails as for an unknown tool. Guards of the server that the provider is mounted on see the two
// tools only.
//
// # Ranking
//
// Tools are ranked by BM25F (Robertson and Zaragoza, The Probabilistic Relevance Framework,
// 2009). A word counts most in the name of a tool, then in its title, its description, and the
// names, descriptions and enumerated values of its arguments. Names are split at changes of case
// and at _, - and dots. Case and English inflection do not matter: words are compared by their
// Snowball stems. A word of a query also finds words that begin with it, such as configuration
// for config. Stop words such as "the" count only in a query without other words. Tools of equal
// rank keep the order of the list. A tool with the query as its name comes first. A query without
// words finds all tools. The page docs/search.md has measurements.
//
// # Guarantees
//
//  1. Definitions, arguments and results keep their bytes. Progress, log messages, questions
//     and cancellation work as for a direct call.
//  2. A provider may be used concurrently. The index of a catalog is built by the first
//     search and does not change. This package starts no goroutines.
//  3. A query has at most 1,024 bytes. A search finds 5 tools by default and at most 50. At most 10,000 tools can be
//     found; all can be called. If the catalog has more, each server has an equal share.
package search
