// Package openapi offers the operations of a REST service as MCP tools and
// resources, out of its OpenAPI 3.0 or 3.1 document
// (https://spec.openapis.org/oas/v3.1.1.html).
//
//	p, err := openapi.New(document, &openapi.Options{
//		Authorize: openapi.Credentials{"api_key": os.Getenv("API_KEY")}.Authorize,
//		Rules:     []openapi.Rule{{Path: regexp.MustCompile("^/admin"), Expose: openapi.Excluded}},
//	})
//	…
//	err = s.Mount(p, nil)
//
// Tools made by hand are better than these: a document is written for programmers,
// and says too much or too little for a model. Expose what is needed, and describe
// it, with [Rule].
//
// # Arguments
//
// Each parameter is an argument, and so is each property of a request body that is a
// plain object and has no name of a parameter; any other body is the argument "body".
// Two parameters of one name are told apart by where they stand, as in "query_id".
// Bytes are given in base64. The schemas become JSON Schema 2020-12 with references
// among their $defs, and arguments are validated by them: unknown ones are refused.
//
// What the service would accept is not refused here: patterns that RE2 does not have are
// left out of a schema, and oneOf is anyOf. Properties that are read-only are left out
// where they would be sent, and write-only ones where they would be received.
//
// # Bodies
//
// JSON, multipart/form-data, application/x-www-form-urlencoded, text, and bytes: the
// first of these that the service takes.
//
// # Answers
//
// JSON is structured content, and the same text; other text is text; pictures and sound
// are that; any other bytes are an embedded resource. An output schema is declared if an
// operation can succeed in one way only, with JSON. An answer that is no success is an
// error that the model sees: the status, and up to 4 KiB of the body.
//
// # Resources
//
// A [Rule] makes GET operations resources, under URIs such as
// openapi://api.example.com/pets/{id}{?fields*}.
//
// # Safety
//
// Arguments are data from a model: in paths they are percent-encoded, "/" too, and
// those that are empty or dot segments are refused. Redirects to other origins are not
// followed. URLs, answers and times are bounded. Credentials come from
// [Options].Authorize only and are kept out of errors.
//
// A document is part of a program's configuration: it says which hosts are called,
// unless [Options].BaseURL does. It is read with bounds on size, nesting and aliases,
// and no other document is ever fetched: a reference that leaves it is an error.
//
// # Concurrency
//
// A [Provider] is immutable and safe for concurrent use.
package openapi
