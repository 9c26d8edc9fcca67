package workspace

// Errors and a function under test.
var (
	ErrLink         = errLink
	ErrNotDirectory = errNotDirectory
	ErrNotRegular   = errNotRegular
	ErrPattern      = errPattern
	ErrRoot         = errRoot
	IsText          = isText
)
