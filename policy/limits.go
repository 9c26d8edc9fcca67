package policy

const (
	// MaxSize is how many bytes of JSON a policy may have.
	MaxSize = 1 << 20
	// MaxPatterns is how many patterns there may be in one list.
	MaxPatterns = 10_000
	// MaxPattern is how many bytes a pattern, a path or a value to compare with may have.
	MaxPattern = 1024
	// MaxRules is how many rules a policy may have.
	MaxRules = 1000
	// MaxRoles is how many roles a policy may have overrides for.
	MaxRoles = 1000
	// MaxTerms is how many of its kind a rule may have: patterns in each of its lists,
	// predicates of arguments, exceptions.
	MaxTerms = 256
	// MaxName is how many bytes a name may have. What is named longer is denied.
	MaxName = 8192
	// MaxText is how many bytes of an argument a pattern is compared with. Whether it
	// matches a longer one cannot be told.
	MaxText = 64 << 10
)
