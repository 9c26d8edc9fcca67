package mirror

const (
	// MaxParams is how many properties of one input schema may be annotated:
	// servers and proxies give all headers of a request some 8 KiB.
	MaxParams = 128

	// MaxParamName is the longest value of an annotation, in bytes.
	MaxParamName = 256

	// MaxInteger is the largest integer that is mirrored, and -MaxInteger the
	// smallest: those that a double holds exactly.
	MaxInteger = 1<<53 - 1
)
