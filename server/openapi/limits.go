package openapi

import "time"

const (
	// defaultTimeout bounds a call when Options.Timeout is 0.
	defaultTimeout = 30 * time.Second
	// defaultMaxResponse bounds an answer's body when Options.MaxResponse is 0.
	defaultMaxResponse = 1 << 20

	// maxDocument is the size in bytes of the largest document. GitHub's has 13 MB.
	maxDocument = 64 << 20
	// maxNesting is how deep arrays and objects of a document may nest: the parser's
	// time grows with the square of it.
	maxNesting = 256
	// maxNodes is how many values a YAML document may have, those that aliases repeat
	// counted each time.
	maxNodes = 10_000_000
	// maxOperations is how many operations one provider may offer.
	maxOperations = 10_000
	// maxReferences is how many references may lead from one to the next.
	maxReferences = 32
	// maxParts is how many schemas one may be put together from.
	maxParts = 1000
	// maxPointer is the longest JSON Pointer that is followed, in bytes.
	maxPointer = 4 << 10
	// maxProblems is how many problems of a document one error lists.
	maxProblems = 20

	// maxName is the longest name of a tool. MCP 2025-11-25, server/tools.
	maxName = 128
	// maxTitle, maxDescription and maxNote bound, in bytes, what is said of an
	// operation and of one place in a schema. What is longer is cut.
	maxTitle       = 256
	maxDescription = 4 << 10
	maxNote        = 1 << 10
	// maxOutputSchema is the size in bytes of the largest output schema that is
	// declared: it is for programs, and every client downloads all of them.
	maxOutputSchema = 64 << 10

	// maxAccepted is how many media types a request says it accepts.
	maxAccepted = 16
	// maxURL is the longest URL in bytes that is called.
	maxURL = 16 << 10
	// maxRedirects is how many redirects, all to the same origin, are followed.
	maxRedirects = 10
	// maxErrorBody is how much of an error's body a model is shown, in bytes.
	maxErrorBody = 4 << 10
)
