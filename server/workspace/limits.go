package workspace

const (
	// DefaultMaxSize is how many bytes a file may have that is read as a whole.
	DefaultMaxSize = 10 << 20
	// MaxVisited is how many entries of directories one [Workspace.Walk] looks at.
	MaxVisited = 200_000
	// MaxLine is how many bytes of a line are shown.
	MaxLine = 2000
	// MaxText is how many bytes of lines are read at once.
	MaxText = 256 << 10
	// MaxScanned is how many bytes of a file are read to find lines.
	MaxScanned = 64 << 20
	// MaxPath is how long a path may be, in bytes.
	MaxPath = 4096
)

const (
	// maxImage is how many bytes a picture may have that a tool shows.
	maxImage = 5 << 20
	// maxListed is how many entries of a directory a tool lists.
	maxListed = 1000
	// maxFound is how many files or lines a tool finds.
	maxFound = 100
	// maxDepth is how deep a walk goes.
	maxDepth = 64
	// maxSearched is how many bytes of a line are compared with an expression.
	maxSearched = 256 << 10
	// sniffed is how many bytes tell whether a file is a text.
	sniffed = 4096
	// maxTries is how often a name for a new file may be taken already.
	maxTries = 100
)
