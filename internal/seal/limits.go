package seal

const (
	// MinKey is the shortest key that [NewRing] accepts, in bytes.
	MinKey = 32

	// MaxKeys is the largest number of keys in a ring. Each of them is tried on a
	// token that does not open.
	MaxKeys = 16

	// MaxToken is the longest token that is made or opened, in bytes.
	MaxToken = 64 << 10
)
