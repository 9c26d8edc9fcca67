package resources

import "time"

// Defaults of options.
const (
	// DefaultMaxSize is how long contents may be, in bytes.
	DefaultMaxSize = 10 << 20
	// DefaultMaxFiles is how many files a directory may list.
	DefaultMaxFiles = 10_000
	// DefaultInterval is how often [Watch] looks.
	DefaultInterval = 2 * time.Second
	// DefaultTimeout bounds a fetch over HTTP.
	DefaultTimeout = 30 * time.Second
)

const (
	// maxPattern is how long a pattern may be, in bytes.
	maxPattern = 1 << 10
	// maxDepth is how many elements a path may have.
	maxDepth = 64
	// maxElement is how long one of them may be, in bytes; file systems allow no more.
	maxElement = 255
	// maxVisited is how many entries of directories are looked at for one listing.
	maxVisited = 200_000
	// maxListed is how long the paths of one listing may be together, in bytes.
	maxListed = 4 << 20
	// visitedAtOnce is how many entries of a directory are read at a time.
	visitedAtOnce = 256
	// maxSwaps is how often a file may be replaced while it is being opened.
	maxSwaps = 8
	// maxETag is how long the tag of an answer may be that is kept, in bytes.
	maxETag = 1 << 10
)
