package search

const (
	// DefaultLimit is how many tools a search finds at most, unless it says.
	DefaultLimit = 10
	// MaxLimit is how many it may ask for.
	MaxLimit = 50
	// MaxQuery is how long a query may be, in bytes.
	MaxQuery = 1 << 10
	// MaxTools is how many tools of a catalogue, the first, can be found. All can be
	// called.
	MaxTools = 10_000

	// maxIndexed is how many words of one tool count, the first.
	maxIndexed = 512
	// maxWord is how much of a word counts, in bytes.
	maxWord = 64
	// maxFound is how long the tools found may be together, in bytes; the best is
	// found however long it is.
	maxFound = 1 << 20
)
