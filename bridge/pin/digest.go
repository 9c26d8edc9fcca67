package pin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// digestPrefix names the hash function.
const digestPrefix = "sha256:"

// Digest returns the SHA-256 digest of a definition: "sha256:" and 64 hexadecimal digits. It covers these members:
//
//	tool               name, title, description, inputSchema, outputSchema, annotations, _meta
//	prompt             name, title, description, arguments, _meta
//	resource           uri, name, title, description, mimeType, annotations, _meta
//	resource template  uriTemplate, name, title, description, mimeType, annotations, _meta
//	skill              uri, frontmatter, resources, _meta
//	event              name, title, description, delivery, inputSchema, payloadSchema, _meta
//	content            contents, of the result of resources/read
//
// Keys of _meta that begin with io.modelcontextprotocol/ are left out, and _meta itself if it has no others. So is
// the member lastModified of the annotations of resources and templates. Icons, sizes and unknown members are not
// covered.
//
// The hash is computed over the object of these members in the form of RFC 8785 (JSON Canonicalization Scheme), so the
// order of members, white space and escapes do not matter. RFC 8785 treats all numbers as float64 and so does not tell
// 9007199254740993 from 9007199254740992. Digest deviates to keep numbers apart: integers are hashed as they are
// written. So are all numbers of a member that contains a number with a fraction or exponent that a float64 may not
// hold: one of more than 15 digits, or with an exponent beyond ±290. For other tools, without integers beyond 2^53,
// every implementation of RFC 8785 gives the same digest. RFC 8785 has no form for half of an escaped surrogate pair: a
// member that contains one is hashed as it is written.
//
// The error says why there is no digest: the kind is unknown; the definition is not an object, or is longer than 1 MiB,
// or a content longer than 8 MiB; an object has two members of one name; the name of a member differs from one of the
// above only in case; a text is not UTF-8; or the files of a skill are dynamic, so that nothing can be verified.
func Digest(kind Kind, of json.RawMessage) (string, error) {
	d, err := readDefinition(kind, of)
	if err != nil {
		return "", err
	}
	for i, member := range d {
		if d[i].Value, err = canonical(member.Value); err != nil {
			return "", fmt.Errorf("%s: %w", member.Name(), err)
		}
	}
	sum := sha256.Sum256(d.object())
	return digestPrefix + hex.EncodeToString(sum[:]), nil
}

// checkDigest returns an error if a text does not have the form of a digest.
func checkDigest(text string) error {
	sum, ok := strings.CutPrefix(text, digestPrefix)
	if ok && len(sum) == hex.EncodedLen(sha256.Size) && strings.Trim(sum, "0123456789abcdef") == "" {
		return nil
	}
	return fmt.Errorf("expected a digest, %q and %d hexadecimal digits in lower case, found %.100q",
		digestPrefix, hex.EncodedLen(sha256.Size), text)
}

// canonical returns the form that is hashed.
func canonical(text []byte) ([]byte, error) {
	exact, err := numbersAreExact(text)
	if err != nil {
		return nil, err
	}
	options := jsontext.CanonicalizeRawFloats(exact)
	value := jsontext.Value(bytes.Clone(text))
	if err = value.Canonicalize(jsontext.CanonicalizeRawInts(false), options); err == nil {
		return value, nil
	}
	value = bytes.Clone(text)
	if value.Canonicalize(jsontext.CanonicalizeRawInts(false), options, jsontext.AllowInvalidUTF8(true)) == nil {
		return text, nil // its form would not tell one half of a pair from another
	}
	return nil, err
}

// numbersAreExact reports whether a float64 holds all numbers with a fraction or exponent.
func numbersAreExact(text []byte) (bool, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if token.Kind() == jsontext.KindNumber && !isExact(token.String()) {
			return false, nil
		}
	}
}

// isExact reports whether a float64 keeps a number apart from others: it does for decimals of up
// to 15 digits, except close to its limits. Integers are not converted.
func isExact(number string) bool {
	if !strings.ContainsAny(number, ".eE") {
		return true
	}
	mantissa, power := number, "0"
	if e := strings.IndexAny(number, "eE"); e >= 0 {
		mantissa, power = number[:e], number[e+1:]
	}
	digits := len(strings.TrimPrefix(mantissa, "-")) - strings.Count(mantissa, ".")
	exponent, err := strconv.Atoi(power)
	return err == nil && digits <= 15 && -290 <= exponent && exponent <= 290
}

// reservedPrefix is the prefix of keys in _meta that the protocol reserves.
const reservedPrefix = "io.modelcontextprotocol/"

// A definition has the covered members, in the order of memberNames.
type definition []jsonscan.Member

func readDefinition(kind Kind, text []byte) (definition, error) {
	limit := maxDefinition
	if kind == Content {
		limit = maxContent
	}
	if len(text) > limit {
		return nil, fmt.Errorf("the definition has %d bytes, expected at most %d", len(text), limit)
	}
	names := kind.memberNames()
	if names == nil {
		return nil, fmt.Errorf("expected one of the kinds %q, found %.100q", kinds(), kind)
	}
	members, err := jsonscan.ReadObject(text)
	if err != nil {
		return nil, err
	}
	for member := range members.All() {
		if err := checkCase(member.Name(), names); err != nil {
			return nil, err
		}
	}
	if kind == Skill && jsonscan.KindOf(members.Get("resources")) != jsonscan.Array {
		return nil, errors.New("resources: the files are dynamic and cannot be pinned")
	}
	var d definition
	for _, name := range names {
		value := members.Get(name)
		switch {
		case name == "_meta":
			value, err = without(value, func(key string) bool { return strings.HasPrefix(key, reservedPrefix) })
		case name == "annotations" && kind != Tool:
			value, err = without(value, func(key string) bool { return key == "lastModified" })
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if value != nil {
			d = append(d, jsonscan.Member{Key: jsonscan.AppendString(nil, name), Value: value})
		}
	}
	return d, nil
}

// checkCase returns an error for a member whose name differs from the name of a covered member in case only.
func checkCase(name string, covered []string) error {
	i := slices.IndexFunc(covered, func(c string) bool { return strings.EqualFold(c, name) })
	if i >= 0 && covered[i] != name {
		return fmt.Errorf("the member %q differs from %q only in case", name, covered[i])
	}
	return nil
}

// without returns an object without some members, or nil if it has no others. It returns other values unchanged.
func without(value []byte, left func(key string) bool) ([]byte, error) {
	if jsonscan.KindOf(value) != jsonscan.Object {
		return value, nil
	}
	members, err := jsonscan.ReadObject(value)
	if err != nil {
		return nil, err
	}
	var kept definition
	for member := range members.All() {
		if !left(member.Name()) {
			kept = append(kept, member)
		}
	}
	if len(kept) == 0 {
		return nil, nil
	}
	return kept.object(), nil
}

func (d definition) object() []byte {
	object := []byte{'{'}
	for i, member := range d {
		if i > 0 {
			object = append(object, ',')
		}
		object = append(append(append(object, member.Key...), ':'), member.Value...)
	}
	return append(object, '}')
}

// member returns the value of a member, or nil.
func (d definition) member(name string) json.RawMessage {
	for _, member := range d {
		if jsonscan.KeyIs(member.Key, name) {
			return member.Value
		}
	}
	return nil
}

// A Difference is a member that differs between two definitions.
type Difference struct {
	// Member is the name of the member, one of those that [Digest] covers.
	Member string
	// Before and After are the values as they are written, nil if the member is absent.
	Before, After json.RawMessage
}

// diff is the function of [Pending.Diff].
func diff(kind Kind, before, after json.RawMessage) ([]Difference, error) {
	if before == nil {
		before = json.RawMessage("{}")
		if kind == Skill {
			before = json.RawMessage(`{"resources":[]}`)
		}
	}
	old, err := readDefinition(kind, before)
	if err != nil {
		return nil, err
	}
	now, err := readDefinition(kind, after)
	if err != nil {
		return nil, err
	}
	var differences []Difference
	for _, name := range kind.memberNames() {
		d := Difference{name, old.member(name), now.member(name)}
		same, err := isSame(d.Before, d.After)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !same {
			differences = append(differences, d)
		}
	}
	return differences, nil
}

// isSame reports whether two values have the same hashed form.
func isSame(a, b []byte) (bool, error) {
	if a == nil || b == nil {
		return a == nil && b == nil, nil
	}
	a, err := canonical(a)
	if err != nil {
		return false, err
	}
	b, err = canonical(b)
	return bytes.Equal(a, b), err
}
