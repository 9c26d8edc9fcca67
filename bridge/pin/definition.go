package pin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// memberNames are the members that a digest covers, in the order of RFC 8785.
func memberNames() []string {
	return []string{"_meta", "annotations", "description", "inputSchema", "name", "outputSchema", "title"}
}

// metaReserved is what the keys in _meta begin with that are the protocol's.
const metaReserved = "io.modelcontextprotocol/"

// A definition is what a digest covers of a tool: the members that there are, as they
// stand there, in the order of their names above.
type definition []jsonscan.Member

func readDefinition(tool []byte) (definition, error) {
	if len(tool) > MaxDefinition {
		return nil, fmt.Errorf("the definition has %d bytes, and may have %d", len(tool), MaxDefinition)
	}
	members, err := jsonscan.ReadObject(tool)
	if err != nil {
		return nil, err
	}
	names := memberNames()
	for member := range members.All() {
		if err := checkCase(member.Name(), names); err != nil {
			return nil, err
		}
	}
	var d definition
	for _, name := range names {
		value := members.Get(name)
		if name == "_meta" {
			if value, err = withoutReserved(value); err != nil {
				return nil, fmt.Errorf("_meta: %w", err)
			}
		}
		if value != nil {
			d = append(d, jsonscan.Member{Key: jsonscan.AppendString(nil, name), Value: value})
		}
	}
	return d, nil
}

// checkCase refuses a member that readers who ignore case take for one that is covered.
func checkCase(name string, covered []string) error {
	i := slices.IndexFunc(covered, func(c string) bool { return strings.EqualFold(c, name) })
	if i >= 0 && covered[i] != name {
		return fmt.Errorf("the member %q differs from %q by case only", name, covered[i])
	}
	return nil
}

// withoutReserved is a _meta without what is the protocol's, nil if nothing is left.
func withoutReserved(meta []byte) ([]byte, error) {
	if jsonscan.KindOf(meta) != jsonscan.Object {
		return meta, nil
	}
	members, err := jsonscan.ReadObject(meta)
	if err != nil {
		return nil, err
	}
	var kept definition
	for member := range members.All() {
		if !strings.HasPrefix(member.Name(), metaReserved) {
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

// member is the value of a member, nil if there is none.
func (d definition) member(name string) json.RawMessage {
	for _, member := range d {
		if jsonscan.KeyIs(member.Key, name) {
			return member.Value
		}
	}
	return nil
}

// A Difference is a member of a tool's definition that is not as it was.
type Difference struct {
	// Member is the member's name: one of those that [Digest] covers.
	Member string
	// Before and After are its value, as it was written; nil if there was none.
	Before, After json.RawMessage
}

// Diff tells which members of a tool's definition are different, by name. If before is
// nil, those are all that there are. It finds something exactly if the digests differ. The
// error says why one of the two has no digest; see [Digest].
func Diff(before, after json.RawMessage) ([]Difference, error) {
	var was definition
	if before != nil {
		var err error
		if was, err = readDefinition(before); err != nil {
			return nil, err
		}
	}
	is, err := readDefinition(after)
	if err != nil {
		return nil, err
	}
	var differences []Difference
	for _, name := range memberNames() {
		d := Difference{name, was.member(name), is.member(name)}
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

// isSame says whether two values are hashed as the same.
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
