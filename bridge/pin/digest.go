package pin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// digestPrefix names the hash function of a digest.
const digestPrefix = "sha256:"

// Digest is the SHA-256 of what a tool's definition says, "sha256:" and 64 hexadecimal
// digits. It covers the members name, title, description, inputSchema, outputSchema,
// annotations and _meta; of _meta not what the protocol itself keeps there, under keys
// that begin with io.modelcontextprotocol/, and no _meta at all if nothing else is in it.
// Icons and members that the protocol does not know are not covered.
//
// What is hashed is the object of those members that are there, in the form of RFC 8785
// (JSON Canonicalization Scheme): neither their order nor white space nor escapes matter.
// That form takes all numbers for float64, and so 9007199254740993 for 9007199254740992.
// Here no number becomes another: integers are hashed as they are written, and where a
// member of the tool has a number with a fraction or exponent that a float64 might not
// hold, one of more than 15 digits or with an exponent beyond ±290, so are all numbers of
// that member. A tool without such numbers, and without integers beyond 2^53, has the
// digest that any implementation of RFC 8785 yields.
//
// The error says why a tool has no digest: it is no object or longer than [MaxDefinition],
// two members of an object have one name, a member's name differs from one of those above
// by case only, or a text is not UTF-8.
func Digest(tool json.RawMessage) (string, error) {
	d, err := readDefinition(tool)
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

// checkDigest says whether a text is what [Digest] returns.
func checkDigest(text string) error {
	sum, ok := strings.CutPrefix(text, digestPrefix)
	if ok && len(sum) == hex.EncodedLen(sha256.Size) && strings.Trim(sum, "0123456789abcdef") == "" {
		return nil
	}
	return fmt.Errorf("expected a digest, %q and %d hexadecimal digits in lower case, found %.100q",
		digestPrefix, hex.EncodedLen(sha256.Size), text)
}

// canonical is the text in the form that is hashed.
func canonical(text []byte) ([]byte, error) {
	survive, err := numbersSurvive(text)
	if err != nil {
		return nil, err
	}
	value := jsontext.Value(bytes.Clone(text))
	err = value.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(survive))
	return value, err
}

// numbersSurvive says whether RFC 8785 keeps all numbers with a fraction or exponent.
func numbersSurvive(text []byte) (bool, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if token.Kind() == jsontext.KindNumber && !survives(token.String()) {
			return false, nil
		}
	}
}

// survives says whether a number is the same by way of a float64, which tells decimals of
// 15 digits apart except close to its limits. Integers need not go that way.
func survives(number string) bool {
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
