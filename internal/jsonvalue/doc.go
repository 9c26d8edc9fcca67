// Package jsonvalue converts Go values of users to JSON and back. Each package that encodes or decodes such a
// value uses it: arguments, results, chunks, payloads, log data, stored values and answers follow the same rules.
//
// The rules are those of encoding/json, with these differences:
//
//   - Names of members match in exact case.
//   - A nil slice is [], and a nil map is {}. An array of bytes is base64, like a slice of bytes.
//   - Methods with a pointer receiver are called on all values.
//   - An url.URL is a string.
//   - A number in an interface value is a json.Number if float64 cannot hold it; see [Unmarshal].
//   - Bytes may be in any common form of base64; see [DecodeBase64].
//   - Object keys that become equal are encoded once, with the last value.
//   - A struct with fields of one name, or with a json tag at an unexported field, is an error.
//
// The JSON library is github.com/go-json-experiment/json. All functions are safe for concurrent use.
package jsonvalue
