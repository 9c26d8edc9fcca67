package mirror

import "github.com/dovetail-go/dovetail/internal/jsonscan"

// A HeaderError is a header that does not mirror the body. To a peer it is a
// JSON-RPC error with the code of a header mismatch.
type HeaderError struct {
	Header  string // canonical name
	Problem string // what came and what was expected: "is missing, expected …"
}

func (e *HeaderError) Error() string { return "header " + e.Header + " " + e.Problem }

// A ValueError is the value of a header that [Decode] cannot make sense of.
type ValueError struct {
	Reason string // what was expected
}

func (e *ValueError) Error() string { return "malformed header value: " + e.Reason }

// An AnnotationError is an annotation that makes a tool unusable over HTTP.
type AnnotationError struct {
	Pointer string // the annotated schema inside the input schema (RFC 6901)
	Reason  string // the rule that is broken
}

func (e *AnnotationError) Error() string {
	return annotation + " at " + jsonscan.Quote(e.Pointer) + ": " + e.Reason
}
