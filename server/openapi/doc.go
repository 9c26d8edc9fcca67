// Package openapi offers the operations of an OpenAPI 3.0 or 3.1 document as MCP tools and
// resources (https://spec.openapis.org/oas/v3.1.1.html).
//
//	p, err := openapi.New(document, &openapi.Options{
//		Authorize: openapi.Credentials{"api_key": os.Getenv("API_KEY")}.Authorize,
//		Rules:     []openapi.Rule{{Path: regexp.MustCompile("^/admin"), Expose: openapi.Excluded}},
//	})
//	…
//	err = s.Mount(p, nil)
//
// Tools that are written for a model work better than generated ones, because a document is
// written for programmers. Use [Rule] to expose only what is needed, and to describe it.
//
// # Arguments
//
// Each parameter is an argument. So is each property of a request body that is a plain object
// without name conflicts; any other body is the argument "body". Parameters with the same name
// get their location as a prefix, as in "query_id". Binary data is base64. Schemas are converted
// to JSON Schema 2020-12, and unknown arguments are rejected.
//
// A conversion must not reject what the service accepts. Patterns that RE2 does not support are
// therefore dropped, and oneOf becomes anyOf. Properties that are readOnly are omitted in
// requests, those that are writeOnly in responses.
//
// # Requests and responses
//
// The request body is the first of these formats that the service accepts: JSON,
// multipart/form-data, application/x-www-form-urlencoded, text, bytes.
//
// A JSON response becomes structured content and text. Other text becomes text, images and audio
// become such content, and other bytes an embedded resource. An operation with one success
// response, of JSON, has an output schema. A response with an error status is an error result
// with the status and up to 4 KiB of the body.
//
// # Resources
//
// A [Rule] turns GET operations into resources, with URIs such as
// openapi://api.example.com/pets/{id}{?fields*}.
//
// # Safety
//
//  1. Arguments are untrusted. In paths they are percent-encoded, including "/", and empty
//     values and dot segments are rejected.
//  2. Redirects to other origins are not followed.
//  3. The sizes of URLs and responses and the time of a call are bounded.
//  4. Credentials come only from [Options].Authorize. They are redacted in errors.
//  5. The document is trusted configuration: it names the hosts that are called, unless
//     [Options].BaseURL does. Its size, nesting and aliases are bounded. References to other
//     documents are errors; nothing is fetched.
//
// A [Provider] is immutable and safe for concurrent use.
package openapi
