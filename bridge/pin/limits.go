package pin

const (
	// MaxDefinition is how long the definition of a tool may be, in bytes, to be
	// pinned.
	MaxDefinition = 1 << 20
	// MaxName is how long the name of a tool or server may be, in bytes, to be pinned.
	MaxName = 256
	// MaxPins is how many tools a lock may have, of all servers together.
	MaxPins = 16_384
	// MaxFile is how long the file of a lock may be, in bytes: longer than any that
	// keeps to the other limits.
	MaxFile = 64 << 20
)
