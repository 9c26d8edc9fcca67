package policy

import "encoding/json"

// A Request is what is decided about.
type Request struct {
	Subject
	Target
	// Arguments are an object, as it came; nil is none. They are for tools and prompts.
	Arguments json.RawMessage
	// Listed says that the arguments are not known, as when a list is made: the decision
	// is then the most lenient that a call can have.
	Listed bool
}

// A Subject is who calls.
type Subject struct {
	// Role is the caller's, "" if there is none.
	Role string
	// Principal names the caller, "" if that is not known.
	Principal string
}
