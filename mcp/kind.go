package mcp

import "fmt"

// A Kind is a kind of entry that a server lists and that a call can be for.
type Kind uint8

// The kinds. The zero Kind is none of them.
const (
	KindTool Kind = iota + 1
	KindPrompt
	KindResource
	KindResourceTemplate
)

var kindNames = [...]string{"", "tool", "prompt", "resource", "resource template"}

// String returns the kind's name in words, such as "resource template".
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return fmt.Sprintf("Kind(%d)", k)
	}
	return kindNames[k]
}

// MarshalText returns what [Kind.String] does.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText sets the kind by its name in words. The error lists the names.
func (k *Kind) UnmarshalText(text []byte) error {
	for kind, name := range kindNames {
		if kind > 0 && name == string(text) {
			*k = Kind(kind)
			return nil
		}
	}
	return fmt.Errorf("mcp: a kind is one of %q, not %.40q", kindNames[1:], text)
}
