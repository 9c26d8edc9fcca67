package jsonscan

const (
	// MaxDepth is how deep arrays and objects may nest.
	MaxDepth = 1000
	// MaxMembers is how many members an object may have that is read.
	MaxMembers = 65536
	// MaxEdits is how many edits one [Splice] may make.
	MaxEdits = 64

	// maxQuoted is how many bytes of a peer's text an error repeats.
	maxQuoted = 256
)
