// Package schema makes JSON Schemas from Go types, compiles JSON Schemas into validators, and decodes
// JSON into Go values after validation. It does not depend on MCP.
//
//	type Search struct {
//		Query string `json:"query" jsonschema_description:"search terms" jsonschema:"minLength=1"`
//		Limit int    `json:"limit" jsonschema:"default=10,minimum=1,maximum=100"`
//	}
//
//	decoder, err := schema.NewDecoder[Search](nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	search, err := decoder.Decode(ctx, json.RawMessage(`{"query":"joints"}`))
//	// search.Limit is 10
//	_, err = decoder.Decode(ctx, json.RawMessage(`{"query":"joints","limit":500}`))
//	// err is: at "/limit": expected at most 100, got 500
//
// # Concepts
//
//   - [For], [ForType] and [ForOutput] return the schema of a Go type. It describes the JSON that
//     github.com/go-json-experiment/json decodes or encodes.
//   - [Compile] compiles a schema of JSON Schema 2020-12 or draft-07 into a [Validator]. A schema with
//     the keywords that most tool schemas use is compiled to nodes, which validate the bytes of an
//     instance without decoding them. The general validator, which is
//     github.com/santhosh-tekuri/jsonschema, validates instances of all other schemas.
//   - A [Decoder] adds defaults to an instance, removes null for optional members, validates the
//     instance and decodes it into a Go value.
//   - An instance is JSON text that is validated. A [Violation] is one error in an instance.
//
// # Tags
//
// These tags of a struct field are read; [ForType] lists the keywords. They are in the order of precedence.
//
//	jsonschema:"the name, or a part of it"    a description
//	jsonschema:"minimum=1,maximum=9"          keywords; so begins a tag with a word and =
//	jsonschema:"required"                     a keyword without a value: required, nullable, uniqueItems
//	jsonschema:"title=Name,description=name"  keywords; a comma inside a value is written \\,
//	jsonschema:"-"                            the schema leaves out the field
//	jsonschema_description:"n=1, or more"     a description that may begin with a word and =
//	description:"n=1, or more"                the same
//
// The errors of each phase have their own type: [TypeError] for a Go type without a schema,
// [CompileError] for a schema that cannot be used, [ValidationError] for an instance that does not
// match, and [BudgetError] for an instance that exceeds a limit.
//
// # Guarantees
//
//  1. A [ValidationError] reports all violations, up to 32, each with its JSON Pointer.
//     The texts do not depend on the kind of validator. A [Decoder] adds the values that only the Go
//     type does not accept, such as a wrong date-time. The texts contain no Go types.
//  2. No reference is fetched from a network or a disk. [CompileOptions.Resources] holds the other
//     documents.
//  3. Schemas and instances may come from a hostile peer. Sizes, depths, numbers and
//     patterns are limited; see below. [CompileOptions.MaxWork] limits the work for one instance, and
//     [Memory] the memory and the processors for several. Both are estimated from the bytes of the
//     instance, before it is decoded. Patterns are RE2: matching takes time linear in the text.
//  4. Validators and decoders are immutable. They and all functions are safe for concurrent use.
//
// # Limits
//
//	limit                 value      unit            reason
//	size of a schema      256 Ki     bytes           a schema, and each resource, is kept in memory
//	depth of a schema     128        levels          compiling is recursive
//	subschemas            10,000     schemas         each takes memory while the validator exists
//	length of a pattern   16 Ki      bytes           parsing takes memory
//	size of a pattern     10,000     instructions    matching takes time for each of them and each byte
//	size of all patterns  100,000    instructions    each takes about 40 bytes while the validator exists
//	work                  1e9        units           an instance takes about a second at most
//	memory                48 Mi      bytes           the garbage collector doubles it
//	added defaults        256 Ki     bytes           short instances must not become long ones
//	violations            32         violations      a model reads them
//	digits of a number    1,000      digits          comparing numbers exactly takes time
//	exponent of a number  400        powers of ten   the digits of 1e400 take memory
//	depth of an instance  128        levels          the general validator is recursive
//
// A schema beyond a limit is a [CompileError], and an instance a [BudgetError].
//
// Package server uses this package for the arguments and results of tools.
package schema
