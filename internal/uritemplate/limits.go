package uritemplate

const (
	// MaxTemplate is the longest template that [Parse] accepts, in bytes.
	MaxTemplate = 8 << 10

	// MaxExpressions is the largest number of expressions in one template.
	MaxExpressions = 64

	// MaxURI is the longest URI in bytes that [Template.Expand] produces and
	// that [Matcher.Match] looks at.
	MaxURI = 64 << 10
)
