// Package search shows a model two tools in place of hundreds: one finds tools, the
// other calls what was found. Long lists of tools cost a model its context and its
// accuracy.
//
//	found, err := search.New(provider, &search.Options{
//		Description: "GitHub, the wiki and the ticket system.",
//		Guards:      guards,
//	})
//	…
//	err = s.Mount(found, nil)
//
// The provider is a bridge, say, or one whose tools have to be accepted before they are
// found: pin.Guarded(servers, "all", lock, nil), of bridge/pin.
//
// [SearchTool] takes a query and answers with the best tools, each as it stands in the
// list of the provider, byte by byte. [CallTool] takes the name of a tool and its
// arguments, and is that call: arguments and results are passed on as they are, and
// progress, log messages, questions and cancellation find their way.
//
// All else that the provider has is offered as it is: prompts, resources, templates,
// completions, subscriptions.
//
// # Policy
//
// What has to act on the tools is in [Options]: guards, approval, audit. It
// sees the tool that is called, not [CallTool]. What a guard there hides from a caller
// is not found, and a call for it is answered as one for what does not exist. A guard of
// the server on which the provider is mounted sees the two tools only, and protects none
// of those behind them.
//
// # Ranking
//
// Okapi BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009) over
// the words of names, titles, descriptions, and the names and descriptions of arguments.
// Names are split where they change case and at _ - and dot; upper and lower case, and
// English singular and plural, are the same. Tools that are equally good come in the
// order of the provider's list. A tool whose name is the query comes first. A query
// without any word finds all tools, in that order.
//
// # Concurrency
//
// A [Provider] is safe for concurrent use. The index of a catalogue is made by the first
// search in it and is not changed any more. This package starts no goroutines.
package search
